"""Aligned tables of plain text for people at a pipe or a simple terminal."""

from __future__ import annotations

import shutil
import sys
import textwrap
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import click

from natstui.clean import clean_line
from natstui.model.columns.column import Column as EntityColumn

_GAP = "  "
_BOXED_GAP = " │ "
_EDGES_CELLS = 4
_NARROWEST_CELLS = 8
_WIDEST_CELLS = 255
"""No name of a stream or consumer is longer; one long value must not pad every other row."""
COLOURS: Mapping[str, str] = {"ok": "green", "warn": "yellow", "bad": "red"}
"""Level of a status → its colour on a terminal."""
_SEVERITIES = {"CRITICAL": "red", "WARNING": "yellow"}


@dataclass(frozen=True, slots=True)
class Column:
    """A column: its title, and what happens to it where space is short."""

    title: str
    numeric: bool = True
    """Numbers are aligned to the right."""
    drop_order: int = 0
    """The column with the highest number is left out first; one with 0 never is."""
    shrinks: bool = False
    """It may be cut, ending in `…`."""
    colours: Mapping[str, str] = field(default_factory=dict)
    """Text of a cell → its colour on a terminal."""


def text_column(
    column: EntityColumn[Any], drop_order: int = 0, *, shrinks: bool = False
) -> Column:
    """Return how a column of an entity is shown here."""
    return Column(column.title, column.numeric, drop_order, shrinks)


def stdout_width() -> int | None:
    """Return the columns of the terminal on stdout; None when it is a pipe or a file."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def hanging(text: str, width_cells: int | None, indent_cells: int) -> str:
    """Return the lines of a text; a line too long for the width continues below its value."""
    if width_cells is None:
        return text
    indent = " " * indent_cells
    lines = [
        textwrap.wrap(one, max(width_cells, 2 * indent_cells), subsequent_indent=indent) or [""]
        for one in text.split("\n")
    ]
    return "\n".join(part for parts in lines for part in parts)


def severities_coloured(text: str) -> str:
    """Return a text whose lines that begin with a severity begin in its colour."""
    lines = []
    for line in text.split("\n"):
        word, space, rest = line.partition(" ")
        colour = _SEVERITIES.get(word)
        lines.append(line if colour is None else click.style(word, fg=colour) + space + rest)
    return "\n".join(lines)


def cells_count(text: str) -> int:
    """Return how many terminal cells a text takes."""
    if text.isascii():
        return len(text)
    wide = sum(unicodedata.east_asian_width(character) in "WF" for character in text)
    marks = sum(unicodedata.category(character) in ("Mn", "Me") for character in text)
    return len(text) + wide - marks


def cut(text: str, most_cells: int) -> str:
    """Return a text of at most so many cells, ending in `…` when it lost something."""
    if cells_count(text) <= most_cells:
        return text
    kept = ""
    for character in text:
        if cells_count(kept + character) >= most_cells:
            break
        kept += character
    return kept + "…"


def table(
    columns: Sequence[Column], rows: Sequence[Sequence[str]], width_cells: int | None
) -> list[str]:
    """Return the lines of a table, its titles first; None for a width is that of a pipe.

    Every cell becomes one harmless line of bounded length. On a terminal titles are bold, and a
    box is around it as `nats` draws it.
    """
    grid = [[column.title for column in columns]]
    grid += [[cut(clean_line(text), _WIDEST_CELLS) for text in row] for row in rows]
    widths = [max(cells_count(row[place]) for row in grid) for place in range(len(columns))]
    if width_cells is not None:
        _narrow(columns, widths, width_cells)
    if width_cells is None:
        return [_GAP.join(_cells(columns, row, widths)).rstrip() for row in grid]
    return _boxed(columns, grid, widths)


def _boxed(
    columns: Sequence[Column], grid: Sequence[Sequence[str]], widths: Sequence[int]
) -> list[str]:
    """Return the lines of a table in a box, its first row the titles."""
    bars = ["─" * width for width in widths if width]
    titles = [click.style(title, bold=True) for title in _cells(columns, grid[0], widths)]
    rows = [_cells(columns, row, widths, is_coloured=True) for row in grid[1:]]
    return [
        f"╭─{'─┬─'.join(bars)}─╮",
        f"│ {_BOXED_GAP.join(titles)} │",
        f"├─{'─┼─'.join(bars)}─┤",
        *(f"│ {_BOXED_GAP.join(cells)} │" for cells in rows),
        f"╰─{'─┴─'.join(bars)}─╯",
    ]


def _total(widths: Sequence[int]) -> int:
    """Return the width of a table in a box: only on a terminal is it limited."""
    columns_count = sum(width > 0 for width in widths)
    return sum(widths) + len(_BOXED_GAP) * (columns_count - 1) + _EDGES_CELLS


def _narrow(columns: Sequence[Column], widths: list[int], width_cells: int) -> None:
    """Drop columns, then cut those that may be cut, until the table fits. Dropped: width 0."""
    places = sorted(range(len(columns)), key=lambda place: -columns[place].drop_order)
    for place in places:
        if _least(columns, widths) <= width_cells or not columns[place].drop_order:
            break
        widths[place] = 0
    while _total(widths) > width_cells:
        cuttable = _shrinkable(columns, widths)
        if not cuttable:
            return
        place = max(cuttable, key=widths.__getitem__)
        widths[place] = max(_NARROWEST_CELLS, widths[place] - _total(widths) + width_cells)


def _shrinkable(columns: Sequence[Column], widths: Sequence[int]) -> list[int]:
    return [
        place
        for place, column in enumerate(columns)
        if column.shrinks and widths[place] > _NARROWEST_CELLS
    ]


def _least(columns: Sequence[Column], widths: Sequence[int]) -> int:
    """Return the width of the table when everything is cut that may be cut."""
    cuttable = set(_shrinkable(columns, widths))
    return _total(
        [2 * _NARROWEST_CELLS if p in cuttable and w > 2 * _NARROWEST_CELLS else w
         for p, w in enumerate(widths)]
    )  # fmt: skip


def _cells(
    columns: Sequence[Column],
    row: Sequence[str],
    widths: Sequence[int],
    *,
    is_coloured: bool = False,
) -> list[str]:
    """Return the padded cells of a row, without those of dropped columns."""
    cells = []
    for column, text, width in zip(columns, row, widths, strict=True):
        if width:
            colour = column.colours.get(text) if is_coloured else None
            text = cut(text, width)
            pad = " " * (width - cells_count(text))
            text = text if colour is None else click.style(text, fg=colour)
            cells.append(pad + text if column.numeric else text + pad)
    return cells


def print_rows(heads: Sequence[str], rows: Sequence[Sequence[str]], words_count: int) -> None:
    """Print a plain table: so many columns of words at the left, then numbers."""
    columns = [
        Column(head, numeric=place >= words_count, shrinks=0 < place < words_count)
        for place, head in enumerate(heads)
    ]
    for line in table(columns, rows, stdout_width()):
        click.echo(line)


def print_fields(values: Mapping[str, str]) -> None:
    """Print label and value, one per line."""
    labels = [clean_line(label) for label in values]
    width = max(map(len, labels), default=0)
    for label, text in zip(labels, values.values(), strict=True):
        click.echo(f"{label.ljust(width)}  {clean_line(text)}")
