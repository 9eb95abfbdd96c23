"""The journal screen: changes made on this server from this machine, and undo."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual import getters, on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.notifications import SeverityLevel
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from natstui.decoding import decoder_of
from natstui.model.records.journal import (
    entry_command,
    entry_text,
    find_last_undoable,
    is_undoable,
    not_undoable_text,
)
from natstui.model.records.managing import JournalEntry, ReadJournal, Undo
from natstui.tui.frame.confirmation import request_with_preview
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.requests import run_task
from natstui.tui.kit.lists import SingleChoiceList
from natstui.tui.kit.text import safe
from natstui.units import local_text

_decoder = decoder_of(list[JournalEntry])


class JournalScreen(LiveScreen):
    """The entries of the journal, newest first; a key undoes the change under the cursor."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("u", "undo", "Undo", id="journal.undo"),
        Binding("c", "copy", "Copy command", id="journal.copy"),
        Binding("ctrl+r,f5", "ask", "Refresh", show=False, id="journal.refresh"),
    ]
    DEFAULT_CSS = """
    JournalScreen OptionList {
        height: 1fr; padding: 0; border: none !important;
        text-wrap: nowrap; text-overflow: ellipsis;
    }
    JournalScreen #hint { height: 3; padding: 0 1; background: $surface; }
    """

    caption = getters.query_one("#caption", Static)
    hint = getters.query_one("#hint", Static)
    entry_list = getters.query_one(OptionList)

    def __init__(self, undo_last: bool = False) -> None:
        super().__init__()
        self.entries: list[JournalEntry] = []
        self._undo_last = undo_last

    def body(self) -> Iterable[Widget]:
        """Yield caption, entries, and the nats command of the entry under the cursor."""
        yield Static(id="caption", markup=False)
        yield SingleChoiceList()
        yield Static(id="hint", markup=False)

    def on_mount(self) -> None:
        """Request the entries of the journal."""
        self.caption.update(safe("Journal  ·  reading the journal …"))
        self.entry_list.focus()
        self.action_ask()

    def action_ask(self) -> None:
        """Request the entries of the journal, and show them."""
        run_task(self, self._read, replaces="read")

    async def _read(self) -> None:
        reply = await self.engine.request(ReadJournal(0))
        self.entries = _decoder.decode(reply.body_json or "[]")
        self._draw(reply.text)

    def _draw(self, text: str) -> None:
        self.caption.update(safe(f"Journal  ·  {text}"))
        position = self.entry_list.highlighted
        self.entry_list.clear_options()
        self.entry_list.add_options([Option(_entry_line(entry)) for entry in self.entries])
        last_undoable = find_last_undoable(self.entries[::-1])
        if self._undo_last and last_undoable is not None:
            self._undo_last = False
            self.entry_list.highlighted = self.entries.index(last_undoable)
            self.action_undo()
        elif self.entries:
            self.entry_list.highlighted = min(position or 0, len(self.entries) - 1)

    @property
    def entry(self) -> JournalEntry | None:
        """Return the entry under the cursor; None if the journal is empty."""
        position = self.entry_list.highlighted
        return (
            self.entries[position]
            if position is not None and position < len(self.entries)
            else None
        )

    @on(OptionList.OptionHighlighted)
    def _show_command(self) -> None:
        self.refresh_bindings()
        if self.entry is not None:
            self.hint.update(safe(entry_command(self.entry)))

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Return whether an action is offered: undo and copy only with an entry."""
        if action in ("undo", "copy"):
            return self.is_mounted and self.entry is not None
        return super().check_action(action, parameters)

    def action_undo(self) -> None:
        """Undo the change under the cursor, or show why it is final."""
        entry = self.entry
        if entry is None:
            return
        if not is_undoable(entry):
            self.notify(not_undoable_text(entry), severity="warning", markup=False)
            return
        run_task(self, self._undo, entry.entry, replaces="undo")

    async def _undo(self, entry_id: str) -> None:
        """Show the effect of an undo and what it deletes, prompt for the name, and execute it."""
        reply = await request_with_preview(self, Undo(0, entry_id))
        if reply is not None:
            severity: SeverityLevel = "information" if reply.status == "done" else "error"
            self.app.notify(reply.text, severity=severity, markup=False)
            self.action_ask()

    def action_copy(self) -> None:
        """Copy the nats command of the entry under the cursor."""
        if self.entry is not None:
            self.app.copy_to_clipboard(entry_command(self.entry))
            self.notify("copied the nats command", timeout=2)


def _entry_line(entry: JournalEntry) -> Content:
    style_by_outcome = {"done": "ok", "failed": "error", "unknown": "warn"}
    undo_note = f" (takes {entry.undoes} back)" if entry.undoes else ""
    return Content("  ").join(
        [
            safe(local_text(entry.at_us, "%m-%d %H:%M:%S"), "dim"),
            safe(entry.outcome.ljust(7), style_by_outcome[entry.outcome]),
            safe(entry_text(entry) + undo_note),
            safe(entry.reason or "", "error"),
            safe(entry.who, "dim"),
        ]
    )
