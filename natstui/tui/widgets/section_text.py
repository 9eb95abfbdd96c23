"""Sections of label and value, drawn as text."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static

from natstui.tui.present.sections import Section
from natstui.tui.text import safe
from natstui.tui.widgets.status_strip import STYLES


class SectionText(Static):
    """Shows sections; labels line up within each."""

    DEFAULT_CSS = "SectionText { width: 1fr; height: auto; padding: 0 1; }"

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(id=id, markup=False)
        self._sections: Sequence[Section] = ()

    def show(self, sections: Sequence[Section]) -> None:
        """Show sections, unless they are shown already."""
        if sections == self._sections:
            return
        self._sections = sections
        self.update(Content("\n").join([_drawn(section) for section in sections]))


def _drawn(section: Section) -> Content:
    width = max((len(line.label) for line in section.lines), default=0)
    rows = [Content.styled(section.title, "bold $text-accent")]
    for line in section.lines:
        label = safe(line.label.ljust(width) + "  " if width else "", "$text-muted")
        rows.append(Content.assemble(label, safe(line.text, STYLES[line.look])))
    return Content("\n").join([*rows, Content()])
