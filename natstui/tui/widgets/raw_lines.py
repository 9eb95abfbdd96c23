"""Long text cut into the rows of a screen. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from rich.cells import cell_len


class Row(NamedTuple):
    """A part of a line that stands in one row of the screen."""

    line: int
    start: int
    end: int


def rows_of(lines: list[str], width: int) -> list[Row]:
    """Return the screen rows of all lines, each at most `width` cells."""
    rows: list[Row] = []
    for number, line in enumerate(lines):
        if len(line) <= width and line.isascii():
            rows.append(Row(number, 0, len(line)))
        else:
            rows.extend(Row(number, start, end) for start, end in _cuts(line, max(2, width)))
    return rows


def _cuts(line: str, width: int) -> Iterator[tuple[int, int]]:
    """Yield where a long line is cut, so that no part is wider than `width` cells."""
    start = 0
    single = line.isascii()
    while start < len(line) or start == 0:
        end = min(len(line), start + width)
        while not single and end > start + 1:
            excess = cell_len(line[start:end]) - width
            if excess <= 0:
                break
            end -= (excess + 1) // 2
        yield start, end
        start = max(end, 1)
