"""The status of a consumer or stream: the worst finding, or the activity without one."""

from __future__ import annotations

from msgspec import Struct

from natstui.model.findings.catalogue.kind import Kind, Level
from natstui.model.findings.catalogue.status import (
    CATCHING_UP,
    IDLE,
    NO_DELIVERY,
    QUIET,
    REPLAYING,
    SOURCING,
    STORING,
    UNACKED,
    UNUSED,
    UP_TO_DATE,
    WORKING,
    Status,
)
from natstui.model.findings.causes.risky_settings import (
    find_risky_consumer_settings,
    find_risky_stream_settings,
)
from natstui.model.findings.facts.consumer import ConsumerFacts
from natstui.model.findings.finding import Finding, entity_of_key
from natstui.model.findings.thresholds import NO_ACKS_AFTER_S
from natstui.model.live.rates import counter_per_s, rate_column, trend_column, trend_per_s
from natstui.model.live.state import State
from natstui.units import duration_text

_REPORTED_SEVERITIES = ("critical", "warning")
"""Severities of findings that are shown as the status, instead of the activity."""


class Verdict(Struct, frozen=True):
    """The status of a consumer or stream: label and evidence."""

    level: Level
    word: str
    evidence: str
    finding: Finding | None = None
    """The finding that is the status; None if the status is an activity."""


def _find_worst_finding(state: State, key: tuple[str | int, ...]) -> Finding | None:
    worst = state.findings.find_worst_finding(entity_of_key(key))
    return worst if worst is not None and worst.kind.severity in _REPORTED_SEVERITIES else None


def _activity_status(
    pending: int,
    unacked: int,
    delivered_seq: int,
    acked_ago_us: int | None,
    pending_per_s: float | None,
    delivered_per_s: float | None,
) -> Status:
    """Return the activity of a consumer without a finding; `acked_ago_us` None: never acked."""
    if pending == 0 and unacked == 0:
        return UP_TO_DATE if delivered_per_s else IDLE
    if delivered_seq == 0:
        return NO_DELIVERY
    if unacked and (acked_ago_us is None or acked_ago_us > NO_ACKS_AFTER_S * 1e6):
        return UNACKED
    return CATCHING_UP if pending and pending_per_s and pending_per_s < 0 else WORKING


def consumer_statuses(state: State) -> list[Status | Kind]:
    """Return the status of every consumer, in the order of the rows, for sorting."""
    history, columns = state.consumer_history, state.consumers.columns
    rows = zip(
        state.consumers.roster.keys,
        columns.pending_msgs,
        columns.ack_pending_msgs,
        columns.delivered_consumer_seq,
        (_acked_ago_us(state, row) for row in range(len(columns.name))),
        trend_column(history, "pending_msgs"),
        rate_column(history, "delivered_consumer_seq"),
        strict=True,
    )
    statuses: list[Status | Kind] = []
    for key, *counters in rows:
        worst = _find_worst_finding(state, key)
        statuses.append(_activity_status(*counters) if worst is None else worst.kind)
    for row, status in enumerate(statuses):
        if not isinstance(status, Status):
            continue
        if _find_sourcing_consumer(state, row) is not None:
            statuses[row] = SOURCING
        elif status in (WORKING, UNACKED, NO_DELIVERY) and _is_unused(state, row):
            statuses[row] = UNUSED
        elif status in (IDLE, UP_TO_DATE) and _is_replaying(state, row):
            statuses[row] = REPLAYING
    return statuses


def _acked_ago_us(state: State, row: int) -> int | None:
    """Return the time since the last ack in µs; None if none was ever acked."""
    acked_at_us = state.consumers.columns.acked_at_us[row]
    return None if acked_at_us is None else state.now_at_us - acked_at_us


def _last_ack_text(state: State, row: int, acked_ago_us: int | None) -> str:
    """Return the age of the last ack as text; `unknown` if a restart of the server erased it."""
    if acked_ago_us is not None:
        return f"{duration_text(acked_ago_us / 1e6)} ago"
    return "never" if ConsumerFacts(state, row).was_never_acked else "unknown"


def _find_sourcing_consumer(state: State, row: int) -> ConsumerFacts | None:
    """Return the facts about a consumer that feeds another stream; None for other consumers."""
    columns = state.consumers.columns
    config = state.consumer_configurations.get((columns.stream[row], columns.name[row]))
    # Clients use no such deliver subject, so only few configurations are parsed.
    if config is None or not (config.deliver_subject or "").startswith("$JS."):
        return None
    facts = ConsumerFacts(state, row)
    return facts if facts.is_sourcing else None


def _is_unused(state: State, row: int) -> bool:
    """Return whether a consumer is ephemeral and has no client."""
    columns = state.consumers.columns
    if columns.waiting_pulls_count[row] or columns.push_bound[row]:
        return False
    return ConsumerFacts(state, row).is_unused


def _is_replaying(state: State, row: int) -> bool:
    """Return whether the next message waits for its time, by replay policy original.

    Such a message is not pending.
    """
    columns = state.consumers.columns
    config = state.consumer_configurations.get((columns.stream[row], columns.name[row]))
    # Few configurations are read.
    if config is None or config.filter_subjects or '"original"' not in config.config_json:
        return False
    facts = ConsumerFacts(state, row)
    stream = facts.stream
    if stream is None or facts.settings.get("replay_policy") != "original":
        return False
    # Removed messages are not delivered.
    last_removed_seq = stream.columns.first_seq[stream.row] - 1
    delivered_seq = max(columns.delivered_stream_seq[row], last_removed_seq)
    waiting_seqs = stream.columns.last_seq[stream.row] - delivered_seq
    return waiting_seqs > stream.columns.deleted_msgs[stream.row]


def consumer_verdict(state: State, row: int) -> Verdict:
    """Return the status of the consumer in `row` of `state.consumers`, with its evidence."""
    history, key = state.consumer_history, state.consumers.roster.keys[row]
    worst = _find_worst_finding(state, key)
    if worst is not None:
        return Verdict(worst.kind.level, worst.kind.word, worst.text, worst)
    columns, source_facts = state.consumers.columns, _find_sourcing_consumer(state, row)
    if source_facts is not None:
        fed_stream = source_facts.fed_stream or "another stream"
        text = f"feeds {fed_stream}, {source_facts.pending} pending"
        return Verdict(SOURCING.level, SOURCING.word, text)
    pending, unacked = columns.pending_msgs[row], columns.ack_pending_msgs[row]
    pending_trend_per_s = trend_per_s(history, key, "pending_msgs")
    delivered_per_s = counter_per_s(history, key, "delivered_consumer_seq")
    delivered_seq = columns.delivered_consumer_seq[row]
    acked_ago_us = _acked_ago_us(state, row)
    status = _activity_status(
        pending, unacked, delivered_seq, acked_ago_us, pending_trend_per_s, delivered_per_s
    )
    if status in (WORKING, UNACKED, NO_DELIVERY) and _is_unused(state, row):
        text, status = f"{pending} pending, no client uses it: the server removes it", UNUSED
    elif status in (UP_TO_DATE, IDLE):
        status = REPLAYING if _is_replaying(state, row) else status
        text = status.sentence
    elif status is NO_DELIVERY:
        text = f"{pending} pending, none was delivered yet"
    elif status is CATCHING_UP:
        text = f"{pending} pending, {pending_trend_per_s or 0:+.1f}/s"
    elif status is UNACKED:
        ack_text = _last_ack_text(state, row, acked_ago_us)
        text = f"{unacked} waiting for their ack, last ack {ack_text}"
    else:
        text = f"{pending} pending, {unacked} waiting for their ack"
    return Verdict(status.level, status.word, text)


def stream_verdict(state: State, row: int) -> Verdict:
    """Return the status of the stream in `row` of `state.streams`, with its evidence."""
    key = state.streams.roster.keys[row]
    worst = _find_worst_finding(state, key)
    if worst is not None:
        return Verdict(worst.kind.level, worst.kind.word, worst.text, worst)
    stored_per_s = counter_per_s(state.stream_history, key, "last_seq")
    status = STORING if stored_per_s else QUIET
    return Verdict(status.level, status.word, status.sentence)


def stream_statuses(state: State) -> list[Status | Kind]:
    """Return the status of every stream, in the order of the rows, for sorting."""
    rates = rate_column(state.stream_history, "last_seq")
    statuses: list[Status | Kind] = []
    for key, rate in zip(state.streams.roster.keys, rates, strict=True):
        worst = _find_worst_finding(state, key)
        statuses.append((STORING if rate else QUIET) if worst is None else worst.kind)
    return statuses


def consumer_findings(state: State, row: int) -> list[Finding]:
    """Return all findings about a consumer, including its risky settings."""
    key = state.consumers.roster.keys[row]
    return [
        *state.findings.list_open_findings_of(entity_of_key(key)),
        *find_risky_consumer_settings(state, row),
    ]


def stream_findings(state: State, row: int) -> list[Finding]:
    """Return all findings about a stream, including its risky settings."""
    key = state.streams.roster.keys[row]
    return [
        *state.findings.list_open_findings_of(entity_of_key(key)),
        *find_risky_stream_settings(state, row),
    ]
