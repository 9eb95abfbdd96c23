"""Streams and consumers in `natstui watch`: their rows, and the columns of their tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from natstui.cli.text_table import entity_table, text_table_columns
from natstui.model.columns.column import Column, json_values
from natstui.model.columns.consumers import CONSUMER_COLUMNS, ConsumerRow
from natstui.model.columns.streams import STREAM_COLUMNS, StreamRow
from natstui.model.columns.view import ConsumerView, StreamView
from natstui.model.live.age import consumer_is_stale, stream_is_stale
from natstui.model.live.known_rows import RowKey
from natstui.model.live.state import State
from natstui.values import replace


class RowFreshness(NamedTuple):
    """When a row was sampled, by the steady clock in µs, and whether it is stale."""

    sampled_mono_us: int
    is_stale: bool


FreshnessByKey = dict[RowKey, RowFreshness]
"""Identity of a row → freshness, in the order of the rows."""
R = TypeVar("R", StreamRow, ConsumerRow)

ASSET_COLUMNS: Mapping[type, Sequence[Column[Any]]] = {
    StreamRow: STREAM_COLUMNS,
    ConsumerRow: CONSUMER_COLUMNS,
}


def stream_rows(state: State, rows: Sequence[int] | None = None) -> Iterator[StreamRow]:
    """Yield the streams at the indexes `rows` of the state, ordered by name; None: all streams."""
    view = StreamView(state)
    names = view.columns.name
    for row in sorted(view.rows() if rows is None else rows, key=names.__getitem__):
        yield StreamRow(view, row)


def consumer_rows(state: State, rows: Sequence[int] | None = None) -> Iterator[ConsumerRow]:
    """Yield the consumers at the indexes `rows` of the state, ordered by stream and name; None:
    all consumers.
    """
    view = ConsumerView(state)
    names = list(zip(view.columns.stream, view.columns.name, strict=True))
    for row in sorted(view.rows() if rows is None else rows, key=names.__getitem__):
        yield ConsumerRow(view, row)


def stream_freshness(state: State) -> FreshnessByKey:
    """Return for every stream when it was sampled (steady clock, µs) and whether it is stale, in
    the order of rows.
    """
    keys, sampled_us = state.streams.roster.keys, state.streams.columns.sampled_mono_us
    return {
        key: RowFreshness(mono_us, stream_is_stale(state, row))
        for row, (key, mono_us) in enumerate(zip(keys, sampled_us, strict=True))
    }


def consumer_freshness(state: State) -> FreshnessByKey:
    """Return for every consumer when it was sampled (steady clock, µs) and whether it is stale, in
    the order of rows.
    """
    keys, sampled_us = state.consumers.roster.keys, state.consumers.columns.sampled_mono_us
    return {
        key: RowFreshness(mono_us, consumer_is_stale(state, row))
        for row, (key, mono_us) in enumerate(zip(keys, sampled_us, strict=True))
    }


def asset_values(row: StreamRow | ConsumerRow) -> dict[str, object]:
    """Return the value of each JSON field of a stream or consumer, by name with its unit."""
    return json_values(ASSET_COLUMNS[type(row)], row)


def asset_table(
    columns: Sequence[Column[R]], rows: Sequence[R], width_cells: int | None
) -> list[str]:
    """Return the lines of a table of streams or of consumers; the status of stale rows says so.

    `width_cells` is as of `text_table.table`.
    """

    def with_stale_mark(column: Column[R]) -> Column[R]:
        def text(row: R) -> str:
            return column.text(row) + (" (stale)" if row.is_stale else "")

        return replace(column, text=text) if column.key == "status" else column

    shown_columns = [with_stale_mark(column) for column in text_table_columns(columns)]
    return entity_table(shown_columns, rows, width_cells)
