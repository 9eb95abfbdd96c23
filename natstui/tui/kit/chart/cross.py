"""The cross-hair of a chart: a moment, the column it stands in, and the values there. Pure."""

from __future__ import annotations

from bisect import bisect_left

from natstui.tui.kit.chart.frame import ON, ChartData, PlotFrame
from natstui.tui.kit.chart.legend import Runs

CROSS = "│"
_EMPTY = {" ", "\u2800"}


def column_of(frame: PlotFrame, at_s: float) -> int | None:
    """Return the column of the frame in which a moment is; None when it is not in view."""
    if not -frame.window_s <= at_s <= 0:
        return None
    return frame.left + frame.column_of(at_s)


def moment_of(frame: PlotFrame, column: int) -> float | None:
    """Return the moment of a column, in seconds from the right edge; None beside the axes."""
    at = column - frame.left
    if not 0 <= at < frame.columns or frame.columns < 2:
        return None
    return (at / (frame.columns - 1) - 1) * frame.window_s


def moved(frame: PlotFrame, at_s: float | None, columns: int) -> float:
    """Return the moment some columns further; the first time it stands at the newest values."""
    if at_s is None:
        return 0.0
    step_s = frame.window_s / max(1, frame.columns - 1)
    return max(-frame.window_s, min(0.0, at_s + columns * step_s))


def values_at(data: ChartData, at_s: float) -> list[float | None]:
    """Return what each line has nearest to a moment: no value between two is made up."""
    if not data.at_s:
        return [None] * len(data.series)
    right = min(bisect_left(data.at_s, at_s), len(data.at_s) - 1)
    left = max(0, right - 1)
    nearest = left if at_s - data.at_s[left] < data.at_s[right] - at_s else right
    return [
        series.values[nearest] if nearest < len(series.values) else None for series in data.series
    ]


def crossed(runs: Runs, column: int, role: int) -> Runs:
    """Return a line of a chart with the cross-hair in a column, where nothing else is drawn."""
    found: Runs = []
    at = 0
    for text, palette in runs:
        inside = column - at
        if 0 <= inside < len(text) and text[inside] in _EMPTY:
            parts = [
                (text[:inside], palette),
                (CROSS, role + palette // ON * ON),
                (text[inside + 1 :], palette),
            ]
            found += [part for part in parts if part[0]]
        else:
            found.append((text, palette))
        at += len(text)
    if at <= column:
        found += [(" " * (column - at), 0), (CROSS, role)]
    return found
