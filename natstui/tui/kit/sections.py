"""Sections of lines with label and value: the text of detail and server screens."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence

from msgspec import Struct
from textual.content import Content
from textual.widgets import Static

from natstui.clean import clean_line
from natstui.model.live.snapshot import Peer
from natstui.model.servers.replicas import replica_state, replica_text
from natstui.tui.kit.styles import STYLES, style_of
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.text import safe
from natstui.units import duration_text


class Line(Struct, frozen=True):
    """A label and its value; `style_name` is that of the value."""

    label: str
    text: str
    style_name: str = ""
    parts: tuple[tuple[int, int, str], ...] = ()
    """Parts of the text with another style: start, end, name of the style."""


class Section(Struct, frozen=True):
    """A title over lines."""

    title: str
    lines: tuple[Line, ...]


def line(label: str, text: str, style_name: str = "") -> Line:
    """Return a line; control characters in its text are replaced."""
    return Line(label, clean_line(text), style_name)


def cell_line(label: str, cell: Cell) -> Line:
    """Return a line with the content of a table cell."""
    return Line(label, cell.text, cell.style_name)


def list_configured_values(config_json: str) -> tuple[Line, ...]:
    """Return a line for each configured value of a stream or consumer, named as by the server."""
    try:
        config = json.loads(config_json)
    except (ValueError, RecursionError):
        # No server sends this text, but a recording may contain any text.
        return (line("", config_json, "bad"),)
    return tuple(_list_value_lines("", config)) if isinstance(config, Mapping) else ()


def _list_value_lines(prefix: str, values: Mapping[str, object]) -> Iterable[Line]:
    for name, value in values.items():
        label = f"{prefix}{name}"
        if isinstance(value, Mapping) and value:
            yield from _list_value_lines(f"{label}.", value)
        else:
            yield line(clean_line(label), value_text(name, value))


_NANOSECOND_FIELDS = (
    "max_age",
    "duplicate_window",
    "ack_wait",
    "inactive_threshold",
    "idle_heartbeat",
    "max_expires",
    "priority_timeout",
    "subject_delete_marker_ttl",
)


def value_text(name: str, value: object) -> str:
    """Return a configured value as readable text: durations with units, -1 as `unlimited`."""
    if value == -1:
        return "unlimited"
    if name in _NANOSECOND_FIELDS and isinstance(value, int):
        return duration_text(value / 1e9) if value else "none"
    if name == "backoff" and isinstance(value, list):
        return ", ".join(duration_text(step / 1e9) for step in value if isinstance(step, int))
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def stale_section(age_s: float | None) -> Section:
    """Return a section with the age of stale data; without lines if `age_s` is None."""
    if age_s is None:
        return Section("STALE", ())
    return Section("STALE", (line("last seen", f"{duration_text(age_s)} ago", "bad"),))


def cluster_section(leader: str | None, peers: tuple[Peer, ...]) -> Section:
    """Return a section with the leader and each replica, as the leader reports them."""
    lines = [line("leader", leader) if leader else line("leader", "none elected", "bad")]
    for peer in peers:
        style_name = "" if replica_state(peer) == "current" else "bad"
        text = replica_text(peer, peer.lag_msgs)
        lines.append(line(f"replica {clean_line(peer.name)}", text, style_name))
    return Section("CLUSTER", tuple(lines))


_MAX_LABEL_CELLS = 24
_MIN_TEXT_CELLS = 8
"""Minimum width of text beside a label or an indent; narrower text is drawn below the label."""


class SectionText(Static):
    """Shows sections with aligned labels; long values are wrapped beside them."""

    DEFAULT_CSS = "SectionText { width: 1fr; height: auto; padding: 0 1; }"

    def __init__(self, *, id: str | None = None, min_value_cells: int = 18) -> None:
        """Create without sections; `min_value_cells` is the minimum width of values beside long
        labels.
        """
        super().__init__(id=id, markup=False)
        self._min_value_cells = min_value_cells
        self._sections: Sequence[Section] = ()
        self._drawn_width = 0

    def show(self, sections: Sequence[Section]) -> None:
        """Show sections, unless equal sections are shown."""
        width = self.content_size.width
        if sections == self._sections and width == self._drawn_width:
            return
        self._sections, self._drawn_width = sections, width
        text = draw_sections(sections, width, self._min_value_cells)
        # A new layout of the screen is slower than drawing the text.
        has_same_height = width > 0 and text.get_height({}, width) == self.content_size.height
        self.update(text, layout=not has_same_height)

    def on_resize(self) -> None:
        """Wrap the values for the new width."""
        self.show(self._sections)


def draw_sections(sections: Sequence[Section], width: int, min_value_cells: int = 18) -> Content:
    """Return sections as text with lines of at most `width` cells.

    `min_value_cells` is the minimum width of values beside long labels.
    """
    labels = [line.label for section in sections for line in section.lines]
    label_width = min(
        _MAX_LABEL_CELLS, max(8, width - min_value_cells), max(map(len, labels), default=0)
    )
    rows: list[Content] = []
    for section in sections:
        if section.title:
            rows.append(Content.styled(section.title, STYLES["title"]))
        for line in section.lines:
            rows += _wrap_line(line, label_width, max(width, label_width + 10))
        rows.append(Content())
    return Content("\n").join(rows[:-1])


_INDENT_AND_SIGN = re.compile(r" *([^\w\s] )?")
"""The start of a line without a label: an indent, and a sign such as `✖` or `→`."""


def _wrap_with_indent(value: Content, width: int) -> list[Content]:
    """Return the lines of a text without a label, aligned with its first word."""
    match = _INDENT_AND_SIGN.match(value.plain)
    indent_cells = match.end() if match else 0
    if not indent_cells or width - indent_cells < _MIN_TEXT_CELLS:
        return list(value.wrap(width)) or [Content()]
    parts = list(value[indent_cells:].wrap(width - indent_cells)) or [Content()]
    return [
        Content.assemble(value[:indent_cells] if index == 0 else " " * indent_cells, part)
        for index, part in enumerate(parts)
    ]


def _wrap_line(line: Line, label_width: int, width: int) -> list[Content]:
    """Return a line's label, with the value wrapped beside or below it."""
    value = safe(line.text, line.style_name)
    for start, end, style_name in line.parts:
        value = value.stylize(style_of(style_name), start, end)
    if not line.label:
        return _wrap_with_indent(value, width)
    label = safe(line.label.ljust(label_width), "dim")
    available_cells = width - max(label_width, len(line.label)) - 2
    if available_cells < _MIN_TEXT_CELLS:
        return [label, *(Content("  ") + part for part in value.wrap(width - 2))]
    indent = Content(" " * label_width)
    parts = list(value.wrap(available_cells)) or [Content()]
    return [
        Content.assemble(label if index == 0 else indent, "  ", part)
        for index, part in enumerate(parts)
    ]
