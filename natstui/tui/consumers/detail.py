"""One consumer in full: what it does and why, state, cluster, configuration, charts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar

from textual.binding import BindingType

from natstui.clean import clean_line
from natstui.model.findings.verdict import consumer_findings
from natstui.tui.consumers import cells
from natstui.tui.frame.action_keys import Target, manage_keys
from natstui.tui.frame.action_runner import Managing
from natstui.tui.frame.detail.charts import consumer_charts
from natstui.tui.frame.detail.peek import ANNOUNCED_COUNT, PEEK_WINDOW_S, Brief
from natstui.tui.frame.detail.screen import DetailScreen
from natstui.tui.frame.happenings import happenings_section
from natstui.tui.frame.live import watch_rows
from natstui.tui.frame.view import ConsumerView, findings_section
from natstui.tui.kit.chart.chart import ChartData
from natstui.tui.kit.keys import key_of
from natstui.tui.kit.sections import (
    Line,
    Section,
    cell_line,
    cluster_section,
    every_value,
    line,
    stale_section,
)
from natstui.tui.kit.table.rows import Cell


class ConsumerDetail(DetailScreen):
    """Status with evidence, state, cluster, configuration and charts of one consumer."""

    BINDINGS: ClassVar[list[BindingType]] = manage_keys("consumer")
    CHARTS: ClassVar[int] = 4

    def __init__(self, stream: str, consumer: str) -> None:
        super().__init__(stream, consumer)
        self.managing = Managing(self, self.targets)

    def content(self) -> tuple[Sequence[Section], Sequence[ChartData]] | None:
        """Return text and charts of the consumer with this name, if there is one."""
        view = ConsumerView(self.state, self.late_us, self.stream)
        for row in reversed(view.rows()):
            if view.columns.name[row] == self.consumer:
                sections = consumer_sections(view, row, key_of(self, "consumer.actions"))
                return sections, consumer_charts(view, row, self.window_s)
        return None

    def targets(self) -> list[Target]:
        """Return the consumer shown."""
        view = ConsumerView(self.state, self.late_us, self.stream)
        rows = (row for row in reversed(view.rows()) if view.columns.name[row] == self.consumer)
        row = next(iter(rows), None)
        made = None if row is None else view.columns.created_at_us[row]
        return [Target(self.stream, self.consumer, made)]

    def on_mount(self) -> None:
        """Have it polled first."""
        watch_rows(self, (self.stream,), ((self.stream, self.consumer or ""),))


_CONSUMER_STATE: tuple[tuple[str, Callable[[ConsumerView, int], Cell]], ...] = (
    ("pending", cells.pending),
    ("  last minute", cells.trend_with_scale),
    ("ack pending", cells.ack_pending),
    ("redelivered", cells.redelivered),
    ("waiting", cells.waiting),
    ("delivered/s", cells.delivered_rate),
    ("acked/s", cells.acked_rate),
    ("lag", cells.lag),
    ("empty in", cells.drain),
    ("ack floor s/c", cells.ack_floor),
    ("delivered s/c", cells.delivered),
    ("last active", cells.activity),
)


def consumer_brief(view: ConsumerView, row: int, actions_key: str) -> Brief:
    """Return what stands beside the table of a consumer under the cursor."""
    stream, name = view.columns.stream[row], view.columns.name[row]
    status, evidence = cells.status(view, row), view.verdict(row).evidence
    told = (Line("", status.text, status.look), *([line("", evidence)] if evidence else []))
    findings = findings_section(view, consumer_findings(view.state, row), actions_key)
    sections = (
        stale_section(view.stale_s(row)),
        findings,
        happenings_section(view, stream, name, ANNOUNCED_COUNT),
        Section(
            "STATE", tuple(cell_line(label, cell(view, row)) for label, cell in _CONSUMER_STATE)
        ),
    )
    title = Section(clean_line(f"{stream} › {name}"), () if findings.lines else told)
    return Brief(
        view.key(row),
        [title, *(section for section in sections if section.lines)],
        consumer_charts(view, row, PEEK_WINDOW_S)[:2],
    )


def consumer_sections(view: ConsumerView, row: int, actions_key: str) -> list[Section]:
    """Return everything known of a consumer, first what it is doing and why."""
    config, columns = view.config(row), view.columns
    verdict = view.verdict(row)
    status = cells.status(view, row)
    told = (Line("", status.text, status.look), line("", verdict.evidence))
    state = [cell_line(label, cell(view, row)) for label, cell in _CONSUMER_STATE]
    if sampled := cells.ack_times(view, row):
        state.append(line("ack time", sampled))
    state.append(line("age", view.age_text(columns.created_at_us[row])))
    if columns.pinned_client[row]:
        state.append(line("pinned client", columns.pinned_client[row] or ""))
    sections = [
        stale_section(view.stale_s(row)),
        # The evidence of the worst finding stands first among all findings.
        Section("STATUS", told if verdict.finding is None else told[:1]),
        findings_section(view, consumer_findings(view.state, row), actions_key),
        Section("STATE", tuple(state)),
        cluster_section(columns.leader[row], columns.peers[row]),
    ]
    if config is not None:
        sections.append(Section("CONFIGURATION", every_value(config.config_json)))
    return [section for section in sections if section.lines]
