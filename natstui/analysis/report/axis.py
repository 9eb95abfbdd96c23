"""The x-axis that all charts of a session share: UTC, from its first poll to its last.

What is drawn is stretched to the width of the page, and all text around it is text of the page:
it keeps its size on a telephone and on paper.
"""

from __future__ import annotations

import html
from dataclasses import dataclass

from natstui.clean import clean_line
from natstui.units import moment_text

PLOT = 1000
"""Width of every drawing in its own units: a zoom shows a part of these."""
ZONE = "UTC"
_TICKS = 5


@dataclass(frozen=True, slots=True)
class Axis:
    """The moments at both ends."""

    first_us: int
    last_us: int

    def x(self, at_us: float) -> float:
        """Return where a moment is in a drawing; moments outside are at its ends."""
        share = (at_us - self.first_us) / max(self.last_us - self.first_us, 1)
        return min(max(share, 0.0), 1.0) * PLOT

    def ticks(self) -> str:
        """Return the moments below a chart; the script writes others when it is zoomed."""
        step_us = (self.last_us - self.first_us) / (_TICKS - 1)
        moments = [moment_text(self.first_us + n * step_us)[11:] for n in range(_TICKS)]
        return f'<div class="ticks">{"".join(f"<span>{one}</span>" for one in moments)}</div>'


def text(words: str) -> str:
    """Return words as they may stand in the page: escaped, one line, harmless."""
    return html.escape(clean_line(words), quote=True)


def plot(kind: str, height: int, inside: list[str]) -> str:
    """Return a drawing, `PLOT` wide and `height` high in its own units."""
    return (
        f'<div class="field"><svg class="plot {kind}" viewBox="0 0 {PLOT} {height}" '
        f'preserveAspectRatio="none">{"".join(inside)}</svg></div>'
    )


def chart_of(kind: str, title: str, description: str, inside: str, top: float = 1.0) -> str:
    """Return a chart over time; it takes keys, and readers are told what it shows."""
    told = f"{title}. {description}" if description else title
    return (
        f'<div class="chart {kind}" role="img" tabindex="0" data-top="{top:g}" '
        f'aria-label="{text(told)}">{inside}<i class="cross"></i></div>'
    )
