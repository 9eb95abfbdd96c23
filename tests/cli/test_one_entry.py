"""A column is one entry of its table: from it come text tables, JSON, metrics and the screen."""

from __future__ import annotations

import pytest

from natstui.cli.metrics import exposition
from natstui.cli.text_table import entity_table, text_table_columns
from natstui.cli.watch.assets import stream_rows
from natstui.model.columns.column import JsonField, column, json_values
from natstui.model.columns.streams import STREAM_COLUMNS, StreamRow
from natstui.model.columns.view import StreamView
from natstui.model.live.state import State, apply_records
from natstui.model.records.link import LinkChanged
from natstui.tui.frame.columns import complete_specs
from natstui.units import bytes_text
from tests.session.scenario import Scenario


def mean_size_bytes(row: StreamRow) -> float | None:
    return row.stored_bytes / row.stored_msgs if row.stored_msgs else None


MEAN_SIZE = column(
    "mean_size", "MEAN", "Mean size of a stored message.", mean_size_bytes, bytes_text,
    json=JsonField("mean_size_bytes", float | None, metric="mean_size_bytes"),
)  # fmt: skip
"""A derived value, which no column of a snapshot has."""


def test_a_column_with_a_derived_value_is_everywhere_from_its_one_entry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    columns = (*STREAM_COLUMNS, MEAN_SIZE)
    state = apply_records(State(), [LinkChanged(1, "connected", None), *Scenario().records(0, 3)])
    rows = list(stream_rows(state))
    expected = {row.name: mean_size_bytes(row) for row in rows if row.stored_msgs}
    assert expected and all(expected.values())

    titles, *lines = entity_table(text_table_columns(columns), rows, None)
    assert titles.split()[-1] == "MEAN"
    assert {line.split()[0] for line in lines} == {row.name for row in rows}
    wide, narrow = (entity_table(text_table_columns(columns), rows, cells) for cells in (400, 100))
    assert "MEAN" in wide[1] and "MEAN" not in narrow[1], "it is dropped first"

    assert [json_values(columns, row)["mean_size_bytes"] for row in rows if row.stored_msgs] == [
        expected[row.name] for row in rows if row.stored_msgs
    ]

    monkeypatch.setattr(exposition, "STREAM_COLUMNS", columns)
    polled_us = max(state.streams.columns.sampled_mono_us)
    text = exposition.Exposition().text(state, polled_us)
    samples = [line for line in text.splitlines() if line.startswith("jetstream_stream_mean_size")]
    assert [float(line.rsplit(" ", 1)[1]) for line in samples] == [
        expected[name] for name in state.streams.columns.name if name in expected
    ]

    *_, spec = complete_specs(columns, StreamRow, ())
    view = StreamView(state)
    assert [spec.cell(view, row).text for row in range(len(view))] == [
        bytes_text(mean_size_bytes(StreamRow(view, row))) for row in range(len(view))
    ]
