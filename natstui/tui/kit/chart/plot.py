"""Draws a frame with plotext and reads its matrix cell by cell: texts with palette numbers."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from natstui.tui.kit.chart.frame import (
    AREA,
    AXES_ROLE,
    EVENT_MARK,
    EVENT_ROLE,
    PlotFrame,
)
from natstui.tui.kit.chart.legend import Runs

_FILL = "█"
"""Stands in the matrix for the area below the first line: a cell with a ground and no text."""


def draw(frame: PlotFrame) -> list[Runs]:
    """Return the lines of a chart; raise ImportError where plotext has no kernel for a machine."""
    # Not before the first frame of the app: the import takes 0.12 s.
    import plotext

    plotext.terminal.limit(False, False)
    figure = plotext.figure
    figure.clear.all()
    figure.plot_size(frame.width, frame.height)
    figure.canvas("default")
    figure.axes(False, axis="x", side="upper").axes(False, axis="y", side="right")
    _set_rulers(figure, frame)
    for number, (role, values) in enumerate(frame.lines):
        columns = [column for column, value in enumerate(values) if value is not None]
        drawn = [value for value in values if value is not None]
        if number == 0:
            top = figure.signal(columns, drawn, marker=plotext.marker(_FILL))
            bottom = figure.signal(columns, [frame.axis.low] * len(columns), marker=_FILL)
            figure.draw(top.fill(bottom))
        ink = plotext.marker("braille", plotext.pixel((0, 0, role)))
        line = figure.signal(columns, drawn, marker=ink)
        for at in range(1, len(columns)):
            line.line(at, active=columns[at] == columns[at - 1] + 1)
        figure.draw(line)
    if frame.event_columns:
        mark = plotext.marker(EVENT_MARK, plotext.pixel((0, 0, EVENT_ROLE)))
        heights = [frame.axis.high] * len(frame.event_columns)
        figure.draw(figure.signal(list(frame.event_columns), heights, marker=mark))
    return _runs(figure.build(), frame)


def _set_rulers(figure: Any, frame: PlotFrame) -> None:
    """Set the limits and ticks of both axes; a frame of few lines has no time axis."""
    figure.ruler("x", "lower").lim(0, frame.columns - 1)
    if frame.axis_lines:
        columns = [frame.column_of(at_s) for at_s, _ in frame.x_ticks]
        figure.ruler("x", "lower").ticks(columns, [label for _, label in frame.x_ticks])
    else:
        figure.axes(False, axis="x", side="lower").ruler("x", "lower").frequency(0)
    ticks = [at for at, _ in frame.y_ticks]
    labels = [label for _, label in frame.y_ticks]
    figure.ruler("y", "left").lim(frame.axis.low, frame.axis.high).ticks(ticks, labels)


def _runs(matrix: Any, frame: PlotFrame) -> list[Runs]:
    """Return each row of a matrix as texts with roles."""
    rows = matrix.string(colorless=True).split("\n")[: frame.height]
    # Below the first line every cell has the ground of the area, also where others cross it.
    area_from = [frame.height] * frame.width
    lines: list[Runs] = []
    for y, row in enumerate(rows):
        in_plot = y < frame.height - frame.axis_lines
        roles = [AXES_ROLE] * len(row)
        for x in range(frame.left, len(row)) if in_plot else ():
            character = row[x]
            if character == _FILL:
                area_from[x] = min(area_from[x], y)
            ink = None if character in (" ", _FILL) else matrix.get(y, x).foreground()
            roles[x] = (ink[2] if ink else 0) | (AREA if area_from[x] <= y else 0)
        cells = zip(row.replace(_FILL, " "), roles, strict=True)
        grouped = groupby(cells, key=lambda cell: cell[1])
        lines.append([("".join(text for text, _ in group), role) for role, group in grouped])
    return lines
