"""Texts about findings: evidence, thresholds, checks and advice. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from natstui.model.columns.findings import entity_text
from natstui.model.columns.view import View
from natstui.model.findings.finding import Finding
from natstui.model.findings.severities import WORST_FIRST, severity_text
from natstui.model.findings.thresholds import THRESHOLDS
from natstui.model.keys import insert_keys
from natstui.model.live.state import State
from natstui.tui.findings.cells import SortedFindings
from natstui.tui.frame.shared_cells import GLYPHS, LEVEL_STYLES
from natstui.tui.kit.sections import Line, Section, line
from natstui.units import counted, duration_text, local_text

NO_FINDINGS_TEXT = "natstui found nothing wrong"
_MAX_SHOWN_SEQUENCES = 20
_TIME_FORMAT = "%Y-%m-%d %H:%M:%S"


def _title_text(finding: Finding) -> str:
    kind = finding.kind
    return f"{GLYPHS[kind.level]} {kind.code} {kind.word}  ·  {entity_text(finding.entity)}"


def _duration_line(view: View, finding: Finding) -> str:
    age_s = view.age_s(finding.since_us) or 0.0
    if finding.until_us is None:
        return f"{duration_text(age_s)}, since {local_text(finding.since_us, _TIME_FORMAT)}"
    duration_s = (finding.until_us - finding.since_us) / 1e6
    return f"{duration_text(duration_s)}, over since {local_text(finding.until_us, _TIME_FORMAT)}"


def _silence_lines(view: View, finding: Finding) -> list[Line]:
    """Return a line with the end, author and reason of a finding's silence; none without one."""
    silence = view.state.findings.find_silence(finding)
    if silence is None or finding.until_us is not None:
        return []
    until_text = local_text(silence.until_us, _TIME_FORMAT)
    return [line("silenced", f"until {until_text} by {silence.who}: {silence.reason}", "dim")]


def brief_sections(view: View, finding: Finding, keys: Mapping[str, str]) -> list[Section]:
    """Return the section of a finding below the table: evidence, advice, check, meaning,
    duration.

    `keys` are those of `user_keys`.
    """
    kind = finding.kind
    lines = [
        line("evidence", finding.text),
        line("do", finding.advice(keys)),
        line("check", insert_keys(kind.check_template, keys)),
        line("means", kind.sentence),
        line("for", _duration_line(view, finding)),
        *_silence_lines(view, finding),
    ]
    if kind.sentence in finding.text:
        del lines[3]
    return [Section(_title_text(finding), tuple(lines))]


def finding_sections(view: View, finding: Finding, keys: Mapping[str, str]) -> list[Section]:
    """Return the sections of the finding screen; `keys` are those of `user_keys`."""
    kind = finding.kind
    lines = [
        line("", f"{_title_text(finding)} ({kind.severity})", LEVEL_STYLES[kind.level]),
        line("", kind.sentence),
        line("for", _duration_line(view, finding)),
        *_silence_lines(view, finding),
    ]
    sections = [
        Section("FINDING", tuple(lines)),
        Section("EVIDENCE", tuple(_evidence_lines(finding))),
        Section("CHECK", (line("", insert_keys(kind.check_template, keys)),)),
        Section("DO", (line("", finding.advice(keys)),)),
        Section("DECIDED BY", tuple(_threshold_lines(finding))),
    ]
    if kind.peer:
        sections.append(Section("SAME AS", (line("", kind.peer),)))
    return sections


def _evidence_lines(finding: Finding) -> list[Line]:
    lines = [line("", finding.text)]
    if finding.sequences:
        seqs_text = ", ".join(str(seq) for seq in finding.sequences[:_MAX_SHOWN_SEQUENCES])
        more_count = len(finding.sequences) - _MAX_SHOWN_SEQUENCES
        lines.append(
            line("sequences", seqs_text + (f" and {more_count} more" if more_count > 0 else ""))
        )
    for name, value in finding.numbers.items():
        label = name
        for unit in ("_count", "_msgs", "_per_s", "_s"):
            label = label.removesuffix(unit)
        label = label.replace("_", " ")
        lines.append(line(label, _number_text(name, value)))
    return lines


def _number_text(name: str, value: float) -> str:
    if name.endswith("share"):
        return f"{100 * value:.0f} %"
    if name.endswith("_s") and not name.endswith("per_s"):
        return duration_text(value)
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def _threshold_lines(finding: Finding) -> list[Line]:
    kind = finding.kind
    thresholds = (THRESHOLDS[name] for name in kind.thresholds if name in THRESHOLDS)
    lines = [
        line(threshold.name, f"{threshold.text} by default: {threshold.meaning}")
        for threshold in thresholds
    ]
    open_delay_text, end_delay_text = duration_text(kind.enter_s), duration_text(kind.leave_s)
    if kind.enter_s:
        lines.append(line("reported", f"after {open_delay_text}"))
    if kind.leave_s:
        lines.append(line("over", f"when absent for {end_delay_text}"))
    return lines or [line("", "no threshold: the state itself is the finding", "dim")]


def no_findings_sections(states: Sequence[State]) -> list[Section]:
    """Return the sections shown without findings: what was checked, and what was not readable."""
    accounts_count = sum(state.account is not None for state in states)
    account = "the account" if accounts_count == 1 else f"{accounts_count} accounts"
    checked_texts = (
        counted(f"{sum(len(state.streams) for state in states):,}", "stream"),
        counted(f"{sum(len(state.consumers) for state in states):,}", "consumer"),
        account if accounts_count else "not the account",
    )
    unavailable_lines = [
        line(source, unavailable.reason, "warn")
        for system_state in states
        for source, unavailable in system_state.unavailable.items()
    ]
    return [
        Section("CHECKED", (line("", ", ".join(checked_texts)),)),
        Section(
            "NOT CHECKED",
            tuple(unavailable_lines) or (line("", "natstui may read everything", "dim"),),
        ),
    ]


def counts_text(
    systems_findings: Sequence[SortedFindings], over_key: str = "", hints_key: str = ""
) -> str:
    """Return the numbers of findings in all systems: by severity, silenced, ended and hidden.

    `over_key` shows ended findings; empty if the table shows them. `hints_key` shows the hidden
    ones.
    """
    counts = Counter(
        finding.kind.severity
        for sorted_findings in systems_findings
        for finding in sorted_findings.open
    )
    ended_count, silenced_count = (
        sum(len(sorted_findings.ended) for sorted_findings in systems_findings),
        sum(len(sorted_findings.silenced) for sorted_findings in systems_findings),
    )
    hidden_hints_count = sum(
        sorted_findings.hidden_hints_count for sorted_findings in systems_findings
    )
    parts = [
        *(
            severity_text(severity, counts[severity])
            for severity in WORST_FIRST
            if counts[severity]
        ),
        "" if counts else "nothing is wrong",
        f"{silenced_count} silenced" if silenced_count else "",
        f"{over_key and f'{over_key}: '}{ended_count} ended lately" if ended_count else "",
        f"{hints_key}: {counted(hidden_hints_count, 'hint')}" if hidden_hints_count else "",
    ]
    return "  ·  ".join(part for part in parts if part)
