"""The results of an ack tap, which reads a consumer's acks, as text for screen and CLI."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from natstui.model.live.ack_times import times_text
from natstui.model.records.tap import TapResults, UnsettledMessage
from natstui.units import bytes_text, counted, duration_text, rate_text


class LabeledText(NamedTuple):
    """A label and its text."""

    label: str
    text: str


def tap_count_lines(tap: TapResults) -> Iterator[LabeledText]:
    """Yield number and rate of each kind of ack, and the times from stored to acked."""
    counts, elapsed_s = tap.counts, tap.elapsed_s
    rows = (
        ("acks", counts.acks_count, _format_ack_details(tap)),
        ("naks", counts.naks_count, ""),
        ("terms", counts.terms_count, ""),
        ("in progress", counts.in_progress_count, ""),
    )
    for label, count, details in rows:
        messages_rate_text = rate_text(count / elapsed_s if elapsed_s else None)
        yield LabeledText(label, f"{count:,}, {messages_rate_text}/s{details}")
    if counts.others_count:
        yield LabeledText("others", f"{counts.others_count:,}: neither of these")
    times = times_text(tap.stored_to_acked)
    yield LabeledText("stored to acked", times or "no ack yet")


def _format_ack_details(tap: TapResults) -> str:
    counts = tap.counts
    parts = (
        (counts.repeated_acks_count, "after a redelivery"),
        (counts.again_acks_count, "of messages that were already acked"),
    )
    details_text = ", ".join(f"{count:,} {label}" for count, label in parts if count)
    return f" ({details_text})" if details_text else ""


def tap_message_lines(tap: TapResults) -> Iterator[LabeledText]:
    """Yield a line for each message whose last reply is no ack, oldest first."""
    for message in tap.unsettled:
        yield LabeledText(str(message.stream_seq), _format_message(message, tap.at_us))
    unlisted_msgs = tap.unsettled_msgs - len(tap.unsettled)
    if unlisted_msgs:
        yield LabeledText("", f"and {unlisted_msgs:,} more")


def _format_message(message: UnsettledMessage, now_us: int) -> str:
    stored_ago_s, replied_ago_s = (
        (now_us - time_us) / 1e6 for time_us in (message.stored_at_us, message.answered_at_us)
    )
    return (
        f"{message.answer} {duration_text(max(0.0, replied_ago_s))} ago, at delivery "
        f"{message.deliveries_count}; stored {duration_text(max(0.0, stored_ago_s))} ago"
    )


def tap_progress_text(tap: TapResults) -> str:
    """Return the progress of the ack tap, and the number of messages that it read, as text."""
    cost = f"{counted(f'{tap.read_msgs:,}', 'message')}, {bytes_text(tap.read_bytes)}"
    if tap.ended is None:
        duration_texts = duration_text(tap.elapsed_s), duration_text(tap.for_s)
        return f"reading, {duration_texts[0]} of {duration_texts[1]}; read {cost}"
    return f"{tap.ended}; read {cost}"


TAP_NOTE = (
    "Every ack, nak and term that came in this time is counted. An ack does not say when the "
    "message was delivered, so times count from when the message was stored."
)
"""Explanation of the numbers of a tap."""
