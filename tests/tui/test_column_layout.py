"""Where columns stand in a table."""

from __future__ import annotations

from natstui.model.columns.column import column
from natstui.model.columns.streams import STREAM_COLUMNS as COLUMNS
from natstui.model.columns.streams import StreamRow
from natstui.tui.frame.columns import complete_specs
from natstui.tui.streams.cells import STREAM_COLUMNS


def test_a_new_column_of_streams_is_on_the_screen_without_a_layout() -> None:
    new = column("new", "NEW ONE", "What is new.", StreamRow.stored_msgs.fget, str)
    *before, last = complete_specs((*COLUMNS, new), StreamRow, STREAM_COLUMNS)
    assert tuple(before) == STREAM_COLUMNS
    assert (last.id, last.title, last.width, last.help) == ("new", "NEW ONE", 7, "What is new.")
    assert last.priority > max(spec.priority for spec in before)
