"""The consumers table: every column's place and order, and its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from operator import attrgetter

from natstui.model.diagnosis import standings
from natstui.model.rates import rate_column, time_to_drain_s, trend_column
from natstui.tui.present import consumer_cells as cells
from natstui.tui.present.columns import ColumnSpec
from natstui.tui.present.view import ConsumerView

Sort = Callable[[ConsumerView], Sequence[object]]


def _by(column: str) -> Sort:
    return attrgetter(f"columns.{column}")


def _by_rate(name: str) -> Sort:
    return lambda view: rate_column(view.state.consumer_history, name)


def _by_config(name: str) -> Sort:
    return lambda view: view.configured(attrgetter(name))


def _by_status(view: ConsumerView) -> Sequence[object]:
    return [standing.severity_level for standing in standings(view.state)]


def _by_lag(view: ConsumerView) -> Sequence[object]:
    return [cells.lag_s(view, row)[0] for row in range(len(view))]


def _by_drain(view: ConsumerView) -> Sequence[object]:
    changes = trend_column(view.state.consumer_history, "pending_msgs")
    return list(map(time_to_drain_s, view.columns.pending_msgs, changes))


def _by_activity(view: ConsumerView) -> Sequence[object]:
    times = (cells.activity_at_us(view, row) for row in range(len(view)))
    return [None if at is None else -at for at in times]


_number: Callable[..., ColumnSpec[ConsumerView]] = ColumnSpec
_words: Callable[..., ColumnSpec[ConsumerView]] = partial(ColumnSpec, align="left", descends=False)

CONSUMER_COLUMNS: tuple[ColumnSpec[ConsumerView], ...] = (
    _words("name", "CONSUMER", 16, 0, cells.name, _by("name"), flex=2),
    _words("stream", "STREAM", 12, 5, cells.stream, _by("stream"), flex=2),
    _words("status", "STATUS", 16, 1, cells.status, _by_status, descends=True),
    _words("mode", "MODE", 4, 16, cells.mode, _by_config("pull")),
    _words("life", "LIFE", 7, 17, cells.life, _by_config("durable")),
    _words("ack", "ACK", 8, 15, cells.ack_policy, _by_config("ack_policy")),
    _number("pending", "PENDING", 7, 2, cells.pending, _by("pending_msgs")),
    _number("ack_pending", "ACK PEND", 11, 3, cells.ack_pending, _by("ack_pending_msgs")),
    _number("redelivered", "REDEL", 6, 7, cells.redelivered, _by("redelivered_msgs")),
    _number("waiting", "WAITING", 7, 10, cells.waiting, _by("waiting_pulls_count")),
    _number(
        "delivered_rate", "DELIV/s", 7, 4, cells.delivered_rate, _by_rate("delivered_consumer_seq")
    ),
    _number("acked_rate", "ACK/s", 6, 6, cells.acked_rate, _by_rate("ack_floor_consumer_seq")),
    _number("lag", "LAG", 7, 8, cells.lag, _by_lag),
    _number("drain", "DRAINED", 7, 9, cells.drain, _by_drain),
    _words("trend", "PENDING 1m", cells.TREND_WIDTH, 11, cells.trend, _by("pending_msgs")),
    _number("floor", "ACK FLOOR s/c", 15, 13, cells.floor, _by("ack_floor_stream_seq")),
    _number("delivered", "DELIVERED s/c", 15, 14, cells.delivered, _by("delivered_stream_seq")),
    _number("activity", "ACTIVE", 7, 12, cells.activity, _by_activity, descends=False),
)
