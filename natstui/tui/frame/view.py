"""How tables and details of streams, consumers and findings look: glyphs, looks, trends."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from natstui.model.columns.view import ConsumersStatus, View
from natstui.model.findings.catalogue.kind import LIST_ACTIONS_KEY, Kind, Level
from natstui.model.findings.finding import Finding
from natstui.model.live.history import Point
from natstui.tui.kit.sections import Line, Section, line
from natstui.tui.kit.sparkline import by_time
from natstui.tui.kit.table.rows import Cell
from natstui.units import counted

TREND_WIDTH = 12
"""Width of a minute's trend in a table, in cells."""
_MINUTE_US = 60_000_000

LOOKS: Mapping[Level, str] = {
    "ok": "ok", "idle": "dim", "warn": "warn", "bad": "bad", "unknown": "dim",
}  # fmt: skip
"""The look of each level."""
GLYPHS: Mapping[Level, str] = {"ok": "●", "idle": "○", "warn": "▲", "bad": "✖", "unknown": "?"}
"""Glyphs beside the look: not everybody sees a colour alone."""


def below_cell(below: ConsumersStatus) -> Cell:
    """Return a summary of the problems of a stream's consumers."""
    kind = below.kind
    status = "stuck" if below.are_stuck else kind.severity
    text = f"{GLYPHS[kind.level]} {counted(below.consumers_count, 'consumer')} {status}"
    return Cell(text, LOOKS[kind.level])


def severity_cell(kind: Kind) -> Cell:
    """Return the severity of a finding."""
    return Cell(f"{GLYPHS[kind.level]} {kind.severity}", LOOKS[kind.level])


def minute(view: View, points: Sequence[Point], width: int = TREND_WIDTH) -> list[float | None]:
    """Return the mean of each part of the last minute; None where nothing was polled."""
    ages = [(float(view.now_mono_us - point.mono_us), point.value) for point in points]
    return by_time(ages, width, _MINUTE_US, max(view.stale_us, _MINUTE_US // TREND_WIDTH))


def advice_text(act: str, actions_key: str) -> str:
    """Return the key that executes an action here, as text; empty without a key."""
    return act.replace(LIST_ACTIONS_KEY, f"`{actions_key}`") if actions_key else act


def findings_section(view: View, findings: Iterable[Finding], actions_key: str) -> Section:
    """Return all findings of one stream or consumer: start, evidence and advice.

    `actions_key` is the key of its actions: the catalogue names that of the list of findings.

    Advice is shown at the first finding: the others often end with the same.
    """
    lines: list[Line] = []
    is_advised = False
    for finding in findings:
        kind, mark = finding.kind, GLYPHS[finding.kind.level]
        head = f"{mark} {kind.code} {kind.word}, for {view.age_text(finding.since_us)}"
        silence = view.state.findings.silence_of(finding)
        if silence is not None:
            lines.append(line("", f"{head}, silenced: {silence.reason}", "dim"))
            continue
        lines += (line("", head, LOOKS[kind.level]), line("", f"  {finding.text}"))
        if not is_advised:
            advice = advice_text(finding.act, actions_key)
            lines.append(line("", f"  → {advice}", "accent"))
            is_advised = True
    return Section("FINDINGS", tuple(lines))
