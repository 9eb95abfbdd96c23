"""Renaming, noting, packing and deleting the recording under the cursor."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

from textual.binding import Binding, BindingType

from natstui.clean import clean_line
from natstui.model.live.state import State
from natstui.model.records.recording import ChangeSession, SessionAction, SessionSummary
from natstui.tui.frame.live import LiveScreen, Question, ask
from natstui.tui.frame.messages import Announced, answer_to, next_command_id
from natstui.tui.frame.screen_part import ScreenPart
from natstui.tui.kit.pick import Pick
from natstui.tui.kit.prompt import Prompt
from natstui.units import bytes_text

_TITLE = "recordings"

PACKS = {
    "as it is": "every name and text that was recorded",
    "redacted": "pseudonyms instead of names, and no text",
}
"""How a recording can be packed, by the word to pick."""


def title(it: SessionSummary) -> str:
    """Return what people call it: its name, else its folder."""
    return clean_line(it.name or it.id)


def word_to_type(it: SessionSummary) -> str:
    """Return what has to be typed before it is deleted: its name, if it has one."""
    typable = it.name.isascii() and it.name.isprintable() and it.name == it.name.strip()
    return it.name if it.name and typable else "delete"


def delete_text(it: SessionSummary) -> str:
    """Return the question before it is deleted."""
    what = f"{clean_line(it.id)} ({bytes_text(it.size_bytes)})"
    return f"Delete {what}? This cannot be undone. To do it, type {word_to_type(it)}"


def asked_text(action: SessionAction, it: SessionSummary) -> tuple[str, str]:
    """Return the question for an action, and what stands in its line at first."""
    if action == "rename":
        return f"New name of {title(it)}:", it.name
    if action == "note":
        return f"Note about the whole recording {title(it)}:", ""
    name = "redacted" if action == "pack redacted" else it.id
    return f"Pack {title(it)} into this new file:", f"~/{name}.natstui"


class RecordingChanges(ScreenPart):
    """Asks what a change needs, then lets the engine do it."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "part('changing', 'change', 'rename')", "Rename", id="sessions.rename"),
        Binding("n", "part('changing', 'change', 'note')", "Note", id="sessions.note"),
        Binding("w", "part('changing', 'pack')", "Pack", id="sessions.pack"),
        Binding("ctrl+d", "part('changing', 'delete')", "Delete", id="sessions.delete"),
    ]

    def __init__(self, screen: LiveScreen, chosen: Callable[[], SessionSummary | None]) -> None:
        """`chosen` returns the recording under the cursor, or says that there is none."""
        self._screen, self._chosen = screen, chosen
        self._asked_id = -1

    def has_answer(self, state: State) -> bool:
        """Tell, once, that the answer to a change has come: the list may be another."""
        if not answer_to(state, self._asked_id):
            return False
        self._asked_id = -1
        return True

    def action_change(self, action: SessionAction) -> None:
        """Ask for the text, then do it."""
        if it := self._chosen():
            question, text = asked_text(action, it)
            command = partial(self._command, action, it)
            ask(self._screen, Question(question, command, title=_TITLE, text=text))

    def action_pack(self) -> None:
        """Make one file of a recording, to send to somebody."""
        if it := self._chosen():

            def do(word: str | None) -> None:
                if word is not None:
                    self.action_change("pack redacted" if word == "redacted" else "pack")

            self._screen.app.push_screen(Pick(f"Pack {title(it)}", list(PACKS.items())), do)

    def action_delete(self) -> None:
        """Delete a recording, once its name is typed."""
        if it := self._chosen():
            prompt = Prompt(delete_text(it), word=word_to_type(it))

            def delete(word: str | None) -> None:
                if word is not None and (
                    command := self._command("delete", it, next_command_id(), word)
                ):
                    self._screen.app.post_message(Announced(command, _TITLE))

            self._screen.app.push_screen(prompt, delete)

    def _command(
        self, action: SessionAction, it: SessionSummary, number: int, text: str
    ) -> ChangeSession | None:
        if not text.strip():
            return None
        self._asked_id = number
        return ChangeSession(number, action, it.folder, text)
