"""The screen with the table of all streams."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType

from natstui.model.columns.view import StreamView
from natstui.tui.frame.action_keys import ADD_STREAM, Target, action_bindings
from natstui.tui.frame.action_runner import ActionRunner
from natstui.tui.frame.columns import ColumnSpec, SortAndFilter
from natstui.tui.frame.detail.peek import PeekContent
from natstui.tui.frame.messages import Open
from natstui.tui.frame.selection import (
    SelectionScreen,
    find_target_assets,
    poll_visible_rows_first,
    post_for_row,
    unreachable_text,
)
from natstui.tui.frame.systems import find_system_row, join_views, key_without_system
from natstui.tui.kit.keys import key_of, user_keys
from natstui.tui.kit.table.view import RowSelected, VisibleChanged
from natstui.tui.streams.cells import STREAM_COLUMNS
from natstui.tui.streams.detail import stream_peek_content


class StreamsScreen(SelectionScreen):
    """The streams table."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "open('stream')", "Describe", id="describe"),
        Binding("y", "open('raw')", "Raw", id="raw"),
        Binding("B", "open('bucket')", "Bucket", show=False, id="stream.bucket"),
        *action_bindings("stream"),
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = STREAM_COLUMNS
    NOUN = "streams"
    DEFAULT_ORDER = SortAndFilter("status", reverse=True)

    def __init__(self) -> None:
        super().__init__()
        self.managing = ActionRunner(
            self,
            self.targets,
            lambda _: self.has_row,
            partial(self.targets, only_cursor=True),
        )

    def view(self) -> Any:
        """Return the streams of the current state, of all systems."""
        systems = self.scope.shown_systems
        return join_views(
            systems, [StreamView(system.state, system.poll_age_us) for system in systems]
        )

    @on(RowSelected)
    def _open_consumers(self) -> None:
        self.action_open("consumers")

    def caption_text(self, shown: int, total: int) -> str:
        """Return the caption, with the names of streams without a row."""
        rowless_names = {
            name for system in self.scope.shown_systems for name in system.state.rowless_streams()
        }
        return super().caption_text(shown, total) + unreachable_text(rowless_names)

    def empty_hint(self) -> str:
        """Return the text that names the key to create a stream; empty without a key."""
        key = key_of(self, ADD_STREAM.id)
        return f"{key} creates one" if key else ""

    def peek_content(self, view: Any, row: int) -> PeekContent:
        """Return the content of the panel beside the table for the stream in a row."""
        return stream_peek_content(*find_system_row(view, row), user_keys(self, "stream.actions"))

    def targets(self, *, only_cursor: bool = False) -> list[Target]:
        """Return the marked streams, else or with `only_cursor` the stream under the cursor."""
        keys = find_target_assets(self, only_cursor=only_cursor)
        stream_keys = sorted((str(key[0]), int(key[1])) for key in keys)
        return [Target(stream, None, created_at_us) for stream, created_at_us in stream_keys]

    def action_open(self, target: str) -> None:
        """Open the details, consumers, messages or raw INFO of the stream under the cursor."""
        if (key := key_without_system(self.table.cursor_key)) is not None:
            post_for_row(self, Open(target, str(key[0])))

    @on(VisibleChanged)
    def _poll_visible_rows(self, message: VisibleChanged) -> None:
        poll_visible_rows_first(self, message.keys)
