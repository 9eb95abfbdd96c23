"""Draws a frame with plotext and reads its matrix cell by cell: texts with palette numbers."""

from __future__ import annotations

from typing import Any

from natstui.tui.kit.chart.frame import AREA, AXES_ROLE, EVENT_MARK, EVENT_ROLE, PlotFrame
from natstui.tui.kit.chart.legend import Runs

_EIGHTHS = " ▁▂▃▄▅▆▇█"


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
    for role, values in frame.lines[1:]:
        columns = [column for column, value in enumerate(values) if value is not None]
        known = [value for value in values if value is not None]
        ink = plotext.marker("braille", plotext.pixel((0, 0, role)))
        line = figure.signal(columns, known, marker=ink).lines()
        for at in range(1, len(columns)):
            if columns[at] != columns[at - 1] + 1:
                line.line(at, active=False)
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
    """Return each row of a matrix as texts with palette numbers."""
    # A cell of plotext has neither eighths nor a ground below its text: the area is drawn here.
    tops, left = frame.area_tops(), frame.left
    area_role = frame.lines[0][0] if frame.lines else 0
    lines: list[Runs] = []
    rows = matrix.string(colorless=True).split("\n")[: frame.height]
    for y, row in enumerate(rows):
        if y >= frame.height - frame.axis_lines:
            lines.append([(row, AXES_ROLE)])
            continue
        cells = list(row)
        runs, start, role = list[tuple[str, int]](), 0, AXES_ROLE
        for x in range(left, len(row)):
            top, eighths = tops[x - left]
            newer = AREA if y > top else 0
            # A space has no colour, and to read one costs more than all else here.
            if row[x] != " " and (ink := matrix.get(y, x).foreground()) is not None:
                newer |= ink[2]
            elif y == top:
                cells[x], newer = _EIGHTHS[eighths], area_role
            if newer != role:
                runs.append(("".join(cells[start:x]), role))
                start, role = x, newer
        lines.append([*runs, ("".join(cells[start:]), role)])
    return lines
