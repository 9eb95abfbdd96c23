"""The keys of a bucket with their values, live; put, delete, purge."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from time import monotonic
from typing import Any, ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.worker import Worker

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.model.assets.buckets import is_key_filter
from natstui.model.columns.buckets import bucket_of
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
from natstui.tui.stores.cells import KEY_COLUMNS, KeyView
from natstui.tui.stores.history import HistoryScreen
from natstui.tui.stores.put import PutScreen
from natstui.tui.stores.requests import RenewedPage, change_key
from natstui.units import counted

SHOWN_ROWS = 5_000
"""Number of keys that are read with their values at once."""
MOST_NAMES = 200_000
_ANEW_S = 60.0
"""Interval of complete reads, because expiry changes no revision."""
_FRESH_S = 5.0
_MOST_AT_ONCE = 200


class KeyRows:
    """The keys in order of arrival; a newer row replaces the old one in place."""

    def __init__(self) -> None:
        self.view = KeyView([], 0, (), by_revision=False)
        self.last: KeysPage | None = None
        self.count = 0
        """How many match."""
        self._things: list[KeyRow] = []
        self._place: dict[str, int] = {}
        self._changed_s: dict[str, float] = {}
        self._whole_s = 0.0
        self._names: KeyNames | None = None

    def __len__(self) -> int:
        return len(self._things)

    @property
    def after_revision(self) -> int:
        """Return the revision after which changes are requested; 0: all keys."""
        if self.last is None or monotonic() - self._whole_s > _ANEW_S:
            return 0
        return self.last.last_revision_seq

    @property
    def wants_names(self) -> bool:
        """Return whether there are more keys whose names were not requested yet."""
        return self.last is not None and self.count > len(self) and self._names is None

    def unread(self, keys: Iterable[str]) -> tuple[str, ...]:
        """Return which of the keys have no value yet."""
        positions = ((key, self._place.get(key)) for key in keys)
        unread_keys = [
            key
            for key, index in positions
            if index is not None and not self._things[index].operation
        ]
        return tuple(unread_keys[:_MOST_AT_ONCE])

    def take(self, page: KeysPage, filter_subject: str) -> None:
        """Add a page of all keys, or of changes."""
        is_same_bucket = self.last is not None and self.last.created_at_us == page.created_at_us
        changes = page.keys_count is None
        if page.keys_count is not None:
            self._whole_s, self.count = monotonic(), page.keys_count
            self._things, self._place, self._names = [], {}, None
        elif not is_same_bucket:
            self.last = None  # it was recreated: everything is asked for
            return
        self._add(page.rows, anew=not changes)
        if changes:
            self._changed_s |= {row.key: monotonic() for row in page.rows}
            self.count = max(self.count, len(self))
        self.last = page
        if (
            filter_subject == ">"
            and self.count <= SHOWN_ROWS
            and len(self) > page.stored_keys_count
        ):
            self._whole_s = float("-inf")  # some expired

    def take_names(self, names: KeyNames) -> None:
        """Add keys without their values."""
        if self.last is None or names.created_at_us != self.last.created_at_us:
            return
        self._names = names
        self.count = max(self.count, len(names.names))
        empty_rows = [
            KeyRow(name, 0, 0, "", "", 0) for name in names.names if name not in self._place
        ]
        self._add(empty_rows, anew=True)

    def take_values(self, page: KeysPage) -> None:
        """Add the values of visible keys, unless they have changed since."""
        if self.last is not None and page.created_at_us == self.last.created_at_us:
            rows = [row for row in page.rows if row.key in self.unread([row.key])]
            self._add(rows, anew=False)

    def _add(self, rows: Iterable[KeyRow], *, anew: bool) -> None:
        """Insert or replace rows; `anew` creates another view for other keys."""
        before = len(self._things)
        for row in rows:
            index = self._place.setdefault(row.key, len(self._things))
            if index == len(self._things):
                self._things.append(row)
            else:
                self._things[index] = row
        if anew or len(self._things) != before:
            self.view = KeyView(self._things, 0, (), by_revision=False)

    def shown(self) -> KeyView:
        """Return the view of the current rows."""
        now_s = monotonic()
        self._changed_s = {
            k: changed_s
            for k, changed_s in self._changed_s.items()
            if now_s - changed_s < _FRESH_S
        }
        self.view.now_us, self.view.fresh = time.time_ns() // 1000, set(self._changed_s)
        return self.view


_decoder = decoder_of(KeysPage)

_names, _RENEWED_AFTER_S = decoder_of(KeyNames), 1.0


class Filling:
    """Requests the rest of a bucket with very many keys: names, then the visible values."""

    def __init__(self, screen: LiveScreen, bucket: str) -> None:
        self._screen, self._bucket = screen, bucket
        self._names: Worker[None] | None = None
        self._values: Worker[None] | None = None
        self.in_view: tuple[str, ...] = ()
        self.problem = ""
        """Why names or values did not come, which are read again."""

    def keep_up(self, key_rows: KeyRows, filter_subject: str) -> None:
        """Request the missing names or values."""
        if key_rows.wants_names and self._names is None:
            self._names = run_task(self._screen, self._read_names, key_rows, filter_subject)
        if self._values is None and (keys := key_rows.unread(self.in_view)):
            self._values = run_task(self._screen, self._read_values, key_rows, keys)

    async def _read_names(self, key_rows: KeyRows, filter_subject: str) -> None:
        body = await self._read(ReadKeyNames(0, self._bucket, filter_subject, MOST_NAMES))
        self._names = None
        if body is not None:
            key_rows.take_names(_names.decode(body))
        self._screen.refresh_state()

    async def _read_values(self, key_rows: KeyRows, keys: tuple[str, ...]) -> None:
        body = await self._read(ReadTheseKeys(0, self._bucket, keys))
        self._values = None
        if body is not None:
            key_rows.take_values(_decoder.decode(body))
        self._screen.refresh_state()

    async def _read(self, command: Command) -> str | None:
        reply = await self._screen.engine.request(command)
        self.problem = "" if reply.body_json is not None else clean_line(reply.text)
        return reply.body_json

    def forget(self) -> None:
        """Ignore pending replies: other keys are shown."""
        for task in (self._names, self._values):
            if task is not None:
                task.cancel()
        self._names = self._values = None
        self.problem = ""


class KeysScreen(TableScreen):
    """The keys of a bucket; while it is in view, changes are requested repeatedly."""

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
        """Start to request the keys repeatedly, and request that the stream is polled first."""
        watch_rows(self, (self.stream,), ())
        self._asking.begin()

    def refresh_state(self) -> None:
        """Show the rows, and request what is due or missing."""
        self._asking.keep_up()
        self._filling.keep_up(self._known, self._wanted)
        super().refresh_state()

    def view(self) -> KeyView:
        """Return the keys that are known so far."""
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
            return f"no key matches {clean_line(self._wanted)}: {change} changes the filter"
        put_key = key_of(self, PUT_KEY.id)
        return f"no keys: {put_key} stores one" if put_key else "no keys"

    def caption_text(self, shown: int, total: int) -> str:
        """Return the line above the table."""
        key_rows = self._known
        parts = [clean_line(self.bucket), super().caption_text(shown, total)]
        parts += [f"only {clean_line(self._wanted)} (f)"] if self._wanted != ">" else []
        if key_rows.count > len(key_rows):
            unread_text = counted(f"{key_rows.count - len(key_rows):,}", "key")
            parts.append(f"{unread_text} more: f narrows the list")
        elif len(key_rows) > SHOWN_ROWS:
            parts.append(
                "values are read only for keys in view, so sorting by value is incomplete"
            )
        parts += ["paused (p)"] if self.paused else []
        problem = self._asking.problem or self._filling.problem
        return "  ·  ".join([problem, *parts] if problem else parts)

    def chosen(self) -> KeyRow | None:
        """Return the key under the cursor."""
        rows, position = self.rows, self.table.cursor
        if rows is None or position >= len(rows.order):
            return None
        key_row = rows.view.things[rows.order[position]]
        assert isinstance(key_row, KeyRow)
        return key_row

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is offered; None if not allowed, False in a recording."""
        if action == "act":
            return self.may_do(str(parameters[0]))
        if action == "wanted":
            return self.state.replay is None
        return super().check_action(action, parameters)

    @on(RowSelected)
    def _open(self) -> None:
        """Open the history of the key under the cursor."""
        if (row := self.chosen()) is not None:
            self.app.push_screen(HistoryScreen(self.stream, row.key))

    @on(VisibleChanged)
    def _read_values(self, message: VisibleChanged) -> None:
        self._filling.in_view = tuple(
            str(key[0]) for key in message.keys if isinstance(key, tuple)
        )
        self._filling.keep_up(self._known, self._wanted)

    def action_wanted(self) -> None:
        """Prompt for a server-side filter of the keys."""

        def refusal(text: str) -> str:
            fits = not text.strip() or is_key_filter(text.strip())
            return "" if fits else f"{text!r} is neither a key nor a pattern with * and >"

        def go(text: str | None) -> None:
            if text is not None:
                self._wanted, self._known = text.strip() or ">", KeyRows()
                self._filling.forget()
                self._asking.ask()
                self.refresh_state()

        filter_text = "" if self._wanted == ">" else self._wanted
        title = "Only which keys? * is one word, > the rest; empty: all"
        self.app.push_screen(Prompt(title, filter_text, refusal=refusal), go)

    def action_act(self, action: str) -> None:
        """Change the key under the cursor, or put another one."""
        row = self.chosen()
        if action == "undo":
            self.app.post_message(Manage("undo"))
        elif action == "put-key":
            self.app.push_screen(PutScreen(self.bucket))
        elif row is None or not row.operation:
            self.notify(
                "there is no row under the cursor, or it is not read yet",
                severity="warning",
                timeout=2,
            )
        else:
            page = self._known.last
            created_at_us = page.created_at_us if page is not None else None
            change_key(self, self.bucket, created_at_us, row, action, self._asking.ask)
