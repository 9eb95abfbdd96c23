"""One line of a form: a label and where its text is typed or chosen; parts that open and close."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events, on
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal, Vertical
from textual.content import Content
from textual.message import Message
from textual.widget import Widget
from textual.widgets import Input, Label

from natstui.model.assets.fields import Field
from natstui.model.assets.meaning import understood
from natstui.model.assets.text import UNLIMITED
from natstui.tui.kit.text import safe


class Choice(Widget, can_focus=True):
    """Shows every word on one line, the chosen one marked."""

    DEFAULT_CSS = """
    Choice { height: 1; width: 1fr; }
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
        parts: list[Content] = []
        for word in self._words:
            chosen = word == self.value
            parts.append(safe(f"[{word}]", "title") if chosen else safe(f" {word} "))
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


class FieldRow(Horizontal):
    """Shows one field; the screen listens to `Edited` and `Focused`."""

    DEFAULT_CSS = """
    FieldRow { height: 1; }
    FieldRow > Label { width: 24; padding: 0 1; color: $text-muted; }
    FieldRow > Input { width: 1fr; }
    FieldRow.-changed > Label { color: $text-accent; text-style: bold; }
    FieldRow.-wrong > Label { color: $text-error; text-style: bold; }
    FieldRow.-locked > Label { color: $text-disabled; }
    FieldRow > Label.why {
        width: auto; max-width: 50%; text-wrap: nowrap; text-overflow: ellipsis;
    }
    FieldRow > Label.means {
        width: auto; max-width: 40%; text-wrap: nowrap; text-overflow: ellipsis;
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
        self._standing = text if text == UNLIMITED else ""
        """What an empty line means: shown in its place, for typing must not go on behind it."""
        self._start = "" if self._standing else text
        self._empty = ""
        self.set_class(locked is not None, "-locked")

    def compose(self) -> ComposeResult:
        """Label, then a choice or an input, and why it cannot be changed."""
        yield Label(safe(self.field.label), markup=False)
        words = ("yes", "no") if self.field.kind == "switch" else self.field.choices
        if words and self._start and self._start not in words:
            # A newer server knows more words; this one can be kept or left.
            words = (*words, self._start)
        if words:
            default = self.field.default
            usual = "yes" if default is True else "no" if default is False else str(default or "")
            yield Choice(words, self._start or (usual if usual in words else words[-1]))
        else:
            empty = self._standing or self._empty
            yield Input(self._start, compact=True, select_on_focus=False, placeholder=empty)
            means = understood(self.field, self._start)
            yield Label(safe(means, "dim"), classes="means", markup=False)
        if self.locked is not None and not (self._start or self._standing):
            why = self.locked.removeprefix(f"{self.field.label} ")
            yield Label(safe(why), classes="why", markup=False)

    @property
    def text(self) -> str:
        """The present text."""
        return self._meant(self.editor.value)

    def _meant(self, typed: str) -> str:
        return typed or self._standing

    @property
    def editor(self) -> Input | Choice:
        """Where it is typed or chosen."""
        found = self.query(Choice)
        return found.first() if found else self.query_one(Input)

    def set_text(self, text: str) -> None:
        """Show another text as if it had been typed."""
        if not self.children:
            self._standing = text if text == UNLIMITED else ""
            self._start = "" if self._standing else text
            return
        editor = self.editor
        if isinstance(editor, Choice):
            editor.value = text
            editor.refresh()
            return
        self._standing = text if text == UNLIMITED else ""
        editor.value = "" if self._standing else text
        if self._standing:
            editor.placeholder = UNLIMITED

    def show_empty(self, text: str) -> None:
        """Show, dimmed, what the field stands for while it is empty."""
        self._empty = text
        for editor in self.query(Input):
            editor.placeholder = self._standing or text

    def mark(self, *, changed: bool, wrong: bool) -> None:
        """Colour the label."""
        self.set_class(changed, "-changed")
        self.set_class(wrong, "-wrong")

    @on(Input.Changed)
    def _typed(self, event: Input.Changed) -> None:
        event.stop()
        means = understood(self.field, event.value)
        # None while the form is made anew: then the row is on its way out.
        for label in self.query(".means").results(Label):
            label.update(safe(means, "dim"))
        self.post_message(self.Edited(self.field.path, self._meant(event.value)))

    @on(Choice.Chosen)
    def _chosen(self, event: Choice.Chosen) -> None:
        event.stop()
        self.post_message(self.Edited(self.field.path, event.value))

    def on_descendant_focus(self, _event: events.DescendantFocus) -> None:
        """Tell which field has the keys."""
        self.post_message(self.Focused(self.field.path))


class SectionTitle(Widget, can_focus=True):
    """The line above a section; enter or space opens and closes it."""

    DEFAULT_CSS = """
    SectionTitle { height: 1; color: $text-accent; text-style: bold; padding: 0 1; }
    SectionTitle:focus { background: $primary 25%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter,space", "open_close", "Open/close", id="form.section"),
        Binding("right", "open_close", "Open", show=False, id="form.section.open"),
    ]

    def __init__(self, title: str) -> None:
        super().__init__()
        self.title = title
        self.note = ""
        self.open = False

    def render(self) -> Content:
        """Return the title with its arrow."""
        return Content.assemble(
            f"{'▼' if self.open else '▶'} {self.title}", safe(self.note, "dim")
        )

    async def action_open_close(self) -> None:
        """Open or close the section."""
        assert isinstance(self.parent, FormSection)
        await self.parent.set_open(not self.open)


class FormSection(Vertical):
    """Title and rows, which are made when they are first seen: most sections stay closed."""

    DEFAULT_CSS = """
    FormSection { height: auto; }
    FormSection > Vertical { height: auto; }
    """

    def __init__(self, title: str, rows: Sequence[FieldRow], *, open_at_start: bool) -> None:
        super().__init__()
        self._title = SectionTitle(title)
        self.rows = list(rows)
        self._shown = Vertical(*self.rows)
        self._open_at_start = open_at_start

    def compose(self) -> ComposeResult:
        """Title, then rows if it begins open."""
        yield self._title
        if self._open_at_start:
            self._title.open = True
            yield self._shown

    async def set_open(self, is_open: bool) -> None:
        """Show or hide the rows; what is shown can take the keys at once."""
        self._title.open = is_open
        self._title.refresh()
        if is_open and not self._shown.is_attached:
            await self.mount(self._shown)
        # Not by a class: it would wait for styles.
        self._shown.display = is_open

    def tell(self, changed_count: int, wrong_count: int) -> None:
        """Say in the title what is changed and wrong below it."""
        parts = [f"{changed_count} set"] if changed_count else []
        parts += [f"{wrong_count} wrong"] if wrong_count else []
        self._title.note = f"  ({', '.join(parts)})" if parts else ""
        self._title.refresh()
