"""The cells of the consumers table; each docstring is the help of its column."""

from __future__ import annotations

from natstui.clean import clean_line
from natstui.model.rates import stored_at_mono_us, time_to_drain_s
from natstui.tui.present.view import ConsumerView
from natstui.tui.spark import sparkline
from natstui.tui.widgets.rows import Cell
from natstui.units import UNKNOWN, count_text, duration_text, rate_text

TREND_WIDTH = 12
_LOOKS = {"ok": "ok", "idle": "dim", "warn": "warn", "bad": "bad", "unknown": "dim"}
_GLYPHS = {"ok": "●", "idle": "○", "warn": "▲", "bad": "✖", "unknown": "?"}


def name(view: ConsumerView, row: int) -> Cell:
    """Name of the consumer."""
    return Cell(clean_line(view.columns.name[row]), "strong")


def stream(view: ConsumerView, row: int) -> Cell:
    """Stream it reads."""
    return Cell(clean_line(view.columns.stream[row]))


def status(view: ConsumerView, row: int) -> Cell:
    """What it is doing, or what holds it back; the detail screen shows the evidence."""
    verdict = view.verdict(row)
    return Cell(f"{_GLYPHS[verdict.level]} {verdict.word}", _LOOKS[verdict.level])


def mode(view: ConsumerView, row: int) -> Cell:
    """Pull or push."""
    config = view.config(row)
    return Cell(UNKNOWN if config is None else "pull" if config.pull else "push", "dim")


def life(view: ConsumerView, row: int) -> Cell:
    """Durable or ephemeral (no durable name: it goes when nobody uses it)."""
    config = view.config(row)
    return Cell(UNKNOWN if config is None else "durable" if config.durable else "ephem", "dim")


def ack_policy(view: ConsumerView, row: int) -> Cell:
    """Which messages must be acknowledged: explicit, all, none."""
    config = view.config(row)
    return Cell(clean_line(config.ack_policy) if config else UNKNOWN, "dim")


def pending(view: ConsumerView, row: int) -> Cell:
    """Unprocessed: messages that match and were never delivered (`num_pending`)."""
    count = view.columns.pending_msgs[row]
    return Cell(count_text(count), "" if count else "dim")


def ack_pending(view: ConsumerView, row: int) -> Cell:
    """Delivered and waiting for their acknowledgement, of how many allowed (`num_ack_pending`)."""
    count, config = view.columns.ack_pending_msgs[row], view.config(row)
    limit = config.max_ack_pending_msgs if config else None
    if not limit or (config and config.ack_policy == "none"):
        return Cell(count_text(count), "" if count else "dim")
    look = "bad" if count >= limit else "warn" if count >= 0.8 * limit else "" if count else "dim"
    return Cell(f"{count_text(count)}/{count_text(limit)}", look)


def redelivered(view: ConsumerView, row: int) -> Cell:
    """Distinct messages delivered more than once and not settled (`num_redelivered`)."""
    count = view.columns.redelivered_msgs[row]
    return Cell(count_text(count), "warn" if count else "dim")


def waiting(view: ConsumerView, row: int) -> Cell:
    """Open pull requests (`num_waiting`); for push: whether somebody is subscribed."""
    config = view.config(row)
    if config is not None and not config.pull:
        bound = view.columns.push_bound[row]
        return Cell("bound" if bound else "unbound", "" if bound else "warn")
    count = view.columns.waiting_pulls_count[row]
    return Cell(count_text(count), "" if count else "dim")


def delivered_rate(view: ConsumerView, row: int) -> Cell:
    """Deliveries a second, redeliveries included: growth of the delivered consumer sequence."""
    rate = view.per_s(row, "delivered_consumer_seq")
    return Cell(rate_text(rate), "" if rate else "dim")


def acked_rate(view: ConsumerView, row: int) -> Cell:
    """Settled a second: growth of the ack floor; it jumps when acks come out of order."""
    rate = view.per_s(row, "ack_floor_consumer_seq")
    return Cell(rate_text(rate), "" if rate else "dim")


def lag_s(view: ConsumerView, row: int) -> tuple[float | None, bool]:
    """Return the age of the next message to deliver, and whether it is an estimate.

    0 with nothing pending; exact when the engine looked the message up; else from when the
    stream's last sequence passed it; None when that was before the first poll.
    """
    columns = view.columns
    if columns.pending_msgs[row] == 0:
        return 0.0, False
    stored_at_us = columns.next_at_us[row]
    if stored_at_us is not None:
        return view.age_s(stored_at_us), False
    key = view.stream_key(columns.stream[row])
    if key is None:
        return None, False
    points = view.state.stream_history.series(key, "last_seq", 3600)
    mono_us = stored_at_mono_us(points, columns.delivered_stream_seq[row] + 1)
    return (None, False) if mono_us is None else ((view.now_mono_us - mono_us) / 1e6, True)


def lag(view: ConsumerView, row: int) -> Cell:
    """Age of the next message to deliver; with ~ by when the stream's sequence passed it."""
    time_s, estimated = lag_s(view, row)
    if time_s is None:
        return Cell(UNKNOWN, "dim")
    text = ("~" if estimated else "") + duration_text(time_s)
    return Cell(text, "dim" if time_s == 0 else "warn" if time_s > 60 else "")


def drain_s(view: ConsumerView, row: int) -> float | None:
    """Return seconds until nothing is pending at the trend of the last 30 s."""
    return time_to_drain_s(view.columns.pending_msgs[row], view.trend(row, "pending_msgs"))


def drain(view: ConsumerView, row: int) -> Cell:
    """Time until nothing is pending at the trend of the last 30 s; ↗ while it grows."""
    count, change = view.columns.pending_msgs[row], view.trend(row, "pending_msgs")
    time_s = time_to_drain_s(count, change)
    if time_s is not None:
        return Cell(duration_text(time_s), "dim" if count == 0 else "")
    if change is None:
        return Cell(UNKNOWN, "dim")
    return Cell("↗ grows", "warn") if change > 0 else Cell("→ never", "warn")


def trend(view: ConsumerView, row: int) -> Cell:
    """Pending messages over the last minute, from zero to their own highest."""
    values = [point.value for point in view.series(row, "pending_msgs")]
    return Cell(sparkline(values, TREND_WIDTH), "accent")


def floor(view: ConsumerView, row: int) -> Cell:
    """Ack floor, stream and consumer sequence: everything up to here is settled."""
    columns = view.columns
    text = f"{columns.ack_floor_stream_seq[row]}/{columns.ack_floor_consumer_seq[row]}"
    return Cell(text, "dim")


def delivered(view: ConsumerView, row: int) -> Cell:
    """Delivered so far, stream and consumer sequence (the latter counts redeliveries)."""
    columns = view.columns
    text = f"{columns.delivered_stream_seq[row]}/{columns.delivered_consumer_seq[row]}"
    return Cell(text, "dim")


def activity_at_us(view: ConsumerView, row: int) -> int | None:
    """Return when it last delivered or had something acknowledged, UTC µs."""
    times = (view.columns.delivered_at_us[row], view.columns.acked_at_us[row])
    return max((at for at in times if at is not None), default=None)


def activity(view: ConsumerView, row: int) -> Cell:
    """Since the last delivery or acknowledgement, whichever is later."""
    return Cell(view.age_text(activity_at_us(view, row)), "dim")
