"""Aligned tables of plain text, for a terminal or a pipe."""

from __future__ import annotations

import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

import click
from msgspec import Struct, field

from natstui.clean import clean_line
from natstui.model.columns.column import Column

RowT = TypeVar("RowT")
_COLUMN_GAP = "  "
_BOX_COLUMN_GAP = " │ "
_BOX_EDGES_CELLS = 4
_MIN_COLUMN_CELLS = 8
_MAX_COLUMN_CELLS = 255
"""Maximum width of a cell: one long value must not pad every other row."""
COLOUR_BY_LEVEL: Mapping[str, str] = {"ok": "green", "warn": "yellow", "bad": "red"}
"""Level of a status → its colour on a terminal."""
_COLOUR_BY_SEVERITY = {"CRITICAL": "red", "WARNING": "yellow"}


class TextColumn(Struct, frozen=True):
    """A column: its title, and how its width is reduced if the terminal is narrow."""

    title: str
    numeric: bool = True
    """Whether it is aligned to the right."""
    priority: int = 0
    """The column with the highest number is dropped first; a column with 0 is never dropped."""
    may_be_cut: bool = False
    """Whether it may be cut, ending in `…`."""
    colour_by_text: Mapping[str, str] = field(default_factory=dict)
    """Text of a cell → its colour on a terminal."""


def text_column(column: Column[Any], rows: Iterable[Any] = ()) -> TextColumn:
    """Return the column of a text table for the column of an entity.

    The texts of `rows` have the colours of their levels; numbers have none.
    """
    level_by_text = {} if column.numeric else {column.text(row): column.level(row) for row in rows}
    colour_by_text = {
        text: COLOUR_BY_LEVEL[level]
        for text, level in level_by_text.items()
        if level in COLOUR_BY_LEVEL
    }
    return TextColumn(
        column.title, column.numeric, column.priority, column.may_be_cut, colour_by_text
    )


def text_table_columns(
    columns: Iterable[Column[RowT]], left_out_keys: Collection[str] = ()
) -> list[Column[RowT]]:
    """Return the columns of an entity that a text table shows, in their order."""
    return [
        column
        for column in columns
        if column.title and not column.screen_only and column.key not in left_out_keys
    ]


def entity_table(
    columns: Sequence[Column[RowT]], rows: Sequence[RowT], width_cells: int | None
) -> list[str]:
    """Return the lines of a table of entities; `width_cells` is as of `table`."""
    return table(
        [text_column(column, rows) for column in columns],
        [[column.text(row) for column in columns] for row in rows],
        width_cells,
    )


def stdout_width() -> int | None:
    """Return the width of the terminal on stdout in cells; None if it is a pipe or a file."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def wrap_hanging(text: str, width_cells: int | None, indent_cells: int) -> str:
    """Return a text wrapped at `width_cells`, with continued lines indented by `indent_cells`.

    Returns the text unchanged if `width_cells` is None, as for a pipe.
    """
    if width_cells is None:
        return text
    indent = " " * indent_cells
    lines = [
        textwrap.wrap(text_line, max(width_cells, 2 * indent_cells), subsequent_indent=indent)
        or [""]
        for text_line in text.split("\n")
    ]
    return "\n".join(wrapped_line for wrapped_lines in lines for wrapped_line in wrapped_lines)


def colour_severities(text: str) -> str:
    """Return a text with the severity at the start of a line in colour, as ANSI codes."""
    lines = []
    for line in text.split("\n"):
        severity, space, rest_of_line = line.partition(" ")
        colour = _COLOUR_BY_SEVERITY.get(severity)
        lines.append(
            line if colour is None else click.style(severity, fg=colour) + space + rest_of_line
        )
    return "\n".join(lines)


def cells_count(text: str) -> int:
    """Return the width of a text in terminal cells: 2 for a wide character, 0 for a combining
    mark.
    """
    if text.isascii():
        return len(text)
    wide_count = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    combining_marks_count = sum(
        unicodedata.category(character) in ("Mn", "Me") for character in text
    )
    return len(text) + wide_count - combining_marks_count


def cut_text(text: str, max_cells: int) -> str:
    """Return a text of `max_cells` terminal cells at most, ending in `…` if it was cut."""
    if cells_count(text) <= max_cells:
        return text
    fitting_text = ""
    for character in text:
        if cells_count(fitting_text + character) >= max_cells:
            break
        fitting_text += character
    return fitting_text + "…"


def table(
    columns: Sequence[TextColumn], rows: Sequence[Sequence[str]], width_cells: int | None
) -> list[str]:
    """Return the lines of a table with its titles; every cell becomes one line without control
    codes.

    `rows` have a text for each of `columns`. On a terminal of `width_cells`, titles are bold, the
    table has a box as in the NATS CLI, and columns are dropped or cut until it fits. With None, as
    for a pipe, there is neither box nor limit.
    """
    grid = [[column.title for column in columns]]
    grid += [[cut_text(clean_line(text), _MAX_COLUMN_CELLS) for text in row] for row in rows]
    widths = [max(cells_count(row[index]) for row in grid) for index in range(len(columns))]
    if width_cells is not None:
        _fit_columns(columns, widths, width_cells)
    if width_cells is None:
        return [_COLUMN_GAP.join(_padded_cells(columns, row, widths)).rstrip() for row in grid]
    return _box_lines(columns, grid, widths)


def _box_lines(
    columns: Sequence[TextColumn], grid: Sequence[Sequence[str]], widths: Sequence[int]
) -> list[str]:
    """Return the lines of a table in a box; its first row has the titles."""
    horizontal_bars = ["─" * width for width in widths if width]
    titles = [click.style(title, bold=True) for title in _padded_cells(columns, grid[0], widths)]
    rows = [_padded_cells(columns, row, widths, is_coloured=True) for row in grid[1:]]
    return [
        f"╭─{'─┬─'.join(horizontal_bars)}─╮",
        f"│ {_BOX_COLUMN_GAP.join(titles)} │",
        f"├─{'─┼─'.join(horizontal_bars)}─┤",
        *(f"│ {_BOX_COLUMN_GAP.join(cells)} │" for cells in rows),
        f"╰─{'─┴─'.join(horizontal_bars)}─╯",
    ]


def _box_width(widths: Sequence[int]) -> int:
    """Return the width of a table in a box."""
    shown_columns_count = sum(width > 0 for width in widths)
    return sum(widths) + len(_BOX_COLUMN_GAP) * (shown_columns_count - 1) + _BOX_EDGES_CELLS


def _fit_columns(columns: Sequence[TextColumn], widths: list[int], width_cells: int) -> None:
    """Set `widths` so that the table fits: drop columns (width 0), then cut those that may be
    cut.
    """
    indexes_by_priority = sorted(range(len(columns)), key=lambda index: -columns[index].priority)
    for index in indexes_by_priority:
        if _min_width(columns, widths) <= width_cells or not columns[index].priority:
            break
        widths[index] = 0
    while _box_width(widths) > width_cells:
        cuttable_indexes = _shrinkable_indexes(columns, widths)
        if not cuttable_indexes:
            return
        index = max(cuttable_indexes, key=widths.__getitem__)
        widths[index] = max(_MIN_COLUMN_CELLS, widths[index] - _box_width(widths) + width_cells)


def _shrinkable_indexes(columns: Sequence[TextColumn], widths: Sequence[int]) -> list[int]:
    return [
        index
        for index, column in enumerate(columns)
        if column.may_be_cut and widths[index] > _MIN_COLUMN_CELLS
    ]


def _min_width(columns: Sequence[TextColumn], widths: Sequence[int]) -> int:
    """Return the width of the table after cutting everything that may be cut."""
    cuttable_indexes = set(_shrinkable_indexes(columns, widths))
    return _box_width(
        [2 * _MIN_COLUMN_CELLS if index in cuttable_indexes and width > 2 * _MIN_COLUMN_CELLS
         else width
         for index, width in enumerate(widths)]
    )  # fmt: skip


def _padded_cells(
    columns: Sequence[TextColumn],
    row: Sequence[str],
    widths: Sequence[int],
    *,
    is_coloured: bool = False,
) -> list[str]:
    """Return the padded cells of a row, without those of dropped columns."""
    cells = []
    for column, text, width in zip(columns, row, widths, strict=True):
        if width:
            colour = column.colour_by_text.get(text) if is_coloured else None
            text = cut_text(text, width)
            padding = " " * (width - cells_count(text))
            text = text if colour is None else click.style(text, fg=colour)
            cells.append(padding + text if column.numeric else text + padding)
    return cells


def print_rows(
    titles: Sequence[str], rows: Sequence[Sequence[str]], text_columns_count: int
) -> None:
    """Print a table: `text_columns_count` columns of text at the left, then columns of numbers.

    `rows` have a text for each of `titles`.
    """
    columns = [
        TextColumn(
            title, numeric=index >= text_columns_count, may_be_cut=0 < index < text_columns_count
        )
        for index, title in enumerate(titles)
    ]
    for line in table(columns, rows, stdout_width()):
        click.echo(line)


def print_columns(
    columns: Iterable[Column[Any]], keys: Sequence[str], rows: Sequence[Sequence[str]]
) -> None:
    """Print a table with the titles of some columns of an entity.

    `rows` have a text for each of `keys`.
    """
    column_by_key = {column.key: column for column in columns}
    for line in table([text_column(column_by_key[key]) for key in keys], rows, stdout_width()):
        click.echo(line)


def print_fields(values: Mapping[str, str]) -> None:
    """Print label and value, one field per line, with the values aligned."""
    labels = [clean_line(label) for label in values]
    width = max(map(len, labels), default=0)
    for label, text in zip(labels, values.values(), strict=True):
        click.echo(f"{label.ljust(width)}  {clean_line(text)}")
