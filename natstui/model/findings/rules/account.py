"""The rules about the account and about monitoring itself."""

from __future__ import annotations

from collections.abc import Iterator

from natstui.model.findings.catalogue import account as kinds
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.finding import Entity, Symptom
from natstui.model.findings.rules.rowless import rowless_conditions
from natstui.model.findings.rules.servers import is_without_meta_leader, server_conditions
from natstui.model.findings.thresholds import (
    ACCOUNT_ALARM_SHARE,
    ACCOUNT_WARN_SHARE,
    API_ERRORS_PER_S,
    API_REQUESTS_PER_S,
    API_SLOW_REPLY_S,
    DROPPED_MSGS_REPORTED_S,
    MAX_API_INFLIGHT,
    MIN_REFUSED_CLIENTS,
    STALE_ROWS_AFTER_S,
)
from natstui.model.live.limits import is_near_limit
from natstui.model.live.state import State
from natstui.model.records.record import BULK_SOURCE
from natstui.model.records.recording import ClockStepped
from natstui.units import bytes_text, counted, duration_text

Condition = tuple[Entity, Kind, Symptom]
_ACCOUNT_ENTITY = Entity()
_EVENTS_SOURCE = "events"
_API_RATES_WINDOW_S = 10.0
"""Time span of the rates of the account in seconds."""
CHECKED_EVENTS_COUNT = 100
"""Number of newest events that the rules read."""


def account_conditions(state: State) -> Iterator[Condition]:
    """Yield the conditions of the account, monitoring, names without a row, and servers."""
    for kind, symptom in (
        *_find_account_limits(state),
        *_find_api_conditions(state),
        *_find_refused_clients(state),
    ):
        yield _ACCOUNT_ENTITY, kind, symptom
    yield from _find_monitoring_conditions(state)
    yield from rowless_conditions(state)
    yield from server_conditions(state)


def _find_account_limits(state: State) -> Iterator[tuple[Kind, Symptom]]:
    account = state.account
    if account is None:
        return
    for used_bytes, max_bytes, full_kind, near_kind in (
        (account.storage_bytes, account.max_storage_bytes, kinds.ACCOUNT_STORAGE_FULL,
         kinds.ACCOUNT_STORAGE_NEAR_LIMIT),
        (account.memory_bytes, account.max_memory_bytes, kinds.ACCOUNT_MEMORY_FULL,
         kinds.ACCOUNT_MEMORY_NEAR_LIMIT),
    ):  # fmt: skip
        text = f"{bytes_text(used_bytes)} of {bytes_text(max_bytes)}"
        if max_bytes and used_bytes > ACCOUNT_ALARM_SHARE * max_bytes:
            yield full_kind, Symptom(text)
        elif max_bytes and used_bytes > ACCOUNT_WARN_SHARE * max_bytes:
            yield near_kind, Symptom(text)
    if is_near_limit(account.streams_count, account.max_streams_count):
        text = f"{account.streams_count} of {account.max_streams_count} streams"
        yield kinds.ACCOUNT_STREAMS_NEAR_LIMIT, Symptom(text)
    if is_near_limit(account.consumers_count, account.max_consumers_count):
        text = f"{account.consumers_count} of {account.max_consumers_count} consumers"
        yield kinds.ACCOUNT_CONSUMERS_NEAR_LIMIT, Symptom(text)
    if account.max_memory_bytes is None and account.max_storage_bytes is None:
        yield kinds.ACCOUNT_UNLIMITED, Symptom("neither memory nor storage is limited")
    if (account.api_inflight_count or 0) > MAX_API_INFLIGHT:
        yield kinds.API_BACKLOG, Symptom(f"{account.api_inflight_count} requests wait")


def _find_refused_clients(state: State) -> Iterator[tuple[Kind, Symptom]]:
    """Yield a condition if servers refused clients by the account's limit of connections."""
    clients = state.clients
    if clients is None or clients.refused_count < MIN_REFUSED_CLIENTS:
        return
    text = f"{counted(clients.refused_count, 'client')} refused within a minute"
    text += f", {counted(clients.connections_count, 'connection')} open"
    yield kinds.ACCOUNT_CONNECTIONS_FULL, Symptom(text)


def _find_api_conditions(state: State) -> Iterator[tuple[Kind, Symptom]]:
    if not state.costs:
        return
    newest = state.costs[-1]
    rtt_us = newest.cost.api_rtt_us
    if rtt_us is not None and rtt_us > API_SLOW_REPLY_S * 1e6:
        yield kinds.API_SLOW, Symptom(f"a reply took {duration_text(rtt_us / 1e6)}")
    costs_with_counters = [cost for cost in state.costs if cost.api_errors_count is not None]
    if len(costs_with_counters) < 2:
        return
    newest_cost, from_us = (
        costs_with_counters[-1],
        costs_with_counters[-1].mono_us - _API_RATES_WINDOW_S * 1e6,
    )
    # Polls may be further apart: then the two newest are compared.
    older_cost = next(
        (cost for cost in reversed(costs_with_counters[:-1]) if cost.mono_us <= from_us),
        costs_with_counters[0],
    )
    span_s = (newest_cost.mono_us - older_cost.mono_us) / 1e6
    if span_s <= 0:
        return
    poll_costs = [cost.cost for cost in costs_with_counters if cost.mono_us > older_cost.mono_us]
    new_errors_count = (newest_cost.api_errors_count or 0) - (older_cost.api_errors_count or 0)
    # natstui itself requests consumers whose server is down in each poll.
    new_errors_count -= sum(cost.errors_count for cost in poll_costs)
    if new_errors_count > API_ERRORS_PER_S * span_s:
        errors_per_s = new_errors_count / span_s
        yield (
            kinds.API_ERRORS,
            Symptom(f"{errors_per_s:.1f} errors a second", None, (), {"per_s": errors_per_s}),
        )
    new_requests_count = (newest_cost.api_requests_count or 0) - (
        older_cost.api_requests_count or 0
    )
    requests_per_s = (
        new_requests_count - sum(cost.requests_count for cost in poll_costs)
    ) / span_s
    if requests_per_s > API_REQUESTS_PER_S and span_s >= _API_RATES_WINDOW_S / 2:
        text = f"{requests_per_s:,.0f} requests per second by other clients"
        yield kinds.MANY_API_REQUESTS, Symptom(text, None, (), {"per_s": requests_per_s})


def _find_monitoring_conditions(state: State) -> Iterator[Condition]:
    link = state.link
    natstui_entity = Entity(part="natstui")
    # A connection that was closed without a reason was closed on request.
    is_closed = link is not None and link.state == "closed" and link.reason is None
    if link is not None and link.state not in ("connected", "connecting") and not is_closed:
        text = f"{link.state}: {link.reason}" if link.reason else link.state
        yield natstui_entity, kinds.NOT_CONNECTED, Symptom(text, link.at_us)
    for source, unavailable in state.unavailable.items():
        if is_without_meta_leader(unavailable):
            # The meta group has a finding of its own.
            continue
        entity = Entity(part=source)
        symptom = Symptom(f"{source}: {unavailable.reason}", unavailable.at_us)
        if source == _EVENTS_SOURCE:
            yield entity, kinds.EVENTS_LEFT_OUT, symptom
        elif unavailable.denied_subject:
            yield entity, kinds.REQUESTS_NOT_PERMITTED, symptom
        elif source == BULK_SOURCE:
            yield entity, kinds.NO_BULK_REPLIES, symptom
        else:
            yield entity, kinds.DATA_UNAVAILABLE, symptom
    stale_rows_symptom = _find_stale_rows(state)
    if stale_rows_symptom is not None:
        yield natstui_entity, kinds.ROWS_STALE, stale_rows_symptom
    for event in reversed(state.recent_events[-CHECKED_EVENTS_COUNT:]):
        if isinstance(event, ClockStepped):
            if state.now_at_us - event.at_us < DROPPED_MSGS_REPORTED_S * 1e6:
                text = f"the clock was set by {event.step_us / 1e6:+.3f} s"
                yield natstui_entity, kinds.CLOCK_CHANGED, Symptom(text, event.at_us)
            break


def _find_stale_rows(state: State) -> Symptom | None:
    """Return the evidence of stale rows, except rows without a leader; None without any."""
    oldest_us = state.now_mono_us - round(STALE_ROWS_AFTER_S * 1e6)
    count = 0
    for sampled_mono_us, leaders in (
        (state.streams.columns.sampled_mono_us, state.streams.columns.leader),
        (state.consumers.columns.sampled_mono_us, state.consumers.columns.leader),
    ):
        if sampled_mono_us and min(sampled_mono_us) < oldest_us:
            rows = zip(sampled_mono_us, leaders, strict=True)
            count += sum(1 for us, leader in rows if us < oldest_us and leader is not None)
    return (
        Symptom(f"{counted(count, 'row')} older than {STALE_ROWS_AFTER_S:.0f} s")
        if count
        else None
    )
