"""Two lines at the top of every screen: the connection, then the account."""

from __future__ import annotations

from textual.content import Content
from textual.widgets import Static

from natstui.model.state import State
from natstui.tui.present.strip import account_parts, link_parts
from natstui.tui.text import safe
from natstui.tui.widgets.rows import Cell

STYLES = {
    "": "",
    "strong": "bold",
    "accent": "$text-accent",
    "ok": "$text-success",
    "warn": "$text-warning",
    "bad": "bold $text-error",
    "dim": "$text-muted",
    "stale": "italic $text-muted",
}


_SHORTEST = 12


def _style(look: str) -> str:
    """Return the style of a look; `on red` is readable text on that ground."""
    return f"auto {look}" if look.startswith("on ") else STYLES[look]


def joined(parts: list[Cell], width: int) -> Content:
    """Return parts side by side; what does not fit is left out from the right."""
    line, used = Content(), 0
    for part in parts:
        content = safe(part.text, _style(part.look))
        gap = 2 if used else 0
        room = width - used - gap
        if content.cell_length > room:
            if room >= _SHORTEST and not used:
                line = Content.assemble(line, " " * gap, content.truncate(room, ellipsis=True))
            break
        line = Content.assemble(line, " " * gap, content)
        used += gap + content.cell_length
    return line


class StatusStrip(Static):
    """Connection and server; account, API and the monitor's own cost."""

    DEFAULT_CSS = """
    StatusStrip { dock: top; height: 2; padding: 0 1; background: $panel; color: $foreground; }
    """

    def __init__(self) -> None:
        super().__init__(markup=False)
        self._state, self._late_us = State(), 0

    def show(self, state: State, late_us: int) -> None:
        """Show the strip of a state."""
        self._state, self._late_us = state, late_us
        self._draw()

    def on_resize(self) -> None:
        """Choose anew what fits."""
        self._draw()

    def _draw(self) -> None:
        width = max(10, self.size.width - 2)
        first = joined(link_parts(self._state, self._late_us), width)
        second = joined(account_parts(self._state), width)
        self.update(Content("\n").join([first, second]))
