"""The keys of a bucket with their values, as they change; put, delete, purge."""

from __future__ import annotations

import time
from collections.abc import Sequence
from time import monotonic
from typing import Any, ClassVar

import msgspec
from textual import on
from textual.binding import Binding, BindingType

from natstui.clean import clean_line
from natstui.model.assets.buckets import is_key_filter
from natstui.model.records.stores import KeyRow, KeysPage, ReadKeys
from natstui.tui.frame.action_keys import KEY_ACTIONS, UNDO, Target
from natstui.tui.frame.allowed import allowed
from natstui.tui.frame.columns import ColumnSpec, Order
from natstui.tui.frame.live import NO_SERVER, watch_rows
from natstui.tui.frame.messages import Manage
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.table.view import RowSelected
from natstui.tui.stores.asking import Asking
from natstui.tui.stores.cells import KEY_COLUMNS, KeyView, bucket_of
from natstui.tui.stores.changing import KeyChanging
from natstui.tui.stores.history import HistoryScreen
from natstui.tui.stores.key_actions import change_key
from natstui.tui.stores.put import PutScreen
from natstui.units import counted

_decoder = msgspec.json.Decoder(KeysPage)

SHOWN_ROWS = 5_000
_RENEWED_AFTER_S = 1.0
_ANEW_S = 60.0
"""What expires changes no revision: after so long all of them are read again."""
_FRESH_S = 5.0


class Known:
    """The keys of a bucket, kept up with what changes."""

    def __init__(self) -> None:
        self.rows: dict[str, KeyRow] = {}
        self.last: KeysPage | None = None
        self.count = 0
        """How many match."""
        self.changed_s: dict[str, float] = {}
        self._whole_s = 0.0

    @property
    def after_revision(self) -> int:
        """The revision after which changes are asked for; 0: everything is asked for."""
        if self.last is None or monotonic() - self._whole_s > _ANEW_S:
            return 0
        return self.last.last_revision_seq

    def take(self, page: KeysPage, wanted: str) -> None:
        """Add what a page tells."""
        again = self.last is not None and self.last.created_at_us == page.created_at_us
        if page.keys_count is not None:
            self.rows, self.count = {}, page.keys_count
            self._whole_s = monotonic()
        elif not again:
            self.last = None  # it was made again: everything is asked for
            return
        for row in page.rows:
            if page.keys_count is None:
                self.changed_s[row.key] = monotonic()
            self.rows[row.key] = row
        if page.keys_count is None:
            self.count = max(self.count, len(self.rows))
        self.last = page
        if wanted == ">" and self.count <= SHOWN_ROWS and len(self.rows) > page.stored_keys_count:
            self._whole_s = float("-inf")  # some expired

    def fresh(self) -> set[str]:
        """Return the keys that changed a moment ago."""
        now_s = monotonic()
        self.changed_s = {k: at for k, at in self.changed_s.items() if now_s - at < _FRESH_S}
        return set(self.changed_s)


class KeysScreen(TableScreen):
    """The keys of one bucket; while it is in view, what changes is read again and again."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "wanted", "Wildcard", id="key.wanted"),
        *(spec.binding(f"act('{spec.name}')") for spec in KEY_ACTIONS),
        UNDO.binding("act('undo')"),
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = KEY_COLUMNS
    NOUN = "keys"
    START = Order("key")

    def __init__(self, stream: str) -> None:
        super().__init__()
        self.stream, self.bucket = stream, bucket_of(stream)
        self._wanted, self._known = ">", Known()
        self._changing = KeyChanging(self)
        self._asking = Asking(self, self._question, _RENEWED_AFTER_S, _decoder)

    def _question(self, number: int) -> ReadKeys:
        after = self._known.after_revision
        return ReadKeys(number, self.bucket, self._wanted, after, SHOWN_ROWS)

    def asset(self) -> Target | None:
        """Return the bucket's stream."""
        return Target(self.stream)

    def on_mount(self) -> None:
        """Read them again and again, and have the stream polled first."""
        watch_rows(self, (self.stream,), ())
        self._asking.begin()

    def refresh_state(self) -> None:
        """Take what has come, and show what is known."""
        if (page := self._asking.take_state()) is not None:
            self._known.take(page, self._wanted)
        if (done := self._changing.take_state()) is not None and done.status == "done":
            self._asking.ask()
        super().refresh_state()

    def view(self) -> KeyView:
        """Return the keys, as far as they are known."""
        rows = () if self.state.replay is not None else tuple(self._known.rows.values())
        now_us = time.time_ns() // 1000
        return KeyView(rows, now_us, self._known.fresh(), by_revision=False)

    def empty_text(self, total: int) -> str:
        """Return why there are no rows."""
        if total:
            return super().empty_text(total)
        if self.state.replay is not None:
            return NO_SERVER
        if self._asking.problem:
            return self._asking.problem
        return "reading …" if self._known.last is None else "no keys"

    def caption_text(self, shown: int, total: int) -> str:
        """Return the line above the table."""
        known = self._known
        parts = [clean_line(self.bucket), super().caption_text(shown, total)]
        parts += [f"only {clean_line(self._wanted)} (f)"] if self._wanted != ">" else []
        if known.count > len(known.rows):
            left = counted(f"{known.count - len(known.rows):,}", "key")
            parts.append(f"{left} more, changed later: f asks for fewer")
        parts += ["paused (p)"] if self.paused else []
        return "  ·  ".join([self._asking.problem, *parts] if self._asking.problem else parts)

    def chosen(self) -> KeyRow | None:
        """Return the key under the cursor."""
        rows, at = self.rows, self.table.cursor
        if rows is None or at >= len(rows.order):
            return None
        found = rows.view.things[rows.order[at]]
        assert isinstance(found, KeyRow)
        return found

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Grey what may not be done; in a recording there is nothing to change."""
        live = self.state.replay is None
        if action == "act":
            return live if allowed(self.state, str(parameters[0])) else None
        return live if action == "wanted" else super().check_action(action, parameters)

    @on(RowSelected)
    def _open(self) -> None:
        """Show the history of the key under the cursor."""
        if (row := self.chosen()) is not None:
            self.app.push_screen(HistoryScreen(self.stream, row.key))

    def action_wanted(self) -> None:
        """Read only keys that match a filter of the server."""

        def refusal(text: str) -> str:
            fits = not text.strip() or is_key_filter(text.strip())
            return "" if fits else f"{text!r} is neither a key nor one with * and > as words"

        def go(text: str | None) -> None:
            if text is not None:
                self._wanted, self._known = text.strip() or ">", Known()
                self._asking.ask()
                self.refresh_state()

        shown = "" if self._wanted == ">" else self._wanted
        question = "Only which keys? * is one word, > the rest; empty is all"
        self.app.push_screen(Prompt(question, shown, refusal=refusal), go)

    def action_act(self, what: str) -> None:
        """Change the key under the cursor, or put another."""
        row = self.chosen()
        if what == "undo":
            self.app.post_message(Manage("undo"))
        elif what == "put-key":
            self.app.push_screen(PutScreen(self.bucket))
        elif row is None:
            self.notify("there is nothing under the cursor", severity="warning", timeout=2)
        else:
            change_key(self, self._changing, self.bucket, row, what)
