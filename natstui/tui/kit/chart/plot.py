"""Draws a frame with plotext and reads its matrix cell by cell: texts with palette numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from natstui.clean import clean_line
from natstui.tui.kit.chart.frame import (
    AXES_ROLE,
    EVENT_MARK,
    EVENT_ROLE,
    FAINT,
    MARK_ROLES,
    ON,
    PlotFrame,
    Zone,
    shade_of,
)
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
    for role, values in frame.lines[frame.areas_count :]:
        columns = [column for column, value in enumerate(values) if value is not None]
        known_values = [value for value in values if value is not None]
        ink = plotext.marker("braille", plotext.pixel((0, 0, role)))
        line = figure.signal(columns, known_values, marker=ink).lines()
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
    # A cell of plotext has neither eighths nor a ground below its text: areas are drawn here.
    zones, left_cells = frame.zones(), frame.left
    rows = matrix.string(colorless=True).split("\n")[: frame.height]
    plot_rows = frame.height - frame.axis_lines
    cells, inks = [list(row) for row in rows], [[AXES_ROLE] * len(row) for row in rows]
    has_lines = len(frame.lines) > frame.areas_count or bool(frame.event_columns)
    for y in range(min(plot_rows, len(rows))):
        row = rows[y]
        for x in range(left_cells, len(row)):
            sign, ink = _cell(
                zones[x - left_cells], 8 * (plot_rows - 1 - y), 1 + y * (FAINT - 1) // plot_rows
            )
            # A space has no colour, and to read one costs more than all else here.
            is_drawn = has_lines and row[x] != " "
            if is_drawn and (foreground := matrix.get(y, x).foreground()) is not None:
                ink = foreground[2] + (ink // ON * ON if sign == " " else 0)
            else:
                cells[y][x] = sign
            inks[y][x] = ink
    _mark(cells, inks, frame)
    return [_joined(row, ink) for row, ink in zip(cells, inks, strict=True)]


def _cell(zones: Sequence[Zone], low_eighth: int, shade: int) -> tuple[str, int]:
    """Return the character and palette numbers of the cell from `low_eighth` up.

    Inside an area it has a shade of its row. A cell has two colours: of three zones the thinnest
    is left out.
    """
    parts: list[tuple[int, int]] = []
    eighth = low_eighth
    for zone in zones:
        top = min(zone.top, low_eighth + 8)
        if top > eighth:
            parts.append((top - eighth, _shade(zone, low_eighth, shade)))
            eighth = top
    if eighth < low_eighth + 8:
        parts.append((low_eighth + 8 - eighth, 0))
    if len(parts) > 2:
        parts.remove(min(parts))
        parts[-1] = (8 - parts[0][0], parts[-1][1])
    if len(parts) == 1:
        return " ", parts[0][1] * ON
    (eighths, below), (_, above) = parts[0], parts[-1]
    return _EIGHTHS[eighths], below + above * ON


def _shade(zone: Zone, low_eighth: int, shade: int) -> int:
    if zone.is_faint:
        return shade_of(zone.role, FAINT)
    is_edge = zone.top <= low_eighth + 8
    return shade_of(zone.edge_role or zone.role) if is_edge else shade_of(zone.role, shade)


def _joined(cells: Sequence[str], inks: Sequence[int]) -> list[tuple[str, int]]:
    """Merge cells of the same palette number into texts."""
    runs: list[tuple[str, int]] = []
    start = 0
    for x in range(1, len(cells) + 1):
        if x == len(cells) or inks[x] != inks[start]:
            runs.append(("".join(cells[start:x]), inks[start]))
            start = x
    return runs


_NAMED_ROWS = 6
"""Minimum number of rows for the names of events."""


def _mark(cells: list[list[str]], inks: list[list[int]], frame: PlotFrame) -> None:
    """Draw the marks of events: on the time axis, as a thin line, and by name at the top."""
    plot_rows, right_cell = frame.height - frame.axis_lines, frame.left + frame.columns
    ends = [frame.left, frame.left]
    for mark in frame.marks:
        x, role = frame.left + frame.column_of(mark.at_s), MARK_ROLES[mark.tone]
        for y in range(min(plot_rows, len(cells))):
            if x < len(cells[y]) and cells[y][x] == " ":
                cells[y][x], inks[y][x] = "┊", role + inks[y][x] // ON * ON
        if frame.axis_lines and x < len(cells[plot_rows]):
            cells[plot_rows][x], inks[plot_rows][x] = mark.sign, role
        text = clean_line(mark.text)
        start = x + 1 if x + 1 + len(text) <= right_cell else x - len(text)
        row = next((row for row, end in enumerate(ends) if end <= start), None)
        if row is None or plot_rows < _NAMED_ROWS or not text.isascii() or start < frame.left:
            continue
        for column, letter in enumerate(text, start):
            cells[row][column], inks[row][column] = letter, role + inks[row][column] // ON * ON
        ends[row] = start + len(text) + 1
