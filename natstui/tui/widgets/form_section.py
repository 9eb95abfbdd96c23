"""A part of a form that opens and closes, with its number of settings in the title."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.widget import Widget

from natstui.tui.widgets.field_row import FieldRow


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
        return Content.assemble(f"{'▼' if self.open else '▶'} {self.title}", (self.note, "dim"))

    def action_open_close(self) -> None:
        """Open or close the section."""
        assert isinstance(self.parent, FormSection)
        self.parent.set_open(not self.open)


class FormSection(Vertical):
    """Title and rows."""

    DEFAULT_CSS = """
    FormSection { height: auto; }
    FormSection > #rows { height: auto; display: none; }
    FormSection.-open > #rows { display: block; }
    """

    def __init__(self, title: str, rows: Sequence[FieldRow], *, open_at_start: bool) -> None:
        super().__init__()
        self._title = SectionTitle(title)
        self.rows = list(rows)
        self._open = open_at_start

    def compose(self) -> ComposeResult:
        """Title, then rows."""
        yield self._title
        yield Vertical(*self.rows, id="rows")

    def on_mount(self) -> None:
        """Open it if it shall be open."""
        self.set_open(self._open)

    def set_open(self, is_open: bool) -> None:
        """Show or hide the rows."""
        self._title.open = is_open
        self._title.refresh()
        self.set_class(is_open, "-open")

    def tell(self, changed_count: int, wrong_count: int) -> None:
        """Say in the title what is changed and wrong below it."""
        parts = [f"{changed_count} set"] if changed_count else []
        parts += [f"{wrong_count} wrong"] if wrong_count else []
        self._title.note = f"  ({', '.join(parts)})" if parts else ""
        self._title.refresh()
