"""One stream in full: live state, limits, cluster, upstreams, every configured value."""

from __future__ import annotations

from collections.abc import Callable

from natstui.tui.frame.view import StreamView
from natstui.tui.kit.sections import (
    Line,
    Section,
    cluster_section,
    every_value,
    line,
    stale_section,
)
from natstui.tui.kit.table.rows import Cell
from natstui.tui.streams import cells
from natstui.units import duration_text

_STREAM_STATE: tuple[tuple[str, Callable[[StreamView, int], Cell]], ...] = (
    ("messages", cells.msgs),
    ("bytes", cells.size),
    ("in msgs/s", cells.in_rate),
    ("in B/s", cells.in_bytes),
    ("removed msgs/s", cells.removed),
    ("first sequence", cells.first_seq),
    ("oldest message", cells.first_age),
    ("last sequence", cells.last_seq),
    ("newest message", cells.last_age),
    ("holes", cells.holes),
    ("consumers", cells.consumers),
)
_STREAM_LIMITS: tuple[tuple[str, Callable[[StreamView, int], Cell]], ...] = (
    ("messages used", cells.msgs_used),
    ("bytes used", cells.bytes_used),
    ("age used", cells.age_used),
    ("full in", cells.full),
)


def stream_sections(view: StreamView, row: int) -> list[Section]:
    """Return everything known of a stream."""
    config, columns = view.config(row), view.columns
    state = [Line(label, *cell(view, row)) for label, cell in _STREAM_STATE]
    state.append(line("subjects stored", str(columns.subjects_count[row])))
    state.append(line("age", view.age_text(columns.created_at_us[row])))
    sections = [
        stale_section(view.stale_s(row)),
        Section("STATE", tuple(state)),
        Section("LIMITS", tuple(Line(label, *cell(view, row)) for label, cell in _STREAM_LIMITS)),
        cluster_section(columns.leader[row], columns.peers[row]),
        _upstreams(view, row),
    ]
    if config is not None:
        sections.append(Section("CONFIGURATION", every_value(config.config_json)))
    return [section for section in sections if section.lines]


def _upstreams(view: StreamView, row: int) -> Section:
    lines = []
    for it in view.columns.upstreams[row]:
        seen = "never" if it.active_ns is None else f"{duration_text(it.active_ns / 1e9)} ago"
        text = f"{it.name}: lag {it.lag_msgs}, heard {seen}" + (
            f", {it.error}" if it.error else ""
        )
        lines.append(line("mirror of" if it.mirror else "source", text, "bad" if it.error else ""))
    return Section("REPLICATION", tuple(lines))
