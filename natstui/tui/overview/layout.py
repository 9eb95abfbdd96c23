"""Computes the sizes of the overview's panels for any size of the terminal."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from natstui.tui.frame.systems import SystemState
from natstui.tui.overview.panels import UNTITLED_PANELS, Panel, PanelId, servers_text

WIDE_FROM_COLUMNS = 100
"""Minimum width for two panels side by side."""
_FRAME_LINES = 2
_MIN_ROWS_BY_PANEL: Mapping[PanelId, int] = {"wrong": 2}
_MAX_ROWS_BY_PANEL: Mapping[PanelId, int] = {"systems": 8, "servers": 9, "wrong": 14}
_GROWING_PANELS: Sequence[PanelId] = ("servers", "systems", "busiest")
"""Panels whose bands get the remaining lines in turn, when all findings fit."""


class PanelSize(NamedTuple):
    """The size of a panel in cells and lines, and whether it has a frame."""

    id: PanelId
    width: int
    height: int
    is_framed: bool = True

    @property
    def rows_count(self) -> int:
        """Return the number of rows that fit into the panel."""
        return self.height - _lines_besides_rows(self.id) + (0 if self.is_framed else _FRAME_LINES)


def list_bands(has_systems: bool, width: int) -> list[tuple[PanelId, ...]]:
    """Return the bands from the top; a band is one panel, or several side by side."""
    top_bands: list[tuple[PanelId, ...]] = [("systems",)] if has_systems else []
    upper_bands: list[tuple[PanelId, ...]] = [("wrong",), ("servers",)]
    if width >= WIDE_FROM_COLUMNS:
        upper_bands = [("wrong", "servers")]
    return [*top_bands, *upper_bands, ("busiest", "lagging"), ("events",)]


def arrange_panels(
    width: int, height: int, rows_count: Mapping[PanelId, int]
) -> list[list[PanelSize]]:
    """Return the sizes of the panels by band; `rows_count` is the number of rows of each panel.

    If not all findings fit, the events get one line without a frame, then none; then servers in
    their own band are left out.
    """
    bands = list_bands("systems" in rows_count, width)
    has_frame_by_band = dict.fromkeys(bands, True)
    lines_by_band = {band: _min_lines(band) for band in bands}
    findings_band = next(band for band in bands if "wrong" in band)
    needed_lines = max(lines_by_band[findings_band], _max_lines(("wrong",), rows_count))

    def has_too_few_lines() -> bool:
        return sum(lines_by_band.values()) - lines_by_band[findings_band] + needed_lines > height

    if has_too_few_lines():
        has_frame_by_band["events",] = False
        lines_by_band["events",] = 1
    if has_too_few_lines():
        lines_by_band["events",] = 0
    if has_too_few_lines() and ("servers",) in lines_by_band:
        del lines_by_band["servers",]
        bands.remove(("servers",))
    lines_by_band[findings_band] += max(
        0, min(needed_lines - lines_by_band[findings_band], height - sum(lines_by_band.values()))
    )
    free_lines = height - sum(lines_by_band.values())
    while free_lines > 0:
        previous_free_lines = free_lines
        for panel in _GROWING_PANELS:
            band = next((band for band in bands if panel in band), None)
            if (
                band is not None
                and free_lines > 0
                and lines_by_band[band] < _max_lines(band, rows_count)
            ):
                lines_by_band[band] += 1
                free_lines -= 1
        if free_lines == previous_free_lines:
            break
    lines_by_band[bands[-1]] += free_lines
    if lines_by_band["events",] > _FRAME_LINES:
        has_frame_by_band["events",] = True
    return [
        [
            PanelSize(panel, cells, lines_by_band[band], has_frame_by_band[band])
            for panel, cells in zip(band, _panel_widths(band, width), strict=True)
        ]
        for band in bands
        if lines_by_band[band]
    ]


def find_subtitles(
    size_by_panel: Mapping[PanelId, PanelSize],
    servers_panel: Panel,
    systems: Sequence[SystemState],
) -> Mapping[PanelId, str]:
    """Return panel → text about servers and leaders to show in its border; empty if all servers
    are shown.
    """
    servers_size = size_by_panel.get("servers")
    if servers_size is not None and servers_panel.total_count <= servers_size.rows_count:
        return {}
    return {"wrong" if servers_size is None else "servers": servers_text(systems)}


def _lines_besides_rows(panel: PanelId) -> int:
    """Return the number of lines of a panel besides its rows: frame and titles."""
    return _FRAME_LINES + (0 if panel in UNTITLED_PANELS else 1)


def _min_lines(band: Sequence[PanelId]) -> int:
    return max(_lines_besides_rows(panel) + _MIN_ROWS_BY_PANEL.get(panel, 1) for panel in band)


def _max_lines(band: Sequence[PanelId], rows_count: Mapping[PanelId, int]) -> int:
    return max(
        _lines_besides_rows(panel)
        + max(1, min(_MAX_ROWS_BY_PANEL.get(panel, 20), rows_count.get(panel, 0)))
        for panel in band
    )


def _panel_widths(band: Sequence[PanelId], width: int) -> list[int]:
    """Return the widths of the panels of a band; findings get two thirds."""
    if len(band) == 1:
        return [width]
    first_cells = width * 2 // 3 if band[0] == "wrong" else width // 2
    return [first_cells, width - first_cells]
