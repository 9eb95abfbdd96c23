"""One stream or one consumer in full: live state, limits, cluster, every configured value."""

from __future__ import annotations

from collections.abc import Callable

from natstui.tui.present import consumer_cells, stream_cells
from natstui.tui.present.sections import Line, Section, cluster_section, every_value, line
from natstui.tui.present.view import ConsumerView, StreamView
from natstui.tui.widgets.rows import Cell
from natstui.units import duration_text

_STREAM_STATE: tuple[tuple[str, Callable[[StreamView, int], Cell]], ...] = (
    ("messages", stream_cells.msgs),
    ("bytes", stream_cells.size),
    ("in msgs/s", stream_cells.in_rate),
    ("in B/s", stream_cells.in_bytes),
    ("removed msgs/s", stream_cells.removed),
    ("first sequence", stream_cells.first_seq),
    ("oldest message", stream_cells.first_age),
    ("last sequence", stream_cells.last_seq),
    ("newest message", stream_cells.last_age),
    ("holes", stream_cells.holes),
    ("consumers", stream_cells.consumers),
)
_STREAM_LIMITS: tuple[tuple[str, Callable[[StreamView, int], Cell]], ...] = (
    ("messages used", stream_cells.msgs_used),
    ("bytes used", stream_cells.bytes_used),
    ("age used", stream_cells.age_used),
    ("full in", stream_cells.full),
)
_CONSUMER_STATE: tuple[tuple[str, Callable[[ConsumerView, int], Cell]], ...] = (
    ("pending", consumer_cells.pending),
    ("ack pending", consumer_cells.ack_pending),
    ("redelivered", consumer_cells.redelivered),
    ("waiting", consumer_cells.waiting),
    ("delivered/s", consumer_cells.delivered_rate),
    ("acked/s", consumer_cells.acked_rate),
    ("lag", consumer_cells.lag),
    ("drained in", consumer_cells.drain),
    ("ack floor s/c", consumer_cells.floor),
    ("delivered s/c", consumer_cells.delivered),
    ("last active", consumer_cells.activity),
)


def stream_sections(view: StreamView, row: int) -> list[Section]:
    """Return everything known of a stream."""
    config, columns = view.config(row), view.columns
    state = [Line(label, *cell(view, row)) for label, cell in _STREAM_STATE]
    state.append(line("subjects stored", str(columns.subjects_count[row])))
    state.append(line("age", view.age_text(columns.created_at_us[row])))
    sections = [
        _stale(view.stale_s(row)),
        Section("STATE", tuple(state)),
        Section("LIMITS", tuple(Line(label, *cell(view, row)) for label, cell in _STREAM_LIMITS)),
        cluster_section(columns.leader[row], columns.peers[row]),
        _upstreams(view, row),
    ]
    if config is not None:
        sections.append(Section("CONFIGURATION", every_value(config.config_json)))
    return [section for section in sections if section.lines]


def _stale(age_s: float | None) -> Section:
    if age_s is None:
        return Section("STALE", ())
    return Section("STALE", (line("last seen", f"{duration_text(age_s)} ago", "bad"),))


def _upstreams(view: StreamView, row: int) -> Section:
    lines = []
    for it in view.columns.upstreams[row]:
        seen = "never" if it.active_ns is None else f"{duration_text(it.active_ns / 1e9)} ago"
        text = f"{it.name}: lag {it.lag_msgs}, heard {seen}" + (
            f", {it.error}" if it.error else ""
        )
        lines.append(line("mirror of" if it.mirror else "source", text, "bad" if it.error else ""))
    return Section("REPLICATION", tuple(lines))


def consumer_sections(view: ConsumerView, row: int) -> list[Section]:
    """Return everything known of a consumer, first what it is doing and why."""
    config, columns = view.config(row), view.columns
    verdict = view.verdict(row)
    status = consumer_cells.status(view, row)
    state = [Line(label, *cell(view, row)) for label, cell in _CONSUMER_STATE]
    state.append(line("age", view.age_text(columns.created_at_us[row])))
    if columns.pinned_client[row]:
        state.append(line("pinned client", columns.pinned_client[row] or ""))
    sections = [
        _stale(view.stale_s(row)),
        Section("STATUS", (Line("", status.text, status.look), line("", verdict.evidence))),
        Section("STATE", tuple(state)),
        cluster_section(columns.leader[row], columns.peers[row]),
    ]
    if config is not None:
        sections.append(Section("CONFIGURATION", every_value(config.config_json)))
    return [section for section in sections if section.lines]
