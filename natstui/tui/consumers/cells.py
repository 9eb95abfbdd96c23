"""The consumers table: every column's text, place, order and help, and its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter
from typing import Any

from natstui.clean import clean_line
from natstui.model.columns.consumers import CONSUMER_TITLES
from natstui.model.findings.thresholds import NEAR_LAG_S
from natstui.model.live.ack_times import window_text
from natstui.model.live.age import activity_at_us, consumer_lag
from natstui.model.live.limits import is_near, time_to_drain_s
from natstui.model.live.rates import (
    ack_rate_column,
    backlog_trend_per_s,
    rate_column,
    trend_column,
)
from natstui.tui.frame.columns import ColumnSpec, natural
from natstui.tui.frame.view import GLYPHS, LOOKS, TREND_WIDTH, ConsumerView
from natstui.tui.kit.sparkline import scaled_sparkline, sparkline
from natstui.tui.kit.table.rows import Cell
from natstui.units import UNKNOWN, count_text, duration_text, rate_text


def name(view: ConsumerView, row: int) -> Cell:
    """Name of the consumer."""
    return Cell(clean_line(view.columns.name[row]), "strong")


def stream(view: ConsumerView, row: int) -> Cell:
    """Stream that the consumer reads."""
    return Cell(clean_line(view.columns.stream[row]))


def status(view: ConsumerView, row: int) -> Cell:
    """What it is doing, or what holds it back; the detail screen shows the evidence."""
    verdict = view.verdict(row)
    return Cell(f"{GLYPHS[verdict.level]} {verdict.word}", LOOKS[verdict.level])


def mode(view: ConsumerView, row: int) -> Cell:
    """Pull or push."""
    config = view.config(row)
    return Cell(UNKNOWN if config is None else "pull" if config.pull else "push", "dim")


def life(view: ConsumerView, row: int) -> Cell:
    """Durable, or ephemeral: deleted when no client uses it."""
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
    calm = "" if count else "dim"
    look = "bad" if count >= limit else "warn" if is_near(count, limit) else calm
    return Cell(f"{count_text(count)}/{count_text(limit)}", look)


def redelivered(view: ConsumerView, row: int) -> Cell:
    """Messages delivered more than once and not acked (`num_redelivered`)."""
    count = view.columns.redelivered_msgs[row]
    return Cell(count_text(count), "warn" if count else "dim")


def waiting(view: ConsumerView, row: int) -> Cell:
    """Open pull requests (`num_waiting`); for push: whether a client is subscribed."""
    config = view.config(row)
    if config is not None and not config.pull:
        bound = view.columns.push_bound[row]
        return Cell("bound" if bound else "unbound", "" if bound else "warn")
    count = view.columns.waiting_pulls_count[row]
    return Cell(count_text(count), "" if count else "dim")


def delivered_rate(view: ConsumerView, row: int) -> Cell:
    """Deliveries per second, redeliveries included: growth of the delivered consumer sequence."""
    rate = view.per_s(row, "delivered_consumer_seq")
    return Cell(rate_text(rate), "" if rate else "dim")


def acked_rate(view: ConsumerView, row: int) -> Cell:
    """Acks per second: first deliveries minus the growth of ACK PEND and, with max deliver, of
    REDEL, which includes dropped messages; ~: inexact, because of filters or gaps.
    """
    found = view.acks(row)
    mark = "~" if found.estimated and found.per_s else ""
    return Cell(mark + rate_text(found.per_s), "" if found.per_s else "dim")


def lag(view: ConsumerView, row: int) -> Cell:
    """Age of the next message to deliver; ~: estimated from the stream's sequence."""
    found = consumer_lag(view.state, row)
    if found is None:
        return Cell(UNKNOWN, "dim")
    time_s = found.time_s
    text = ("~" if found.estimated else "") + duration_text(time_s)
    return Cell(text, "dim" if time_s == 0 else "warn" if time_s > NEAR_LAG_S else "")


def drain_s(view: ConsumerView, row: int) -> float | None:
    """Return seconds until nothing is pending at the trend of the last 30 s."""
    return time_to_drain_s(view.columns.pending_msgs[row], _backlog_trend(view, row))


def _backlog_trend(view: ConsumerView, row: int) -> float | None:
    state = view.state
    return backlog_trend_per_s(state.consumer_history, state.consumers.roster.keys[row])


def drain(view: ConsumerView, row: int) -> Cell:
    """Time until nothing is pending at the trend of the last 30 s; growing: it increases."""
    count, change = view.columns.pending_msgs[row], _backlog_trend(view, row)
    time_s = time_to_drain_s(count, change)
    if time_s is not None:
        return Cell(duration_text(time_s), "dim" if count == 0 else "")
    if change is None:
        return Cell(UNKNOWN, "dim")
    return Cell("growing" if change > 0 else "steady", "warn")


def trend(view: ConsumerView, row: int) -> Cell:
    """Pending messages over the last minute, from zero to their own highest."""
    values = view.minute(view.series(row, "pending_msgs"))
    return Cell(sparkline(values, TREND_WIDTH), "accent")


def trend_with_scale(view: ConsumerView, row: int) -> Cell:
    """Pending messages over the last minute, and what the highest mark stands for."""
    values = view.minute(view.series(row, "pending_msgs"))
    # Each mark is a mean: one message for a moment is less than one.
    return Cell(scaled_sparkline(values, TREND_WIDTH, rate_text), "accent")


def ack_floor(view: ConsumerView, row: int) -> Cell:
    """Ack floor, stream and consumer sequence: all up to here is acked or dropped."""
    columns = view.columns
    text = f"{columns.ack_floor_stream_seq[row]}/{columns.ack_floor_consumer_seq[row]}"
    return Cell(text, "dim")


def delivered(view: ConsumerView, row: int) -> Cell:
    """Delivered so far, stream and consumer sequence (the latter counts redeliveries)."""
    columns = view.columns
    text = f"{columns.delivered_stream_seq[row]}/{columns.delivered_consumer_seq[row]}"
    return Cell(text, "dim")


def ack_times(view: ConsumerView, row: int) -> str:
    """Return the sampled times from delivery to acknowledgement; empty where none is sampled."""
    columns = view.columns
    name = (columns.stream[row], columns.name[row])
    window = view.state.evidence.acks(name, columns.created_at_us[row], view.now_at_us)
    return "" if window is None else window_text(window)


def activity(view: ConsumerView, row: int) -> Cell:
    """Time since the last delivery or acknowledgement, whichever is later."""
    columns = view.columns
    at_us = activity_at_us(columns.delivered_at_us[row], columns.acked_at_us[row])
    return Cell(view.age_text(at_us), "dim")


Sort = Callable[[ConsumerView], Sequence[object]]


def _by(column: str) -> Sort:
    return attrgetter(f"columns.{column}")


def _by_rate(name: str) -> Sort:
    return lambda view: rate_column(view.state.consumer_history, name)


def _by_acks(view: ConsumerView) -> Sequence[object]:
    configs = [view.config(row) for row in range(len(view))]
    return ack_rate_column(view.state.consumer_history, configs)


def _by_config(name: str) -> Sort:
    return lambda view: view.configured(attrgetter(name))


def _by_name(column: str) -> Sort:
    return lambda view: list(map(natural, getattr(view.columns, column)))


def _by_status(view: ConsumerView) -> Sequence[object]:
    return view.severity_levels()


def _by_lag(view: ConsumerView) -> Sequence[object]:
    lags = (consumer_lag(view.state, row) for row in range(len(view)))
    return [None if lag is None else lag.time_s for lag in lags]


def _by_drain(view: ConsumerView) -> Sequence[object]:
    history, keys = view.state.consumer_history, view.state.consumers.roster.keys
    changes = trend_column(history, "pending_msgs")
    # Only a backlog that shrinks needs a closer look, and of many few do.
    changes = [
        backlog_trend_per_s(history, key) if change is not None and change < 0 else change
        for key, change in zip(keys, changes, strict=True)
    ]
    return list(map(time_to_drain_s, view.columns.pending_msgs, changes))


def _by_activity(view: ConsumerView) -> Sequence[object]:
    columns = view.columns
    times = map(activity_at_us, columns.delivered_at_us, columns.acked_at_us)
    return [None if at is None else -at for at in times]


def _number(key: str, *place: Any, **more: Any) -> ColumnSpec[ConsumerView]:
    return ColumnSpec(key, CONSUMER_TITLES[key], *place, **more)


_words = partial(_number, align="left", descends=False)

CONSUMER_COLUMNS: tuple[ColumnSpec[ConsumerView], ...] = (
    _words("name", 15, 0, name, _by_name("name"), flex=2),
    _words("stream", 12, 4, stream, _by_name("stream"), flex=2),
    _words("status", 25, 1, status, _by_status, flex=1, max_width=36, descends=True),
    _words("mode", 4, 16, mode, _by_config("pull")),
    _words("life", 7, 17, life, _by_config("durable")),
    _words("ack", 8, 15, ack_policy, _by_config("ack_policy")),
    _number("pending", 7, 2, pending, _by("pending_msgs")),
    _number("ack_pending", 11, 3, ack_pending, _by("ack_pending_msgs")),
    _number("redelivered", 6, 7, redelivered, _by("redelivered_msgs")),
    _number("waiting", 7, 10, waiting, _by("waiting_pulls_count")),
    _number("delivered_rate", 7, 5, delivered_rate, _by_rate("delivered_consumer_seq")),
    _number("acked_rate", 6, 6, acked_rate, _by_acks),
    _number("lag", 7, 8, lag, _by_lag),
    _number("drain", 7, 9, drain, _by_drain),
    _words("trend", TREND_WIDTH, 11, trend, _by("pending_msgs")),
    _number("floor", 15, 13, ack_floor, _by("ack_floor_stream_seq")),
    _number("delivered", 15, 14, delivered, _by("delivered_stream_seq")),
    _number("activity", 7, 12, activity, _by_activity, descends=False),
)
