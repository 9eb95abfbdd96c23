"""The healthy half of the demo's shop as polls of it look, hour by hour, without waiting for them.

The publishers are those of the demo, with their waves and bursts; the readers take what is there
and rest as those of the demo do.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from natstui.jetstream.testbed.shop import traffic
from natstui.jetstream.testbed.shop.traffic import CONSUMERS, STREAMS, Config, DueMessages
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.record import Configured
from natstui.values import replace
from tests.model.builders import snapshot
from tests.model.findings.life import START_S, at_us
from tests.session.scenario import consumer, stream

_STEP_S = 0.1
_MOST = 5_000
_MADE_US = at_us(-600)
_WAVES = {key: wave for key, wave in traffic.PUBLISHERS}  # noqa: C416  (named tuples of two)


@dataclass
class Reader:
    """One consumer and its client: takes up to `batch`, handles each, acknowledges, rests."""

    stream: str
    name: str
    share: float
    """Of the messages of its stream."""
    batch: int = 40
    rest_s: float = 0.2
    handling_s: float = 0.005
    published: float = 0.0
    delivered: int = 0
    acked: int = 0
    held: int = 0
    busy_until_s: float = 0.0
    delivered_s: float = 0.0

    def live(self, now_s: float) -> None:
        """Do what is due."""
        if self.held and now_s >= self.busy_until_s - self.rest_s:
            self.acked, self.held = self.delivered, 0
        if now_s < self.busy_until_s:
            return
        taken = min(self.batch, int(self.published) - self.delivered)
        if taken > 0:
            self.delivered += taken
            self.held, self.delivered_s = taken, now_s
            self.busy_until_s = now_s + taken * self.handling_s + self.rest_s

    def columns(self, now_s: float) -> dict[str, Any]:
        """Return its row."""
        pending = int(self.published) - self.delivered
        return {
            "stream": self.stream, "name": self.name, "created_at_us": _MADE_US,
            "pending_msgs": pending, "ack_pending_msgs": self.held,
            "waiting_pulls_count": int(not pending and now_s >= self.busy_until_s),
            "delivered_consumer_seq": self.delivered,
            "delivered_stream_seq": int(self.delivered / self.share),
            "ack_floor_consumer_seq": self.acked,
            "ack_floor_stream_seq": int(self.acked / self.share),
            "delivered_at_us": at_us(self.delivered_s), "acked_at_us": at_us(self.delivered_s),
        }  # fmt: skip


@dataclass
class Source:
    """One stream and its publisher."""

    name: str
    due: DueMessages
    msgs: int = 0

    def columns(self, consumers_count: int, most: int, now_s: float) -> dict[str, Any]:
        """Return its row; no more than `most` are kept."""
        kept = min(self.msgs, most)
        return {
            "name": self.name, "created_at_us": _MADE_US, "first_seq": self.msgs - kept + 1,
            "last_seq": self.msgs, "stored_msgs": kept, "stored_bytes": 120 * kept,
            "subjects_count": 12, "consumers_count": consumers_count, "last_at_us": at_us(now_s),
        }  # fmt: skip


@dataclass
class HealthyShop:
    """The streams and consumers with which nothing is wrong."""

    sources: tuple[Source, ...] = field(
        default_factory=lambda: (
            Source("ORDERS", DueMessages(_WAVES[traffic.publish_order])),
            Source("PICKING", DueMessages(_WAVES[traffic.publish_picking_job])),
            Source("SIGNUPS", DueMessages(_WAVES[traffic.publish_signup])),
            Source("PAYMENTS", DueMessages(_WAVES[traffic.publish_payment])),
        )
    )
    readers: tuple[Reader, ...] = field(
        default_factory=lambda: (
            Reader("ORDERS", "billing", 0.7),
            Reader("PICKING", "pickers-small", 0.67),
            Reader("SIGNUPS", "crm-sync", 1.0, rest_s=7.0),
            Reader("SIGNUPS", "welcome-mail", 0.5),
            Reader("PAYMENTS", "ledger", 0.9, batch=25, rest_s=2.0, handling_s=0.0),
        )
    )
    now_s: float = 0.0

    def configured(self) -> Configured:
        """Return their settings, those of the demo."""
        streams = tuple(
            replace(stream(name, _MADE_US), retention=_set(name).get("retention", "limits"),
                    subjects=tuple(_set(name)["subjects"]),
                    max_msgs=_set(name).get("max_msgs", _MOST))
            for name in (one.name for one in self.sources)
        )  # fmt: skip
        # The rest of the work is picked by those that are not healthy, or by nobody.
        streams = tuple(
            replace(one, subjects=("warehouse.pick.small.>",)) if one.name == "PICKING" else one
            for one in streams
        )
        consumers = tuple(consumer(one.stream, one.name, _MADE_US) for one in self.readers)
        known: dict[object, Any] = {
            c["durable_name"]: c for each in CONSUMERS.values() for c in each
        }
        consumers = tuple(
            replace(
                one, ack_wait_ns=known[one.name]["ack_wait"], max_ack_pending_msgs=1000,
                filter_subjects=tuple(
                    str(known[one.name][key]) for key in ("filter_subject",)
                    if key in known[one.name]
                ),
            )
            for one in consumers
        )  # fmt: skip
        return Configured(at_us(0), streams, consumers)

    def polls(self, pauses_s: Iterator[float]) -> Iterator[Snapshot]:
        """Yield polls with these pauses between them."""
        for pause_s in pauses_s:
            until_s = self.now_s + pause_s
            while self.now_s < until_s:
                self._live()
            yield self._poll()

    def _live(self) -> None:
        self.now_s += _STEP_S
        # A publisher wakes every half a second.
        ticks = round(self.now_s / _STEP_S) % round(traffic.PUBLISH_INTERVAL_S / _STEP_S) == 0
        for source in self.sources:
            count = source.due.pop_due_count(self.now_s) if ticks else 0
            source.msgs += count
            for reader in self.readers:
                if reader.stream == source.name:
                    reader.published += count * reader.share
        for reader in self.readers:
            reader.live(self.now_s)

    def _most(self, source: Source) -> int:
        """Return how many messages a stream has at most: a work queue those that are not acked."""
        if _set(source.name).get("retention") != "workqueue":
            return int(_set(source.name).get("max_msgs", _MOST))
        of = [one for one in self.readers if one.stream == source.name]
        return sum(int(one.published) - one.delivered + one.held for one in of)

    def _poll(self) -> Snapshot:
        of = [one.stream for one in self.readers]
        streams = [
            source.columns(of.count(source.name), self._most(source), self.now_s)
            for source in self.sources
        ]  # fmt: skip
        consumers = [reader.columns(self.now_s) for reader in self.readers]
        return snapshot(START_S + self.now_s, streams, consumers)


def _set(name: str) -> Mapping[str, Any]:
    found: Config = next(one for one in STREAMS if one["name"] == name)
    return dict(found)


def pauses(of_s: tuple[float, float], total_s: float, seed: int = 1) -> Iterator[float]:
    """Yield pauses between two lengths, for so long together."""
    chance, left_s = random.Random(seed), total_s
    while left_s > 0:
        pause_s = chance.uniform(*of_s)
        left_s -= pause_s
        yield pause_s
