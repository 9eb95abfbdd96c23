"""All details of a consumer: status with reasons, state, cluster, configuration, charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.binding import BindingType

from natstui.clean import clean_line
from natstui.model.columns.consumers import ConsumerRow
from natstui.model.columns.view import ConsumerView
from natstui.model.findings.verdict import consumer_findings
from natstui.model.live.ack_times import window_text
from natstui.tui.consumers.cells import CONSUMER_COLUMNS, trend_with_scale
from natstui.tui.frame.action_keys import Target, action_bindings
from natstui.tui.frame.action_runner import ActionRunner
from natstui.tui.frame.detail.charts import consumer_charts
from natstui.tui.frame.detail.peek import PEEK_ADVISORY_COUNT, PEEK_WINDOW_S, PeekContent
from natstui.tui.frame.detail.screen import DetailScreen
from natstui.tui.frame.live import poll_rows_first
from natstui.tui.frame.recent_events import latest_events_section
from natstui.tui.frame.shared_cells import findings_section
from natstui.tui.kit.chart.chart import ChartData
from natstui.tui.kit.keys import user_keys
from natstui.tui.kit.sections import (
    Line,
    Section,
    cell_line,
    cluster_section,
    line,
    list_configured_values,
    stale_section,
)


class ConsumerDetail(DetailScreen):
    """Shows status with evidence, state, cluster, configuration and charts of one consumer."""

    BINDINGS: ClassVar[list[BindingType]] = action_bindings("consumer")
    CHARTS_COUNT: ClassVar[int] = 4

    def __init__(self, stream: str, consumer: str) -> None:
        super().__init__(stream, consumer)
        self.managing = ActionRunner(self, self.targets)

    def content(self) -> tuple[Sequence[Section], Sequence[ChartData]] | None:
        """Return text and charts of the consumer on the screen; None if it does not exist."""
        view = ConsumerView(self.state, self.poll_age_us, self.stream)
        for row in reversed(view.rows()):
            if view.columns.name[row] == self.consumer:
                sections = consumer_sections(view, row, user_keys(self, "consumer.actions"))
                return sections, consumer_charts(view, row, self.window_s)
        return None

    def targets(self) -> list[Target]:
        """Return the consumer on the screen, as the only target of actions."""
        view = ConsumerView(self.state, self.poll_age_us, self.stream)
        rows = (row for row in reversed(view.rows()) if view.columns.name[row] == self.consumer)
        row = next(iter(rows), None)
        created_at_us = None if row is None else view.columns.created_at_us[row]
        return [Target(self.stream, self.consumer, created_at_us)]

    def on_screen_resume(self) -> None:
        """Request that the consumer is polled first."""
        poll_rows_first(self, (self.stream,), ((self.stream, self.consumer or ""),))


_CELL_FUNCTION_BY_COLUMN = {spec.id: spec.cell for spec in CONSUMER_COLUMNS} | {
    "minute": trend_with_scale
}
_STATE_COLUMNS_BY_LABEL: Mapping[str, str] = {
    "pending": "pending",
    "  last minute": "minute",
    "ack pending": "ack_pending",
    "redelivered": "redelivered",
    "waiting": "waiting",
    "delivered/s": "delivered_rate",
    "acked/s": "acked_rate",
    "lag": "lag",
    "empty in": "drain",
    "ack floor s/c": "floor",
    "delivered s/c": "delivered",
    "last active": "activity",
}


def _state_lines(view: ConsumerView, row: int) -> list[Line]:
    """Return the state of a consumer as lines with labels."""
    return [
        cell_line(label, _CELL_FUNCTION_BY_COLUMN[key](view, row))
        for label, key in _STATE_COLUMNS_BY_LABEL.items()
    ]


def consumer_peek_content(view: ConsumerView, row: int, keys: Mapping[str, str]) -> PeekContent:
    """Return the content of the peek panel for a consumer."""
    stream, name = view.columns.stream[row], view.columns.name[row]
    status, evidence = _CELL_FUNCTION_BY_COLUMN["status"](view, row), view.verdict(row).evidence
    status_lines = (
        Line("", status.text, status.style_name),
        *([line("", evidence)] if evidence else []),
    )
    findings = findings_section(view, consumer_findings(view.state, row), keys)
    sections = (
        stale_section(view.stale_s(row)),
        findings,
        latest_events_section(view, stream, name, PEEK_ADVISORY_COUNT),
        Section("STATE", tuple(_state_lines(view, row))),
    )
    title = Section(clean_line(f"{stream} › {name}"), () if findings.lines else status_lines)
    return PeekContent(
        view.key(row),
        [title, *(section for section in sections if section.lines)],
        consumer_charts(view, row, PEEK_WINDOW_S)[:2],
    )


def consumer_sections(view: ConsumerView, row: int, keys: Mapping[str, str]) -> list[Section]:
    """Return the sections of the consumer screen: first the status and its evidence."""
    config, columns = view.config(row), view.columns
    verdict = view.verdict(row)
    status = _CELL_FUNCTION_BY_COLUMN["status"](view, row)
    status_lines = (Line("", status.text, status.style_name), line("", verdict.evidence))
    state_lines = _state_lines(view, row)
    if (ack_window := ConsumerRow(view, row).ack_window) is not None:
        state_lines.append(line("ack time", window_text(ack_window)))
    state_lines.append(line("age", view.age_text(columns.created_at_us[row])))
    if columns.pinned_client[row]:
        state_lines.append(line("pinned client", columns.pinned_client[row] or ""))
    sections = [
        stale_section(view.stale_s(row)),
        # The evidence of the worst finding stands first among all findings.
        Section("STATUS", status_lines if verdict.finding is None else status_lines[:1]),
        findings_section(view, consumer_findings(view.state, row), keys),
        Section("STATE", tuple(state_lines)),
        cluster_section(columns.leader[row], columns.peers[row]),
    ]
    if config is not None:
        sections.append(Section("CONFIGURATION", list_configured_values(config.config_json)))
    return [section for section in sections if section.lines]
