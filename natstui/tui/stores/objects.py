"""The files of an object store."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual.binding import BindingType

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.model.records.stores import ChangeKey, ObjectRow, ObjectsPage, ReadObjects
from natstui.tui.frame.action_keys import DELETE_OBJECT, PUT_OBJECT, Target
from natstui.tui.frame.allowed import allowed
from natstui.tui.frame.columns import ColumnSpec, Order
from natstui.tui.frame.live import NO_SERVER, watch_rows
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.keys import key_of
from natstui.tui.stores.asking import RenewedPage
from natstui.tui.stores.cells import OBJECT_COLUMNS, ObjectView, bucket_of
from natstui.tui.stores.changing import start_change
from natstui.tui.stores.files import Files, Store
from natstui.units import bytes_text

_decoder = decoder_of(ObjectsPage)
_RENEWED_AFTER_S = 5.0


class ObjectsScreen(TableScreen):
    """One object store; while it is in view it is read again and again."""

    BINDINGS: ClassVar[list[BindingType]] = [
        *Files.BINDINGS,
        DELETE_OBJECT.binding("act('delete_object')"),
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = OBJECT_COLUMNS
    NOUN = "files"
    START = Order("name")

    def __init__(self, stream: str) -> None:
        super().__init__()
        self.stream, self.bucket = stream, bucket_of(stream)
        self._asking = RenewedPage(
            self, lambda: ReadObjects(0, self.bucket), _RENEWED_AFTER_S, _decoder
        )
        store = Store(stream, self.bucket, self._under_cursor, self._named, self._asking.ask)
        self.files = Files(self, store)

    def asset(self) -> Target | None:
        """Return the store's stream."""
        return Target(self.stream)

    def on_mount(self) -> None:
        """Read it again and again."""
        watch_rows(self, (self.stream,), ())
        self._asking.begin()

    def refresh_state(self) -> None:
        """Show what is known, and read it again when that is due."""
        self._asking.keep_up()
        super().refresh_state()

    def view(self) -> ObjectView:
        """Return the files, as far as they are known."""
        shown = self._asking.page if self.state.replay is None else None
        return ObjectView(shown.rows if shown is not None else ())

    def empty_text(self, total: int) -> str:
        """Return why there are no rows."""
        if total:
            return super().empty_text(total)
        if self.state.replay is not None:
            return NO_SERVER
        if self._asking.problem:
            return self._asking.problem
        if self._asking.page is None:
            return "reading …"
        return f"no files: {key_of(self, PUT_OBJECT.id)} stores one"

    def caption_text(self, shown: int, total: int) -> str:
        """Return the line above the table."""
        parts = [clean_line(self.bucket), super().caption_text(shown, total)]
        if self._asking.page is not None:
            parts.append(bytes_text(sum(row.size_bytes for row in self._asking.page.rows)))
        config = self.state.stream_configurations.get(self.stream)
        parts += ["sealed: nothing can be changed"] if config and config.sealed else []
        parts += [self.files.progress_text] if self.files.progress_text else []
        parts += ["paused (p)"] if self.paused else []
        return "  ·  ".join([self._asking.problem, *parts] if self._asking.problem else parts)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey what may not be done."""
        if action == "act":
            live = self.state.replay is None
            return live if allowed(self.state, str(parameters[0])) else None
        return super().check_action(action, parameters)

    def _under_cursor(self) -> ObjectRow | None:
        rows, at = self.rows, self.table.cursor
        if rows is None or at >= len(rows.order):
            self.notify("there is nothing under the cursor", severity="warning", timeout=2)
            return None
        row = rows.view.things[rows.order[at]]
        assert isinstance(row, ObjectRow)
        return row

    def _named(self, name: str) -> ObjectRow | None:
        rows = self._asking.page.rows if self._asking.page is not None else ()
        return next((row for row in rows if row.name == name), None)

    def action_act(self, _what: str) -> None:
        """Delete the file under the cursor."""
        if (row := self._under_cursor()) is not None:
            change = ChangeKey(0, "delete_object", self.bucket, row.name)
            start_change(self, change, "it is removed for good", self._asking.ask)
