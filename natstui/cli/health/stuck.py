"""One consumer in full, for `natstui stuck`."""

from __future__ import annotations

from collections.abc import Iterator

from natstui.clean import clean_line
from natstui.cli.health.formats import paragraph
from natstui.cli.health.report import Report
from natstui.model.findings.verdict import consumer_verdict
from natstui.model.live.ack_times import window_text
from natstui.model.live.age import consumer_lag
from natstui.model.live.rates import counter_per_s, trend_per_s
from natstui.model.live.state import State
from natstui.units import UNKNOWN, counted, duration_text, rate_text


def explained(state: State, stream: str, consumer: str, report: Report) -> list[str]:
    """Return what a consumer does, where it stands, and all that is wrong with it, as lines."""
    names = zip(state.consumers.columns.stream, state.consumers.columns.name, strict=True)
    row = list(names).index((stream, consumer))
    verdict = consumer_verdict(state, row)
    title = f"{clean_line(stream)} > {clean_line(consumer)}: {verdict.word}"
    lines = [title, f"  {clean_line(verdict.evidence)}", ""]
    lines += [f"  {label:<16} {text}" for label, text in _facts(state, row)]
    if not report.findings:
        lines += ["", "nothing is wrong with it that natstui can see"]
    for one in report.findings:
        lines += ["", *paragraph(one, report.at_us)]
    return lines


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
        yield "lag", f"the next message has waited for {about}{duration_text(lag.time_s)}"
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
