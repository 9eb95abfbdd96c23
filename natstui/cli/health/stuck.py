"""`natstui stuck`: what one consumer waits for, as text and as JSON."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator

import click
from msgspec import to_builtins

from natstui.clean import clean_line
from natstui.cli.complete import complete_consumers, stream_of_consumer_argument
from natstui.cli.health.command import (
    audit_option,
    exit_unknown_on_failure,
    parse_audit_s,
    read_report,
    watch_time_option,
)
from natstui.cli.health.formats import audit_json, audit_lines, finding_json, finding_paragraph
from natstui.cli.health.report import FindingSelection, Report
from natstui.cli.options import ConnectionFlags, one_account_flags, parse_seconds
from natstui.cli.sections import command
from natstui.cli.text_table import colour_severities
from natstui.cli.watch.assets import asset_values, consumer_rows
from natstui.errors import UsageError
from natstui.model.bench.latency import PERCENTILES
from natstui.model.findings.facts.consumer import ConsumerFacts
from natstui.model.findings.facts.fact import CONSUMER_FACTS, fact_text, fact_values
from natstui.model.findings.verdict import consumer_verdict
from natstui.model.live.ack_times import window_text
from natstui.model.live.age import consumer_lag
from natstui.model.live.permissions import read_only_account_text
from natstui.model.live.rates import counter_per_s, trend_per_s
from natstui.model.live.state import State
from natstui.model.live.tap_text import (
    TAP_NOTE,
    tap_count_lines,
    tap_message_lines,
    tap_progress_text,
)
from natstui.model.records.tap import MAX_TAP_S, StartTap, TapResults
from natstui.units import UNKNOWN, counted, duration_text, rate_text

_COLOUR_BY_EXIT_CODE = {0: "green", 1: "yellow", 2: "red"}
"""Exit code → the colour of the verdict on a terminal."""


@command()
@stream_of_consumer_argument
@click.argument("consumer", shell_complete=complete_consumers)
@watch_time_option
@click.option(
    "--tap", "tap_text", metavar="TIME",
    help="Read every ack, nak and term of the clients for this time: exact counts, but natstui "
        "receives as many messages. Default: off.",
)  # fmt: skip
@audit_option
@click.option(
    "--facts", "includes_facts", is_flag=True,
    help="Print every fact used to find the cause, with its value and period.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@one_account_flags
@exit_unknown_on_failure
def stuck(
    flags: ConnectionFlags, stream: str, consumer: str, for_text: str | None, tap_text: str | None,
    audit_text: str | None, includes_facts: bool, as_json: bool,
) -> None:  # fmt: skip
    """Explain what one consumer waits for.

    Prints which message is next, and what to do. Exit code: 0 nothing is wrong, 1 warning, 2
    critical, 3 not readable.
    """

    if tap_text is not None and flags.account is not None:
        raise UsageError(f"--tap: {read_only_account_text(flags.account)}")
    tap_command = None if tap_text is None else _parse_tap_command(stream, consumer, tap_text)
    selection = FindingSelection(consumer=(stream, consumer), min_severity="info")
    # For one consumer, everything is of interest.
    audit_s = parse_audit_s(flags, audit_text)
    report, reading = read_report(
        flags, selection, for_text, tap_command, includes_silenced=True, audit_s=audit_s
    )
    state, tap_result = reading.state, reading.tap_result
    name = (stream, consumer)
    is_unreachable = stream in state.unreachable_streams or name in state.unreachable_consumers
    if not has_row(state, stream, consumer) and (is_unreachable or report.findings):
        reasons = [
            f"{finding.entity.text}: {finding.kind.sentence}" for finding in report.findings
        ]
        reason = (
            "; ".join(reasons)
            or report.unknown_reason
            or "the leader of the consumer does not reply"
        )
        raise UsageError(f"consumer {stream}/{consumer} cannot be reached: {reason}")
    if report.unknown_reason:
        raise UsageError(report.unknown_reason)
    if as_json:
        click.echo(consumer_json(state, stream, consumer, report, tap_result))
    else:
        lines = consumer_lines(
            state, stream, consumer, report, tap_result, includes_facts=includes_facts
        )
        title = click.style(lines[0], fg=_COLOUR_BY_EXIT_CODE.get(int(report.verdict)), bold=True)
        click.echo("\n".join([title, colour_severities("\n".join(lines[1:]))]))
    if reading.stop_event is not None:
        reading.stop_event.check("reading")
    sys.exit(int(report.verdict))


def _parse_tap_command(stream: str, consumer: str, text: str) -> StartTap:
    for_s = parse_seconds(text, "--tap")
    if not 0 < for_s <= MAX_TAP_S:
        raise UsageError(f"--tap {text}: it must be longer than 0 and at most {MAX_TAP_S:.0f}s")
    return StartTap(0, stream, consumer, for_s)


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
    findings are derived from. `report` has the findings and the API audit, `tap_result` the counts
    of an ack tap.
    """
    row = _consumer_row_index(state, stream, consumer)
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
    return lines if tap_result is None else [*lines, "", *_ack_tap_lines(tap_result)]


def _fact_lines(state: State, row: int) -> Iterator[str]:
    """Yield a line for each fact about a consumer: a value that findings are derived
    from.

    A line has the name, the value, the time window and the meaning.
    """
    values = fact_values(ConsumerFacts(state, row), tuple(CONSUMER_FACTS))
    for name, fact in CONSUMER_FACTS.items():
        text = fact_text(fact, values[name]) if name in values else f"unknown ({fact.needs})"
        period_text = f" (of {fact.window_s:g} s)" if fact.window_s else ""
        yield f"  {name:<24} {text + period_text:<30} {fact.meaning}"


def _facts_json(state: State, row: int) -> dict[str, object]:
    """Return the facts about a consumer, from which findings are derived, by name, for JSON.

    A fact has `value` (null if unknown), `unit`, `window_s` and `needs`.
    """
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
    row = _consumer_row_index(state, stream, consumer)
    verdict = consumer_verdict(state, row)
    return json.dumps(
        {
            "schema": 1,
            "stream": stream,
            "consumer": consumer,
            "at_us": report.at_us,
            "status": verdict.word,
            "evidence": verdict.evidence,
            "state": to_builtins(asset_values(next(consumer_rows(state, [row])))),
            "findings": [finding_json(finding) for finding in report.findings],
            "facts": _facts_json(state, row),
            "tap": None if tap_result is None else _ack_tap_json(tap_result),
            "audit": audit_json(report),
        },
        ensure_ascii=True,
    )


def has_row(state: State, stream: str, consumer: str) -> bool:
    """Return whether the state has a row of a consumer; it may have none of an unreachable one."""
    rows = state.consumers.roster.rows_of_stream.get(stream, ())
    return any(state.consumers.columns.name[row] == consumer for row in rows)


def _consumer_row_index(state: State, stream: str, consumer: str) -> int:
    names = zip(state.consumers.columns.stream, state.consumers.columns.name, strict=True)
    return list(names).index((stream, consumer))


def _ack_tap_lines(tap_result: TapResults) -> Iterator[str]:
    yield f"ack tap: {tap_progress_text(tap_result)}"
    for label, text in tap_count_lines(tap_result):
        yield f"  {label:<16} {text}"
    for label, text in tap_message_lines(tap_result):
        yield f"  {'not acked':<16} {label} {text}".rstrip()
    yield f"  {TAP_NOTE}"


def _ack_tap_json(tap_result: TapResults) -> dict[str, object]:
    ack_times = tap_result.stored_to_acked
    values: dict[str, object] = to_builtins(tap_result)
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
    pending_msgs, ack_pending_msgs = columns.pending_msgs[row], columns.ack_pending_msgs[row]
    pending_trend_per_s = trend_per_s(history, key, "pending_msgs")
    trend_text = "" if pending_trend_per_s is None else f", {pending_trend_per_s:+.1f}/s"
    yield "pending", f"{counted(pending_msgs, 'message')}{trend_text}"
    if lag is not None and pending_msgs:
        estimate_prefix = "about " if lag.is_estimated else ""
        yield (
            "lag",
            f"the next message has been waiting for {estimate_prefix}{duration_text(lag.time_s)}",
        )
    limit_text = f" of {config.max_ack_pending_msgs or 'unlimited'}" if config else ""
    yield "ack pending", f"{ack_pending_msgs}{limit_text}"
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
        filters_text = ", ".join(map(clean_line, config.filter_subjects)) or "everything"
        yield "filter", f"{filters_text}; ack {config.ack_policy}, deliver {config.deliver_policy}"
    yield "leader", clean_line(columns.leader[row] or UNKNOWN)


def _position_text(seq: int, at_us: int | None, now_us: int, *, has_moved: bool) -> str:
    if at_us is None:
        # A server forgets the time at a restart.
        return f"sequence {seq}, {'moved at an unknown time' if has_moved else 'never moved'}"
    return f"sequence {seq}, {duration_text(max(0, now_us - at_us) / 1e6)} ago"
