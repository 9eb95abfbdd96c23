"""Formats of a report: text, JSON, Nagios, OpenMetrics."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator

from msgspec import to_builtins

from natstui.clean import clean_json, clean_line
from natstui.cli.health.report import Report, UnjudgedCondition, Verdict
from natstui.cli.metrics.exposition import finding_lines
from natstui.cli.text_table import TextColumn, stdout_width, table
from natstui.model.clients.api_audit import audit_cost_text, audit_counts_text, error_text
from natstui.model.columns.column import json_values
from natstui.model.columns.findings import FINDING_COLUMNS, FindingRow
from natstui.model.findings.catalogue.every import KINDS
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.finding import Finding, group_findings
from natstui.model.findings.severities import WORST_FIRST, severity_text
from natstui.model.findings.thresholds import THRESHOLDS
from natstui.units import counted, duration_text, moment_text

_VERDICT_TEXTS = {Verdict.OK: "fine", Verdict.WARNING: "warning", Verdict.CRITICAL: "critical",
          Verdict.UNKNOWN: "unknown"}  # fmt: skip
_NO_FINDINGS_TEXT = "natstui found nothing wrong"
_INDENT = " " * 10
_MAX_SHOWN_REQUESTS = 20
"""Limit of API requests that are printed."""
_MAX_SHOWN_ENTITIES = 10
"""Limit of conditions that are printed one by one while they have not lasted long enough."""


def headline(report: Report) -> str:
    """Return verdict, number of findings by severity, streams and consumers, as one sentence."""
    assets_text = f"{counted(report.streams_count, 'stream')} and "
    assets_text += counted(report.consumers_count, "consumer")
    severity_count_texts = [
        severity_text(severity, report.count(severity))
        for severity in WORST_FIRST
        if report.count(severity)
    ]
    findings_text = ", ".join(severity_count_texts) if severity_count_texts else _NO_FINDINGS_TEXT
    text = f"{_VERDICT_TEXTS[report.verdict]}: {findings_text} in {assets_text}"
    text += f", {report.silenced_count} silenced" if report.silenced_count else ""
    return f"{text}; {clean_line(report.unknown_reason)}" if report.unknown_reason else text


def format_text(report: Report) -> str:
    """Return a report as text, ending in a line feed.

    The text has the headline, a paragraph per finding, the conditions that were not judged, and
    the API audit.
    """
    lines = [
        headline(report),
        *_finding_paragraphs(report),
        *_unjudged_lines(report),
        *audit_lines(report),
    ]
    return "\n".join(lines) + "\n"


def audit_lines(report: Report) -> Iterator[str]:
    """Yield an API audit as lines: its counts and cost, then the 20 most frequent requests.

    Yields nothing without an audit.
    """
    audit = report.audit
    if audit is None:
        return
    yield ""
    yield f"API audit: {audit_counts_text(audit)}; {audit_cost_text(audit)}"
    columns = (
        TextColumn("TIMES"),
        TextColumn("REQUEST", numeric=False, may_be_cut=True),
        TextColumn("CLIENT", numeric=False),
        TextColumn("USER", numeric=False, priority=1),
        TextColumn("ERROR", numeric=False, may_be_cut=True),
    )
    rows = [
        [
            f"{request.times_count:,}",
            clean_line(request.request),
            clean_line(request.client),
            clean_line(request.user or ""),
            clean_line(error_text(request)),
        ]
        for request in audit.requests[:_MAX_SHOWN_REQUESTS]
    ]
    yield from table(columns, rows, stdout_width()) if rows else ()
    shown_count = sum(request.times_count for request in audit.requests[:_MAX_SHOWN_REQUESTS])
    if audit.requests_count > shown_count:
        yield f"and {counted(f'{audit.requests_count - shown_count:,}', 'other request')}"


def audit_json(report: Report) -> dict[str, object] | None:
    """Return the fields of an API audit for JSON; None without an audit."""
    return None if report.audit is None else to_builtins(report.audit)


def _unjudged_lines(report: Report) -> Iterator[str]:
    """Yield lines about conditions that need more time: first those that are met now, then the
    kinds of findings that could not be judged at all.
    """
    if not report.unjudged_conditions:
        return
    yield ""
    current_conditions = [
        condition for condition in report.unjudged_conditions if condition.entity is not None
    ]
    for condition in current_conditions[:_MAX_SHOWN_ENTITIES]:
        text = clean_line(condition.entity.text) if condition.entity is not None else ""
        yield (
            f"not judged yet: {text}: {condition.kind.word} ({condition.kind.code}) began only "
            "a moment ago"
        )
    if len(current_conditions) > _MAX_SHOWN_ENTITIES:
        yield f"and {len(current_conditions) - _MAX_SHOWN_ENTITIES} more of that kind"
    unjudged_kinds = [
        condition.kind for condition in report.unjudged_conditions if condition.entity is None
    ]
    if unjudged_kinds:
        max_needed_s = max(kind.needs_s for kind in unjudged_kinds)
        names = ", ".join(f"{kind.word} ({kind.needs_s:g} s)" for kind in unjudged_kinds)
        yield (
            f"{report.watched_s or 0:.0f} s are too short to judge: {names}; use --for "
            f"{max_needed_s:g}s, or a recording"
        )


def _finding_paragraphs(report: Report) -> Iterator[str]:
    for group in group_findings(report.findings):
        yield ""
        yield from finding_paragraph(group.worst, report.at_us)
        if group.others:
            names = [
                clean_line(finding.entity.text) for finding in group.others[:_MAX_SHOWN_ENTITIES]
            ]
            more_count = len(group.others) - len(names)
            more_text = f" and {more_count} more" if more_count else ""
            yield f"{_INDENT}{group.others_text} of the same kind: {', '.join(names)}{more_text}"


def finding_paragraph(finding: Finding, now_us: int) -> Iterator[str]:
    """Yield a finding as lines: severity, code, entity, age, meaning, evidence, and what to do.

    `now_us` (UTC µs) is the time at which the age of an open finding ends.
    """
    kind = finding.kind
    until_us = now_us if finding.until_us is None else finding.until_us
    age_text = duration_text(max(0, until_us - finding.since_us) / 1e6)
    entity = clean_line(finding.entity.text)
    yield f"{kind.severity.upper():<9} {kind.code}  {entity}: {kind.word}, for {age_text}"
    yield f"{_INDENT}{kind.sentence}"
    end_text = "" if finding.until_us is None else f" until {moment_text(finding.until_us)}"
    yield (
        f"{_INDENT}since {moment_text(finding.since_us)}{end_text} UTC: {clean_line(finding.text)}"
    )
    if finding.sequences:
        yield f"{_INDENT}messages: {', '.join(map(str, finding.sequences))}"
    yield f"{_INDENT}check: {kind.check}"
    yield f"{_INDENT}do: {clean_line(finding.act)}"


def format_json(report: Report) -> str:
    """Return a report as one line of JSON, printable ASCII; times are UTC µs."""
    text = json.dumps(
        {
            "schema": 1,
            "status": _VERDICT_TEXTS[report.verdict],
            "at_us": report.at_us,
            "streams_count": report.streams_count,
            "consumers_count": report.consumers_count,
            "unknown": report.unknown_reason,
            "silenced_count": report.silenced_count,
            "watched_s": None if report.watched_s is None else round(report.watched_s, 3),
            "not_read": list(report.unread_texts),
            "not_judged": [
                _unjudged_condition_json(condition) for condition in report.unjudged_conditions
            ],
            "audit": audit_json(report),
            "findings": [finding_json(finding) for finding in report.findings],
            "findings_count": dict(Counter(finding.kind.code for finding in report.findings)),
        },
        ensure_ascii=True,
    )
    return clean_json(text)


def _unjudged_condition_json(condition: UnjudgedCondition) -> dict[str, object]:
    kind, entity = condition.kind, condition.entity
    return {
        "code": kind.code,
        "word": kind.word,
        "needs_s": kind.needs_s,
        "stream": entity.stream or None if entity else None,
        "consumer": entity.consumer or None if entity else None,
        "holds_now": entity is not None,
    }


def finding_json(finding: Finding) -> dict[str, object]:
    """Return a finding for JSON: kind, entity, evidence, numbers, begin and end.

    Times are UTC µs; null is unknown, or not applicable to the entity.
    """
    return json_values(FINDING_COLUMNS, FindingRow(finding, finding.until_us or 0))


def format_nagios(report: Report) -> str:
    """Return a report as the line that Nagios, Icinga and similar tools read.

    The line has the status, the worst finding and `|`, then performance data: the number of
    findings, streams and consumers, and the seconds watched.
    """
    worst_finding = report.findings[0] if report.findings else None
    if report.unknown_reason and report.verdict is Verdict.UNKNOWN:
        text = report.unknown_reason
    elif worst_finding is None:
        text = headline(report)
    else:
        more_count = len(report.findings) - 1
        kind = worst_finding.kind
        text = f"{kind.code} {worst_finding.entity.text} {kind.word}: {worst_finding.text}"
        text += f" (and {more_count} more)" if more_count else ""
        text += f", {report.silenced_count} silenced" if report.silenced_count else ""
    critical_count, warning_count = report.count("critical"), report.count("warning")
    performance_data = f"critical={critical_count};;1 warning={warning_count};1"
    performance_data += f" streams={report.streams_count} consumers={report.consumers_count}"
    if report.watched_s is not None:
        performance_data += (
            f" watched={report.watched_s:.1f}s not_judged={len(report.unjudged_conditions)}"
        )
    safe_text = clean_line(text).replace("|", "/")
    return f"{report.verdict.name} natstui: {safe_text} | {performance_data}\n"


def format_openmetrics(report: Report) -> str:
    """Return a report as OpenMetrics text.

    The text has gauges of the verdict (0 fine to 3 unknown), of each finding, and of the number of
    silenced findings.
    """
    name = "natstui_health_status"
    status_lines = f"# HELP {name} 0 fine, 1 warning, 2 critical, 3 unknown\n# TYPE {name} gauge\n"
    lines = "".join(finding_lines(report.findings))
    metric = "natstui_findings_silenced"
    silenced_lines = f"# HELP {metric} Findings left out because they were silenced\n"
    silenced_lines += f"# TYPE {metric} gauge\n{metric} {report.silenced_count}\n"
    return f"{status_lines}{name} {int(report.verdict)}\n{lines}{silenced_lines}# EOF\n"


FORMATTER_BY_NAME: dict[str, Callable[[Report], str]] = {
    "text": format_text,
    "json": lambda report: format_json(report) + "\n",
    "nagios": format_nagios,
    "openmetrics": format_openmetrics,
}


def catalogue_text() -> str:
    """Return all kinds of findings as text, a paragraph each: thresholds, meaning, advice."""
    return "\n\n".join("\n".join(_finding_kind_lines(kind)) for kind in KINDS.values()) + "\n"


def _finding_kind_lines(kind: Kind) -> Iterator[str]:
    yield f"{kind.code}  {kind.severity:<8}  {kind.entity}: {kind.word}"
    yield f"{_INDENT}{kind.sentence}"
    criteria = [f"{name} {THRESHOLDS[name].text}" for name in kind.thresholds]
    if kind.enter_s:
        criteria.append(f"lasts for {kind.enter_s:g} s")
    if kind.leave_s:
        criteria.append(f"ends after absence for {kind.leave_s:g} s")
    if criteria:
        yield f"{_INDENT}when: {'; '.join(criteria)}"
    yield f"{_INDENT}check: {kind.check}"
    yield f"{_INDENT}do: {kind.act}"
    if kind.peer:
        yield f"{_INDENT}elsewhere: {kind.peer}"


def catalogue_json() -> str:
    """Return all kinds of findings as one JSON array: thresholds, meaning and advice."""
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
