"""The streams table: the layout of its columns, and columns that only the screen has."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from natstui.model.columns.streams import STREAM_COLUMNS as COLUMNS
from natstui.model.columns.streams import StreamRow
from natstui.model.columns.view import StreamView
from natstui.model.live.history import Point
from natstui.model.live.rates import rate_column, rates_of_series
from natstui.tui.frame.columns import ColumnSpec, column_spec, complete_specs, natural_sort_key
from natstui.tui.frame.shared_cells import (
    GLYPHS,
    LEVEL_STYLES,
    TREND_WIDTH,
    consumers_status_cell,
    minute_means,
)
from natstui.tui.kit.sparkline import scaled_sparkline, sparkline
from natstui.tui.kit.table.rows import Cell
from natstui.units import rate_text

_USE_BAR_CELLS = 6
_COLUMNS = {column.key: column for column in COLUMNS}


def _status(view: StreamView, row: int) -> Cell:
    """Return the status of a stream with that of its consumers, the worse one first."""
    verdict = view.verdict(row)
    stream_cell = Cell(f"{GLYPHS[verdict.level]} {verdict.word}", LEVEL_STYLES[verdict.level])
    consumers_status = view.consumers_status(row)
    if consumers_status is None:
        return stream_cell
    consumers_cell = consumers_status_cell(consumers_status)
    if verdict.finding is None:
        return consumers_cell
    is_stream_worse = verdict.finding.severity_level >= consumers_status.kind.severity_level
    worse_cell, other_cell, more_count = (
        (stream_cell, consumers_cell, consumers_status.consumers_count)
        if is_stream_worse
        else (consumers_cell, stream_cell, 1)
    )
    return Cell(
        f"{worse_cell.text} +{more_count}",
        worse_cell.style_name,
        len(worse_cell.text),
        other_cell.style_name,
    )


def _ingest_points(view: StreamView, row: int) -> list[Point]:
    """Return the points of the ingest rate in the last minute; a pause in polling is a gap."""
    max_gap_us = max(view.stale_us, 60 * 1_000_000 // 12)
    return rates_of_series(view.series(row, "last_seq"), max_gap_us)


def _trend(view: StreamView, row: int) -> Cell:
    return Cell(sparkline(minute_means(view, _ingest_points(view, row)), TREND_WIDTH), "accent")


def trend_with_scale(view: StreamView, row: int) -> Cell:
    """Return a sparkline of the ingest rate in the last minute, with the rate of its maximum."""
    values = minute_means(view, _ingest_points(view, row))
    return Cell(scaled_sparkline(values, TREND_WIDTH, rate_text), "accent")


def _name_sort_values(view: StreamView) -> Sequence[object]:
    return list(map(natural_sort_key, view.columns.name))


def _rate_sort_values(view: StreamView) -> Sequence[object]:
    return rate_column(view.state.stream_history, "last_seq")


def _spec(key: str, width: int, **layout: Any) -> ColumnSpec[StreamView]:
    return column_spec(_COLUMNS[key], StreamRow, width, **layout)


STREAM_COLUMNS: tuple[ColumnSpec[StreamView], ...] = complete_specs(COLUMNS, StreamRow, (
    _spec("name", 17, flex=1, sort=_name_sort_values),
    _spec("status", 22, flex=1, max_width=26, descends=True, draw=_status,
          sort=StreamView.severity_levels),
    _spec("kind", 6),
    _spec("subjects", 14, flex=3),
    _spec("storage", 6),
    _spec("retention", 9),
    _spec("msgs", 6),
    _spec("bytes", 8),
    _spec("in", 6, sort=_rate_sort_values),
    _spec("in_bytes", 9),
    _spec("removed", 6),
    _spec("trend", TREND_WIDTH, draw=_trend, sort=_rate_sort_values),
    _spec("consumers", 5),
    _spec("first_seq", 10),
    _spec("first_age", 7),
    _spec("last_seq", 10),
    _spec("last_age", 7),
    _spec(
        "used", _USE_BAR_CELLS + 5, align="left", min_table_width=120,
        bar_cells=_USE_BAR_CELLS,
    ),
    _spec("msgs_used", 5),
    _spec("bytes_used", 6),
    _spec("age_used", 5),
    _spec("full", 7, descends=False),
    _spec("holes", 8),
    _spec("leader", 12, flex=1),
    _spec("replicas", 14, flex=1, max_width=40, min_table_width=160),
))  # fmt: skip
