"""The screen of a bucket's keys with their values, live; put, delete, purge."""

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
from natstui.tui.frame.columns import ColumnSpec, SortAndFilter
from natstui.tui.frame.live import NO_SERVER, LiveScreen, poll_rows_first
from natstui.tui.frame.messages import Manage
from natstui.tui.frame.requests import run_task
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.table.view import RowSelected, VisibleChanged
from natstui.tui.stores.cells import KEY_COLUMNS, KeyView
from natstui.tui.stores.history import HistoryScreen
from natstui.tui.stores.put import PutScreen
from natstui.tui.stores.requests import RepeatedPage, change_key
from natstui.units import counted

MAX_KEYS_WITH_VALUES = 5_000
"""Maximum number of keys that are read together with their values."""
MAX_KEY_NAMES = 200_000
_COMPLETE_READ_INTERVAL_S = 60.0
"""Interval of complete reads; between them only changes are read, which exclude expiry."""
_CHANGE_SHOWN_S = 5.0
_MAX_VALUES_PER_READ = 200


class KeyRows:
    """The keys of a bucket in order of arrival; a newer row replaces the old one."""

    def __init__(self) -> None:
        self.view = KeyView([], 0, (), is_keyed_by_revision=False)
        self.last_page: KeysPage | None = None
        self.count = 0
        """Number of keys that match the filter."""
        self._rows: list[KeyRow] = []
        self._index_by_key: dict[str, int] = {}
        self._changed_at_s_by_key: dict[str, float] = {}
        self._complete_read_at_s = 0.0
        self.needs_names = False
        """Whether the bucket has more keys than its last complete page, and their names were not
        read since then.
        """

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def after_revision(self) -> int:
        """Return the revision after which changes must be requested; 0 to request all keys."""
        if (
            self.last_page is None
            or monotonic() - self._complete_read_at_s > _COMPLETE_READ_INTERVAL_S
        ):
            return 0
        return self.last_page.last_revision_seq

    def find_unread(self, keys: Iterable[str]) -> tuple[str, ...]:
        """Return the keys whose values were not read, at most 200."""
        positions = ((key, self._index_by_key.get(key)) for key in keys)
        unread_keys = [
            key
            for key, index in positions
            if index is not None and not self._rows[index].operation
        ]
        return tuple(unread_keys[:_MAX_VALUES_PER_READ])

    def add_page(self, page: KeysPage, filter_subject: str) -> None:
        """Add a page of all keys, or of the changes since the last page."""
        is_same_bucket = (
            self.last_page is not None and self.last_page.created_at_us == page.created_at_us
        )
        has_only_changes = page.keys_count is None
        previous_keys: list[str] = []
        if page.keys_count is not None:
            self._complete_read_at_s, self.count = monotonic(), page.keys_count
            self.needs_names = page.keys_count > len(page.rows)
            if self.needs_names and is_same_bucket:
                previous_keys = [row.key for row in self._rows]
            self._rows, self._index_by_key = [], {}
        elif not is_same_bucket:
            # The bucket was recreated: all keys are requested next.
            self.last_page, self.needs_names = None, False
            return
        self._add(page.rows, creates_new_view=not has_only_changes)
        # They stay until their names are read again; their values may have changed before.
        self._add_unread(previous_keys)
        if has_only_changes:
            self._changed_at_s_by_key |= {row.key: monotonic() for row in page.rows}
            self.count = max(self.count, len(self))
        self.last_page = page
        if (
            filter_subject == ">"
            and self.count <= MAX_KEYS_WITH_VALUES
            and len(self) > page.stored_keys_count
        ):
            self._complete_read_at_s = float("-inf")  # some expired

    def add_names(self, names: KeyNames) -> None:
        """Add keys without their values, and remove unread keys that do not exist any more."""
        if self.last_page is None or names.created_at_us != self.last_page.created_at_us:
            return
        self.needs_names = False
        self.count = max(self.count, len(names.names))
        existing_keys = set(names.names)
        rows = [row for row in self._rows if row.operation or row.key in existing_keys]
        if has_deleted_keys := len(rows) < len(self._rows):
            self._rows = rows
            self._index_by_key = {row.key: index for index, row in enumerate(rows)}
        self._add_unread(names.names, creates_new_view=has_deleted_keys)

    def add_values(self, page: KeysPage) -> None:
        """Add values that were read for visible keys, unless newer values have arrived."""
        if self.last_page is not None and page.created_at_us == self.last_page.created_at_us:
            rows = [row for row in page.rows if row.key in self.find_unread([row.key])]
            self._add(rows, creates_new_view=False)

    def _add_unread(self, keys: Iterable[str], *, creates_new_view: bool = False) -> None:
        """Add keys that have no row yet, without their values; with `creates_new_view`, or for new
        keys, create a new view.
        """
        rows = [KeyRow(key, 0, 0, "", "", 0) for key in keys if key not in self._index_by_key]
        self._add(rows, creates_new_view=creates_new_view)

    def _add(self, rows: Iterable[KeyRow], *, creates_new_view: bool) -> None:
        """Insert or replace rows; with `creates_new_view`, or for new keys, create a new view."""
        previous_count = len(self._rows)
        for row in rows:
            index = self._index_by_key.setdefault(row.key, len(self._rows))
            if index == len(self._rows):
                self._rows.append(row)
            else:
                self._rows[index] = row
        if creates_new_view or len(self._rows) != previous_count:
            self.view = KeyView(self._rows, 0, (), is_keyed_by_revision=False)

    def current_view(self) -> KeyView:
        """Return the view of the current rows, with the current time and recent changes."""
        now_s = monotonic()
        self._changed_at_s_by_key = {
            key: changed_at_s
            for key, changed_at_s in self._changed_at_s_by_key.items()
            if now_s - changed_at_s < _CHANGE_SHOWN_S
        }
        self.view.now_us, self.view.changed_keys = (
            time.time_ns() // 1000,
            set(self._changed_at_s_by_key),
        )
        return self.view


_decoder = decoder_of(KeysPage)

_names_decoder = decoder_of(KeyNames)
_REREAD_INTERVAL_S = 1.0


class MissingKeysReader:
    """Reads the rest of a bucket with very many keys: names, and values of visible keys."""

    def __init__(self, screen: LiveScreen, bucket: str) -> None:
        self._screen, self._bucket = screen, bucket
        self._names_task: Worker[None] | None = None
        self._values_task: Worker[None] | None = None
        self.visible_keys: tuple[str, ...] = ()
        self.problem = ""
        """The error of the last read, which is repeated; empty after a success."""

    def request_missing(self, key_rows: KeyRows, filter_subject: str) -> None:
        """Request missing names and values, unless such a request is pending."""
        if key_rows.needs_names and self._names_task is None:
            self._names_task = run_task(self._screen, self._read_names, key_rows, filter_subject)
        if self._values_task is None and (keys := key_rows.find_unread(self.visible_keys)):
            self._values_task = run_task(self._screen, self._read_values, key_rows, keys)

    async def _read_names(self, key_rows: KeyRows, filter_subject: str) -> None:
        body = await self._read(ReadKeyNames(0, self._bucket, filter_subject, MAX_KEY_NAMES))
        self._names_task = None
        if body is not None:
            key_rows.add_names(_names_decoder.decode(body))
        self._screen.refresh_state()

    async def _read_values(self, key_rows: KeyRows, keys: tuple[str, ...]) -> None:
        body = await self._read(ReadTheseKeys(0, self._bucket, keys))
        self._values_task = None
        if body is not None:
            key_rows.add_values(_decoder.decode(body))
        self._screen.refresh_state()

    async def _read(self, command: Command) -> str | None:
        reply = await self._screen.engine.request(command)
        self.problem = "" if reply.body_json is not None else clean_line(reply.text)
        return reply.body_json

    def cancel(self) -> None:
        """Cancel pending reads, because other keys are shown."""
        for task in (self._names_task, self._values_task):
            if task is not None:
                task.cancel()
        self._names_task = self._values_task = None
        self.problem = ""


class KeysScreen(TableScreen):
    """The screen of a bucket's keys; while it is in view, changes are requested repeatedly."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("f", "wanted", "Wildcard", id="key.wanted"),
        *(spec.binding(f"act('{spec.name}')") for spec in KEY_ACTIONS),
        UNDO.binding("act('undo')"),
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = KEY_COLUMNS
    NOUN = "keys"
    DEFAULT_ORDER = SortAndFilter("key")

    def __init__(self, stream: str) -> None:
        super().__init__()
        self.stream, self.bucket = stream, bucket_of(stream)
        self._key_filter, self._key_rows = ">", KeyRows()
        self._missing_reader = MissingKeysReader(self, self.bucket)

        def command() -> ReadKeys:
            after_revision = self._key_rows.after_revision
            return ReadKeys(0, self.bucket, self._key_filter, after_revision, MAX_KEYS_WITH_VALUES)

        self._page_request = RepeatedPage(
            self, command, _REREAD_INTERVAL_S, _decoder,
            lambda page: self._key_rows.add_page(page, self._key_filter),
        )  # fmt: skip

    def asset(self) -> Target | None:
        """Return the bucket's stream."""
        return Target(self.stream)

    def on_mount(self) -> None:
        """Start to request the keys repeatedly."""
        self._page_request.start()

    def on_screen_resume(self) -> None:
        """Request that the stream is polled first."""
        poll_rows_first(self, (self.stream,), ())

    def refresh_state(self) -> None:
        """Show the rows, and request changes and missing values."""
        self._page_request.send_if_due()
        self._missing_reader.request_missing(self._key_rows, self._key_filter)
        super().refresh_state()

    def view(self) -> KeyView:
        """Return a view of the keys that were read."""
        return self._key_rows.current_view()

    def empty_text(self, total: int) -> str:
        """Return the text that explains an empty table."""
        if total:
            return super().empty_text(total)
        if self.state.replay is not None:
            return NO_SERVER
        if self._page_request.problem:
            return self._page_request.problem
        if self._key_rows.last_page is None:
            return "reading …"
        if self._key_filter != ">":
            change = key_of(self, "key.wanted")
            return f"no key matches {clean_line(self._key_filter)}: {change} changes the filter"
        put_key = key_of(self, PUT_KEY.id)
        return f"no keys: {put_key} stores one" if put_key else "no keys"

    def caption_text(self, shown: int, total: int) -> str:
        """Return the caption: bucket, keys shown and total, filter, and an error."""
        key_rows = self._key_rows
        parts = [clean_line(self.bucket), super().caption_text(shown, total)]
        parts += [f"only {clean_line(self._key_filter)} (f)"] if self._key_filter != ">" else []
        if key_rows.count > len(key_rows):
            unlisted_keys_text = counted(f"{key_rows.count - len(key_rows):,}", "key")
            parts.append(f"{unlisted_keys_text} more: f narrows the list")
        elif len(key_rows) > MAX_KEYS_WITH_VALUES:
            parts.append(
                "values are read only for keys in view, so sorting by value is incomplete"
            )
        parts += ["paused (p)"] if self.paused else []
        problem = self._page_request.problem or self._missing_reader.problem
        return "  ·  ".join([problem, *parts] if problem else parts)

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is enabled; None without permission, False in a replay."""
        if action == "act":
            return self.is_action_offered(str(parameters[0]))
        if action == "wanted":
            return self.state.replay is None
        return super().check_action(action, parameters)

    @on(RowSelected)
    def _open(self) -> None:
        """Open the history of the key under the cursor."""
        if (row := self.item_under_cursor(KeyRow)) is not None:
            self.app.push_screen(HistoryScreen(self.stream, row.key))

    @on(VisibleChanged)
    def _read_values(self, message: VisibleChanged) -> None:
        self._missing_reader.visible_keys = tuple(
            str(key[0]) for key in message.keys if isinstance(key, tuple)
        )
        self._missing_reader.request_missing(self._key_rows, self._key_filter)

    def action_wanted(self) -> None:
        """Prompt for a filter that the server applies to the keys."""
        run_task(self, self._prompt_key_filter)

    async def _prompt_key_filter(self) -> None:
        def refusal(text: str) -> str:
            fits = not text.strip() or is_key_filter(text.strip())
            return "" if fits else f"{text!r} is neither a key nor a pattern with * and >"

        filter_text = "" if self._key_filter == ">" else self._key_filter
        title = "Only which keys? * is one word, > the rest; empty: all"
        prompt = Prompt(title, filter_text, refusal=refusal)
        if (text := await self.app.push_screen_wait(prompt)) is not None:
            self._key_filter, self._key_rows = text.strip() or ">", KeyRows()
            self._missing_reader.cancel()
            self._page_request.send_now()
            self.refresh_state()

    def action_act(self, action: str) -> None:
        """Change the key under the cursor, put a new key, or undo the last change."""
        row = self.item_under_cursor(KeyRow)
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
            page = self._key_rows.last_page
            created_at_us = page.created_at_us if page is not None else None
            change_key(self, self.bucket, created_at_us, row, action, self._page_request.send_now)
