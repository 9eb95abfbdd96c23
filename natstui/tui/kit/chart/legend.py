"""The title of a chart, and its legend: sample, label and newest value of each line."""

from __future__ import annotations

from collections.abc import Sequence

from rich.cells import cell_len

from natstui.clean import clean_line
from natstui.tui.kit.chart.frame import (
    AXES_PALETTE_NUMBER,
    BACKGROUND_FACTOR,
    EVENT_MARK,
    EVENT_PALETTE_NUMBER,
    ChartData,
    is_drawn,
    shade_of,
)
from natstui.tui.kit.chart.ticks import value_text
from natstui.tui.kit.text import fit
from natstui.units import duration_text, local_text

_ENTRY_EXTRA_CELLS = 6
"""Cells of a legend entry besides its label: two spaces, the sample, a space."""

Runs = list[tuple[str, int]]
"""Texts of one line, each with its palette number; 0 is the background."""


def title_text(data: ChartData | None, cross_at_s: float | None = None) -> str:
    """Return the title with unit, scale, and the moment of the cross-hair if given; empty without
    data.
    """
    if data is None:
        return ""
    details: list[str] = [data.unit] if data.unit else []
    details += ["log scale"] if data.logarithmic else []
    title = clean_line(f"{data.title} ({', '.join(details)})" if details else data.title)
    return title if cross_at_s is None else f"{title}  at {_moment(data, cross_at_s)}"


def _moment(data: ChartData, at_s: float) -> str:
    """Return the label of a moment on the axis: clock time or age."""
    if data.ends_at_s is not None:
        return local_text(round((data.ends_at_s + at_s) * 1e6))
    return f"-{duration_text(-at_s)}" if at_s else "now"


def legend_runs(
    data: ChartData | None, max_cells: int, values: Sequence[float | None] | None = None
) -> Runs:
    """Return the legend within `max_cells`: sample, label and value of each line; if they do not
    fit, shortened labels without values.

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
    texts = [" –" if v is None else " " + value_text(v, data.unit) for v in values]
    samples = _samples(data)
    label_runs = [(f" {overall_label}", AXES_PALETTE_NUMBER)] if overall_label else []
    all_runs = [*_events_runs(data), *label_runs, *_runs(samples, labels, texts)]
    if cells_of(all_runs) <= max_cells:
        return all_runs
    share = max(1, max_cells // max(1, len(labels)) - _ENTRY_EXTRA_CELLS)
    short = [fit(label, share) if cell_len(label) > share else label for label in labels]
    return _runs(samples, short, [""] * len(labels))


def _events_runs(data: ChartData) -> Runs:
    """Return the legend of the event marks; empty if the window has no event."""
    if not any(-data.window_s <= at_s <= 0 for at_s in data.events_at_s):
        return []
    return [
        (f"  {EVENT_MARK}", EVENT_PALETTE_NUMBER),
        (f" {clean_line(data.events_label)}", AXES_PALETTE_NUMBER),
    ]


def _samples(data: ChartData) -> list[tuple[str, int]]:
    """Return the sample of each series: an area, a line, or blanks if the series is not drawn."""
    samples: list[tuple[str, int]] = []
    areas = 1 if data.fill == "below" else 2
    for index, series in enumerate(data.series):
        palette_number = data.palette_number(index)
        if not is_drawn(series):
            samples.append(("   ", palette_number))
        elif areas:
            areas -= 1
            samples.append(
                (
                    "▁▁▁" if data.fill == "band" and index else "▂▂▂",
                    palette_number + BACKGROUND_FACTOR * shade_of(palette_number, _SAMPLE_DEPTH),
                )
            )
        else:
            samples.append(("⠤⠤⠤", palette_number))
    return samples


_SAMPLE_DEPTH = 2


def _runs(
    samples: Sequence[tuple[str, int]], labels: Sequence[str], values: Sequence[str]
) -> Runs:
    """Join samples, labels and values."""
    runs: Runs = []
    for sample, label, value in zip(samples, labels, values, strict=True):
        runs += [("  ", 0), sample, (f" {label}", AXES_PALETTE_NUMBER), (value, 0)]
    return runs


def cells_of(runs: Runs) -> int:
    """Return the width of the texts side by side, in cells."""
    return sum(cell_len(text) for text, _ in runs)
