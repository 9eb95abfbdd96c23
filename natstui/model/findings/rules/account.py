"""The rules about the account and about monitoring itself."""

from __future__ import annotations

from collections.abc import Iterator

from natstui.model.findings.catalogue import account as kinds
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.finding import Entity, Symptom
from natstui.model.findings.rules.rowless import rowless_conditions
from natstui.model.findings.rules.servers import is_of_meta_group, server_conditions
from natstui.model.findings.thresholds import (
    ACCOUNT_ALARM_SHARE,
    ACCOUNT_WARN_SHARE,
    API_ERRORS_PER_S,
    API_INFLIGHT_MOST,
    API_REQUESTS_PER_S,
    API_SLOW_S,
    GIVEN_UP_KEPT_S,
    REFUSED_FEWEST,
    STALE_S,
)
from natstui.model.live.limits import is_near
from natstui.model.live.state import State
from natstui.model.records.record import BULK
from natstui.model.records.recording import ClockStepped
from natstui.units import bytes_text, counted, duration_text

Condition = tuple[Entity, Kind, Symptom]
_ACCOUNT = Entity()
_EVENTS = "events"
_OVER_S = 10.0
"""Time span of the rates of the account."""
CHECKED_EVENTS_COUNT = 100
"""Number of the newest events that are checked; no rule needs older ones."""


def account_conditions(state: State) -> Iterator[Condition]:
    """Yield the conditions that hold for the account and for monitoring."""
    for kind, seen in (*_limits(state), *_api(state), *_refused(state)):
        yield _ACCOUNT, kind, seen
    yield from _monitoring(state)
    yield from rowless_conditions(state)
    yield from server_conditions(state)


def _limits(state: State) -> Iterator[tuple[Kind, Symptom]]:
    account = state.account
    if account is None:
        return
    for used, most, full, near in (
        (account.storage_bytes, account.max_storage_bytes, kinds.A_STORAGE_FULL,
         kinds.A_STORAGE_NEAR),
        (account.memory_bytes, account.max_memory_bytes, kinds.A_MEMORY_FULL,
         kinds.A_MEMORY_NEAR),
    ):  # fmt: skip
        text = f"{bytes_text(used)} of {bytes_text(most)}"
        if most and used > ACCOUNT_ALARM_SHARE * most:
            yield full, Symptom(text)
        elif most and used > ACCOUNT_WARN_SHARE * most:
            yield near, Symptom(text)
    if is_near(account.streams_count, account.max_streams_count):
        text = f"{account.streams_count} of {account.max_streams_count} streams"
        yield kinds.A_STREAMS_NEAR, Symptom(text)
    if is_near(account.consumers_count, account.max_consumers_count):
        text = f"{account.consumers_count} of {account.max_consumers_count} consumers"
        yield kinds.A_CONSUMERS_NEAR, Symptom(text)
    if account.max_memory_bytes is None and account.max_storage_bytes is None:
        yield kinds.A_UNLIMITED, Symptom("neither memory nor storage is limited")
    if (account.api_inflight_count or 0) > API_INFLIGHT_MOST:
        yield kinds.A_API_BACKLOG, Symptom(f"{account.api_inflight_count} requests wait")


def _refused(state: State) -> Iterator[tuple[Kind, Symptom]]:
    """Yield a condition if servers refused clients because of the account's limit."""
    clients = state.clients
    if clients is None or clients.refused_count < REFUSED_FEWEST:
        return
    text = f"{counted(clients.refused_count, 'client')} refused within a minute"
    text += f", {counted(clients.connections_count, 'connection')} open"
    yield kinds.A_CONNECTIONS_FULL, Symptom(text)


def _api(state: State) -> Iterator[tuple[Kind, Symptom]]:
    if not state.costs:
        return
    newest = state.costs[-1]
    rtt_us = newest.cost.api_rtt_us
    if rtt_us is not None and rtt_us > API_SLOW_S * 1e6:
        yield kinds.A_API_SLOW, Symptom(f"an answer took {duration_text(rtt_us / 1e6)}")
    costs = [cost for cost in state.costs if cost.api_errors_count is not None]
    if len(costs) < 2:
        return
    until, from_us = costs[-1], costs[-1].mono_us - _OVER_S * 1e6
    # Polls may be further apart: then the two newest are compared.
    before = next((cost for cost in reversed(costs[:-1]) if cost.mono_us <= from_us), costs[0])
    span_s = (until.mono_us - before.mono_us) / 1e6
    if span_s <= 0:
        return
    since = [cost.cost for cost in costs if cost.mono_us > before.mono_us]
    errors = (until.api_errors_count or 0) - (before.api_errors_count or 0)
    # Our own polls ask again and again for consumers whose server is down.
    errors -= sum(cost.errors_count for cost in since)
    if errors > API_ERRORS_PER_S * span_s:
        per_s = errors / span_s
        yield (
            kinds.A_API_ERRORS,
            Symptom(f"{per_s:.1f} errors a second", None, (), {"per_s": per_s}),
        )
    requests = (until.api_requests_count or 0) - (before.api_requests_count or 0)
    per_s = (requests - sum(cost.requests_count for cost in since)) / span_s
    if per_s > API_REQUESTS_PER_S and span_s >= _OVER_S / 2:
        text = f"{per_s:,.0f} requests per second by other clients"
        yield kinds.A_API_FLOOD, Symptom(text, None, (), {"per_s": per_s})


def _monitoring(state: State) -> Iterator[Condition]:
    link = state.link
    here = Entity(part="natstui")
    # Closed without a reason is the end that somebody asked for.
    ended = link is not None and link.state == "closed" and link.reason is None
    if link is not None and link.state not in ("connected", "connecting") and not ended:
        text = f"{link.state}: {link.reason}" if link.reason else link.state
        yield here, kinds.M_NO_LINK, Symptom(text, link.at_us)
    for what, trouble in state.unavailable.items():
        if is_of_meta_group(trouble):
            # It is told of the meta group.
            continue
        entity = Entity(part=what)
        symptom = Symptom(f"{what}: {trouble.reason}", trouble.at_us)
        if what == _EVENTS:
            yield entity, kinds.M_EVENTS_LEFT_OUT, symptom
        elif trouble.denied_subject:
            yield entity, kinds.M_DENIED, symptom
        elif what == BULK:
            yield entity, kinds.M_NO_BULK, symptom
        else:
            yield entity, kinds.M_UNAVAILABLE, symptom
    old = _stale(state)
    if old is not None:
        yield here, kinds.M_STALE, old
    for event in reversed(state.happenings[-CHECKED_EVENTS_COUNT:]):
        if isinstance(event, ClockStepped):
            if state.now_at_us - event.at_us < GIVEN_UP_KEPT_S * 1e6:
                text = f"the clock was set by {event.step_us / 1e6:+.3f} s"
                yield here, kinds.M_CLOCK, Symptom(text, event.at_us)
            break


def _stale(state: State) -> Symptom | None:
    """Return the condition of stale rows; rows with no replying leader have their own finding."""
    oldest_us = state.now_mono_us - round(STALE_S * 1e6)
    count = 0
    for sampled, leaders in (
        (state.streams.columns.sampled_mono_us, state.streams.columns.leader),
        (state.consumers.columns.sampled_mono_us, state.consumers.columns.leader),
    ):
        if sampled and min(sampled) < oldest_us:
            rows = zip(sampled, leaders, strict=True)
            count += sum(1 for us, leader in rows if us < oldest_us and leader is not None)
    return Symptom(f"{counted(count, 'row')} older than {STALE_S:.0f} s") if count else None
