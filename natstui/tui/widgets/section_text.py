"""Sections of label and value, drawn as text."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content
from textual.widgets import Static

from natstui.tui.present.sections import Line, Section
from natstui.tui.text import safe
from natstui.tui.widgets.status_strip import STYLES

_LABELS_AT_MOST = 24


class SectionText(Static):
    """Shows sections; labels line up, long values are wrapped beside them."""

    DEFAULT_CSS = "SectionText { width: 1fr; height: auto; padding: 0 1; }"

    def __init__(self, *, id: str | None = None, value_cells: int = 18) -> None:
        """`value_cells` is the room that values keep beside long labels."""
        super().__init__(id=id, markup=False)
        self._value_cells = value_cells
        self._sections: Sequence[Section] = ()
        self._drawn_width = 0

    def show(self, sections: Sequence[Section]) -> None:
        """Show sections, unless they are shown already."""
        width = self.content_size.width
        if sections == self._sections and width == self._drawn_width:
            return
        self._sections, self._drawn_width = sections, width
        self.update(drawn(sections, width, self._value_cells))

    def on_resize(self) -> None:
        """Wrap for the new width."""
        self.show(self._sections)


def drawn(sections: Sequence[Section], width: int, value_cells: int = 18) -> Content:
    """Return sections as text of at most `width` cells a line."""
    labels = [line.label for section in sections for line in section.lines]
    label_width = min(
        _LABELS_AT_MOST, max(8, width - value_cells), max(map(len, labels), default=0)
    )
    rows: list[Content] = []
    for section in sections:
        rows.append(Content.styled(section.title, "bold $text-accent"))
        for line in section.lines:
            rows += _wrapped(line, label_width, max(width, label_width + 10))
        rows.append(Content())
    return Content("\n").join(rows[:-1])


def _wrapped(line: Line, label_width: int, width: int) -> list[Content]:
    """Return one line: its label, then its value within the room beside it."""
    value = safe(line.text, STYLES[line.look])
    if not line.label:
        return list(value.wrap(width)) or [Content()]
    label = safe(line.label.ljust(label_width), "$text-muted")
    room = width - max(label_width, len(line.label)) - 2
    if room < 8:
        return [label, *(Content("  ") + part for part in value.wrap(width - 2))]
    indent = Content(" " * label_width)
    parts = list(value.wrap(room)) or [Content()]
    return [
        Content.assemble(label if at == 0 else indent, "  ", part) for at, part in enumerate(parts)
    ]
