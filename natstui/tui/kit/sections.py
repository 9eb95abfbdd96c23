"""Text in sections of label and value: the content of detail and server screens."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from textual.content import Content
from textual.widgets import Static

from natstui.clean import clean_line
from natstui.model.live.snapshot import Peer
from natstui.model.servers.replicas import replica_text, state_of
from natstui.tui.kit.looks import STYLES, style_of
from natstui.tui.kit.table.rows import Cell
from natstui.tui.kit.text import safe
from natstui.units import duration_text


@dataclass(frozen=True, slots=True)
class Line:
    """One label and its value; `look` as in table cells."""

    label: str
    text: str
    look: str = ""
    parts: tuple[tuple[int, int, str], ...] = ()
    """Parts of the text with a look of their own: start, end, look."""


@dataclass(frozen=True, slots=True)
class Section:
    """A title over lines."""

    title: str
    lines: tuple[Line, ...]


def line(label: str, text: str, look: str = "") -> Line:
    """Return a line whose text is harmless."""
    return Line(label, clean_line(text), look)


def cell_line(label: str, cell: Cell) -> Line:
    """Return a line with the content of a table cell."""
    return Line(label, cell.text, cell.look)


def every_value(config_json: str) -> tuple[Line, ...]:
    """Return every configured value of a stream or consumer, with the server's names."""
    try:
        config = json.loads(config_json)
    except (ValueError, RecursionError):
        # Not what a server writes; recordings come from anywhere.
        return (line("", config_json, "bad"),)
    return tuple(_values("", config)) if isinstance(config, Mapping) else ()


def _values(prefix: str, values: Mapping[str, object]) -> Iterable[Line]:
    for name, value in values.items():
        label = f"{prefix}{name}"
        if isinstance(value, Mapping) and value:
            yield from _values(f"{label}.", value)
        else:
            yield line(clean_line(label), value_text(name, value))


_NANOSECONDS = (
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
    """Return one configured value for people: durations formatted, -1 as unlimited."""
    if value == -1:
        return "unlimited"
    if name in _NANOSECONDS and isinstance(value, int):
        return duration_text(value / 1e9) if value else "none"
    if name == "backoff" and isinstance(value, list):
        return ", ".join(duration_text(step / 1e9) for step in value if isinstance(step, int))
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return ", ".join(value)
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def stale_section(age_s: float | None) -> Section:
    """Return the age of stale data; empty while it is not stale."""
    if age_s is None:
        return Section("STALE", ())
    return Section("STALE", (line("last seen", f"{duration_text(age_s)} ago", "bad"),))


def cluster_section(leader: str | None, peers: tuple[Peer, ...]) -> Section:
    """Return the leader and each replica, as the leader reports them."""
    lines = [line("leader", leader) if leader else line("leader", "none elected", "bad")]
    for peer in peers:
        look = "" if state_of(peer) == "current" else "bad"
        text = replica_text(peer, peer.lag_msgs)
        lines.append(line(f"replica {clean_line(peer.name)}", text, look))
    return Section("CLUSTER", tuple(lines))


_LABELS_AT_MOST = 24
_ROOM_AT_LEAST = 8
"""Minimum cells of text beside a label or an indent; with fewer it is placed below."""


class SectionText(Static):
    """Shows sections; labels are aligned, long values are wrapped beside them."""

    DEFAULT_CSS = "SectionText { width: 1fr; height: auto; padding: 0 1; }"

    def __init__(self, *, id: str | None = None, value_cells: int = 18) -> None:
        """Create empty; `value_cells` is the minimum width of values beside long labels."""
        super().__init__(id=id, markup=False)
        self._value_cells = value_cells
        self._sections: Sequence[Section] = ()
        self._drawn_width = 0

    def show(self, sections: Sequence[Section]) -> None:
        """Show sections, unless they are already shown."""
        width = self.content_size.width
        if sections == self._sections and width == self._drawn_width:
            return
        self._sections, self._drawn_width = sections, width
        text = drawn(sections, width, self._value_cells)
        # To lay out the screen anew costs more than to draw the text.
        is_as_high = width > 0 and text.get_height({}, width) == self.content_size.height
        self.update(text, layout=not is_as_high)

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
        if section.title:
            rows.append(Content.styled(section.title, STYLES["title"]))
        for line in section.lines:
            rows += _wrapped(line, label_width, max(width, label_width + 10))
        rows.append(Content())
    return Content("\n").join(rows[:-1])


_BEFORE_WORDS = re.compile(r" *([^\w\s] )?")
"""The start of a line without a label: an indent, and a sign as `✖` or `→`."""


def _hanging(value: Content, width: int) -> list[Content]:
    """Return text without a label; wrapped lines are aligned with the first word."""
    match = _BEFORE_WORDS.match(value.plain)
    before = match.end() if match else 0
    if not before or width - before < _ROOM_AT_LEAST:
        return list(value.wrap(width)) or [Content()]
    parts = list(value[before:].wrap(width - before)) or [Content()]
    return [
        Content.assemble(value[:before] if index == 0 else " " * before, part)
        for index, part in enumerate(parts)
    ]


def _wrapped(line: Line, label_width: int, width: int) -> list[Content]:
    """Return one line: its label, then its value wrapped beside it."""
    value = safe(line.text, line.look)
    for start, end, look in line.parts:
        value = value.stylize(style_of(look), start, end)
    if not line.label:
        return _hanging(value, width)
    label = safe(line.label.ljust(label_width), "dim")
    room = width - max(label_width, len(line.label)) - 2
    if room < _ROOM_AT_LEAST:
        return [label, *(Content("  ") + part for part in value.wrap(width - 2))]
    indent = Content(" " * label_width)
    parts = list(value.wrap(room)) or [Content()]
    return [
        Content.assemble(label if index == 0 else indent, "  ", part)
        for index, part in enumerate(parts)
    ]
