"""One line of a form: a label, and where its text is typed or chosen."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Input, Label

from natstui.model.config_field import Field
from natstui.tui.text import safe
from natstui.tui.widgets.choice import Choice


class FieldRow(Horizontal):
    """Shows one field; the screen listens to `Edited` and `Focused`."""

    DEFAULT_CSS = """
    FieldRow { height: 1; }
    FieldRow > Label { width: 23; padding: 0 1; color: $text-muted; }
    FieldRow > Input { width: 1fr; }
    FieldRow.-changed > Label { color: $text-accent; text-style: bold; }
    FieldRow.-wrong > Label { color: $text-error; text-style: bold; }
    FieldRow.-locked > Label { color: $text-disabled; }
    FieldRow > Label.why {
        width: auto; max-width: 50%; text-wrap: nowrap; text-overflow: ellipsis;
    }
    """
    ALLOW_SELECT: ClassVar[bool] = False

    @dataclass
    class Edited(Message):
        """The text of a field changed."""

        path: str
        text: str

    @dataclass
    class Focused(Message):
        """The keys now belong to a field."""

        path: str

    def __init__(self, field: Field, text: str, locked: str | None = None) -> None:
        super().__init__(disabled=locked is not None)
        self.field = field
        self.locked = locked
        self._start = text
        self.set_class(locked is not None, "-locked")

    def compose(self) -> ComposeResult:
        """Label, then a choice or an input, and why it cannot be changed."""
        yield Label(safe(self.field.label), markup=False)
        words = ("yes", "no") if self.field.kind == "switch" else self.field.choices
        if words:
            default = self.field.default
            usual = "yes" if default is True else "no" if default is False else str(default or "")
            yield Choice(words, self._start or (usual if usual in words else words[-1]))
        else:
            placeholder = "unlimited" if self.field.default in (-1, 0) else ""
            yield Input(self._start, compact=True, select_on_focus=False, placeholder=placeholder)
        if self.locked is not None and not self._start:
            why = self.locked.removeprefix(f"{self.field.label} ")
            yield Label(safe(why), classes="why", markup=False)

    @property
    def text(self) -> str:
        """The present text."""
        editor = self.editor
        return editor.value

    @property
    def editor(self) -> Input | Choice:
        """Where it is typed or chosen."""
        found = self.query(Choice)
        return found.first() if found else self.query_one(Input)

    def set_text(self, text: str) -> None:
        """Show another text as if it had been typed."""
        editor = self.editor
        editor.value = text
        if isinstance(editor, Choice):
            editor.refresh()

    def mark(self, *, changed: bool, wrong: bool) -> None:
        """Colour the label."""
        self.set_class(changed, "-changed")
        self.set_class(wrong, "-wrong")

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        self.post_message(self.Edited(self.field.path, event.value))

    @on(Choice.Chosen)
    def _chosen(self, event: Choice.Chosen) -> None:
        event.stop()
        self.post_message(self.Edited(self.field.path, event.value))

    def on_descendant_focus(self, _event: events.DescendantFocus) -> None:
        """Tell which field has the keys."""
        self.post_message(self.Focused(self.field.path))
