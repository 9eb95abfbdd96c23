"""The layout of the overview's panels, for any size of the terminal. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from natstui.tui.frame.systems import SystemState
from natstui.tui.overview.panels import UNTITLED, Panel, PanelId, servers_text

WIDE_FROM_COLUMNS = 100
"""Width from which two panels are side by side."""
_FRAME_LINES = 2
_LEAST_ROWS: Mapping[PanelId, int] = {"wrong": 2}
_MOST_ROWS: Mapping[PanelId, int] = {"systems": 8, "servers": 9, "wrong": 14}
_NEXT: Sequence[PanelId] = ("servers", "systems", "busiest")
"""Panels whose band gets a further line, in turn, when the findings have enough."""


class Place(NamedTuple):
    """A panel and its share of the body."""

    id: PanelId
    width: int
    height: int
    framed: bool = True

    @property
    def rows_count(self) -> int:
        """Return the number of rows that fit into it."""
        return self.height - _above(self.id) + (0 if self.framed else _FRAME_LINES)


def bands(has_systems: bool, width: int) -> list[tuple[PanelId, ...]]:
    """Return which panels are side by side, from the top."""
    above: list[tuple[PanelId, ...]] = [("systems",)] if has_systems else []
    upper: list[tuple[PanelId, ...]] = [("wrong",), ("servers",)]
    if width >= WIDE_FROM_COLUMNS:
        upper = [("wrong", "servers")]
    return [*above, *upper, ("busiest", "lagging"), ("events",)]


def arrange(width: int, height: int, rows_count: Mapping[PanelId, int]) -> list[list[Place]]:
    """Return the place of each panel; `rows_count` is how many rows each could show.

    While the findings do not fit, the events have one line without a frame, then none; then
    servers with a band of their own are left out.
    """
    rows = bands("systems" in rows_count, width)
    has_frame = dict.fromkeys(rows, True)
    lines = {band: _least_lines(band) for band in rows}
    findings_band = next(band for band in rows if "wrong" in band)
    needed_lines = max(lines[findings_band], _wanted_lines(("wrong",), rows_count))

    def is_short() -> bool:
        return sum(lines.values()) - lines[findings_band] + needed_lines > height

    if is_short():
        has_frame["events",] = False
        lines["events",] = 1
    if is_short():
        lines["events",] = 0
    if is_short() and ("servers",) in lines:
        del lines["servers",]
        rows.remove(("servers",))
    lines[findings_band] += max(
        0, min(needed_lines - lines[findings_band], height - sum(lines.values()))
    )
    free_lines = height - sum(lines.values())
    while free_lines > 0:
        before = free_lines
        for panel in _NEXT:
            band = next((band for band in rows if panel in band), None)
            if (
                band is not None
                and free_lines > 0
                and lines[band] < _wanted_lines(band, rows_count)
            ):
                lines[band] += 1
                free_lines -= 1
        if free_lines == before:
            break
    lines[rows[-1]] += free_lines
    if lines["events",] > _FRAME_LINES:
        has_frame["events",] = True
    return [
        [
            Place(panel, cells, lines[band], has_frame[band])
            for panel, cells in zip(band, _widths(band, width), strict=True)
        ]
        for band in rows
        if lines[band]
    ]


def subtitle_of(
    places_by_id: Mapping[PanelId, Place], servers: Panel, systems: Sequence[SystemState]
) -> Mapping[PanelId, str]:
    """Return the panel whose lower frame shows the leaders' counts; empty if every server is
    shown.
    """
    servers_place = places_by_id.get("servers")
    if servers_place is not None and servers.total_count <= servers_place.rows_count:
        return {}
    return {"wrong" if servers_place is None else "servers": servers_text(systems)}


def _above(panel: PanelId) -> int:
    """Return the lines that a panel needs besides its rows."""
    return _FRAME_LINES + (0 if panel in UNTITLED else 1)


def _least_lines(band: Sequence[PanelId]) -> int:
    return max(_above(panel) + _LEAST_ROWS.get(panel, 1) for panel in band)


def _wanted_lines(band: Sequence[PanelId], rows_count: Mapping[PanelId, int]) -> int:
    return max(
        _above(panel) + max(1, min(_MOST_ROWS.get(panel, 20), rows_count.get(panel, 0)))
        for panel in band
    )


def _widths(band: Sequence[PanelId], width: int) -> list[int]:
    """Return the widths of a band's panels: findings need more."""
    if len(band) == 1:
        return [width]
    first_width = width * 2 // 3 if band[0] == "wrong" else width // 2
    return [first_width, width - first_width]
