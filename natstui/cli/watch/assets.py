"""Streams and consumers in `natstui watch`: their rows, and the columns of their tables."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from natstui.cli.text_table import COLOUR_BY_LEVEL, table, text_column
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
_STREAM_DROP_ORDER_BY_COLUMN: Mapping[str, int] = {
    "name": 0, "kind": 9, "subjects": 8, "retention": 10, "msgs": 0, "bytes": 2, "in": 0,
    "in_bytes": 5, "removed": 3, "first_seq": 12, "last_seq": 11, "last_age": 4, "used": 6,
    "full": 7, "consumers": 1, "leader": 13,
}  # fmt: skip
"""Column → drop order where space is short; 0: never dropped."""
_CONSUMER_DROP_ORDER_BY_COLUMN: Mapping[str, int] = {
    "stream": 0, "name": 0, "status": 0, "mode": 10, "ack": 9, "pending": 0, "ack_pending": 1,
    "redelivered": 3, "waiting": 6, "delivered_rate": 2, "acked_rate": 4, "lag": 5, "drain": 7,
    "floor": 11, "delivered": 12, "activity": 8,
}  # fmt: skip
_SHRINKING_COLUMNS = frozenset(("name", "stream", "subjects", "leader"))


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


def stream_table(rows: Sequence[StreamRow], width_cells: int | None) -> list[str]:
    """Return the lines of a table of streams; `width_cells` is as of `text_table.table`."""
    return _format_table(STREAM_COLUMNS, _STREAM_DROP_ORDER_BY_COLUMN, "kind", rows, width_cells)


def consumer_table(rows: Sequence[ConsumerRow], width_cells: int | None) -> list[str]:
    """Return the lines of a table of consumers; `width_cells` is as of `text_table.table`."""
    return _format_table(
        CONSUMER_COLUMNS, _CONSUMER_DROP_ORDER_BY_COLUMN, "status", rows, width_cells
    )


def _format_table(
    columns: Sequence[Column[R]],
    drop_order_by_column: Mapping[str, int],
    stale_mark_key: str,
    rows: Sequence[R],
    width_cells: int | None,
) -> list[str]:
    """Return the lines of a table; stale rows are marked in the column of `stale_mark_key`."""
    column_by_key: Mapping[str, Column[R]] = {column.key: column for column in columns}

    def text(key: str, row: R) -> str:
        mark = " (stale)" if key == stale_mark_key and row.is_stale else ""
        return column_by_key[key].text(row) + mark

    def create_text_column(key: str, drop_order: int) -> Any:
        column = text_column(column_by_key[key], drop_order, may_be_cut=key in _SHRINKING_COLUMNS)
        if key != "status":
            return column
        level_by_text = {text(key, row): column_by_key[key].level(row) for row in rows}
        colour_by_text = {
            text: COLOUR_BY_LEVEL[level]
            for text, level in level_by_text.items()
            if level in COLOUR_BY_LEVEL
        }
        return replace(column, colour_by_text=colour_by_text)

    text_columns = [
        create_text_column(key, drop_order) for key, drop_order in drop_order_by_column.items()
    ]
    return table(
        text_columns,
        [[text(key, row) for key in drop_order_by_column] for row in rows],
        width_cells,
    )
