"""One of a few words, chosen with the arrows, space, or its first letter."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.content import Content
from textual.message import Message
from textual.widget import Widget


class Choice(Widget, can_focus=True):
    """Shows every word on one line, the chosen one marked."""

    DEFAULT_CSS = """
    Choice { height: 1; width: 1fr; padding: 0 1; }
    Choice:focus { background: $primary 25%; }
    Choice:disabled { color: $text-disabled; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("left", "step(-1)", "Previous", show=False, id="choice.previous"),
        Binding("right,space", "step(1)", "Next", show=False, id="choice.next"),
    ]

    @dataclass
    class Chosen(Message):
        """The user chose another word."""

        choice: Choice
        value: str

        @property
        def control(self) -> Choice:
            """The widget it comes from."""
            return self.choice

    def __init__(self, words: Sequence[str], value: str) -> None:
        super().__init__()
        self._words = list(words)
        self.value = value

    def render(self) -> Content:
        """Return the words, the chosen one in brackets for terminals without colours."""
        parts: list[Content | tuple[str, str]] = []
        for word in self._words:
            chosen = word == self.value
            parts.append((f"[{word}]", "bold $text-accent") if chosen else (f" {word} ", ""))
        return Content.assemble(*parts)

    def action_step(self, step: int) -> None:
        """Choose the next word, or the one before."""
        at = self._words.index(self.value) if self.value in self._words else -1
        self._choose(self._words[(at + step) % len(self._words)])

    def on_key(self, event: events.Key) -> None:
        """Choose by first letter; no letter reaches the keys of the screen."""
        if event.character is None or not event.is_printable or event.character == " ":
            return
        event.stop()
        event.prevent_default()
        at = self._words.index(self.value) if self.value in self._words else -1
        turned = self._words[at + 1 :] + self._words[: at + 1]
        found = next((word for word in turned if word.startswith(event.character)), None)
        if found is not None:
            self._choose(found)

    def _choose(self, value: str) -> None:
        if value != self.value:
            self.value = value
            self.refresh()
            self.post_message(self.Chosen(self, value))
