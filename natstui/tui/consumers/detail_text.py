"""One consumer in full: what it does and why, its state, cluster, every configured value."""

from __future__ import annotations

from collections.abc import Callable

from natstui.tui.consumers import cells
from natstui.tui.frame.view import ConsumerView
from natstui.tui.kit.sections import (
    Line,
    Section,
    cluster_section,
    every_value,
    line,
    stale_section,
)
from natstui.tui.kit.table.rows import Cell

_CONSUMER_STATE: tuple[tuple[str, Callable[[ConsumerView, int], Cell]], ...] = (
    ("pending", cells.pending),
    ("ack pending", cells.ack_pending),
    ("redelivered", cells.redelivered),
    ("waiting", cells.waiting),
    ("delivered/s", cells.delivered_rate),
    ("acked/s", cells.acked_rate),
    ("lag", cells.lag),
    ("drained in", cells.drain),
    ("ack floor s/c", cells.floor),
    ("delivered s/c", cells.delivered),
    ("last active", cells.activity),
)


def consumer_sections(view: ConsumerView, row: int) -> list[Section]:
    """Return everything known of a consumer, first what it is doing and why."""
    config, columns = view.config(row), view.columns
    verdict = view.verdict(row)
    status = cells.status(view, row)
    state = [Line(label, *cell(view, row)) for label, cell in _CONSUMER_STATE]
    state.append(line("age", view.age_text(columns.created_at_us[row])))
    if columns.pinned_client[row]:
        state.append(line("pinned client", columns.pinned_client[row] or ""))
    sections = [
        stale_section(view.stale_s(row)),
        Section("STATUS", (Line("", status.text, status.look), line("", verdict.evidence))),
        Section("STATE", tuple(state)),
        cluster_section(columns.leader[row], columns.peers[row]),
    ]
    if config is not None:
        sections.append(Section("CONFIGURATION", every_value(config.config_json)))
    return [section for section in sections if section.lines]
