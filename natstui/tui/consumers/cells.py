"""The consumers table: the layout of its columns, and columns that only the screen has."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from natstui.model.columns.consumers import CONSUMER_COLUMNS as COLUMNS
from natstui.model.columns.consumers import ConsumerRow
from natstui.model.columns.view import ConsumerView
from natstui.model.live.limits import time_to_drain_s
from natstui.model.live.rates import (
    ack_rate_column,
    backlog_trend_per_s,
    rate_column,
    trend_column,
)
from natstui.tui.frame.columns import ColumnSpec, column_spec, complete_specs, natural_sort_key
from natstui.tui.frame.shared_cells import GLYPHS, LEVEL_STYLES, TREND_WIDTH, minute_means
from natstui.tui.kit.sparkline import scaled_sparkline, sparkline
from natstui.tui.kit.table.rows import Cell
from natstui.units import rate_text

_COLUMNS = {column.key: column for column in COLUMNS}


def _status(view: ConsumerView, row: int) -> Cell:
    verdict = view.verdict(row)
    return Cell(f"{GLYPHS[verdict.level]} {verdict.word}", LEVEL_STYLES[verdict.level])


def _trend(view: ConsumerView, row: int) -> Cell:
    return Cell(
        sparkline(minute_means(view, view.series(row, "pending_msgs")), TREND_WIDTH), "accent"
    )


def trend_with_scale(view: ConsumerView, row: int) -> Cell:
    """Return a sparkline of pending messages in the last minute, with the maximum."""
    values = minute_means(view, view.series(row, "pending_msgs"))
    # Each mark is a mean: one message for a moment is less than one.
    return Cell(scaled_sparkline(values, TREND_WIDTH, rate_text), "accent")


def _create_name_sort(field: str) -> Callable[[ConsumerView], Sequence[object]]:
    return lambda view: list(map(natural_sort_key, getattr(view.columns, field)))


def _delivery_rate_sort_values(view: ConsumerView) -> Sequence[object]:
    return rate_column(view.state.consumer_history, "delivered_consumer_seq")


def _ack_rate_sort_values(view: ConsumerView) -> Sequence[object]:
    configs = [view.config(row) for row in range(len(view))]
    return ack_rate_column(view.state.consumer_history, configs)


def _time_to_drain_sort_values(view: ConsumerView) -> Sequence[object]:
    consumer_history, keys = view.state.consumer_history, view.state.consumers.roster.keys
    pending_trends_per_s = trend_column(consumer_history, "pending_msgs")
    # Only a backlog that shrinks needs a closer look, and of many few do.
    pending_trends_per_s = [
        backlog_trend_per_s(consumer_history, key)
        if trend_per_s is not None and trend_per_s < 0
        else trend_per_s
        for key, trend_per_s in zip(keys, pending_trends_per_s, strict=True)
    ]
    return list(map(time_to_drain_s, view.columns.pending_msgs, pending_trends_per_s))


def _pending_sort_values(view: ConsumerView) -> Sequence[object]:
    return view.columns.pending_msgs


def _spec(key: str, width: int, **layout: Any) -> ColumnSpec[ConsumerView]:
    return column_spec(_COLUMNS[key], ConsumerRow, width, **layout)


CONSUMER_COLUMNS: tuple[ColumnSpec[ConsumerView], ...] = complete_specs(COLUMNS, ConsumerRow, (
    _spec("name", 15, flex=2, sort=_create_name_sort("name")),
    _spec("stream", 12, flex=2, sort=_create_name_sort("stream")),
    _spec("status", 25, flex=1, max_width=36, descends=True, draw=_status,
          sort=ConsumerView.severity_levels),
    _spec("mode", 4),
    _spec("life", 7),
    _spec("ack", 8),
    _spec("pending", 7),
    _spec("ack_pending", 11),
    _spec("redelivered", 6),
    _spec("waiting", 7),
    _spec("delivered_rate", 7, sort=_delivery_rate_sort_values),
    _spec("acked_rate", 6, sort=_ack_rate_sort_values),
    _spec("lag", 7),
    _spec("drain", 7, sort=_time_to_drain_sort_values),
    _spec("trend", TREND_WIDTH, draw=_trend, sort=_pending_sort_values),
    _spec("floor", 15),
    _spec("delivered", 15),
    _spec("activity", 7, descends=False),
))  # fmt: skip
