"""The results of an ack tap as text: the same on the screen and on the command line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from natstui.model.live.ack_times import times_text
from natstui.model.records.tap import TapResults, UnsettledMessage
from natstui.units import bytes_text, counted, duration_text, rate_text


class Words(NamedTuple):
    """A label and its text."""

    label: str
    text: str


def tap_counts(tap: TapResults) -> Iterator[Words]:
    """Yield the acks by kind, with number and rate."""
    counts, elapsed_s = tap.counts, tap.elapsed_s
    rows = (
        ("acks", counts.acks_count, _of_acks(tap)),
        ("naks", counts.naks_count, ""),
        ("terms", counts.terms_count, ""),
        ("in progress", counts.in_progress_count, ""),
    )
    for label, count, details in rows:
        per_s = rate_text(count / elapsed_s if elapsed_s else None)
        yield Words(label, f"{count:,}, {per_s}/s{details}")
    if counts.others_count:
        yield Words("others", f"{counts.others_count:,}: neither of these")
    times = times_text(tap.stored_to_acked)
    yield Words("stored to acked", times or "no ack yet")


def _of_acks(tap: TapResults) -> str:
    counts = tap.counts
    parts = (
        (counts.repeated_acks_count, "after a redelivery"),
        (counts.again_acks_count, "of messages that were already acked"),
    )
    details_text = ", ".join(f"{count:,} {label}" for count, label in parts if count)
    return f" ({details_text})" if details_text else ""


def tap_unsettled(tap: TapResults) -> Iterator[Words]:
    """Yield the messages with a reply that is no ack, oldest first."""
    for message in tap.unsettled:
        yield Words(str(message.stream_seq), _unsettled_text(message, tap.at_us))
    more_msgs = tap.unsettled_msgs - len(tap.unsettled)
    if more_msgs:
        yield Words("", f"and {more_msgs:,} more")


def _unsettled_text(message: UnsettledMessage, now_us: int) -> str:
    stored_s, said_s = (
        (now_us - time_us) / 1e6 for time_us in (message.stored_at_us, message.answered_at_us)
    )
    return (
        f"{message.answer} {duration_text(max(0.0, said_s))} ago, at delivery "
        f"{message.deliveries_count}; stored {duration_text(max(0.0, stored_s))} ago"
    )


def tap_state(tap: TapResults) -> str:
    """Return the progress and the cost of the tap."""
    cost = f"{counted(f'{tap.read_msgs:,}', 'message')}, {bytes_text(tap.read_bytes)}"
    if tap.ended is None:
        spans = duration_text(tap.elapsed_s), duration_text(tap.for_s)
        return f"reading, {spans[0]} of {spans[1]}; read {cost}"
    return f"{tap.ended}; read {cost}"


HONEST = (
    "Every ack, nak and term that came in this time is counted. An ack does not say when the "
    "message was delivered, so times count from when the message was stored."
)
"""What the numbers of a tap mean."""
