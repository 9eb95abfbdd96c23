"""One finding in words: what shows it, what decides it, what to look at and what to do. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from natstui.model.columns.view import View
from natstui.model.findings.finding import Finding
from natstui.model.findings.severities import WORST_FIRST, severity_text
from natstui.model.findings.thresholds import THRESHOLDS
from natstui.model.live.state import State
from natstui.tui.findings.cells import Found, entity_text
from natstui.tui.frame.view import GLYPHS, LOOKS
from natstui.tui.kit.sections import Line, Section, line
from natstui.units import counted, duration_text, local_text

CALM = "natstui found nothing wrong"
_SEQUENCES_SHOWN = 20
_DAY = "%Y-%m-%d %H:%M:%S"


def _head(finding: Finding) -> str:
    kind = finding.kind
    return f"{GLYPHS[kind.level]} {kind.code} {kind.word}  ·  {entity_text(finding.entity)}"


def _times(view: View, finding: Finding) -> str:
    age_s = view.age_s(finding.since_us) or 0.0
    if finding.until_us is None:
        return f"{duration_text(age_s)}, since {local_text(finding.since_us, _DAY)}"
    lasted_s = (finding.until_us - finding.since_us) / 1e6
    return f"{duration_text(lasted_s)}, over since {local_text(finding.until_us, _DAY)}"


def _silence_lines(view: View, finding: Finding) -> list[Line]:
    """Return until when and why nobody wants to hear of it; nothing where it is told."""
    silence = view.state.findings.silence_of(finding)
    if silence is None or finding.until_us is not None:
        return []
    until = local_text(silence.until_us, _DAY)
    return [line("silenced", f"until {until} by {silence.who}: {silence.reason}", "dim")]


def brief_sections(view: View, finding: Finding) -> list[Section]:
    """Return what stands below the table: the whole sentence, and what to do."""
    kind = finding.kind
    lines = [
        line("evidence", finding.text),
        line("do", finding.act),
        line("check", kind.check),
        line("means", kind.sentence),
        line("for", _times(view, finding)),
        *_silence_lines(view, finding),
    ]
    if kind.sentence in finding.text:
        del lines[3]
    return [Section(_head(finding), tuple(lines))]


def finding_sections(view: View, finding: Finding) -> list[Section]:
    """Return everything known of a finding."""
    kind = finding.kind
    what = [
        line("", f"{_head(finding)} ({kind.severity})", LOOKS[kind.level]),
        line("", kind.sentence),
        line("for", _times(view, finding)),
        *_silence_lines(view, finding),
    ]
    sections = [
        Section("FINDING", tuple(what)),
        Section("EVIDENCE", tuple(_evidence(finding))),
        Section("CHECK", (line("", kind.check),)),
        Section("DO", (line("", finding.act),)),
        Section("DECIDED BY", tuple(_decided_by(finding))),
    ]
    if kind.peer:
        sections.append(Section("SAME AS", (line("", kind.peer),)))
    return sections


def _evidence(finding: Finding) -> list[Line]:
    lines = [line("", finding.text)]
    if finding.sequences:
        shown = ", ".join(str(seq) for seq in finding.sequences[:_SEQUENCES_SHOWN])
        more = len(finding.sequences) - _SEQUENCES_SHOWN
        lines.append(line("sequences", shown + (f" and {more} more" if more > 0 else "")))
    for name, value in finding.numbers.items():
        label = name
        for unit in ("_count", "_msgs", "_per_s", "_s"):
            label = label.removesuffix(unit)
        label = label.replace("_", " ")
        lines.append(line(label, _number(name, value)))
    return lines


def _number(name: str, value: float) -> str:
    if name.endswith("share"):
        return f"{100 * value:.0f} %"
    if name.endswith("_s") and not name.endswith("per_s"):
        return duration_text(value)
    return f"{value:,.0f}" if value == int(value) else f"{value:,.2f}"


def _decided_by(finding: Finding) -> list[Line]:
    kind = finding.kind
    known = (THRESHOLDS[name] for name in kind.thresholds if name in THRESHOLDS)
    lines = [line(it.name, f"{it.text} by default: {it.meaning}") for it in known]
    enter, leave = duration_text(kind.enter_s), duration_text(kind.leave_s)
    if kind.enter_s:
        lines.append(line("reported", f"after {enter}"))
    if kind.leave_s:
        lines.append(line("over", f"when absent for {leave}"))
    return lines or [line("", "no threshold: the state itself is the finding", "dim")]


def calm_sections(states: Sequence[State]) -> list[Section]:
    """Return what was looked at when nothing is wrong in any system, and what was not seen."""
    accounts = sum(state.account is not None for state in states)
    account = "the account" if accounts == 1 else f"{accounts} accounts"
    seen = (
        counted(f"{sum(len(state.streams) for state in states):,}", "stream"),
        counted(f"{sum(len(state.consumers) for state in states):,}", "consumer"),
        account if accounts else "not the account",
    )
    denied = [
        line(what, it.reason, "warn") for one in states for what, it in one.unavailable.items()
    ]
    return [
        Section("LOOKED AT", (line("", ", ".join(seen)),)),
        Section("NOT SEEN", tuple(denied) or (line("", "natstui may read everything", "dim"),)),
    ]


def counts_text(every: Sequence[Found], with_over: bool = True) -> str:
    """Return how many findings there are in all systems, for the line above the table."""
    counts = Counter(it.kind.severity for found in every for it in found.open)
    over, silenced = sum(len(it.over) for it in every), sum(len(it.silenced) for it in every)
    left_out = sum(it.left_out_count for it in every)
    parts = [
        *(severity_text(each, counts[each]) for each in WORST_FIRST if counts[each]),
        "" if counts else "nothing is wrong",
        f"{silenced} silenced" if silenced else "",
        f"{'' if with_over else 'f: '}{over} ended lately" if over else "",
        f"i: {counted(left_out, 'hint')}" if left_out else "",
    ]
    return "  ·  ".join(part for part in parts if part)
