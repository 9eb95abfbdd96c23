"""The revisions of a key that are kept: what each changed, and the way back to one."""

from __future__ import annotations

import time
from collections.abc import Sequence
from functools import partial
from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.model.records.stores import ChangeKey, KeyRow, KeysPage, ReadRevisions
from natstui.tui.frame.action_keys import KEY_ACTIONS, REVERT, UNDO, Target
from natstui.tui.frame.action_runner import choose_action
from natstui.tui.frame.columns import ColumnSpec, Order
from natstui.tui.frame.live import NO_SERVER
from natstui.tui.frame.messages import Manage
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.table.view import RowSelected
from natstui.tui.stores.cells import REVISION_COLUMNS, KeyView, bucket_of
from natstui.tui.stores.requests import RenewedPage, change_key, start_change
from natstui.tui.stores.revision import RevisionScreen

_decoder = decoder_of(KeysPage)
_RENEWED_AFTER_S = 2.0
_OFFERED = [spec for spec in KEY_ACTIONS if spec.takes == "one"]


class HistoryScreen(TableScreen):
    """One key: its revisions, newest first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        REVERT.menu(),
        Binding("d", "difference", "Difference", id="revision.difference"),
        *(spec.binding(f"act('{spec.name}')") for spec in _OFFERED),
        UNDO.binding("act('undo')"),
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = REVISION_COLUMNS
    NOUN = "revisions"
    START = Order("revision", reverse=True)
    OF_A_ROW: ClassVar[frozenset[str]] = frozenset({"difference"})

    def __init__(self, stream: str, key: str) -> None:
        super().__init__()
        self.stream, self.bucket, self.key = stream, bucket_of(stream), key
        self._rows: tuple[KeyRow, ...] = ()
        """The revisions, the oldest first."""
        self._asking = RenewedPage(
            self,
            lambda: ReadRevisions(0, self.bucket, key),
            _RENEWED_AFTER_S,
            _decoder,
            self._keep,
        )

    def _keep(self, page: KeysPage) -> None:
        self._rows = page.rows

    def asset(self) -> Target | None:
        """Return the bucket's stream."""
        return Target(self.stream)

    def on_mount(self) -> None:
        """Read them again and again."""
        self._asking.begin()

    def refresh_state(self) -> None:
        """Show what is known, and read it again when that is due."""
        self._asking.keep_up()
        super().refresh_state()

    def view(self) -> KeyView:
        """Return the revisions, as far as they are known."""
        return KeyView(self._rows, time.time_ns() // 1000, (), by_revision=True)

    def empty_text(self, total: int) -> str:
        """Return why there are no rows."""
        if total:
            return super().empty_text(total)
        if self.state.replay is not None:
            return NO_SERVER
        return self._asking.problem or (
            "reading …"
            if self._asking.page is None
            else "no revision is stored: the key was purged, or has expired"
        )

    def caption_text(self, shown: int, total: int) -> str:
        """Return the line above the table."""
        parts = [clean_line(f"{self.bucket} › {self.key}"), super().caption_text(shown, total)]
        parts += ["paused (p)"] if self.paused else []
        return "  ·  ".join([self._asking.problem, *parts] if self._asking.problem else parts)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey what may not be done."""
        if action == "row_actions":
            return self.may_do(REVERT.name)
        if action == "act":
            return self.may_do(str(parameters[0]))
        return super().check_action(action, parameters)

    def _chosen(self) -> int | None:
        """Return the place of the revision under the cursor among all, the oldest first."""
        rows, at = self.rows, self.table.cursor
        if rows is None or at >= len(rows.order):
            return None
        return rows.order[at]

    @on(RowSelected)
    def _open(self) -> None:
        """Show the value of the revision under the cursor."""
        if (place := self._chosen()) is not None:
            self.app.push_screen(RevisionScreen(self._rows, place))

    def action_difference(self) -> None:
        """Show what the revision under the cursor changed of the one before."""
        if (place := self._chosen()) is not None:
            self.app.push_screen(RevisionScreen(self._rows, place, as_difference=True))

    def action_row_actions(self) -> None:
        """List what can be done with the revision under the cursor."""
        choose_action(
            self, f"Actions for {self.key}",
            [(spec, partial(self.action_act, spec.name)) for spec in (REVERT, *_OFFERED)],
        )  # fmt: skip

    def action_act(self, what: str) -> None:
        """Change the key, or go back to the revision under the cursor."""
        place = self._chosen()
        if what == "undo":
            self.app.post_message(Manage("undo"))
        elif place is None:
            return
        elif what == "revert-key":
            self._revert(self._rows[place], self._rows[-1])
        else:
            change_key(self, self.bucket, self._rows[-1], what, self._asking.ask)

    def _revert(self, row: KeyRow, newest: KeyRow) -> None:
        if row.revision_seq == newest.revision_seq:
            self.notify("this is the newest revision", severity="warning", timeout=2)
            return
        change = ChangeKey(
            0, "put_key", self.bucket, self.key, of_revision_seq=row.revision_seq,
            if_revision_seq=newest.revision_seq,
        )  # fmt: skip
        does = "the value is put again" if row.operation == "PUT" else "the key is deleted again"
        start_change(self, change, f"as at revision {row.revision_seq}: {does}", self._asking.ask)
