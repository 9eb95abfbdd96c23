"""Draws a frame with plotext, and returns its lines as texts with palette numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from natstui.clean import clean_line
from natstui.tui.kit.chart.frame import (
    AXES_PALETTE_NUMBER,
    EVENT_MARK,
    EVENT_PALETTE_NUMBER,
    FAINT_SHADE_INDEX,
    PALETTE_BACKGROUND_FACTOR,
    PALETTE_NUMBER_BY_TONE,
    PlotFrame,
    Zone,
    area_shade_number,
)
from natstui.tui.kit.chart.legend import Run, Runs

_BLOCK_BY_EIGHTHS = " ▁▂▃▄▅▆▇█"


def draw(frame: PlotFrame) -> list[Runs]:
    """Draw a frame and return its lines; raises ImportError if plotext has no kernel for the
    machine.
    """
    # Not before the first frame of the app: the import takes 0.12 s.
    import plotext

    plotext.terminal.limit(False, False)
    figure = plotext.figure
    figure.clear.all()
    figure.plot_size(frame.width, frame.height)
    figure.canvas("default")
    figure.axes(False, axis="x", side="upper").axes(False, axis="y", side="right")
    _set_rulers(figure, frame)
    for palette_number, values in frame.lines[frame.areas_count :]:
        columns = [column for column, value in enumerate(values) if value is not None]
        known_values = [value for value in values if value is not None]
        marker = plotext.marker("braille", plotext.pixel((0, 0, palette_number)))
        line = figure.signal(columns, known_values, marker=marker).lines()
        for at in range(1, len(columns)):
            if columns[at] != columns[at - 1] + 1:
                line.line(at, active=False)
        figure.draw(line)
    if frame.event_columns:
        mark = plotext.marker(EVENT_MARK, plotext.pixel((0, 0, EVENT_PALETTE_NUMBER)))
        event_mark_heights = [frame.axis.high] * len(frame.event_columns)
        figure.draw(figure.signal(list(frame.event_columns), event_mark_heights, marker=mark))
    return _read_matrix(figure.build(), frame)


def _set_rulers(figure: Any, frame: PlotFrame) -> None:
    """Set the limits and ticks of both axes; a frame with few lines has no time axis."""
    figure.ruler("x", "lower").lim(0, frame.columns - 1)
    if frame.time_axis_lines:
        columns = [frame.column_of(at_s) for at_s, _ in frame.x_ticks]
        figure.ruler("x", "lower").ticks(columns, [label for _, label in frame.x_ticks])
    else:
        figure.axes(False, axis="x", side="lower").ruler("x", "lower").frequency(0)
    ticks = [at for at, _ in frame.y_ticks]
    labels = [label for _, label in frame.y_ticks]
    figure.ruler("y", "left").lim(frame.axis.low, frame.axis.high).ticks(ticks, labels)


def _read_matrix(matrix: Any, frame: PlotFrame) -> list[Runs]:
    """Return each row of a plotext matrix as texts with palette numbers, with areas and marks."""
    # A cell of plotext has neither eighths nor a background: areas are drawn here.
    zones, left_cells = frame.zones(), frame.left
    rows = matrix.string(colorless=True).split("\n")[: frame.height]
    plot_rows = frame.height - frame.time_axis_lines
    cells, palette_numbers = (
        [list(row) for row in rows],
        [[AXES_PALETTE_NUMBER] * len(row) for row in rows],
    )
    has_lines = len(frame.lines) > frame.areas_count or bool(frame.event_columns)
    for y in range(min(plot_rows, len(rows))):
        row = rows[y]
        for x in range(left_cells, len(row)):
            sign, palette_number = _draw_area_cell(
                zones[x - left_cells],
                8 * (plot_rows - 1 - y),
                1 + y * (FAINT_SHADE_INDEX - 1) // plot_rows,
            )
            # A space has no colour, and reading a colour is the slowest step of all.
            is_drawn = has_lines and row[x] != " "
            if is_drawn and (foreground := matrix.get(y, x).foreground()) is not None:
                palette_number = foreground[2] + (
                    palette_number // PALETTE_BACKGROUND_FACTOR * PALETTE_BACKGROUND_FACTOR
                    if sign == " "
                    else 0
                )
            else:
                cells[y][x] = sign
            palette_numbers[y][x] = palette_number
    _draw_event_marks(cells, palette_numbers, frame)
    return [
        _merge_cells(row, palette_number)
        for row, palette_number in zip(cells, palette_numbers, strict=True)
    ]


def _draw_area_cell(zones: Sequence[Zone], low_eighth: int, shade_index: int) -> tuple[str, int]:
    """Return the character and the palette numbers of the cell that starts at `low_eighth`.

    `shade_index` is that of the shade, in `AREA_SHADES`, that areas have in the cell's row. A cell
    has two colours: of three zones the thinnest is left out.
    """
    parts: list[tuple[int, int]] = []
    filled_to_eighth = low_eighth
    for zone in zones:
        top_eighth = min(zone.top_eighths, low_eighth + 8)
        if top_eighth > filled_to_eighth:
            parts.append(
                (
                    top_eighth - filled_to_eighth,
                    _zone_palette_number(zone, low_eighth, shade_index),
                )
            )
            filled_to_eighth = top_eighth
    if filled_to_eighth < low_eighth + 8:
        parts.append((low_eighth + 8 - filled_to_eighth, 0))
    if len(parts) > 2:
        parts.remove(min(parts))
        parts[-1] = (8 - parts[0][0], parts[-1][1])
    if len(parts) == 1:
        return " ", parts[0][1] * PALETTE_BACKGROUND_FACTOR
    (eighths, lower_number), (_, upper_number) = parts[0], parts[-1]
    return _BLOCK_BY_EIGHTHS[eighths], lower_number + upper_number * PALETTE_BACKGROUND_FACTOR


def _zone_palette_number(zone: Zone, low_eighth: int, shade_index: int) -> int:
    if zone.is_faint:
        return area_shade_number(zone.palette_number, FAINT_SHADE_INDEX)
    is_edge = zone.top_eighths <= low_eighth + 8
    return (
        area_shade_number(zone.edge_palette_number or zone.palette_number)
        if is_edge
        else area_shade_number(zone.palette_number, shade_index)
    )


def _merge_cells(cells: Sequence[str], palette_numbers: Sequence[int]) -> Runs:
    """Return a row with neighbouring cells of the same palette number merged into texts."""
    runs: Runs = []
    start = 0
    for x in range(1, len(cells) + 1):
        if x == len(cells) or palette_numbers[x] != palette_numbers[start]:
            runs.append(Run("".join(cells[start:x]), palette_numbers[start]))
            start = x
    return runs


_MIN_ROWS_FOR_EVENT_NAMES = 6
"""Minimum number of rows of a plot with the names of events."""


def _draw_event_marks(
    cells: list[list[str]], palette_numbers: list[list[int]], frame: PlotFrame
) -> None:
    """Draw the marks of events into `cells` and `palette_numbers`: a sign on the time axis, a thin
    line, and the name at the top.
    """
    plot_rows, right_cell = frame.height - frame.time_axis_lines, frame.left + frame.columns
    name_end_by_row = [frame.left, frame.left]
    for mark in frame.marks:
        x, palette_number = (
            frame.left + frame.column_of(mark.at_s),
            PALETTE_NUMBER_BY_TONE[mark.tone],
        )
        for y in range(min(plot_rows, len(cells))):
            if x < len(cells[y]) and cells[y][x] == " ":
                cells[y][x], palette_numbers[y][x] = (
                    "┊",
                    palette_number
                    + palette_numbers[y][x]
                    // PALETTE_BACKGROUND_FACTOR
                    * PALETTE_BACKGROUND_FACTOR,
                )
        if frame.time_axis_lines and x < len(cells[plot_rows]):
            cells[plot_rows][x], palette_numbers[plot_rows][x] = mark.sign, palette_number
        text = clean_line(mark.text)
        start = x + 1 if x + 1 + len(text) <= right_cell else x - len(text)
        row = next((row for row, end in enumerate(name_end_by_row) if end <= start), None)
        if (
            row is None
            or plot_rows < _MIN_ROWS_FOR_EVENT_NAMES
            or not text.isascii()
            or start < frame.left
        ):
            continue
        for column, letter in enumerate(text, start):
            cells[row][column], palette_numbers[row][column] = (
                letter,
                palette_number
                + palette_numbers[row][column]
                // PALETTE_BACKGROUND_FACTOR
                * PALETTE_BACKGROUND_FACTOR,
            )
        name_end_by_row[row] = start + len(text) + 1
