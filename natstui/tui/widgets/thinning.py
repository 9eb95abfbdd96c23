"""A series thinned to what a chart can show, its gaps kept. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

Run = tuple[list[float], list[float]]
"""A part of a line without a gap: x and y."""


def runs(
    at_s: Sequence[float], values: Sequence[float | None], window_s: float, columns: int
) -> Iterator[Run]:
    """Yield the gapless parts of a line: the mean of each column, at most one point in each.

    A column that holds only gaps ends a part; one without any sample does not.
    """
    sums: dict[int, tuple[float, float, int]] = {}
    for x, value in zip(at_s, values, strict=False):
        if not -window_s <= x <= 0:
            continue
        column = int((x + window_s) / window_s * columns)
        x_sum, y_sum, count = sums.get(column, (0.0, 0.0, 0))
        if value is not None and math.isfinite(value):
            sums[column] = (x_sum + x, y_sum + value, count + 1)
        else:
            sums[column] = (x_sum, y_sum, count)
    xs: list[float] = []
    ys: list[float] = []
    for column in sorted(sums):
        x_sum, y_sum, count = sums[column]
        if count:
            xs.append(x_sum / count)
            ys.append(y_sum / count)
        elif xs:
            yield xs, ys
            xs, ys = [], []
    if xs:
        yield xs, ys
