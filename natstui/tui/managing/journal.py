"""What was changed on this server from here, and how to undo it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual import getters, on
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.widget import Widget
from textual.widgets import OptionList, Static
from textual.widgets.option_list import Option

from natstui.decoding import decoder_of
from natstui.model.records.journal import entry_command, entry_text, is_undoable, last_undoable
from natstui.model.records.managing import JournalEntry, Preview, PreviewUndo, ReadJournal, Undo
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import Asked, answer_to, next_command_id
from natstui.tui.kit.lists import KeyList
from natstui.tui.kit.prompt import Prompt
from natstui.tui.kit.text import safe
from natstui.units import local_text

_decoder = decoder_of(list[JournalEntry])
_preview = decoder_of(Preview)


class JournalScreen(LiveScreen):
    """Newest first; a key undoes the change under the cursor."""

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
    list = getters.query_one(OptionList)

    def __init__(self, undo_last: bool = False) -> None:
        super().__init__()
        self.entries: list[JournalEntry] = []
        self._undo_last = undo_last
        self._asked_id = self._undo_id = self._preview_id = -1
        self._undoing = ""

    def body(self) -> Iterable[Widget]:
        """Caption, the entries, and the command of the one under the cursor."""
        yield Static(id="caption", markup=False)
        yield KeyList()
        yield Static(id="hint", markup=False)

    def on_mount(self) -> None:
        """Ask for the entries."""
        self.caption.update(safe("Journal  ·  reading the journal …"))
        self.list.focus()
        self.action_ask()

    def action_ask(self) -> None:
        """Read the journal again."""
        self._asked_id = next_command_id()
        self.app.post_message(Asked(ReadJournal(self._asked_id)))

    def refresh_state(self) -> None:
        """Take answers when they come."""
        if answer := answer_to(self.state, self._asked_id):
            self._asked_id = -1
            self.entries = _decoder.decode(answer.body_json or "[]")
            self._draw(answer.text)
        if answer := answer_to(self.state, self._preview_id):
            self._preview_id = -1
            if answer.body_json is None:
                self.app.notify(answer.text, severity="error", markup=False)
            else:
                self._confirm(_preview.decode(answer.body_json))
        if answer := answer_to(self.state, self._undo_id):
            self._undo_id = -1
            done = answer.status == "done"
            self.app.notify(answer.text, severity="information" if done else "error", markup=False)
            self.action_ask()

    def _draw(self, text: str) -> None:
        self.caption.update(safe(f"Journal  ·  {text}"))
        at = self.list.highlighted
        self.list.clear_options()
        self.list.add_options([Option(_line(entry)) for entry in self.entries])
        last = last_undoable(self.entries[::-1])
        if self._undo_last and last is not None:
            self._undo_last = False
            self.list.highlighted = self.entries.index(last)
            self.action_undo()
        elif self.entries:
            self.list.highlighted = min(at or 0, len(self.entries) - 1)

    @property
    def entry(self) -> JournalEntry | None:
        """The entry under the cursor."""
        at = self.list.highlighted
        return self.entries[at] if at is not None and at < len(self.entries) else None

    @on(OptionList.OptionHighlighted)
    def _explain(self) -> None:
        if self.entry is not None:
            self.hint.update(safe(entry_command(self.entry)))

    def action_undo(self) -> None:
        """Ask for the name, then take the change under the cursor back."""
        entry = self.entry
        if entry is None:
            return
        if not is_undoable(entry):
            self.notify("this change cannot be taken back", severity="warning")
            return
        self._undoing = entry.entry
        self._preview_id = next_command_id()
        self.app.post_message(Asked(PreviewUndo(self._preview_id, entry.entry)))

    def _confirm(self, preview: Preview) -> None:
        """Say what taking the entry back does and removes, and ask for the name."""
        entry, previewed_msgs = self._undoing, preview.most_msgs

        def send(typed: str | None) -> None:
            if typed is not None:
                self._undo_id = next_command_id()
                self.app.post_message(Asked(Undo(self._undo_id, entry, typed, previewed_msgs)))

        question = f"{preview.question[:1].upper()}{preview.question[1:]}"
        text = f"{question}. Type {preview.name} to do it"
        self.app.push_screen(Prompt(text, word=preview.name), send)

    def action_copy(self) -> None:
        """Copy the entry as a nats command."""
        if self.entry is not None:
            self.app.copy_to_clipboard(entry_command(self.entry))
            self.notify("copied the nats command", timeout=2)


def _line(entry: JournalEntry) -> Content:
    look = {"done": "ok", "failed": "error", "unknown": "warn"}
    undone = f" (takes {entry.undoes} back)" if entry.undoes else ""
    return Content("  ").join(
        [
            safe(local_text(entry.at_us, "%m-%d %H:%M:%S"), "dim"),
            safe(entry.outcome.ljust(7), look[entry.outcome]),
            safe(entry_text(entry) + undone),
            safe(entry.reason or "", "error"),
            safe(entry.who, "dim"),
        ]
    )
