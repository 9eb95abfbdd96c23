"""The title of a chart, and its legend: symbol, label and newest value of each series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import cell_len

from natstui.clean import clean_line
from natstui.tui.kit.chart.frame import (
    AXES_PALETTE_NUMBER,
    EVENT_MARK,
    EVENT_PALETTE_NUMBER,
    PALETTE_BACKGROUND_FACTOR,
    ChartData,
    area_shade_number,
    is_drawn,
)
from natstui.tui.kit.chart.ticks import value_text
from natstui.tui.kit.text import fit
from natstui.units import duration_text, local_text

_LEGEND_ENTRY_EXTRA_CELLS = 6
"""Cells of a legend entry besides its label: two spaces, the symbol, a space."""


class Run(NamedTuple):
    """A text of a chart's line, with its palette number; 0 is the background."""

    text: str
    palette_number: int


Runs = list[Run]
"""The texts of one line, from the left."""


def chart_title(data: ChartData | None, crosshair_at_s: float | None = None) -> str:
    """Return the title with unit, scale, and the moment of the cross-hair if given, in seconds
    from the right edge; empty without data.
    """
    if data is None:
        return ""
    details: list[str] = [data.unit] if data.unit else []
    details += ["log scale"] if data.is_logarithmic else []
    title = clean_line(f"{data.title} ({', '.join(details)})" if details else data.title)
    return (
        title if crosshair_at_s is None else f"{title}  at {_moment_label(data, crosshair_at_s)}"
    )


def _moment_label(data: ChartData, at_s: float) -> str:
    """Return the label of a moment on the axis: clock time or age."""
    if data.ends_at_unix_s is not None:
        return local_text(round((data.ends_at_unix_s + at_s) * 1e6))
    return f"-{duration_text(-at_s)}" if at_s else "now"


def legend_runs(
    data: ChartData | None, max_cells: int, values: Sequence[float | None] | None = None
) -> Runs:
    """Return the legend within `max_cells`: symbol, label and value of each series; if they do
    not fit, shortened labels without values.

    Without `values` the overall values are shown with their label, else the newest values.
    """
    if data is None:
        return []
    labels = [clean_line(series.label) for series in data.series]
    overall_label = ""
    if values is None and data.overall:
        values, overall_label = data.overall, data.overall_label
    elif values is None:
        values = [series.values[-1] if series.values else None for series in data.series]
    texts = [" –" if value is None else " " + value_text(value, data.unit) for value in values]
    symbols = _series_symbols(data)
    label_runs = [Run(f" {overall_label}", AXES_PALETTE_NUMBER)] if overall_label else []
    all_runs = [*_events_runs(data), *label_runs, *_join_entries(symbols, labels, texts)]
    if width_of_runs(all_runs) <= max_cells:
        return all_runs
    share = max(1, max_cells // max(1, len(labels)) - _LEGEND_ENTRY_EXTRA_CELLS)
    short_labels = [fit(label, share) if cell_len(label) > share else label for label in labels]
    return _join_entries(symbols, short_labels, [""] * len(labels))


def _events_runs(data: ChartData) -> Runs:
    """Return the legend of the event marks; empty if the window has no event."""
    if not any(-data.window_s <= at_s <= 0 for at_s in data.events_at_s):
        return []
    return [
        Run(f"  {EVENT_MARK}", EVENT_PALETTE_NUMBER),
        Run(f" {clean_line(data.events_label)}", AXES_PALETTE_NUMBER),
    ]


def _series_symbols(data: ChartData) -> Runs:
    """Return the legend's symbol of each series: an area, a line, or blanks for one not drawn."""
    symbols: Runs = []
    areas = 1 if data.fill == "below" else 2
    for index, series in enumerate(data.series):
        palette_number = data.palette_number(index)
        if not is_drawn(series):
            symbols.append(Run("   ", palette_number))
        elif areas:
            areas -= 1
            symbols.append(
                Run(
                    "▁▁▁" if data.fill == "band" and index else "▂▂▂",
                    palette_number
                    + PALETTE_BACKGROUND_FACTOR
                    * area_shade_number(palette_number, _SYMBOL_SHADE_INDEX),
                )
            )
        else:
            symbols.append(Run("⠤⠤⠤", palette_number))
    return symbols


_SYMBOL_SHADE_INDEX = 2


def _join_entries(symbols: Sequence[Run], labels: Sequence[str], values: Sequence[str]) -> Runs:
    """Return the legend's entries, one per series: symbol, label and value."""
    runs: Runs = []
    for symbol, label, value in zip(symbols, labels, values, strict=True):
        runs += [Run("  ", 0), symbol, Run(f" {label}", AXES_PALETTE_NUMBER), Run(value, 0)]
    return runs


def width_of_runs(runs: Runs) -> int:
    """Return the width of texts side by side, in cells."""
    return sum(cell_len(text) for text, _ in runs)
