"""The rows of a form: a label with an input or a choice, in sections that open and close."""

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
from natstui.model.assets.meaning import meaning_of
from natstui.model.assets.text import UNLIMITED
from natstui.tui.kit.text import safe


class Choice(Widget, can_focus=True):
    """A choice: all options on one line, with the chosen one marked."""

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
        """The user chose another option."""

        choice: Choice
        value: str

        @property
        def control(self) -> Choice:
            """Return the widget that posted the message."""
            return self.choice

    def __init__(self, options: Sequence[str], value: str) -> None:
        super().__init__()
        self._options = list(options)
        self.value = value

    def render(self) -> Content:
        """Return the options, the chosen one in brackets for terminals without colours."""
        parts: list[Content] = []
        for option in self._options:
            is_chosen = option == self.value
            parts.append(safe(f"[{option}]", "title") if is_chosen else safe(f" {option} "))
        return Content.assemble(*parts)

    def action_step(self, step: int) -> None:
        """Choose the option `step` positions after the current one."""
        index = self._options.index(self.value) if self.value in self._options else -1
        self._choose_option(self._options[(index + step) % len(self._options)])

    def on_key(self, event: events.Key) -> None:
        """Choose the next option with the typed first letter; the screen receives no letter."""
        if event.character is None or not event.is_printable or event.character == " ":
            return
        event.stop()
        event.prevent_default()
        index = self._options.index(self.value) if self.value in self._options else -1
        options_after = self._options[index + 1 :] + self._options[: index + 1]
        match = next(
            (option for option in options_after if option.startswith(event.character)), None
        )
        if match is not None:
            self._choose_option(match)

    def _choose_option(self, value: str) -> None:
        if value != self.value:
            self.value = value
            self.refresh()
            self.post_message(self.Chosen(self, value))


class FieldRow(Horizontal):
    """A form row with a field; the screen handles `Edited` and `Focused`."""

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
        """A field got the focus."""

        path: str

    def __init__(self, field: Field, text: str, locked_reason: str | None = None) -> None:
        super().__init__(disabled=locked_reason is not None)
        self.field = field
        self.locked_reason = locked_reason
        self._empty_value = text if text == UNLIMITED else ""
        """The value of an empty input, shown as a placeholder so that typing replaces it."""
        self._start_text = "" if self._empty_value else text
        self._empty_meaning = ""
        self.set_class(locked_reason is not None, "-locked")

    def compose(self) -> ComposeResult:
        """Yield the label, an input or choice, and the reason if it cannot be changed."""
        yield Label(safe(self.field.label), markup=False)
        options = ("yes", "no") if self.field.kind == "switch" else self.field.choices
        if options and self._start_text and self._start_text not in options:
            # A newer server knows more options: an unknown one can be kept or replaced.
            options = (*options, self._start_text)
        if options:
            default = self.field.default
            default_text = (
                "yes" if default is True else "no" if default is False else str(default or "")
            )
            yield Choice(
                options,
                self._start_text or (default_text if default_text in options else options[-1]),
            )
        else:
            empty = self._empty_value or self._empty_meaning
            yield Input(self._start_text, compact=True, select_on_focus=False, placeholder=empty)
            means = meaning_of(self.field, self._start_text)
            yield Label(safe(means, "dim"), classes="means", markup=False)
        if self.locked_reason is not None and not (self._start_text or self._empty_value):
            reason = self.locked_reason.removeprefix(f"{self.field.label} ")
            yield Label(safe(reason), classes="why", markup=False)

    @property
    def text(self) -> str:
        """Return the current text, also if it is shown as a placeholder."""
        return self.editor.value or self._empty_value

    @property
    def editor(self) -> Input | Choice:
        """Return the input or the choice."""
        choices = self.query(Choice)
        return choices.first() if choices else self.query_one(Input)

    def set_text(self, text: str) -> None:
        """Show another text, as if the user had typed it."""
        if not self.children:
            self._empty_value = text if text == UNLIMITED else ""
            self._start_text = "" if self._empty_value else text
            return
        editor = self.editor
        if isinstance(editor, Choice):
            editor.value = text
            editor.refresh()
            return
        self._empty_value = text if text == UNLIMITED else ""
        editor.value = "" if self._empty_value else text
        if self._empty_value:
            editor.placeholder = UNLIMITED

    def show_placeholder(self, text: str) -> None:
        """Show the meaning of an empty field as a placeholder."""
        self._empty_meaning = text
        for editor in self.query(Input):
            editor.placeholder = self._empty_value or text

    def mark(self, *, is_changed: bool, is_wrong: bool) -> None:
        """Colour the label of a changed or a wrong field."""
        self.set_class(is_changed, "-changed")
        self.set_class(is_wrong, "-wrong")

    @on(Input.Changed)
    def _post_edit(self, event: Input.Changed) -> None:
        event.stop()
        means = meaning_of(self.field, event.value)
        # No label while the form is created again: then the row is being removed.
        for label in self.query(".means").results(Label):
            label.update(safe(means, "dim"))
        self.post_message(self.Edited(self.field.path, event.value or self._empty_value))

    @on(Choice.Chosen)
    def _post_choice(self, event: Choice.Chosen) -> None:
        event.stop()
        self.post_message(self.Edited(self.field.path, event.value))

    def on_descendant_focus(self, _event: events.DescendantFocus) -> None:
        """Post that this field has the focus."""
        self.post_message(self.Focused(self.field.path))


class SectionTitle(Widget, can_focus=True):
    """The title line of a section; enter or space opens and closes it."""

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
    """A section of a form; its rows are created at the first opening: most stay closed."""

    DEFAULT_CSS = """
    FormSection { height: auto; }
    FormSection > Vertical { height: auto; }
    """

    def __init__(self, title: str, rows: Sequence[FieldRow], *, open_at_start: bool) -> None:
        super().__init__()
        self._title = SectionTitle(title)
        self.rows = list(rows)
        self._rows_container = Vertical(*self.rows)
        self._open_at_start = open_at_start

    def compose(self) -> ComposeResult:
        """Yield the title, then the rows if the section is open."""
        yield self._title
        if self._open_at_start:
            self._title.open = True
            yield self._rows_container

    async def set_open(self, is_open: bool) -> None:
        """Show or hide the rows; shown rows can get the focus at once."""
        self._title.open = is_open
        self._title.refresh()
        if is_open and not self._rows_container.is_attached:
            await self.mount(self._rows_container)
        # Not by a class: it would wait for styles.
        self._rows_container.display = is_open

    def show_counts(self, changed_count: int, wrong_count: int) -> None:
        """Show in the title the numbers of changed and of wrong rows."""
        parts = [f"{changed_count} set"] if changed_count else []
        parts += [f"{wrong_count} wrong"] if wrong_count else []
        self._title.note = f"  ({', '.join(parts)})" if parts else ""
        self._title.refresh()
