"""Where the panels of the overview are, for any size of the terminal. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from natstui.tui.overview.panels import UNTITLED, PanelId

WIDE_FROM_COLUMNS = 100
"""From here on two panels stand beside each other."""
_FRAME_LINES = 2
_LEAST_ROWS: Mapping[PanelId, int] = {"wrong": 2}
_MOST_ROWS: Mapping[PanelId, int] = {"systems": 8, "servers": 9, "wrong": 14}
_FIRST: Sequence[PanelId] = ("wrong", "servers", "wrong", "systems", "busiest")
"""Whose band gets a line in turn where there are some left: what is wrong twice."""


class Place(NamedTuple):
    """A panel and how much of the body it takes."""

    id: PanelId
    width: int
    height: int
    framed: bool = True


def bands(has_systems: bool, width: int) -> list[tuple[PanelId, ...]]:
    """Return which panels stand beside each other, from the top."""
    above: list[tuple[PanelId, ...]] = [("systems",)] if has_systems else []
    upper: list[tuple[PanelId, ...]] = [("wrong",), ("servers",)]
    if width >= WIDE_FROM_COLUMNS:
        upper = [("wrong", "servers")]
    return [*above, *upper, ("busiest", "lagging"), ("events",)]


def arrange(width: int, height: int, rows_count: Mapping[PanelId, int]) -> list[list[Place]]:
    """Return the place of each panel; `rows_count` has how many rows each could show.

    Where lines are short the events have one without a frame, then none.
    """
    rows = bands("systems" in rows_count, width)
    framed = dict.fromkeys(rows, True)
    lines = {band: _least_lines(band) for band in rows}
    if sum(lines.values()) > height:
        framed["events",] = False
        lines["events",] = 1
    if sum(lines.values()) > height:
        lines["events",] = 0
    left = height - sum(lines.values())
    while left > 0:
        before = left
        for panel in _FIRST:
            band = next((it for it in rows if panel in it), None)
            if band is not None and left > 0 and lines[band] < _wanted_lines(band, rows_count):
                lines[band] += 1
                left -= 1
        if left == before:
            break
    lines[rows[-1]] += left
    if lines["events",] > _FRAME_LINES:
        framed["events",] = True
    return [
        [
            Place(panel, cells, lines[band], framed[band])
            for panel, cells in zip(band, _widths(band, width), strict=True)
        ]
        for band in rows
        if lines[band]
    ]


def _above(panel: PanelId) -> int:
    """Return the lines that a panel takes besides its rows."""
    return _FRAME_LINES + (0 if panel in UNTITLED else 1)


def _least_lines(band: Sequence[PanelId]) -> int:
    return max(_above(panel) + _LEAST_ROWS.get(panel, 1) for panel in band)


def _wanted_lines(band: Sequence[PanelId], rows_count: Mapping[PanelId, int]) -> int:
    return max(
        _above(panel) + max(1, min(_MOST_ROWS.get(panel, 20), rows_count.get(panel, 0)))
        for panel in band
    )


def _widths(band: Sequence[PanelId], width: int) -> list[int]:
    """Return how wide the panels of a band are: what is wrong needs more words."""
    if len(band) == 1:
        return [width]
    left = width * 2 // 3 if band[0] == "wrong" else width // 2
    return [left, width - left]
