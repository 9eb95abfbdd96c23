"""The x-axis that all charts of a session share: UTC, from its first poll to its last.

What is drawn is stretched to the width of the page, and all text around it is text of the page:
it keeps its size on a telephone and on paper.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from dataclasses import dataclass

from natstui.clean import clean_line
from natstui.units import moment_text

PLOT = 1000
"""Width of every drawing in its own units: a zoom shows a part of these."""
ZONE = "UTC"
STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
           86400, 172800, 604800)  # fmt: skip
"""Between two moments that are written below a chart; the script has them from the page."""
_MOST_TICKS = 7
_DAY_US = 86_400_000_000
_LAST_TICK = 0.96
"""Further right, what is written would stand out of the page."""
_ROUND = (1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10)
"""Tops of charts of which half is a short number too, up to a power of ten."""


def top_of(values: Iterable[float]) -> float:
    """Return the height of a chart: a round number that no value exceeds."""
    most = max(values)
    if most <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(most))
    # A hair above is no reason for more: it is how powers of ten are computed.
    return next(n * power for n in _ROUND if n * power >= most * (1 - 1e-9))


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
        """Return round moments below a chart; the script writes others when it is zoomed."""
        long_us = max(self.last_us - self.first_us, 1)
        fitting = (s for s in STEPS_S if long_us / (s * 1_000_000) < _MOST_TICKS)
        # A clock that was set by years makes a session long: a few ticks are enough all the same.
        days = -(-long_us // (_MOST_TICKS * _DAY_US))
        step_s = next(fitting, days * 86_400)
        step_us = step_s * 1_000_000
        to = 19 if step_s < 60 else 16
        # A day without its year is one of several, where a session goes on into another year.
        years = {moment_text(at_us)[:4] for at_us in (self.first_us, self.last_us)}
        day = 5 if len(years) == 1 else 0

        def written(at_us: int) -> str:
            """Return the time of a moment, at midnight the day that begins."""
            text = moment_text(at_us)
            return text[day:10] if at_us % _DAY_US == 0 else text[11:to]

        first = -(-self.first_us // step_us) * step_us
        drawn = "".join(
            f'<text x="{self.x(at_us) / PLOT:.2%}" y="1em">{written(at_us)}</text>'
            for at_us in range(first, self.first_us + round(long_us * _LAST_TICK), step_us)
        )
        return f'<div class="ticks"><svg>{drawn}</svg></div>'


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
