"""A report as text, JSON, a monitoring plugin's line, or OpenMetrics."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator

import msgspec

from natstui.clean import clean_json, clean_line
from natstui.cli.health.report import NotJudged, Report, Verdict
from natstui.cli.metrics.exposition import finding_lines
from natstui.cli.text_table import Column, stdout_width, table
from natstui.model.clients.api_audit import audit_cost_text, audit_counts_text, error_text
from natstui.model.findings.catalogue.every import KINDS
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.finding import Finding, folded
from natstui.model.findings.severities import WORST_FIRST, severity_text
from natstui.model.findings.thresholds import THRESHOLDS
from natstui.units import counted, duration_text, moment_text

_WORDS = {Verdict.OK: "fine", Verdict.WARNING: "warning", Verdict.CRITICAL: "critical",
          Verdict.UNKNOWN: "unknown"}  # fmt: skip
_CALM = "natstui found nothing wrong"
_INDENT = " " * 10
_AUDITED_COUNT = 20
"""So many kinds of requests are written."""
_OPEN_COUNT = 10
"""So many conditions that do not hold for long enough yet are written one by one."""


def headline(report: Report) -> str:
    """Return the verdict in one sentence."""
    of = f"{counted(report.streams_count, 'stream')} and "
    of += counted(report.consumers_count, "consumer")
    counts = [
        severity_text(severity, report.count(severity))
        for severity in WORST_FIRST
        if report.count(severity)
    ]
    calm = "natstui found nothing wrong" if report.recorded else _CALM
    told = ", ".join(counts) if counts else calm
    text = f"{_WORDS[report.verdict]}: {told} in {of}"
    text += f", {report.silenced_count} silenced" if report.silenced_count else ""
    return f"{text}; {clean_line(report.unknown)}" if report.unknown else text


def text_of(report: Report) -> str:
    """Return a paragraph for each finding, for people."""
    lines = [headline(report), *_paragraphs(report), *_left_open(report), *audit_lines(report)]
    return "\n".join(lines) + "\n"


def audit_lines(report: Report) -> Iterator[str]:
    """Yield what an audit of the API read: its cost, and the most frequent requests."""
    audit = report.audit
    if audit is None:
        return
    yield ""
    yield f"API audit: {audit_counts_text(audit)}; {audit_cost_text(audit)}"
    columns = (
        Column("TIMES"),
        Column("REQUEST", numeric=False, shrinks=True),
        Column("CLIENT", numeric=False),
        Column("USER", numeric=False, drop_order=1),
        Column("ERROR", numeric=False, shrinks=True),
    )
    rows = [
        [
            f"{request.times_count:,}",
            clean_line(request.request),
            clean_line(request.client),
            clean_line(request.user or ""),
            clean_line(error_text(request)),
        ]
        for request in audit.requests[:_AUDITED_COUNT]
    ]
    yield from table(columns, rows, stdout_width()) if rows else ()
    shown_count = sum(request.times_count for request in audit.requests[:_AUDITED_COUNT])
    if audit.requests_count > shown_count:
        yield f"and {counted(f'{audit.requests_count - shown_count:,}', 'other request')}"


def audit_json(report: Report) -> dict[str, object] | None:
    """Return what an audit of the API read; None without one."""
    return None if report.audit is None else msgspec.to_builtins(report.audit)


def _left_open(report: Report) -> Iterator[str]:
    """Yield what may be wrong and needs more time: what holds now, then whole kinds."""
    if not report.not_judged:
        return
    yield ""
    holding = [doubt for doubt in report.not_judged if doubt.entity is not None]
    for doubt in holding[:_OPEN_COUNT]:
        text = clean_line(doubt.entity.text) if doubt.entity is not None else ""
        yield (
            f"not judged yet: {text}: {doubt.kind.word} ({doubt.kind.code}) began only a moment "
            "ago"
        )
    if len(holding) > _OPEN_COUNT:
        yield f"and {len(holding) - _OPEN_COUNT} more of that kind"
    kinds = [doubt.kind for doubt in report.not_judged if doubt.entity is None]
    if kinds:
        longest_s = max(kind.needs_s for kind in kinds)
        names = ", ".join(f"{kind.word} ({kind.needs_s:g} s)" for kind in kinds)
        yield (
            f"{report.watched_s or 0:.0f} s are too short to judge: {names}; use --for "
            f"{longest_s:g}s, or a recording"
        )


def _paragraphs(report: Report) -> Iterator[str]:
    for line in folded(report.findings):
        yield ""
        yield from paragraph(line.first, report.at_us)
        if line.others:
            named = [clean_line(other.entity.text) for other in line.others[:_OPEN_COUNT]]
            more = len(line.others) - len(named)
            last = f" and {more} more" if more else ""
            yield f"{_INDENT}{line.others_text} of the same kind: {', '.join(named)}{last}"


def paragraph(finding: Finding, now_us: int) -> Iterator[str]:
    """Yield the lines that tell of one finding."""
    kind = finding.kind
    until_us = now_us if finding.until_us is None else finding.until_us
    age = duration_text(max(0, until_us - finding.since_us) / 1e6)
    entity = clean_line(finding.entity.text)
    yield f"{kind.severity.upper():<9} {kind.code}  {entity}: {kind.word}, for {age}"
    yield f"{_INDENT}{kind.sentence}"
    over = "" if finding.until_us is None else f" until {moment_text(finding.until_us)}"
    yield f"{_INDENT}since {moment_text(finding.since_us)}{over} UTC: {clean_line(finding.text)}"
    if finding.sequences:
        yield f"{_INDENT}messages: {', '.join(map(str, finding.sequences))}"
    yield f"{_INDENT}check: {kind.check}"
    yield f"{_INDENT}do: {clean_line(finding.act)}"


def json_of(report: Report) -> str:
    """Return one JSON object."""
    text = json.dumps(
        {
            "schema": 1,
            "status": _WORDS[report.verdict],
            "at_us": report.at_us,
            "streams_count": report.streams_count,
            "consumers_count": report.consumers_count,
            "unknown": report.unknown,
            "silenced_count": report.silenced_count,
            "watched_s": None if report.watched_s is None else round(report.watched_s, 3),
            "not_read": list(report.unread),
            "not_judged": [_not_judged_json(doubt) for doubt in report.not_judged],
            "audit": audit_json(report),
            "findings": [finding_json(finding) for finding in report.findings],
            "findings_count": dict(Counter(doubt.kind.code for doubt in report.findings)),
        },
        ensure_ascii=True,
    )
    return clean_json(text)


def _not_judged_json(doubt: NotJudged) -> dict[str, object]:
    kind, entity = doubt.kind, doubt.entity
    return {
        "code": kind.code,
        "word": kind.word,
        "needs_s": kind.needs_s,
        "stream": entity.stream or None if entity else None,
        "consumer": entity.consumer or None if entity else None,
        "holds_now": entity is not None,
    }


def finding_json(finding: Finding) -> dict[str, object]:
    """Return one finding as JSON's object; times are UTC microseconds."""
    kind, entity = finding.kind, finding.entity
    return {
        "code": kind.code,
        "severity": kind.severity,
        "entity": kind.entity,
        "stream": entity.stream or None,
        "consumer": entity.consumer or None,
        "created_at_us": entity.created_at_us or None,
        "part": entity.part or None,
        "word": kind.word,
        "sentence": kind.sentence,
        "evidence": finding.text,
        "numbers": dict(finding.numbers),
        "sequences": list(finding.sequences),
        "since_us": finding.since_us,
        "until_us": finding.until_us,
        "check": kind.check,
        "act": finding.act,
        "peer": kind.peer or None,
    }


def nagios_of(report: Report) -> str:
    """Return the one line that Nagios, Icinga and their kind read, with performance data."""
    first = report.findings[0] if report.findings else None
    if report.unknown and report.verdict is Verdict.UNKNOWN:
        text = report.unknown
    elif first is None:
        text = headline(report)
    else:
        more = len(report.findings) - 1
        text = f"{first.kind.code} {first.entity.text} {first.kind.word}: {first.text}"
        text += f" (and {more} more)" if more else ""
        text += f", {report.silenced_count} silenced" if report.silenced_count else ""
    critical, warning = report.count("critical"), report.count("warning")
    data = f"critical={critical};;1 warning={warning};1"
    data += f" streams={report.streams_count} consumers={report.consumers_count}"
    if report.watched_s is not None:
        data += f" watched={report.watched_s:.1f}s not_judged={len(report.not_judged)}"
    told = clean_line(text).replace("|", "/")
    return f"{report.verdict.name} natstui: {told} | {data}\n"


def openmetrics_of(report: Report) -> str:
    """Return the verdict and every finding as gauges."""
    name = "natstui_health_status"
    head = f"# HELP {name} 0 fine, 1 warning, 2 critical, 3 unknown\n# TYPE {name} gauge\n"
    lines = "".join(finding_lines(report.findings))
    silenced = "natstui_findings_silenced"
    count = f"# HELP {silenced} Findings left out because they were silenced\n"
    count += f"# TYPE {silenced} gauge\n{silenced} {report.silenced_count}\n"
    return f"{head}{name} {int(report.verdict)}\n{lines}{count}# EOF\n"


FORMATS: dict[str, Callable[[Report], str]] = {
    "text": text_of,
    "json": lambda report: json_of(report) + "\n",
    "nagios": nagios_of,
    "openmetrics": openmetrics_of,
}


def catalogue_text() -> str:
    """Return the whole catalogue for people: a paragraph for each kind of finding."""
    return "\n\n".join("\n".join(_kind_lines(kind)) for kind in KINDS.values()) + "\n"


def _kind_lines(kind: Kind) -> Iterator[str]:
    yield f"{kind.code}  {kind.severity:<8}  {kind.entity}: {kind.word}"
    yield f"{_INDENT}{kind.sentence}"
    limits = [f"{name} {THRESHOLDS[name].text}" for name in kind.thresholds]
    if kind.enter_s:
        limits.append(f"holds for {kind.enter_s:g} s")
    if kind.leave_s:
        limits.append(f"ends after absence for {kind.leave_s:g} s")
    if limits:
        yield f"{_INDENT}when: {'; '.join(limits)}"
    yield f"{_INDENT}check: {kind.check}"
    yield f"{_INDENT}do: {kind.act}"
    if kind.peer:
        yield f"{_INDENT}elsewhere: {kind.peer}"


def catalogue_json() -> str:
    """Return the whole catalogue as one JSON array."""
    return json.dumps(
        [
            {
                "code": kind.code,
                "severity": kind.severity,
                "entity": kind.entity,
                "word": kind.word,
                "sentence": kind.sentence,
                "check": kind.check,
                "act": kind.act,
                "peer": kind.peer or None,
                "enter_s": kind.enter_s,
                "leave_s": kind.leave_s,
                "thresholds": [
                    {"name": name, "value": THRESHOLDS[name].value, "unit": THRESHOLDS[name].unit}
                    for name in kind.thresholds
                ],
            }
            for kind in KINDS.values()
        ]
    )
