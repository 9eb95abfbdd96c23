"""What an ack tap has read, in words: the same on the screen and headless."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from natstui.model.live.ack_times import times_text
from natstui.model.records.tap import Tapped, UnsettledMessage
from natstui.units import bytes_text, counted, duration_text, rate_text


class Words(NamedTuple):
    """A label and what it says."""

    label: str
    text: str


def tap_counts(tapped: Tapped) -> Iterator[Words]:
    """Yield what was answered, each kind with its number and rate."""
    counts, elapsed_s = tapped.counts, tapped.elapsed_s
    rows = (
        ("acks", counts.acks_count, _of_acks(tapped)),
        ("naks", counts.naks_count, ""),
        ("terms", counts.terms_count, ""),
        ("in progress", counts.in_progress_count, ""),
    )
    for label, count, more in rows:
        per_s = rate_text(count / elapsed_s if elapsed_s else None)
        yield Words(label, f"{count:,}, {per_s}/s{more}")
    if counts.others_count:
        yield Words("others", f"{counts.others_count:,}: neither of these")
    times = times_text(tapped.stored_to_acked)
    yield Words("stored to acked", times or "no ack yet")


def _of_acks(tapped: Tapped) -> str:
    counts = tapped.counts
    parts = (
        (counts.repeated_acks_count, "after a redelivery"),
        (counts.again_acks_count, "of messages that were already acked"),
    )
    told = ", ".join(f"{count:,} {what}" for count, what in parts if count)
    return f" ({told})" if told else ""


def tap_unsettled(tapped: Tapped) -> Iterator[Words]:
    """Yield the messages that were answered and are not acknowledged, oldest first."""
    for one in tapped.unsettled:
        yield Words(str(one.stream_seq), _unsettled_text(one, tapped.at_us))
    more = tapped.unsettled_msgs - len(tapped.unsettled)
    if more:
        yield Words("", f"and {more:,} more")


def _unsettled_text(one: UnsettledMessage, now_us: int) -> str:
    stored_s, said_s = ((now_us - at) / 1e6 for at in (one.stored_at_us, one.answered_at_us))
    return (
        f"{one.answer} {duration_text(max(0.0, said_s))} ago, at delivery "
        f"{one.deliveries_count}; stored {duration_text(max(0.0, stored_s))} ago"
    )


def tap_state(tapped: Tapped) -> str:
    """Return how far the tap is, and what it costs."""
    cost = f"{counted(f'{tapped.read_msgs:,}', 'message')}, {bytes_text(tapped.read_bytes)}"
    if tapped.ended is None:
        spans = duration_text(tapped.elapsed_s), duration_text(tapped.for_s)
        return f"reading, {spans[0]} of {spans[1]}; read {cost}"
    return f"{tapped.ended}; read {cost}"


HONEST = (
    "Every ack, nak and term that came in this time is counted. An ack does not say when the "
    "message was delivered, so times count from when the message was stored."
)
"""What the numbers of a tap mean."""
