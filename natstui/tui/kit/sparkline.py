"""Sparklines: small charts of a series in plain characters, for table cells.

Without Textual, so that `watch` and tests can use them. A value that is None is a gap.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

_BLOCKS = "▁▂▃▄▅▆▇█"
_GAP = " "


def sparkline(values: Sequence[float | None], width: int, scale_end: float | None = None) -> str:
    """Return a series as one line of blocks, `width` cells wide, the newest value at the right.

    The scale starts at 0 and ends at `scale_end`, by default at the maximum value. A value above 0
    is always higher than 0. More values than cells are averaged in groups of equal size. None and
    not-a-number are gaps (spaces).
    """
    cells = _group_means(values, width)
    top = (
        scale_end
        if scale_end is not None
        else max((value for value in cells if value is not None), default=0.0)
    )
    return "".join(_block(value, top) for value in cells).rjust(width)


def tall_sparkline(values: Sequence[float | None], width: int, rows: int) -> list[str]:
    """Return a series as `rows` lines of blocks, the top line first, from 0 to the maximum."""
    cells = _group_means(values, width)
    top = max((value for value in cells if value is not None), default=0.0)
    eighths = [
        0 if value is None else max(1, round(8 * rows * value / top)) if top > 0 else 1
        for value in cells
    ]
    blocks = _GAP + _BLOCKS
    return [
        "".join(blocks[max(0, min(8, height - 8 * row))] for height in eighths).rjust(width)
        for row in reversed(range(rows))
    ]


def means_by_time(
    points: Sequence[tuple[float, float | None]], width: int, window: float, longest_gap: float
) -> list[float | None]:
    """Return the mean of each of `width` equal parts of a window that ends now, oldest first.

    `points` are ages, in the unit of `window`, with values, oldest first. A part without a point
    has the value of the next point if that is at most `longest_gap` after the previous one, else
    None.
    """
    sums, counts = [0.0] * width, [0] * width
    means: list[float | None] = [None] * width
    previous_part_and_age: tuple[int, float] | None = None
    for age, value in points:
        part = width - 1 - int(max(0.0, age) * width // window)
        if _finite_or_none(value) is None or value is None:
            previous_part_and_age = None
            continue
        if previous_part_and_age is not None and previous_part_and_age[1] - age <= longest_gap:
            for part_index in range(max(0, previous_part_and_age[0] + 1), part):
                means[part_index] = value
        if part >= 0:
            sums[part] += value
            counts[part] += 1
        previous_part_and_age = (part, age)
    return [
        total / count if count else gap
        for total, count, gap in zip(sums, counts, means, strict=True)
    ]


def scaled_sparkline(
    values: Sequence[float | None], width: int, format_value: Callable[[float], str]
) -> str:
    """Return a series as one line of blocks, then its scale from 0 to the maximum as text."""
    known_values = [value for value in _group_means(values, width) if value is not None]
    if not known_values:
        return "–"
    return f"{sparkline(values, width)} 0–{format_value(max(0.0, *known_values))}"


def bar(share: float, width: int, empty: str = "░") -> str:
    """Return a share from 0 to 1 as a bar of `width` cells, exact to an eighth of a cell.

    A share above 0 is always visible.
    """
    eighths = round(8 * width * min(1.0, max(0.0, share)))
    full_cells, remaining_eighths = divmod(max(1, eighths) if share > 0 else 0, 8)
    return ("█" * full_cells + _PARTIAL_BLOCKS[remaining_eighths]).ljust(width, empty)


_PARTIAL_BLOCKS: Sequence[str] = ("", *"▏▎▍▌▋▊▉")


def _block(value: float | None, top: float) -> str:
    """Return the block whose height is the value's share of `top`."""
    if value is None:
        return _GAP
    if value <= 0 or top <= 0:
        return _BLOCKS[0]
    return _BLOCKS[max(1, int(min(1.0, value / top) * 7 + 0.5))]


def _finite_or_none(value: float | None) -> float | None:
    """Return the value if it is finite, else None."""
    return value if value is not None and math.isfinite(value) else None


def _group_means(values: Sequence[float | None], width: int) -> list[float | None]:
    """Return at most `width` means of equal groups, counted from the newest value."""
    if width <= 0 or not values:
        return []
    size = math.ceil(len(values) / width)
    groups: list[float | None] = []
    for start in range(len(values) % size - size if len(values) % size else 0, len(values), size):
        known_values = [
            value
            for value in map(_finite_or_none, values[max(0, start) : start + size])
            if value is not None
        ]
        groups.append(sum(known_values) / len(known_values) if known_values else None)
    return groups
