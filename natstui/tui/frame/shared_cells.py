"""Cells and texts that tables and details share: levels, severities, trends, findings."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from natstui.model.columns.view import ConsumersStatus, View
from natstui.model.findings.catalogue.kind import Kind, Level
from natstui.model.findings.finding import Finding
from natstui.model.live.history import Point
from natstui.tui.kit.sections import Line, Section, line
from natstui.tui.kit.sparkline import means_by_time
from natstui.tui.kit.table.rows import Cell
from natstui.units import counted

TREND_WIDTH = 12
"""Width of a minute's trend in a table, in cells."""
_MINUTE_US = 60_000_000

LEVEL_STYLES: Mapping[Level, str] = {
    "ok": "ok", "idle": "dim", "warn": "warn", "bad": "bad", "unknown": "dim",
}  # fmt: skip
"""The style of each level."""
GLYPHS: Mapping[Level, str] = {"ok": "●", "idle": "○", "warn": "▲", "bad": "✖", "unknown": "?"}
"""The glyph of each level: not every user can distinguish colours."""


def consumers_status_cell(consumers_status: ConsumersStatus) -> Cell:
    """Return the cell with the number and the worst status of a stream's consumers."""
    kind = consumers_status.kind
    status = "stuck" if consumers_status.are_stuck else kind.severity
    text = f"{GLYPHS[kind.level]} {counted(consumers_status.consumers_count, 'consumer')} {status}"
    return Cell(text, LEVEL_STYLES[kind.level])


def severity_cell(kind: Kind) -> Cell:
    """Return the cell with the severity of a kind of finding."""
    return Cell(f"{GLYPHS[kind.level]} {kind.severity}", LEVEL_STYLES[kind.level])


def minute_means(
    view: View, points: Sequence[Point], width: int = TREND_WIDTH
) -> list[float | None]:
    """Return the mean value in each of `width` parts of the last minute; None for a part without
    a poll.
    """
    ages_us_and_values = [
        (float(view.now_mono_us - point.mono_us), point.value) for point in points
    ]
    max_gap_us = max(view.stale_us, _MINUTE_US // TREND_WIDTH)
    return means_by_time(ages_us_and_values, width, _MINUTE_US, max_gap_us)


def findings_section(view: View, findings: Iterable[Finding], keys: Mapping[str, str]) -> Section:
    """Return the section with the findings of a stream or consumer: age, evidence and advice.

    `keys` are those of `user_keys`. Only the first finding has advice: the advice of the other
    findings is often the same.
    """
    lines: list[Line] = []
    has_advice = False
    for finding in findings:
        kind, mark = finding.kind, GLYPHS[finding.kind.level]
        heading = f"{mark} {kind.code} {kind.word}, for {view.age_text(finding.since_us)}"
        silence = view.state.findings.find_silence(finding)
        if silence is not None:
            lines.append(line("", f"{heading}, silenced: {silence.reason}", "dim"))
            continue
        lines += (line("", heading, LEVEL_STYLES[kind.level]), line("", f"  {finding.text}"))
        if not has_advice:
            lines.append(line("", f"  → {finding.advice(keys)}", "accent"))
            has_advice = True
    return Section("FINDINGS", tuple(lines))
