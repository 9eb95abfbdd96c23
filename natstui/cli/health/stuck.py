"""One consumer in full, for `natstui stuck`."""

from __future__ import annotations

import json
from collections.abc import Iterator

import msgspec

from natstui.clean import clean_line
from natstui.cli.health.formats import audit_json, audit_lines, finding_json, paragraph
from natstui.cli.health.report import Report
from natstui.cli.watch.assets import asset_values, consumer_rows
from natstui.model.bench.latency import PERCENTILES
from natstui.model.findings.facts.consumer import ConsumerFacts
from natstui.model.findings.facts.fact import CONSUMER_FACTS, fact_text, fact_values
from natstui.model.findings.verdict import consumer_verdict
from natstui.model.live.ack_times import window_text
from natstui.model.live.age import consumer_lag
from natstui.model.live.rates import counter_per_s, trend_per_s
from natstui.model.live.state import State
from natstui.model.live.tap_words import HONEST, tap_counts, tap_state, tap_unsettled
from natstui.model.records.tap import Tapped
from natstui.units import UNKNOWN, counted, duration_text, rate_text


def explained(
    state: State,
    stream: str,
    consumer: str,
    report: Report,
    tapped: Tapped | None = None,
    *,
    with_facts: bool = False,
) -> list[str]:
    """Return what a consumer does, where it stands, and all that is wrong with it, as lines."""
    row = _row_of(state, stream, consumer)
    verdict = consumer_verdict(state, row)
    title = f"{clean_line(stream)} > {clean_line(consumer)}: {verdict.word}"
    lines = [title, f"  {clean_line(verdict.evidence)}", ""]
    lines += [f"  {label:<16} {text}" for label, text in _facts(state, row)]
    if not report.findings:
        lines += ["", "natstui found nothing wrong with the consumer"]
    for finding in report.findings:
        lines += ["", *paragraph(finding, report.at_us)]
    if with_facts:
        lines += ["", "facts", *_fact_lines(state, row)]
    lines += audit_lines(report)
    return lines if tapped is None else [*lines, "", *_tap_lines(tapped)]


def _fact_lines(state: State, row: int) -> Iterator[str]:
    """Yield every fact about a consumer: its value, its window, what it means."""
    values = fact_values(ConsumerFacts(state, row), tuple(CONSUMER_FACTS))
    for name, fact in CONSUMER_FACTS.items():
        text = fact_text(fact, values[name]) if name in values else f"unknown ({fact.needs})"
        window = f" (of {fact.window_s:g} s)" if fact.window_s else ""
        yield f"  {name:<24} {text + window:<30} {fact.meaning}"


def _facts_json(state: State, row: int) -> dict[str, object]:
    """Return every fact about a consumer by its name; null for what is not known."""
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


def explained_json(
    state: State, stream: str, consumer: str, report: Report, tapped: Tapped | None
) -> str:
    """Return the same as one JSON object; times are UTC microseconds."""
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
            "tap": None if tapped is None else _tap_json(tapped),
            "audit": audit_json(report),
        },
        ensure_ascii=True,
    )


def has_row(state: State, stream: str, consumer: str) -> bool:
    """Tell whether a poll saw a consumer."""
    rows = state.consumers.roster.rows_of_stream.get(stream, ())
    return any(state.consumers.columns.name[row] == consumer for row in rows)


def _row_of(state: State, stream: str, consumer: str) -> int:
    names = zip(state.consumers.columns.stream, state.consumers.columns.name, strict=True)
    return list(names).index((stream, consumer))


def _tap_lines(tapped: Tapped) -> Iterator[str]:
    yield f"ack tap: {tap_state(tapped)}"
    for label, text in tap_counts(tapped):
        yield f"  {label:<16} {text}"
    for label, text in tap_unsettled(tapped):
        yield f"  {'not acked':<16} {label} {text}".rstrip()
    yield f"  {HONEST}"


def _tap_json(tapped: Tapped) -> dict[str, object]:
    times = tapped.stored_to_acked
    told: dict[str, object] = msgspec.to_builtins(tapped)
    for name in ("command_id", "stream", "consumer", "stored_to_acked"):
        del told[name]
    return told | {
        "stored_to_acked_p50_ns": times.percentile_ns(PERCENTILES["p50"]),
        "stored_to_acked_p99_ns": times.percentile_ns(PERCENTILES["p99"]),
        "stored_to_acked_max_ns": times.max_ns,
    }


def _facts(state: State, row: int) -> Iterator[tuple[str, str]]:
    """Yield what holds it back or moves it, a line each."""
    columns, key = state.consumers.columns, state.consumers.roster.keys[row]
    config = state.consumer_configurations.get((columns.stream[row], columns.name[row]))
    history = state.consumer_history
    lag = consumer_lag(state, row)
    pending, unacked = columns.pending_msgs[row], columns.ack_pending_msgs[row]
    trend = trend_per_s(history, key, "pending_msgs")
    yield "pending", f"{counted(pending, 'message')}{'' if trend is None else f', {trend:+.1f}/s'}"
    if lag is not None and pending:
        about = "about " if lag.estimated else ""
        yield "lag", f"the next message has been waiting for {about}{duration_text(lag.time_s)}"
    limit = config.max_ack_pending_msgs if config else None
    yield "ack pending", f"{unacked} of {limit or 'unlimited'}" if config else str(unacked)
    yield "redelivered", counted(columns.redelivered_msgs[row], "message")
    if config is not None and config.pull:
        yield "open pulls", str(columns.waiting_pulls_count[row])
    elif config is not None:
        yield "subscriber", "bound" if columns.push_bound[row] else "nobody subscribes"
    yield (
        "delivered",
        _moved(columns.delivered_stream_seq[row], columns.delivered_at_us[row], state.now_at_us)
        + f", {rate_text(counter_per_s(history, key, 'delivered_consumer_seq'))}/s",
    )
    yield (
        "ack floor",
        _moved(columns.ack_floor_stream_seq[row], columns.acked_at_us[row], state.now_at_us),
    )
    name, created_at_us = (columns.stream[row], columns.name[row]), columns.created_at_us[row]
    acks = state.evidence.acks(name, created_at_us, state.now_at_us)
    if acks is not None:
        yield "ack time", window_text(acks)
    if config is not None:
        filters = ", ".join(map(clean_line, config.filter_subjects)) or "everything"
        yield "takes", f"{filters}; ack {config.ack_policy}, deliver {config.deliver_policy}"
    yield "leader", clean_line(columns.leader[row] or UNKNOWN)


def _moved(seq: int, at_us: int | None, now_us: int) -> str:
    if at_us is None:
        return f"sequence {seq}, never moved"
    return f"sequence {seq}, {duration_text(max(0, now_us - at_us) / 1e6)} ago"
