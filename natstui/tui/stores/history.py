"""The history of a key: what each revision changed, and restoring one."""

from __future__ import annotations

import difflib
import itertools
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, ClassVar

from textual import getters, on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.model.columns.buckets import bucket_of
from natstui.model.records.stores import ChangeKey, KeyRow, KeysPage, ReadRevisions
from natstui.tui.frame.action_keys import KEY_ACTIONS, REVERT_KEY, UNDO, Target
from natstui.tui.frame.action_runner import choose_action
from natstui.tui.frame.columns import ColumnSpec, SortAndFilter
from natstui.tui.frame.live import NO_SERVER, LiveScreen
from natstui.tui.frame.messages import Manage
from natstui.tui.frame.table_screen import TableScreen
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.raw.payload import PAYLOAD_FORMATS, PayloadFormat, PayloadText, format_payload
from natstui.tui.kit.raw.view import RawView
from natstui.tui.kit.table.view import RowSelected
from natstui.tui.kit.text import safe
from natstui.tui.stores.cells import REVISION_COLUMNS, KeyView, value_of
from natstui.tui.stores.requests import RepeatedPage, change_key, start_change
from natstui.units import bytes_text, local_text

_DIFF_CONTEXT_LINES = 3


def revision_value_text(row: KeyRow, payload_format: PayloadFormat) -> PayloadText:
    """Return the value of a revision as text; empty if the revision deleted the key."""
    return format_payload(value_of(row), payload_format)


def revision_caption(row: KeyRow, position_text: str, format_text: str) -> str:
    """Return the caption of a revision: key, number, time, size and format."""
    time_text = local_text(row.created_at_us, "%Y-%m-%d %H:%M:%S", 3)
    size_text = bytes_text(row.value_bytes) if row.operation == "PUT" else row.operation
    parts = [
        clean_line(row.key),
        f"revision {row.revision_seq} ({position_text})",
        time_text,
        size_text,
        format_text,
    ]
    read_size_bytes = len(value_of(row))
    if read_size_bytes < row.value_bytes:
        parts.append(f"only the first {bytes_text(read_size_bytes)}: natstui kv get shows all")
    return "  ·  ".join(clean_line(part) for part in parts if part)


def difference_text(previous_row: KeyRow | None, row: KeyRow) -> str:
    """Return the lines that a revision changed: `-` are removed, `+` are new; its value if
    `previous_row` is None.
    """
    if previous_row is None:
        return "The previous revision is not stored.\n\n" + revision_value_text(row, "auto").text
    previous_lines, lines = _lines(previous_row), _lines(row)
    if previous_lines == lines:
        return f"The same as revision {previous_row.revision_seq}."
    diff_lines = difflib.unified_diff(
        previous_lines, lines,
        f"revision {previous_row.revision_seq}", f"revision {row.revision_seq}",
        lineterm="", n=_DIFF_CONTEXT_LINES,
    )  # fmt: skip
    return "\n".join(diff_lines)


def _lines(row: KeyRow) -> list[str]:
    if row.operation != "PUT":
        return [f"({row.operation}: no value)"]
    return revision_value_text(row, "auto").text.split("\n")


class RevisionScreen(LiveScreen):
    """The screen of a revision: its value as JSON, text or bytes, or what it changed."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("d", "difference", "Difference", id="revision.as_difference"),
        Binding("v", "look", "As JSON/text/hex", id="revision.look"),
        Binding("slash", "search", "Search", key_display="/", id="revision.search"),
        Binding("right_square_bracket", "step(1)", "Next", key_display="]", id="revision.next"),
        Binding(
            "left_square_bracket", "step(-1)", "Before", key_display="[", id="revision.before"
        ),
    ]

    caption = getters.query_one("#caption", Static)
    raw = getters.query_one(RawView)

    def __init__(self, rows: Sequence[KeyRow], index: int, *, as_difference: bool = False) -> None:
        """Show revision `index` of `rows`, the oldest first; `as_difference` shows its changes
        since the previous revision.
        """
        super().__init__()
        self._rows, self._index, self._shows_difference = rows, index, as_difference
        self._payload_formats = itertools.cycle(PAYLOAD_FORMATS)
        self._payload_format = next(self._payload_formats)

    def body(self) -> Iterable[Widget]:
        """Yield caption and text."""
        yield Static(id="caption", markup=False)
        yield RawView()

    def on_mount(self) -> None:
        """Show the revision."""
        self.raw.focus()
        self._draw()

    def _draw(self) -> None:
        row = self._rows[self._index]
        previous_row = self._rows[self._index - 1] if self._index else None
        if self._shows_difference:
            self.raw.show(difference_text(previous_row, row))
            format_text = f"since revision {previous_row.revision_seq}" if previous_row else ""
        else:
            payload_text = revision_value_text(row, self._payload_format)
            self.raw.show(payload_text.text, "json" if payload_text.format == "json" else "text")
            format_text = payload_text.format_text
        position_text = f"{self._index + 1} of {len(self._rows)}"
        self.caption.update(safe(revision_caption(row, position_text, format_text)))

    def action_difference(self) -> None:
        """Switch between the changes since the previous revision, and the value."""
        self._shows_difference = not self._shows_difference
        self._draw()

    def action_look(self) -> None:
        """Switch the value between JSON, text and bytes."""
        self._shows_difference, self._payload_format = False, next(self._payload_formats)
        self._draw()

    def action_step(self, step: int) -> None:
        """Show the next or previous revision."""
        self._index = min(max(self._index + step, 0), len(self._rows) - 1)
        self._draw()

    def action_search(self) -> None:
        """Prompt for a text, and search for it in the shown value or changes."""

        def search_text(text: str | None) -> None:
            if text:
                self.notify(f"{self.raw.search(text)} matches", timeout=2)

        self.app.push_screen(Prompt("Search for"), search_text)

    @on(RawView.CopyRequested)
    def _copy(self, message: RawView.CopyRequested) -> None:
        self.app.copy_to_clipboard(message.text)
        self.notify("copied", timeout=2)


_decoder = decoder_of(KeysPage)
_REREAD_INTERVAL_S = 2.0
_ROW_ACTION_SPECS = [spec for spec in KEY_ACTIONS if spec.target_rows == "one"]


class HistoryScreen(TableScreen):
    """The history of a key, newest revision first."""

    BINDINGS: ClassVar[list[BindingType]] = [
        REVERT_KEY.menu_binding(),
        Binding("d", "difference", "Difference", id="revision.difference"),
        *(spec.binding(f"act('{spec.name}')") for spec in _ROW_ACTION_SPECS),
        UNDO.binding("act('undo')"),
    ]
    SPECS: ClassVar[Sequence[ColumnSpec[Any]]] = REVISION_COLUMNS
    NOUN = "revisions"
    DEFAULT_ORDER = SortAndFilter("revision", reverse=True)
    ROW_ACTIONS: ClassVar[frozenset[str]] = frozenset({"difference"})

    def __init__(self, stream: str, key: str) -> None:
        super().__init__()
        self.stream, self.bucket, self.key = stream, bucket_of(stream), key
        self._rows: tuple[KeyRow, ...] = ()
        """The revisions of the key, the oldest first."""
        self._created_at_us: int | None = None
        """Creation time of the bucket."""
        self._page_request = RepeatedPage(
            self,
            lambda: ReadRevisions(0, self.bucket, key),
            _REREAD_INTERVAL_S,
            _decoder,
            self._store_page,
        )

    def _store_page(self, page: KeysPage) -> None:
        self._rows, self._created_at_us = page.rows, page.created_at_us

    def asset(self) -> Target | None:
        """Return the bucket's stream."""
        return Target(self.stream)

    def on_mount(self) -> None:
        """Start to request the revisions repeatedly."""
        self._page_request.start()

    def refresh_state(self) -> None:
        """Show the last reply, and request the revisions again if due."""
        self._page_request.send_if_due()
        super().refresh_state()

    def view(self) -> KeyView:
        """Return a view of the revisions of the last reply."""
        return KeyView(self._rows, time.time_ns() // 1000, (), is_keyed_by_revision=True)

    def empty_text(self, total: int) -> str:
        """Return the text that explains an empty table."""
        if total:
            return super().empty_text(total)
        if self.state.replay is not None:
            return NO_SERVER
        return self._page_request.problem or (
            "reading …"
            if self._page_request.page is None
            else "no revision is stored: the key was purged, or has expired"
        )

    def caption_text(self, shown: int, total: int) -> str:
        """Return the caption: bucket, key, number of revisions, and an error."""
        parts = [clean_line(f"{self.bucket} › {self.key}"), super().caption_text(shown, total)]
        parts += ["paused (p)"] if self.paused else []
        return "  ·  ".join(
            [self._page_request.problem, *parts] if self._page_request.problem else parts
        )

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is enabled; None without permission."""
        if action == "row_actions":
            return self.is_action_offered(REVERT_KEY.name)
        if action == "act":
            return self.is_action_offered(str(parameters[0]))
        return super().check_action(action, parameters)

    def _find_revision(self) -> tuple[Sequence[KeyRow], int] | None:
        """Return the revisions, the oldest first, and the index of the revision under the cursor;
        None in an empty table.
        """
        rows, position = self.rows, self.table.cursor
        if rows is None or position >= len(rows.order):
            return None
        assert isinstance(rows.view, KeyView)
        return rows.view.items, rows.order[position]

    @on(RowSelected)
    def _open(self) -> None:
        """Open the value of the revision under the cursor."""
        if (revisions_and_index := self._find_revision()) is not None:
            self.app.push_screen(RevisionScreen(*revisions_and_index))

    def action_difference(self) -> None:
        """Open the changes of the revision under the cursor."""
        if (revisions_and_index := self._find_revision()) is not None:
            self.app.push_screen(RevisionScreen(*revisions_and_index, as_difference=True))

    def action_row_actions(self) -> None:
        """Show the actions for the revision under the cursor."""
        choose_action(
            self, f"Actions for {self.key}",
            [
                (spec, partial(self.action_act, spec.name))
                for spec in (REVERT_KEY, *_ROW_ACTION_SPECS)
            ],
        )  # fmt: skip

    def action_act(self, action: str) -> None:
        """Change the key, or restore the revision under the cursor."""
        if action == "undo":
            self.app.post_message(Manage("undo"))
            return
        if (revisions_and_index := self._find_revision()) is None:
            return
        revisions, index = revisions_and_index
        if action == "revert-key":
            self._restore_revision(revisions[index], revisions[-1])
        else:
            change_key(
                self,
                self.bucket,
                self._created_at_us,
                revisions[-1],
                action,
                self._page_request.send_now,
            )

    def _restore_revision(self, row: KeyRow, newest_row: KeyRow) -> None:
        if row.revision_seq == newest_row.revision_seq:
            self.notify("this is the newest revision", severity="warning", timeout=2)
            return
        change = ChangeKey(
            0, "put_key", self.bucket, self.key, of_revision_seq=row.revision_seq,
            if_revision_seq=newest_row.revision_seq, if_stored_at_us=newest_row.created_at_us,
            created_at_us=self._created_at_us,
        )  # fmt: skip
        effect = "the value is put again" if row.operation == "PUT" else "the key is deleted again"
        start_change(
            self,
            change,
            f"as at revision {row.revision_seq}: {effect}",
            self._page_request.send_now,
        )
