"""The two tables of what is listened to: what they show, and which of them has the room."""

from __future__ import annotations

from collections.abc import Iterable
from typing import ClassVar

from textual.binding import Binding, BindingType
from textual.screen import Screen
from textual.widget import Widget
from textual.widgets import Static

from natstui.clean import clean_line
from natstui.model.records.listening import Listened, SubjectsLook
from natstui.tui.frame.screen_part import ScreenPart
from natstui.tui.frame.table_screen import table_columns
from natstui.tui.frame.table_text import Rows
from natstui.tui.kit.table.big_table import BigTable, Sort
from natstui.tui.kit.text import safe, safe_copy
from natstui.tui.messages.listening.cells import (
    HEARD_COLUMNS,
    SUBJECT_COLUMNS,
    HeardView,
    SubjectView,
)
from natstui.tui.messages.listening.text import look_text, newest_text

_BOTH, _SUBJECTS, _MESSAGES = "-both", "-subjects", "-messages"
_PANES = (_BOTH, _SUBJECTS, _MESSAGES)


class HeldTable(BigTable):
    """A table whose rows come by themselves: space holds them, and marks nothing."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("space", "screen.hold", "Hold", id="sub.hold"),
    ]


class Panes(ScreenPart):
    """Draws the tables, and has the keys that are about both."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("m", "part('panes', 'next')", "Panes", id="sub.panes"),
        Binding("tab", "part('panes', 'other')", "Other table", id="sub.other"),
        Binding("c", "part('panes', 'copy')", "Copy", show=False, id="copy.name"),
    ]

    def __init__(self, screen: Screen[None]) -> None:
        self._screen = screen
        self.subjects = HeldTable(table_columns(SUBJECT_COLUMNS), id="subjects")
        self.heard = HeldTable(table_columns(HEARD_COLUMNS), id="heard")
        self._look = Static(id="look", classes="line", markup=False)
        self._newest = Static(id="newest", classes="line", markup=False)

    def widgets(self) -> Iterable[Widget]:
        """Return each table below the line about it."""
        return self._look, self.subjects, self._newest, self.heard

    def draw(self, listened: Listened | None, look: SubjectsLook, *, held: bool) -> None:
        """Show a picture; None: none has come yet."""
        if listened is not None:
            # What is shown may be older than what is wanted.
            look = listened.look
        rows = SubjectView(listened.rows if listened else (), as_tree=look.as_tree)
        heard = HeardView(listened.heard if listened else ())
        order = Sort(look.by, look.reverse)
        self.subjects.show(Rows(rows, SUBJECT_COLUMNS, rows.rows()), sort=order)
        self.heard.show(Rows(heard, HEARD_COLUMNS, heard.rows()))
        if listened is not None:
            self.say(look_text(listened, held=held), "warn" if held else "")
            self._newest.update(safe(newest_text(listened)))

    def say(self, text: str, look: str) -> None:
        """Show a line above the subjects."""
        self._look.update(safe(text, look))

    def explain(self, subjects: str, heard: str) -> None:
        """Say why a table has no rows, when it has none."""
        self.subjects.empty, self.heard.empty = subjects, heard

    def action_next(self) -> None:
        """Show both tables, only that of subjects, or only that of messages."""
        now = next((one for one in _PANES if self._screen.has_class(one)), _BOTH)
        after = _PANES[(_PANES.index(now) + 1) % len(_PANES)]
        self._screen.remove_class(*_PANES)
        self._screen.add_class(after)
        (self.heard if after == _MESSAGES else self.subjects).focus()

    def action_other(self) -> None:
        """Give the keys to the other table."""
        other = self.subjects if self.heard.has_focus else self.heard
        if other.display:
            other.focus()

    def action_copy(self) -> None:
        """Copy the subject under the cursor."""
        key = self.subjects.cursor_key
        if isinstance(key, tuple):
            name = safe_copy(str(key[2]))
            self._screen.app.copy_to_clipboard(name)
            self._screen.notify(f"copied {clean_line(name)}", markup=False, timeout=2)
