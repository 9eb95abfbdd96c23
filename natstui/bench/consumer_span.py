"""What the server says of a consumer at the beginning and at the end of a run. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class ConsumerFigures:
    """A consumer at one moment, from CONSUMER.INFO."""

    delivered_msgs: int
    """Deliveries so far, every repeat counted (`delivered.consumer_seq`)."""
    pending_msgs: int
    """Never delivered yet (`num_pending`)."""
    ack_pending_msgs: int
    """Delivered and not settled (`num_ack_pending`)."""
    is_filtered: bool
    """It takes some subjects only."""


def read_figures(info: Mapping[str, Any]) -> ConsumerFigures:
    """Return the figures of a reply to CONSUMER.INFO."""
    config = info["config"]
    return ConsumerFigures(
        delivered_msgs=info["delivered"]["consumer_seq"],
        pending_msgs=info["num_pending"],
        ack_pending_msgs=info["num_ack_pending"],
        is_filtered=bool(config.get("filter_subject") or config.get("filter_subjects")),
    )


@dataclass(frozen=True, slots=True)
class ConsumerSpan:
    """A consumer before and after a run."""

    begin: ConsumerFigures
    end: ConsumerFigures

    @property
    def delivered_msgs(self) -> int:
        """Deliveries in the run, every repeat counted."""
        return self.end.delivered_msgs - self.begin.delivered_msgs

    def owed_msgs(self, stored_msgs: int | None) -> int | None:
        """Return how many different messages its readers should get; None behind a filter."""
        return owed_msgs(self.begin, stored_msgs)

    def redelivered_msgs(self, stored_msgs: int | None, counted: int, received: int) -> int:
        """Return the deliveries that were not the first of their message.

        That is all deliveries less the messages delivered at least once. `counted` are those the
        readers saw; the truth lies between them and, besides, everything nobody read, also where
        the stream has dropped messages before they were delivered.
        """
        most = counted + max(self.delivered_msgs - received, 0)
        if stored_msgs is None or self.begin.is_filtered:
            return counted
        first = self.begin.pending_msgs + stored_msgs - self.end.pending_msgs
        return min(max(self.delivered_msgs - first, counted), most)


def owed_msgs(begin: ConsumerFigures, stored_msgs: int | None) -> int | None:
    """Return how many different messages a consumer owes, given what the run stored."""
    if stored_msgs is None or begin.is_filtered:
        return None
    return stored_msgs + begin.pending_msgs + begin.ack_pending_msgs
