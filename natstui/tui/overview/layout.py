"""Where the panels of the overview are, for any size of the terminal. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from natstui.tui.frame.systems import SystemState
from natstui.tui.overview.panels import UNTITLED, Panel, PanelId, servers_text

WIDE_FROM_COLUMNS = 100
"""From here on two panels stand beside each other."""
_FRAME_LINES = 2
_LEAST_ROWS: Mapping[PanelId, int] = {"wrong": 2}
_MOST_ROWS: Mapping[PanelId, int] = {"systems": 8, "servers": 9, "wrong": 14}
_NEXT: Sequence[PanelId] = ("servers", "systems", "busiest")
"""Whose band gets a line in turn where what is wrong has enough."""


class Place(NamedTuple):
    """A panel and how much of the body it takes."""

    id: PanelId
    width: int
    height: int
    framed: bool = True

    @property
    def rows_count(self) -> int:
        """How many rows it has room for."""
        return self.height - _above(self.id) + (0 if self.framed else _FRAME_LINES)


def bands(has_systems: bool, width: int) -> list[tuple[PanelId, ...]]:
    """Return which panels stand beside each other, from the top."""
    above: list[tuple[PanelId, ...]] = [("systems",)] if has_systems else []
    upper: list[tuple[PanelId, ...]] = [("wrong",), ("servers",)]
    if width >= WIDE_FROM_COLUMNS:
        upper = [("wrong", "servers")]
    return [*above, *upper, ("busiest", "lagging"), ("events",)]


def arrange(width: int, height: int, rows_count: Mapping[PanelId, int]) -> list[list[Place]]:
    """Return the place of each panel; `rows_count` has how many rows each could show.

    While what is wrong does not fit, the events have one line without a frame, then none; then
    servers with a band of their own are left out.
    """
    rows = bands("systems" in rows_count, width)
    framed = dict.fromkeys(rows, True)
    lines = {band: _least_lines(band) for band in rows}
    wrong = next(band for band in rows if "wrong" in band)
    wanted = max(lines[wrong], _wanted_lines(("wrong",), rows_count))

    def is_short() -> bool:
        return sum(lines.values()) - lines[wrong] + wanted > height

    if is_short():
        framed["events",] = False
        lines["events",] = 1
    if is_short():
        lines["events",] = 0
    if is_short() and ("servers",) in lines:
        del lines["servers",]
        rows.remove(("servers",))
    lines[wrong] += max(0, min(wanted - lines[wrong], height - sum(lines.values())))
    left = height - sum(lines.values())
    while left > 0:
        before = left
        for panel in _NEXT:
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


def subtitle_of(
    places: Mapping[PanelId, Place], servers: Panel, systems: Sequence[SystemState]
) -> Mapping[PanelId, str]:
    """Return which panel has who leads in its lower frame; none where every server is shown."""
    place = places.get("servers")
    if place is not None and servers.total_count <= place.rows_count:
        return {}
    return {"wrong" if place is None else "servers": servers_text(systems)}


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
