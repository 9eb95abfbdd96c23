"""Formats of a report (text, JSON, Nagios, OpenMetrics), and of a consumer (text, JSON)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator

import msgspec

from natstui.clean import clean_json, clean_line
from natstui.cli.health.report import Report, UnjudgedCondition, Verdict
from natstui.cli.metrics.exposition import finding_lines
from natstui.cli.text_table import Column, stdout_width, table
from natstui.cli.watch.assets import asset_values, consumer_rows
from natstui.model.bench.latency import PERCENTILES
from natstui.model.clients.api_audit import audit_cost_text, audit_counts_text, error_text
from natstui.model.findings.catalogue.every import KINDS
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.facts.consumer import ConsumerFacts
from natstui.model.findings.facts.fact import CONSUMER_FACTS, fact_text, fact_values
from natstui.model.findings.finding import Finding, group_findings
from natstui.model.findings.severities import WORST_FIRST, severity_text
from natstui.model.findings.thresholds import THRESHOLDS
from natstui.model.findings.verdict import consumer_verdict
from natstui.model.live.ack_times import window_text
from natstui.model.live.age import consumer_lag
from natstui.model.live.rates import counter_per_s, trend_per_s
from natstui.model.live.state import State
from natstui.model.live.tap_text import TAP_NOTE, tap_count_lines, tap_message_lines, tap_state
from natstui.model.records.tap import TapResults
from natstui.units import UNKNOWN, counted, duration_text, moment_text, rate_text

_VERDICT_TEXTS = {Verdict.OK: "fine", Verdict.WARNING: "warning", Verdict.CRITICAL: "critical",
          Verdict.UNKNOWN: "unknown"}  # fmt: skip
_NO_FINDINGS_TEXT = "natstui found nothing wrong"
_INDENT = " " * 10
_MAX_REQUESTS = 20
"""Limit of API requests that are printed."""
_MAX_CONDITIONS = 10
"""Limit of conditions that are printed one by one while they have not lasted long enough."""


def headline(report: Report) -> str:
    """Return verdict, number of findings by severity, streams and consumers, as one sentence."""
    rows_text = f"{counted(report.streams_count, 'stream')} and "
    rows_text += counted(report.consumers_count, "consumer")
    counts = [
        severity_text(severity, report.count(severity))
        for severity in WORST_FIRST
        if report.count(severity)
    ]
    findings_text = ", ".join(counts) if counts else _NO_FINDINGS_TEXT
    text = f"{_VERDICT_TEXTS[report.verdict]}: {findings_text} in {rows_text}"
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
        for request in audit.requests[:_MAX_REQUESTS]
    ]
    yield from table(columns, rows, stdout_width()) if rows else ()
    shown_count = sum(request.times_count for request in audit.requests[:_MAX_REQUESTS])
    if audit.requests_count > shown_count:
        yield f"and {counted(f'{audit.requests_count - shown_count:,}', 'other request')}"


def audit_json(report: Report) -> dict[str, object] | None:
    """Return the fields of an API audit for JSON; None without an audit."""
    return None if report.audit is None else msgspec.to_builtins(report.audit)


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
    for condition in current_conditions[:_MAX_CONDITIONS]:
        text = clean_line(condition.entity.text) if condition.entity is not None else ""
        yield (
            f"not judged yet: {text}: {condition.kind.word} ({condition.kind.code}) began only "
            "a moment ago"
        )
    if len(current_conditions) > _MAX_CONDITIONS:
        yield f"and {len(current_conditions) - _MAX_CONDITIONS} more of that kind"
    kinds = [
        condition.kind for condition in report.unjudged_conditions if condition.entity is None
    ]
    if kinds:
        longest_s = max(kind.needs_s for kind in kinds)
        names = ", ".join(f"{kind.word} ({kind.needs_s:g} s)" for kind in kinds)
        yield (
            f"{report.watched_s or 0:.0f} s are too short to judge: {names}; use --for "
            f"{longest_s:g}s, or a recording"
        )


def _finding_paragraphs(report: Report) -> Iterator[str]:
    for group in group_findings(report.findings):
        yield ""
        yield from finding_paragraph(group.first, report.at_us)
        if group.others:
            names = [clean_line(finding.entity.text) for finding in group.others[:_MAX_CONDITIONS]]
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
            "not_judged": [_unjudged_json(condition) for condition in report.unjudged_conditions],
            "audit": audit_json(report),
            "findings": [finding_json(finding) for finding in report.findings],
            "findings_count": dict(Counter(finding.kind.code for finding in report.findings)),
        },
        ensure_ascii=True,
    )
    return clean_json(text)


def _unjudged_json(condition: UnjudgedCondition) -> dict[str, object]:
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


FORMATS: dict[str, Callable[[Report], str]] = {
    "text": format_text,
    "json": lambda report: format_json(report) + "\n",
    "nagios": format_nagios,
    "openmetrics": format_openmetrics,
}


def consumer_lines(
    state: State,
    stream: str,
    consumer: str,
    report: Report,
    tap_result: TapResults | None = None,
    *,
    includes_facts: bool = False,
) -> list[str]:
    """Return a consumer as lines: status and its evidence, counters and settings, findings,
    advice.

    The consumer must have a row in `state` (see `has_row`). `includes_facts` adds every fact that
    causes are found with. `report` has the findings and the API audit, `tap_result` the counts of
    an ack tap.
    """
    row = _row_of(state, stream, consumer)
    verdict = consumer_verdict(state, row)
    title = f"{clean_line(stream)} > {clean_line(consumer)}: {verdict.word}"
    lines = [title, f"  {clean_line(verdict.evidence)}", ""]
    lines += [f"  {label:<16} {text}" for label, text in _counter_texts(state, row)]
    if not report.findings:
        lines += ["", "natstui found nothing wrong with the consumer"]
    for finding in report.findings:
        lines += ["", *finding_paragraph(finding, report.at_us)]
    if includes_facts:
        lines += ["", "facts", *_fact_lines(state, row)]
    lines += audit_lines(report)
    return lines if tap_result is None else [*lines, "", *_tap_lines(tap_result)]


def _fact_lines(state: State, row: int) -> Iterator[str]:
    """Yield every fact about a consumer: value, window, meaning."""
    values = fact_values(ConsumerFacts(state, row), tuple(CONSUMER_FACTS))
    for name, fact in CONSUMER_FACTS.items():
        text = fact_text(fact, values[name]) if name in values else f"unknown ({fact.needs})"
        period_text = f" (of {fact.window_s:g} s)" if fact.window_s else ""
        yield f"  {name:<24} {text + period_text:<30} {fact.meaning}"


def _facts_json(state: State, row: int) -> dict[str, object]:
    """Return every fact about a consumer by name; null if unknown."""
    values = fact_values(ConsumerFacts(state, row), tuple(CONSUMER_FACTS))
    return {
        name: {
            "value": values.get(name),
            "unit": fact.unit,
            "window_s": fact.window_s,
            "needs": fact.needs,
        }
        for name, fact in CONSUMER_FACTS.items()
    }


def consumer_json(
    state: State, stream: str, consumer: str, report: Report, tap_result: TapResults | None
) -> str:
    """Return a consumer as one JSON object: status, evidence, state, findings, facts, tap, audit.

    The consumer must have a row in `state` (see `has_row`). Times are UTC µs.
    """
    row = _row_of(state, stream, consumer)
    verdict = consumer_verdict(state, row)
    return json.dumps(
        {
            "schema": 1,
            "stream": stream,
            "consumer": consumer,
            "at_us": report.at_us,
            "status": verdict.word,
            "evidence": verdict.evidence,
            "state": msgspec.to_builtins(asset_values(next(consumer_rows(state, [row])))),
            "findings": [finding_json(finding) for finding in report.findings],
            "facts": _facts_json(state, row),
            "tap": None if tap_result is None else _tap_json(tap_result),
            "audit": audit_json(report),
        },
        ensure_ascii=True,
    )


def has_row(state: State, stream: str, consumer: str) -> bool:
    """Return whether a poll has read a consumer; an unreachable one may have no row."""
    rows = state.consumers.roster.rows_of_stream.get(stream, ())
    return any(state.consumers.columns.name[row] == consumer for row in rows)


def _row_of(state: State, stream: str, consumer: str) -> int:
    names = zip(state.consumers.columns.stream, state.consumers.columns.name, strict=True)
    return list(names).index((stream, consumer))


def _tap_lines(tap_result: TapResults) -> Iterator[str]:
    yield f"ack tap: {tap_state(tap_result)}"
    for label, text in tap_count_lines(tap_result):
        yield f"  {label:<16} {text}"
    for label, text in tap_message_lines(tap_result):
        yield f"  {'not acked':<16} {label} {text}".rstrip()
    yield f"  {TAP_NOTE}"


def _tap_json(tap_result: TapResults) -> dict[str, object]:
    ack_times = tap_result.stored_to_acked
    values: dict[str, object] = msgspec.to_builtins(tap_result)
    for name in ("command_id", "stream", "consumer", "stored_to_acked"):
        del values[name]
    return values | {
        "stored_to_acked_p50_ns": ack_times.percentile_ns(PERCENTILES["p50"]),
        "stored_to_acked_p99_ns": ack_times.percentile_ns(PERCENTILES["p99"]),
        "stored_to_acked_max_ns": ack_times.max_ns,
    }


def _counter_texts(state: State, row: int) -> Iterator[tuple[str, str]]:
    """Yield label and text of each counter and setting of a consumer that explains its status."""
    columns, key = state.consumers.columns, state.consumers.roster.keys[row]
    config = state.consumer_configurations.get((columns.stream[row], columns.name[row]))
    history = state.consumer_history
    lag = consumer_lag(state, row)
    pending, ack_pending = columns.pending_msgs[row], columns.ack_pending_msgs[row]
    trend = trend_per_s(history, key, "pending_msgs")
    yield "pending", f"{counted(pending, 'message')}{'' if trend is None else f', {trend:+.1f}/s'}"
    if lag is not None and pending:
        prefix = "about " if lag.estimated else ""
        yield "lag", f"the next message has been waiting for {prefix}{duration_text(lag.time_s)}"
    limit = config.max_ack_pending_msgs if config else None
    yield "ack pending", f"{ack_pending} of {limit or 'unlimited'}" if config else str(ack_pending)
    yield "redelivered", counted(columns.redelivered_msgs[row], "message")
    if config is not None and config.pull:
        yield "open pulls", str(columns.waiting_pulls_count[row])
    elif config is not None:
        yield "subscriber", "bound" if columns.push_bound[row] else "not bound"
    delivered_text = _position_text(
        columns.delivered_stream_seq[row],
        columns.delivered_at_us[row],
        state.now_at_us,
        has_moved=columns.delivered_consumer_seq[row] > 0,
    )
    rate = rate_text(counter_per_s(history, key, "delivered_consumer_seq"))
    yield "delivered", f"{delivered_text}, {rate}/s"
    yield (
        "ack floor",
        _position_text(
            columns.ack_floor_stream_seq[row],
            columns.acked_at_us[row],
            state.now_at_us,
            has_moved=columns.ack_floor_consumer_seq[row] > 0,
        ),
    )
    name, created_at_us = (columns.stream[row], columns.name[row]), columns.created_at_us[row]
    acks = state.evidence.acks(name, created_at_us, state.now_at_us)
    if acks is not None:
        yield "ack time", window_text(acks)
    if config is not None:
        filters = ", ".join(map(clean_line, config.filter_subjects)) or "everything"
        yield "filter", f"{filters}; ack {config.ack_policy}, deliver {config.deliver_policy}"
    yield "leader", clean_line(columns.leader[row] or UNKNOWN)


def _position_text(seq: int, at_us: int | None, now_us: int, *, has_moved: bool) -> str:
    if at_us is None:
        # A server forgets the time at a restart.
        return f"sequence {seq}, {'moved at an unknown time' if has_moved else 'never moved'}"
    return f"sequence {seq}, {duration_text(max(0, now_us - at_us) / 1e6)} ago"


def catalogue_text() -> str:
    """Return all kinds of findings as text, a paragraph each: thresholds, meaning, advice."""
    return "\n\n".join("\n".join(_kind_lines(kind)) for kind in KINDS.values()) + "\n"


def _kind_lines(kind: Kind) -> Iterator[str]:
    yield f"{kind.code}  {kind.severity:<8}  {kind.entity}: {kind.word}"
    yield f"{_INDENT}{kind.sentence}"
    limits = [f"{name} {THRESHOLDS[name].text}" for name in kind.thresholds]
    if kind.enter_s:
        limits.append(f"lasts for {kind.enter_s:g} s")
    if kind.leave_s:
        limits.append(f"ends after absence for {kind.leave_s:g} s")
    if limits:
        yield f"{_INDENT}when: {'; '.join(limits)}"
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
