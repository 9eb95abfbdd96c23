"""The x-axis that all charts of a session share: UTC, from its first poll to its last.

Drawings are stretched to the width of the page. The text around them is text of the page, so it
keeps its size on a phone and on paper.
"""

from __future__ import annotations

import html
import math
from collections.abc import Iterable

from msgspec import Struct

from natstui.clean import clean_line
from natstui.units import moment_text

PLOT_WIDTH = 1000
"""Width of every drawing in its own units; a zoom shows a part of it."""
TIME_ZONE = "UTC"
TICK_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
           86400, 172800, 604800)  # fmt: skip
"""Possible distances (s) of the times below a chart; the script of the page gets them too."""
_MAX_TICKS_COUNT = 7
_DAY_US = 86_400_000_000
_MAX_TICK_SHARE = 0.96
"""Maximum position of a tick, as a share of the width: its text must fit on the page."""
_ROUND_HEIGHTS = (1, 1.2, 1.6, 2, 2.4, 3, 4, 5, 6, 8, 10)
"""Possible heights of charts, times a power of ten; half of each is a short number, too."""


def round_up_height(values: Iterable[float]) -> float:
    """Return the top value of a chart: the smallest round number that no value exceeds."""
    largest_value = max(values)
    if largest_value <= 0:
        return 1.0
    power_of_ten = 10.0 ** math.floor(math.log10(largest_value))
    # Powers of ten are not computed exactly, so a value may exceed the top by 1e-9.
    return next(
        n * power_of_ten for n in _ROUND_HEIGHTS if n * power_of_ten >= largest_value * (1 - 1e-9)
    )


class Axis(Struct, frozen=True):
    """The times at both ends of the x-axis."""

    first_us: int
    last_us: int

    def x(self, at_us: float) -> float:
        """Return the x position of a time, 0 to `PLOT_WIDTH`; outside the axis that of an end."""
        share = (at_us - self.first_us) / max(self.last_us - self.first_us, 1)
        return min(max(share, 0.0), 1.0) * PLOT_WIDTH

    def ticks(self) -> str:
        """Return the HTML of the times below a chart; the script replaces them after a zoom."""
        duration_us = max(self.last_us - self.first_us, 1)
        fitting_steps_s = (
            tick_step_s
            for tick_step_s in TICK_STEPS_S
            if duration_us / (tick_step_s * 1_000_000) < _MAX_TICKS_COUNT
        )
        # A clock that was set by years makes a session long; the ticks are then days apart.
        days_per_tick = -(-duration_us // (_MAX_TICKS_COUNT * _DAY_US))
        step_s = next(fitting_steps_s, days_per_tick * 86_400)
        step_us = step_s * 1_000_000
        text_end_index = 19 if step_s < 60 else 16
        # Days have their year if the session continues in another year.
        years = {moment_text(at_us)[:4] for at_us in (self.first_us, self.last_us)}
        day_start_index = 5 if len(years) == 1 else 0

        def tick_text(at_us: int) -> str:
            """Return the text of a tick: its time, or at midnight its day."""
            time_text = moment_text(at_us)
            return (
                time_text[day_start_index:10]
                if at_us % _DAY_US == 0
                else time_text[11:text_end_index]
            )

        first_tick_us = -(-self.first_us // step_us) * step_us
        ticks_html = "".join(
            f'<text x="{self.x(at_us) / PLOT_WIDTH:.2%}" y="1em">{tick_text(at_us)}</text>'
            for at_us in range(
                first_tick_us, self.first_us + round(duration_us * _MAX_TICK_SHARE), step_us
            )
        )
        return f'<div class="ticks"><svg>{ticks_html}</svg></div>'


def escape_text(raw_text: str) -> str:
    """Return a text escaped for HTML, in one line, without control characters."""
    return html.escape(clean_line(raw_text), quote=True)


def render_plot(kind: str, height: int, elements: list[str]) -> str:
    """Return the HTML of a drawing, `PLOT_WIDTH` wide and `height` high in its own units.

    `kind` is its CSS class, `elements` are its content as SVG.
    """
    return (
        f'<div class="field"><svg class="plot {kind}" viewBox="0 0 {PLOT_WIDTH} {height}" '
        f'preserveAspectRatio="none">{"".join(elements)}</svg></div>'
    )


def chart_frame_html(
    kind: str, title: str, description: str, content_html: str, top: float = 1.0
) -> str:
    """Return the HTML around a chart over time, which can be focused, for keys and screen readers.

    `kind` is its CSS class, `top` the value at the top of the chart.
    """
    label = f"{title}. {description}" if description else title
    return (
        f'<div class="chart {kind}" role="img" tabindex="0" data-top="{top:g}" '
        f'aria-label="{escape_text(label)}">{content_html}<i class="cross"></i></div>'
    )
