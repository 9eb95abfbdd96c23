"""The rules about the account, monitoring itself, servers, the meta group and clients."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator

from natstui.model.findings.catalogue import account as kinds
from natstui.model.findings.catalogue import servers as server_kinds
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.finding import Entity, Symptom
from natstui.model.findings.rules.rowless import rowless_conditions
from natstui.model.findings.thresholds import (
    ACCOUNT_ALARM_SHARE,
    ACCOUNT_WARN_SHARE,
    API_ERRORS_PER_S,
    API_REQUESTS_PER_S,
    API_SLOW_REPLY_S,
    CERTIFICATE_CRITICAL_S,
    CERTIFICATE_WARNING_S,
    DROPPED_MSGS_REPORTED_S,
    LEADER_CHANGES_WINDOW_S,
    MAX_API_INFLIGHT,
    MAX_CONNECTION_SUBSCRIPTIONS,
    MEMORY_OUTLIER_BYTES,
    MEMORY_OUTLIER_FACTOR,
    MIN_CLOSED_CONNECTIONS,
    MIN_LEADER_CHANGES,
    MIN_REFUSED_CLIENTS,
    MIN_RESTARTS,
    MIN_UNBALANCED_DEVIATIONS,
    MIN_UNBALANCED_STREAMS,
    RESTARTS_WINDOW_S,
    SERVER_CPU_SHARE,
    STALE_ROWS_AFTER_S,
    STORAGE_FULL_SHARE,
    STORAGE_NEARLY_FULL_SHARE,
    UNBALANCED_AFTER_RESTART_S,
    UNBALANCED_LEADERS_FACTOR,
)
from natstui.model.live.limits import is_near_limit
from natstui.model.live.state import State
from natstui.model.records.record import BULK_SOURCE, Unavailable
from natstui.model.records.recording import ClockStepped
from natstui.model.servers.replicas import has_lost_leader_contact
from natstui.model.servers.server import ServerState, Storage
from natstui.model.servers.watch import (
    SLOW_CONSUMERS_REPORTED_US,
    KnownServer,
    RefusedLogin,
    ServerWatch,
)
from natstui.units import bytes_text, counted, duration_text, moment_text

Condition = tuple[Entity, Kind, Symptom]
_ACCOUNT_ENTITY = Entity()
_EVENTS_SOURCE = "events"
_API_RATES_WINDOW_S = 10.0
"""Time span of the rates of the account in seconds."""
CHECKED_EVENTS_COUNT = 100
"""Number of newest events that the rules read."""
_NO_LEADER_ERROR = "(error 10008)"
_LAME_DUCK_DURATION_US = 120_000_000
"""Default time until a server in lame duck mode stops (`lame_duck_duration`)."""
_LAME_DUCK_TEXT = (
    "it does not reply, its routes are open, and the other servers send it no clients"
)


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
    yield from _server_conditions(state)


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
        if _is_without_meta_leader(unavailable):
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


def _is_without_meta_leader(unavailable: Unavailable) -> bool:
    """Return whether data is unavailable because the meta group has no leader.

    Only requests to the meta group count: a stream without a leader causes the same error.
    """
    return unavailable.what in ("INFO", "STREAM.LIST") and _NO_LEADER_ERROR in unavailable.reason


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


def _server_entity(name: str) -> Entity:
    return Entity(part=f"server {name}")


def _server_conditions(state: State) -> Iterator[Condition]:
    """Yield the conditions of servers, their meta groups and the account's clients."""
    watch = state.servers
    replying_names = {name for name, server in watch.known.items() if server.down_since_us is None}
    missing_contacts = _count_missing_contacts(state, watch, replying_names)
    silent_count = len(watch.down) + len(missing_contacts)
    for name, server in watch.known.items():
        if server.down_since_us is not None:
            yield _server_entity(name), *_classify_silent_server(watch, server, silent_count)
        else:
            for kind, symptom in _find_server_symptoms(watch, server):
                yield _server_entity(name), kind, symptom
    clusters = {server.seen.cluster for server in watch.known.values()}
    for name, count in missing_contacts.items():
        text = f"{counted(count, 'leader')} of streams and of the meta group"
        kind, text = server_kinds.SERVER_DOWN, f"{text} have no contact with the server"
        if len(clusters) == 1 and _is_in_lame_duck_mode(watch, next(iter(clusters)), silent_count):
            kind, text = server_kinds.LAME_DUCK_MODE, _LAME_DUCK_TEXT
        yield _server_entity(name), kind, Symptom(text, report_after_s=1.0)
    yield from _find_meta_group_conditions(state, watch)
    yield from _find_refused_logins(watch)
    yield from _find_different_versions(watch)
    yield from _find_memory_outliers(watch)
    yield from _find_client_conditions(state)
    yield from _find_unbalanced_leaders(state)


def _find_server_symptoms(
    watch: ServerWatch, server: KnownServer
) -> Iterator[tuple[Kind, Symptom]]:
    reading, now_us = server.seen, watch.at_us
    if reading.jetstream is not None:
        yield from _find_full_store(
            reading.jetstream.file,
            server_kinds.SERVER_STORAGE_FULL,
            server_kinds.SERVER_STORAGE_NEAR_LIMIT,
        )
        yield from _find_full_store(
            reading.jetstream.memory,
            server_kinds.SERVER_MEMORY_FULL,
            server_kinds.SERVER_MEMORY_NEAR_LIMIT,
        )
    yield from _find_expiring_certificate(reading, now_us)
    recent = [us for us in server.restarted_at_us if now_us - us < RESTARTS_WINDOW_S * 1e6]
    if len(recent) >= MIN_RESTARTS:
        text = f"{len(recent)} times within {duration_text(RESTARTS_WINDOW_S)}"
        yield server_kinds.SERVER_RESTARTS_OFTEN, Symptom(text, recent[0])
    elif recent:
        yield (
            server_kinds.SERVER_RESTARTED,
            Symptom(f"at {moment_text(recent[-1])} UTC", recent[-1]),
        )
    if server.slow_rose_count and now_us - server.slow_rose_at_us < SLOW_CONSUMERS_REPORTED_US:
        text = f"{counted(server.slow_rose_count, 'connection')} closed"
        yield server_kinds.SLOW_CONSUMER, Symptom(text, server.slow_rose_at_us)
    if reading.name in watch.leaving:
        yield server_kinds.LAME_DUCK_MODE, Symptom(server_kinds.LAME_DUCK_MODE.sentence)
    cores_count, cpu_percent = reading.cores_count or 1, reading.cpu_percent
    if cpu_percent is not None and cpu_percent > 100 * SERVER_CPU_SHARE * cores_count:
        text = f"{cpu_percent:.0f} % of {counted(cores_count, 'core')}"
        yield server_kinds.SERVER_CPU_BUSY, Symptom(text)
    yield from _find_missing_links(watch, server)


def _find_full_store(
    storage: Storage, full_kind: Kind, near_kind: Kind
) -> Iterator[tuple[Kind, Symptom]]:
    used_share = storage.used_bytes / storage.max_bytes if storage.max_bytes > 0 else 0.0
    if used_share < STORAGE_NEARLY_FULL_SHARE:
        return
    text = f"{bytes_text(storage.used_bytes)} of {bytes_text(storage.max_bytes)} used"
    yield (full_kind if used_share >= STORAGE_FULL_SHARE else near_kind), Symptom(text)


def _find_expiring_certificate(
    reading: ServerState, now_us: int
) -> Iterator[tuple[Kind, Symptom]]:
    if reading.certificate_ends_at_us is None:
        return
    remaining_s = (reading.certificate_ends_at_us - now_us) / 1e6
    if remaining_s < CERTIFICATE_WARNING_S:
        text = f"ends in {duration_text(remaining_s)}" if remaining_s > 0 else "has ended"
        yield (
            (
                server_kinds.CERTIFICATE_EXPIRED
                if remaining_s < CERTIFICATE_CRITICAL_S
                else server_kinds.CERTIFICATE_EXPIRES_SOON
            ),
            Symptom(text),
        )


def _find_missing_links(watch: ServerWatch, server: KnownServer) -> Iterator[tuple[Kind, Symptom]]:
    reading = server.seen
    cluster = [
        other
        for other in watch.known.values()
        if other.down_since_us is None and other.seen.cluster == reading.cluster
    ]
    if reading.cluster and reading.neighbours_count is not None:
        other_servers_count = len(cluster) - 1
        if reading.neighbours_count < other_servers_count:
            servers_text = counted(other_servers_count, "server")
            text = f"connected to {reading.neighbours_count} of {servers_text}"
            yield server_kinds.ROUTES_MISSING, Symptom(text)
    missing_links_texts = [
        f"{present_count} of {max_count} {label}"
        for present_count, max_count, label in (
            (reading.gateways_count, server.gateways_most_count, "gateways"),
            (reading.leafnodes_count, server.leafnodes_most_count, "leafnodes"),
        )
        if present_count is not None and present_count < max_count
    ]
    if missing_links_texts:
        yield server_kinds.GATEWAY_OR_LEAFNODE_LOST, Symptom(", ".join(missing_links_texts))
    max_count, present_count = reading.max_connections_count, reading.connections_count
    if max_count and (present_count or 0) >= STORAGE_NEARLY_FULL_SHARE * max_count:
        is_full = (present_count or 0) >= max_count
        kind = (
            server_kinds.SERVER_CONNECTIONS_FULL
            if is_full
            else server_kinds.SERVER_CONNECTIONS_NEAR_LIMIT
        )
        yield kind, Symptom(f"{present_count} of {max_count} connections")


def _count_missing_contacts(
    state: State, watch: ServerWatch, replying_names: set[str]
) -> Counter[str]:
    """Return the servers that never replied: name → number of leaders without contact to it.

    Servers in contact with a leader are running, and not included.
    """
    missing_contacts: Counter[str] = Counter()
    if watch.newest is None or not watch.newest.rows:
        return missing_contacts
    contacted_names: set[str] = set()
    for peers in state.streams.columns.peers:
        for peer in peers:
            if has_lost_leader_contact(peer):
                missing_contacts[peer.name] += 1
            else:
                contacted_names.add(peer.name)
    for meta in watch.newest.metas:
        for member in meta.peers:
            if has_lost_leader_contact(member):
                missing_contacts[member.name] += 1
            else:
                contacted_names.add(member.name)
    for name in {*watch.known, *contacted_names, *replying_names}:
        missing_contacts.pop(name, None)
    return missing_contacts


def _classify_silent_server(
    watch: ServerWatch, server: KnownServer, silent_count: int
) -> tuple[Kind, Symptom]:
    """Return the condition of a server that has stopped replying: down or in lame duck mode."""
    name, cluster, since_us = server.seen.name, server.seen.cluster, server.down_since_us
    is_lame_duck_announced = name in watch.leaving
    text = f"the last reply came at {moment_text(server.at_us)} UTC"
    if is_lame_duck_announced:
        open_routes_count = _count_silent_routes(watch, cluster)
        remaining_us = _LAME_DUCK_DURATION_US - (watch.at_us - (since_us or 0))
        if (open_routes_count is None and remaining_us > 0) or (open_routes_count or 0) > 0:
            return server_kinds.LAME_DUCK_MODE, Symptom(f"it announced that; {text}", since_us)
        return server_kinds.SERVER_DOWN, Symptom(
            f"it had announced lame duck mode; {text}", since_us
        )
    if _is_in_lame_duck_mode(watch, cluster, silent_count):
        return server_kinds.LAME_DUCK_MODE, Symptom(_LAME_DUCK_TEXT, since_us)
    return server_kinds.SERVER_DOWN, Symptom(text, since_us)


def _list_replying_servers(watch: ServerWatch, cluster: str | None) -> list[ServerState]:
    """Return the data of the servers of a cluster that reply."""
    rows = [server.seen for server in watch.known.values() if server.down_since_us is None]
    return [reading for reading in rows if reading.cluster == cluster]


def _count_silent_routes(watch: ServerWatch, cluster: str | None) -> int | None:
    """Return the number of silent servers of a cluster with open routes; None if unknown.

    A server in lame duck mode keeps its routes until it stops.
    """
    rows = _list_replying_servers(watch, cluster)
    counts = [reading.neighbours_count for reading in rows if reading.neighbours_count is not None]
    return max(counts) + 1 - len(rows) if counts and cluster else None


def _is_in_lame_duck_mode(watch: ServerWatch, cluster: str | None, silent_count: int) -> bool:
    """Return whether all silent servers of a cluster are in lame duck mode.

    Then they have open routes, and other servers no longer advertise them to clients. A hanging
    server is still advertised, and a stopped one has no routes.
    """
    rows = _list_replying_servers(watch, cluster)
    if _count_silent_routes(watch, cluster) != silent_count or not silent_count:
        return False
    advertised_counts = [
        reading.advertised_count for reading in rows if reading.advertised_count is not None
    ]
    return bool(advertised_counts) and max(advertised_counts) == len(rows)


def _find_meta_group_conditions(state: State, watch: ServerWatch) -> Iterator[Condition]:
    group = Entity(part="meta group")
    failures = [
        failure for failure in state.unavailable.values() if _is_without_meta_leader(failure)
    ]
    metas = watch.newest.metas if watch.newest is not None else ()
    leaderless_metas = [meta for meta in metas if meta.leader is None]
    if failures:
        oldest_failure = min(failures, key=lambda failure: failure.at_us)
        symptom = Symptom(oldest_failure.reason, oldest_failure.at_us)
        yield group, server_kinds.META_GROUP_WITHOUT_QUORUM, symptom
    elif leaderless_metas:
        meta = leaderless_metas[0]
        text = f"{meta.cluster or 'the meta group'}: no leader, {meta.size_count} members"
        if meta.quorum_count is not None:
            text += f", of which {meta.quorum_count} are needed"
        yield group, server_kinds.META_GROUP_WITHOUT_QUORUM, Symptom(text)
    from_us = watch.at_us - round(LEADER_CHANGES_WINDOW_S * 1e6)
    recent = [
        at_us
        for at_us in watch.meta_elected_at_us
        if at_us >= from_us and not watch.explains_election(at_us)
    ]
    if len(recent) >= MIN_LEADER_CHANGES:
        text = f"{len(recent)} elections in {LEADER_CHANGES_WINDOW_S / 60:.0f} min"
        yield group, server_kinds.META_LEADER_CHANGES_OFTEN, Symptom(text, recent[0])
    for meta in metas:
        for member in meta.peers:
            server = watch.known.get(member.name)
            is_down = server is None or server.down_since_us is not None
            if has_lost_leader_contact(member) and not is_down:
                text = f"no contact with {meta.leader}, the leader of the meta group"
                yield _server_entity(member.name), server_kinds.META_MEMBER_AWAY, Symptom(text)


def _find_refused_logins(watch: ServerWatch) -> Iterator[Condition]:
    """Yield a condition for each server that repeatedly refuses clients' credentials."""
    refusals_by_server: dict[str, list[RefusedLogin]] = {}
    for refusal in watch.logins_refused:
        refusals_by_server.setdefault(refusal.server, []).append(refusal)
    for server, refusals in refusals_by_server.items():
        count = sum(refusal.times_count for refusal in refusals)
        if count < MIN_REFUSED_CLIENTS:
            continue
        worst = max(refusals, key=lambda refusal: refusal.times_count)
        text = f"{counted(count, 'login')} refused within a minute, most of client {worst.client}"
        text += f", user {worst.user}" if worst.user else ""
        yield (
            _server_entity(server),
            server_kinds.AUTHENTICATION_FAILURES,
            Symptom(text, numbers={"refused_count": count}),
        )


def _find_memory_outliers(watch: ServerWatch) -> Iterator[Condition]:
    """Yield a condition for each server with far more memory use than others of its cluster."""
    bytes_by_cluster: dict[str, dict[str, int]] = {}
    for name, server in watch.known.items():
        cluster, size_bytes = server.seen.cluster, server.seen.memory_bytes
        if cluster and size_bytes is not None and server.down_since_us is None:
            bytes_by_cluster.setdefault(cluster, {})[name] = size_bytes
    for bytes_by_server in bytes_by_cluster.values():
        mean_bytes = sum(bytes_by_server.values()) / len(bytes_by_server)
        for name, size_bytes in bytes_by_server.items():
            if size_bytes > max(
                MEMORY_OUTLIER_FACTOR * mean_bytes, mean_bytes + MEMORY_OUTLIER_BYTES
            ):
                mean_text = bytes_text(round(mean_bytes))
                text = f"{bytes_text(size_bytes)}, the mean of the cluster is {mean_text}"
                yield _server_entity(name), server_kinds.SERVER_MEMORY_OUTLIER, Symptom(text)


def _find_different_versions(watch: ServerWatch) -> Iterator[Condition]:
    names_by_version: dict[str, list[str]] = {}
    level_text_by_version: dict[str, str] = {}
    for name, server in watch.known.items():
        if server.seen.version and server.down_since_us is None:
            names_by_version.setdefault(server.seen.version, []).append(name)
            if server.seen.jetstream is not None and server.seen.jetstream.api_level:
                level_text_by_version[server.seen.version] = (
                    f" (API level {server.seen.jetstream.api_level})"
                )
    if len(names_by_version) > 1:
        text = "; ".join(
            f"{version}{level_text_by_version.get(version, '')}: {', '.join(server_names)}"
            for version, server_names in sorted(names_by_version.items())
        )
        names_with_usual_version = max(names_by_version.values(), key=len)
        names_with_other_version = [
            name
            for server_names in names_by_version.values()
            if server_names is not names_with_usual_version
            for name in server_names
        ]
        is_single_server = len(names_with_other_version) == 1 and len(names_with_usual_version) > 1
        entity = (
            _server_entity(names_with_other_version[0])
            if is_single_server
            else Entity(part="servers")
        )
        yield entity, server_kinds.VERSIONS_DIFFER, Symptom(text)


def _find_client_conditions(state: State) -> Iterator[Condition]:
    clients = state.clients
    if clients is None:
        return
    for client in clients.most_subscribed:
        if client.times_count >= MAX_CONNECTION_SUBSCRIPTIONS:
            text = f"{client.times_count:,} subscriptions on one connection"
            yield (
                Entity(part=f"client {client.client}"),
                server_kinds.MANY_SUBSCRIPTIONS,
                Symptom(text),
            )
    for client in clients.closed:
        if client.times_count >= MIN_CLOSED_CONNECTIONS:
            text = f"{counted(client.times_count, 'connection')} closed within a minute"
            yield (
                Entity(part=f"client {client.client}"),
                server_kinds.CLIENT_RECONNECTS_OFTEN,
                Symptom(text),
            )
    for client in clients.slow:
        text = f"{counted(client.times_count, 'connection')} closed within a minute"
        yield Entity(part=f"client {client.client}"), server_kinds.SLOW_CONSUMER, Symptom(text)


def _find_unbalanced_leaders(state: State) -> Iterator[Condition]:
    """Yield a condition for each server that leads far more than its share of streams.

    The share is the expected number of led streams if each stream chose its leader by chance
    among its replicas. Only streams with a replica on the server count.
    """
    if _is_restarting(state.servers):
        return
    columns = state.streams.columns
    led_counts: Counter[str] = Counter()
    expected_leaders_by_server: defaultdict[str, float] = defaultdict(float)
    leaders_variance_by_server: defaultdict[str, float] = defaultdict(float)
    streams_by_server: Counter[str] = Counter()
    for leader, peers in zip(columns.leader, columns.peers, strict=True):
        if not peers or leader is None:
            continue
        led_counts[leader] += 1
        members = [leader, *(peer.name for peer in peers if not has_lost_leader_contact(peer))]
        lead_probability = 1 / len(members)
        for name in members:
            expected_leaders_by_server[name] += lead_probability
            leaders_variance_by_server[name] += lead_probability * (1 - lead_probability)
            streams_by_server[name] += 1
    for name, led_count in led_counts.items():
        if (
            streams_by_server[name] < MIN_UNBALANCED_STREAMS
            or led_count <= UNBALANCED_LEADERS_FACTOR * expected_leaders_by_server[name]
        ):
            continue
        if led_count - expected_leaders_by_server[name] <= MIN_UNBALANCED_DEVIATIONS * math.sqrt(
            leaders_variance_by_server[name]
        ):
            continue
        streams_text = counted(streams_by_server[name], "stream")
        text = f"{name} leads {led_count} of {streams_text} with replicas on it"
        text += f", an even share is {expected_leaders_by_server[name]:.0f}"
        numbers = {"leads_count": float(led_count), "even_count": expected_leaders_by_server[name]}
        yield _server_entity(name), server_kinds.LEADERS_UNBALANCED, Symptom(text, numbers=numbers)


def _is_restarting(watch: ServerWatch) -> bool:
    """Return whether a server is down or was restarted recently, so that others lead instead."""
    from_us = watch.at_us - round(UNBALANCED_AFTER_RESTART_S * 1e6)
    return any(
        server.down_since_us is not None
        or (server.restarted_at_us and server.restarted_at_us[-1] >= from_us)
        for server in watch.known.values()
    )
