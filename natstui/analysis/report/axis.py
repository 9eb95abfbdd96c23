"""The x-axis that all charts of a session share: UTC, from its first poll to its last.

Drawings are stretched to the width of the page, while all text around them is text of the page,
which keeps its size on a phone and on paper.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable
from dataclasses import dataclass

from natstui.clean import clean_line
from natstui.units import moment_text

PLOT = 1000
"""Width of every drawing in its own units; a zoom shows a part of it."""
ZONE = "UTC"
STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
           86400, 172800, 604800)  # fmt: skip
"""Possible distances of the times below a chart, which the page passes to its script."""
_MOST_TICKS = 7
_DAY_US = 86_400_000_000
_LAST_TICK = 0.96
"""Maximum position of a tick, as a share of the width: its text must not leave the page."""
_ROUND = (1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10)
"""Possible heights of charts, times a power of ten: half of each is a short number, too."""


def top_of(values: Iterable[float]) -> float:
    """Return the height of a chart: a round number that no value exceeds."""
    largest = max(values)
    if largest <= 0:
        return 1.0
    power = 10.0 ** math.floor(math.log10(largest))
    # A hair above is no reason for more: it is how powers of ten are computed.
    return next(n * power for n in _ROUND if n * power >= largest * (1 - 1e-9))


@dataclass(frozen=True, slots=True)
class Axis:
    """The times at both ends of the x-axis."""

    first_us: int
    last_us: int

    def x(self, at_us: float) -> float:
        """Return the x position of a time; times outside the axis are at its ends."""
        share = (at_us - self.first_us) / max(self.last_us - self.first_us, 1)
        return min(max(share, 0.0), 1.0) * PLOT

    def ticks(self) -> str:
        """Return the HTML of round times below a chart; the script replaces them after a zoom."""
        long_us = max(self.last_us - self.first_us, 1)
        fitting_steps_s = (s for s in STEPS_S if long_us / (s * 1_000_000) < _MOST_TICKS)
        # A clock that was set by years makes a session long: a few ticks are enough all the same.
        days = -(-long_us // (_MOST_TICKS * _DAY_US))
        step_s = next(fitting_steps_s, days * 86_400)
        step_us = step_s * 1_000_000
        text_end = 19 if step_s < 60 else 16
        # A day without its year is one of several, where a session goes on into another year.
        years = {moment_text(at_us)[:4] for at_us in (self.first_us, self.last_us)}
        day = 5 if len(years) == 1 else 0

        def tick_text(at_us: int) -> str:
            """Return the text of a tick: its time, or at midnight its day."""
            text = moment_text(at_us)
            return text[day:10] if at_us % _DAY_US == 0 else text[11:text_end]

        first = -(-self.first_us // step_us) * step_us
        ticks_html = "".join(
            f'<text x="{self.x(at_us) / PLOT:.2%}" y="1em">{tick_text(at_us)}</text>'
            for at_us in range(first, self.first_us + round(long_us * _LAST_TICK), step_us)
        )
        return f'<div class="ticks"><svg>{ticks_html}</svg></div>'


def text(raw_text: str) -> str:
    """Return a text escaped for the page, on one line without control characters."""
    return html.escape(clean_line(raw_text), quote=True)


def plot(kind: str, height: int, elements: list[str]) -> str:
    """Return the HTML of a drawing, `PLOT` wide and `height` high in its own units."""
    return (
        f'<div class="field"><svg class="plot {kind}" viewBox="0 0 {PLOT} {height}" '
        f'preserveAspectRatio="none">{"".join(elements)}</svg></div>'
    )


def chart_of(kind: str, title: str, description: str, inside: str, top: float = 1.0) -> str:
    """Return the HTML of a chart over time that handles keys, with a text for screen readers."""
    label = f"{title}. {description}" if description else title
    return (
        f'<div class="chart {kind}" role="img" tabindex="0" data-top="{top:g}" '
        f'aria-label="{text(label)}">{inside}<i class="cross"></i></div>'
    )
