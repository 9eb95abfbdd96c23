"""A stream in full: state, limits, cluster, sources, configuration, charts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.binding import Binding, BindingType

from natstui.clean import clean_line
from natstui.model.columns.view import StreamView
from natstui.model.findings.verdict import stream_findings
from natstui.tui.frame.action_keys import Target, action_bindings
from natstui.tui.frame.action_runner import ActionRunner
from natstui.tui.frame.detail.charts import stream_charts
from natstui.tui.frame.detail.peek import PEEK_ADVISORY_COUNT, PEEK_WINDOW_S, PeekContent
from natstui.tui.frame.detail.screen import DetailScreen
from natstui.tui.frame.live import poll_rows_first
from natstui.tui.frame.messages import Open
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
from natstui.tui.streams.cells import STREAM_COLUMNS, trend_with_scale
from natstui.units import duration_text


class StreamDetail(DetailScreen):
    """Shows state, limits, cluster, configuration and charts of one stream."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "consumers", "Consumers", key_display="enter", id="stream.consumers"),
        *action_bindings("stream"),
    ]

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self.managing = ActionRunner(self, self.targets)

    def content(self) -> tuple[Sequence[Section], Sequence[ChartData]] | None:
        """Return text and charts of the stream; None if it does not exist."""
        view = StreamView(self.state, self.poll_age_us)
        rows = self.state.streams.roster.rows_of_stream.get(self.stream)
        if not rows:
            return None
        sections = stream_sections(view, rows[-1], user_keys(self, "stream.actions"))
        return sections, stream_charts(view, rows[-1], self.window_s)

    def targets(self) -> list[Target]:
        """Return the stream on the screen, as the only target of actions."""
        table = self.state.streams
        rows = table.roster.rows_of_stream.get(self.stream)
        created_at_us = table.columns.created_at_us[rows[-1]] if rows else None
        return [Target(self.stream, None, created_at_us)]

    def on_screen_resume(self) -> None:
        """Request that the stream is polled first."""
        poll_rows_first(self, (self.stream,), ())

    def action_consumers(self) -> None:
        """Open the stream's consumers."""
        self.app.post_message(Open("consumers", self.stream))


_CELL_FUNCTION_BY_COLUMN = {spec.id: spec.cell for spec in STREAM_COLUMNS} | {
    "minute": trend_with_scale
}
_STATE_COLUMN_BY_LABEL: Mapping[str, str] = {
    "messages": "msgs",
    "bytes": "bytes",
    "in msgs/s": "in",
    "  last minute": "minute",
    "in B/s": "in_bytes",
    "removed msgs/s": "removed",
    "first sequence": "first_seq",
    "oldest message": "first_age",
    "last sequence": "last_seq",
    "newest message": "last_age",
    "holes": "holes",
    "consumers": "consumers",
}
_LIMIT_COLUMN_BY_LABEL: Mapping[str, str] = {
    "messages used": "msgs_used",
    "bytes used": "bytes_used",
    "age used": "age_used",
    "full in": "full",
}


def _column_lines(view: StreamView, row: int, column_by_label: Mapping[str, str]) -> list[Line]:
    """Return cells of a row as lines; `column_by_label` is label → id of the column."""
    return [
        cell_line(label, _CELL_FUNCTION_BY_COLUMN[key](view, row))
        for label, key in column_by_label.items()
    ]


def stream_sections(view: StreamView, row: int, keys: Mapping[str, str]) -> list[Section]:
    """Return the sections of the stream screen."""
    config, columns = view.config(row), view.columns
    state = _column_lines(view, row, _STATE_COLUMN_BY_LABEL)
    state.append(line("subjects stored", str(columns.subjects_count[row])))
    state.append(line("age", view.age_text(columns.created_at_us[row])))
    sections = [
        stale_section(view.stale_s(row)),
        findings_section(view, stream_findings(view.state, row), keys),
        Section("STATE", tuple(state)),
        Section("LIMITS", tuple(_column_lines(view, row, _LIMIT_COLUMN_BY_LABEL))),
        cluster_section(columns.leader[row], columns.peers[row]),
        _upstreams_section(view, row),
    ]
    if config is not None:
        sections.append(Section("CONFIGURATION", list_configured_values(config.config_json)))
    return [section for section in sections if section.lines]


def stream_peek_content(view: StreamView, row: int, keys: Mapping[str, str]) -> PeekContent:
    """Return the content of the panel beside the table for a stream."""
    name = view.columns.name[row]
    sections = (
        stale_section(view.stale_s(row)),
        findings_section(view, stream_findings(view.state, row), keys),
        latest_events_section(view, name, None, PEEK_ADVISORY_COUNT),
        Section("STATE", tuple(_column_lines(view, row, _STATE_COLUMN_BY_LABEL))),
        Section("LIMITS", tuple(_column_lines(view, row, _LIMIT_COLUMN_BY_LABEL))),
        _upstreams_section(view, row),
    )
    return PeekContent(
        view.key(row),
        [Section(clean_line(name), ()), *(section for section in sections if section.lines)],
        stream_charts(view, row, PEEK_WINDOW_S)[:2],
    )


def _upstreams_section(view: StreamView, row: int) -> Section:
    lines = []
    for upstream in view.columns.upstreams[row]:
        active_text = (
            "never"
            if upstream.active_ns is None
            else f"{duration_text(upstream.active_ns / 1e9)} ago"
        )
        text = f"{upstream.name}: lag {upstream.lag_msgs}, last contact {active_text}" + (
            f", {upstream.error}" if upstream.error else ""
        )
        lines.append(
            line(
                "mirror of" if upstream.mirror else "source", text, "bad" if upstream.error else ""
            )
        )
    return Section("REPLICATION", tuple(lines))
