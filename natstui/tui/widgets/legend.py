"""The title of a chart, and which line is which: by marker, word and newest value. Pure."""

from __future__ import annotations

from rich.cells import cell_len

from natstui.clean import clean_line
from natstui.tui.widgets.plot_frame import AXES_ROLE, MARKERS, ChartData
from natstui.tui.widgets.ticks import value_text

Runs = list[tuple[str, int]]
"""Texts of one line, each with its palette number; 0 is the ground."""


def title_text(data: ChartData | None) -> str:
    """Return the title with its unit; nothing without data."""
    if data is None:
        return ""
    return clean_line(f"{data.title} ({data.unit})" if data.unit else data.title)


def legend_runs(data: ChartData | None, room: int) -> Runs:
    """Return each line's sample, label and newest value; no values where they do not fit."""
    if data is None:
        return []
    runs: Runs = []
    values: Runs = []
    for index, series in enumerate(data.series):
        newest = series.values[-1] if series.values else None
        role = index % len(MARKERS) + 1
        sample = f"  ⠤{MARKERS[role - 1] or '⠤'}⠤"
        label = " " + clean_line(series.label)
        value = "–" if newest is None else value_text(newest, data.unit)
        runs += [(sample, role), (label, AXES_ROLE)]
        values += [(sample, role), (label, AXES_ROLE), (" " + value, 0)]
    return values if cells_of(values) <= room else runs


def cells_of(runs: Runs) -> int:
    """Return the cells that texts take side by side."""
    return sum(cell_len(text) for text, _ in runs)
