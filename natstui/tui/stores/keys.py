"""The keys of a bucket with their values, as they change; put, delete, purge."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.worker import Worker

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.model.assets.buckets import is_key_filter
from natstui.model.records.record import Command
from natstui.model.records.stores import (
    KeyNames,
    KeyRow,
    KeysPage,
    ReadKeyNames,
    ReadKeys,
    ReadTheseKeys,
)
from natstui.tui.frame.action_keys import KEY_ACTIONS, PUT_KEY, UNDO, Target
from natstui.tui.frame.columns import ColumnSpec, Order
from natstui.tui.frame.live import NO_SERVER, LiveScreen, watch_rows
from natstui.tui.frame.messages import Manage
from natstui.tui.frame.requests import run_task
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.table.view import RowSelected, VisibleChanged
from natstui.tui.stores.cells import KEY_COLUMNS, KeyView, bucket_of
from natstui.tui.stores.history import HistoryScreen
from natstui.tui.stores.known import MOST_NAMES, SHOWN_ROWS, KeyRows
from natstui.tui.stores.put import PutScreen
from natstui.tui.stores.requests import RenewedPage, change_key
from natstui.units import counted

_decoder = decoder_of(KeysPage)

_names, _RENEWED_AFTER_S = decoder_of(KeyNames), 1.0


class Filling:
    """Reads what a bucket with very many keys leaves open: names, then values in view."""

    def __init__(self, screen: LiveScreen, bucket: str) -> None:
        self._screen, self._bucket = screen, bucket
        self._names: Worker[None] | None = None
        self._values: Worker[None] | None = None
        self.in_view: tuple[str, ...] = ()
        self.problem = ""
        """Why names or values did not come, which are read again."""

    def keep_up(self, known: KeyRows, wanted: str) -> None:
        """Read what is missing now."""
        if known.wants_names and self._names is None:
            self._names = run_task(self._screen, self._read_names, known, wanted)
        if self._values is None and (keys := known.unread(self.in_view)):
            self._values = run_task(self._screen, self._read_values, known, keys)

    async def _read_names(self, known: KeyRows, wanted: str) -> None:
        body = await self._read(ReadKeyNames(0, self._bucket, wanted, MOST_NAMES))
        self._names = None
        if body is not None:
            known.take_names(_names.decode(body))
        self._screen.refresh_state()

    async def _read_values(self, known: KeyRows, keys: tuple[str, ...]) -> None:
        body = await self._read(ReadTheseKeys(0, self._bucket, keys))
        self._values = None
        if body is not None:
            known.take_values(_decoder.decode(body))
        self._screen.refresh_state()

    async def _read(self, command: Command) -> str | None:
        reply = await self._screen.engine.request(command)
        self.problem = "" if reply.body_json is not None else clean_line(reply.text)
        return reply.body_json

    def forget(self) -> None:
        """Await nothing: other keys are wanted."""
        for task in (self._names, self._values):
            if task is not None:
                task.cancel()
        self._names = self._values = None
        self.problem = ""


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
        self._wanted, self._known = ">", KeyRows()
        self._filling = Filling(self, self.bucket)

        def command() -> ReadKeys:
            after = self._known.after_revision
            return ReadKeys(0, self.bucket, self._wanted, after, SHOWN_ROWS)

        self._asking = RenewedPage(
            self, command, _RENEWED_AFTER_S, _decoder,
            lambda page: self._known.take(page, self._wanted),
        )  # fmt: skip

    def asset(self) -> Target | None:
        """Return the bucket's stream."""
        return Target(self.stream)

    def on_mount(self) -> None:
        """Read them again and again, and have the stream polled first."""
        watch_rows(self, (self.stream,), ())
        self._asking.begin()

    def refresh_state(self) -> None:
        """Show what is known, and read what is due or missing."""
        self._asking.keep_up()
        self._filling.keep_up(self._known, self._wanted)
        super().refresh_state()

    def view(self) -> KeyView:
        """Return the keys, as far as they are known."""
        return self._known.shown()

    def empty_text(self, total: int) -> str:
        """Return why there are no rows."""
        if total:
            return super().empty_text(total)
        if self.state.replay is not None:
            return NO_SERVER
        if self._asking.problem:
            return self._asking.problem
        if self._known.last is None:
            return "reading …"
        if self._wanted != ">":
            change = key_of(self, "key.wanted")
            return f"no key matches {clean_line(self._wanted)}: {change} shows others"
        put = key_of(self, PUT_KEY.id)
        return f"no keys: {put} stores one" if put else "no keys"

    def caption_text(self, shown: int, total: int) -> str:
        """Return the line above the table."""
        known = self._known
        parts = [clean_line(self.bucket), super().caption_text(shown, total)]
        parts += [f"only {clean_line(self._wanted)} (f)"] if self._wanted != ">" else []
        if known.count > len(known):
            left = counted(f"{known.count - len(known):,}", "key")
            parts.append(f"{left} more: f narrows the list")
        elif len(known) > SHOWN_ROWS:
            parts.append(
                "values are read only for keys in view, so sorting by value is incomplete"
            )
        parts += ["paused (p)"] if self.paused else []
        problem = self._asking.problem or self._filling.problem
        return "  ·  ".join([problem, *parts] if problem else parts)

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
        if action == "act":
            return self.may_do(str(parameters[0]))
        if action == "wanted":
            return self.state.replay is None
        return super().check_action(action, parameters)

    @on(RowSelected)
    def _open(self) -> None:
        """Show the history of the key under the cursor."""
        if (row := self.chosen()) is not None:
            self.app.push_screen(HistoryScreen(self.stream, row.key))

    @on(VisibleChanged)
    def _read_values(self, message: VisibleChanged) -> None:
        self._filling.in_view = tuple(
            str(key[0]) for key in message.keys if isinstance(key, tuple)
        )
        self._filling.keep_up(self._known, self._wanted)

    def action_wanted(self) -> None:
        """Read only keys that match a filter of the server."""

        def refusal(text: str) -> str:
            fits = not text.strip() or is_key_filter(text.strip())
            return "" if fits else f"{text!r} is neither a key nor a pattern with * and >"

        def go(text: str | None) -> None:
            if text is not None:
                self._wanted, self._known = text.strip() or ">", KeyRows()
                self._filling.forget()
                self._asking.ask()
                self.refresh_state()

        shown = "" if self._wanted == ">" else self._wanted
        question = "Only which keys? * is one word, > the rest; empty: all"
        self.app.push_screen(Prompt(question, shown, refusal=refusal), go)

    def action_act(self, what: str) -> None:
        """Change the key under the cursor, or put another."""
        row = self.chosen()
        if what == "undo":
            self.app.post_message(Manage("undo"))
        elif what == "put-key":
            self.app.push_screen(PutScreen(self.bucket))
        elif row is None or not row.operation:
            self.notify(
                "there is no row under the cursor, or it is not read yet",
                severity="warning",
                timeout=2,
            )
        else:
            change_key(self, self.bucket, row, what, self._asking.ask)
