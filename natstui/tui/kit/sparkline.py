"""Small pictures of a series in plain characters: blocks for table cells, braille for strips.

No Textual here, so that `watch` and tests can use them. A value that is None is a gap.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

_BLOCKS = "▁▂▃▄▅▆▇█"
_GAP = " "
# Bits of a braille character by column (0 left, 1 right) and by row from the bottom.
_DOTS = ((0x40, 0x04, 0x02, 0x01), (0x80, 0x20, 0x10, 0x08))


def sparkline(values: Sequence[float | None], width: int, high: float | None = None) -> str:
    """Return a series as one line of blocks, `width` cells, the newest value at the right.

    The scale starts at 0 and ends at `high`, or at the greatest value in view: a constant series
    is full, an all-zero one lies at the bottom, a little more than 0 is seen as more. More values
    than cells are averaged in groups of one size. None and not-a-number are gaps (spaces).
    """
    cells = _grouped(values, width)
    top = high if high is not None else max((v for v in cells if v is not None), default=0.0)
    return "".join(_block(value, top) for value in cells).rjust(width)


def _block(value: float | None, top: float) -> str:
    """Return the block whose height is the value's share of `top`."""
    if value is None:
        return _GAP
    if value <= 0 or top <= 0:
        return _BLOCKS[0]
    return _BLOCKS[max(1, int(min(1.0, value / top) * 7 + 0.5))]


def _known(value: float | None) -> float | None:
    """Return a finite value, or None."""
    return value if value is not None and math.isfinite(value) else None


def _grouped(values: Sequence[float | None], width: int) -> list[float | None]:
    """Return at most `width` means of equal groups, counted from the newest value."""
    if width <= 0 or not values:
        return []
    size = math.ceil(len(values) / width)
    groups: list[float | None] = []
    for start in range(len(values) % size - size if len(values) % size else 0, len(values), size):
        known = [k for k in map(_known, values[max(0, start) : start + size]) if k is not None]
        groups.append(sum(known) / len(known) if known else None)
    return groups


def braille_strip(
    values: Sequence[float | None], width: int, height: int, high: float | None = None
) -> list[str]:
    """Return `height` lines of `width` braille characters: the series from oldest to newest.

    Each column of dots spans from the least to the greatest value of its share of the series, so
    that no spike is lost, and is joined to its neighbour. The scale runs from 0 to `high`, or to
    the greatest value. Fewer values than columns stand at the right; gaps stay empty.
    """
    if width <= 0 or height <= 0:
        return [""] * max(0, height)
    spans = _spans([_known(value) for value in values], width * 2)
    top = high if high is not None else max((s[1] for s in spans if s), default=0.0)
    grid = [[0] * width for _ in range(height)]
    levels = height * 4
    last: tuple[int, int] | None = None
    for column, span in enumerate(spans, start=width * 2 - len(spans)):
        if span is None:
            last = None
            continue
        low, upper = _level(span[0], top, levels), _level(span[1], top, levels)
        drawn = (low, upper)
        if last is not None:  # join to the neighbour, so that steep lines do not break up
            low, upper = min(low, last[1] + 1), max(upper, last[0] - 1)
        for level in range(low, upper + 1):
            grid[height - 1 - level // 4][column // 2] |= _DOTS[column % 2][level % 4]
        last = drawn
    return ["".join(chr(0x2800 + bits) for bits in row) for row in grid]


def _level(value: float, top: float, levels: int) -> int:
    """Return the dot row of a value, 0 at the bottom."""
    if value <= 0 or top <= 0:
        return 0
    return int(min(1.0, value / top) * (levels - 1) + 0.5)


def _spans(values: Sequence[float | None], columns: int) -> list[tuple[float, float] | None]:
    """Return least and greatest of each column's share; None for a share of gaps only."""
    if len(values) <= columns:
        return [(value, value) if value is not None else None for value in values]
    spans: list[tuple[float, float] | None] = []
    for column in range(columns):
        start, end = column * len(values) // columns, (column + 1) * len(values) // columns
        known = [value for value in values[start:end] if value is not None]
        spans.append((min(known), max(known)) if known else None)
    return spans
