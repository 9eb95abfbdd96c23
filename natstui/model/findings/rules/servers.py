"""Rules about servers, the meta group and clients, over their newest readings."""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterator

from natstui.model.findings.catalogue import servers as kinds
from natstui.model.findings.catalogue.kind import Kind
from natstui.model.findings.finding import Entity, Symptom
from natstui.model.findings.thresholds import (
    CERTIFICATE_S,
    CERTIFICATE_SOON_S,
    CLIENT_CLOSES,
    CLIENT_SUBSCRIPTIONS,
    LEADERS_FEWEST,
    LEADERS_WINDOW_S,
    MEMORY_OUTLIER,
    MEMORY_OUTLIER_BYTES,
    REFUSED_FEWEST,
    RESTARTS_FEWEST,
    RESTARTS_S,
    SERVER_CPU_SHARE,
    STORE_FULL_SHARE,
    STORE_NEAR_SHARE,
    UNBALANCED_AFTER_S,
    UNBALANCED_DEVIATIONS,
    UNBALANCED_FEWEST,
    UNBALANCED_SHARE,
)
from natstui.model.live.state import State
from natstui.model.records.record import Unavailable
from natstui.model.servers.replicas import is_away
from natstui.model.servers.server import ServerSeen, Storage
from natstui.model.servers.watch import SLOW_KEPT_US, KnownServer, LoginsRefused, ServerWatch
from natstui.units import bytes_text, counted, duration_text, moment_text

Condition = tuple[Entity, Kind, Symptom]
_NO_LEADER = "(error 10008)"
_LAME_DUCK_US = 120_000_000
"""Default time until a server in lame duck mode stops (`lame_duck_duration`)."""
_DRAINS = "it does not reply, its routes are open, and the other servers send it no clients"


def is_of_meta_group(trouble: Unavailable) -> bool:
    """Return whether data is unavailable because the meta group has no leader.

    A stream or consumer without a leader replies with the same error.
    """
    return trouble.what in ("INFO", "STREAM.LIST") and _NO_LEADER in trouble.reason


def _server(name: str) -> Entity:
    return Entity(part=f"server {name}")


def server_conditions(state: State) -> Iterator[Condition]:
    """Yield the conditions that hold for servers, their meta group and the account's clients."""
    watch = state.servers
    answering = {name for name, server in watch.known.items() if server.down_since_us is None}
    missed = _missed(state, watch, answering)
    silent_count = len(watch.down) + len(missed)
    for name, server in watch.known.items():
        if server.down_since_us is not None:
            yield _server(name), *_silent(watch, server, silent_count)
        else:
            for kind, symptom in _of_server(watch, server):
                yield _server(name), kind, symptom
    clusters = {server.seen.cluster for server in watch.known.values()}
    for name, count in missed.items():
        text = f"{counted(count, 'leader')} of streams and of the meta group"
        kind, text = kinds.V_DOWN, f"{text} have no contact with the server"
        if len(clusters) == 1 and _drains(watch, next(iter(clusters)), silent_count):
            kind, text = kinds.V_LEAVING, _DRAINS
        yield _server(name), kind, Symptom(text, hold_s=1.0)
    yield from _meta(state, watch)
    yield from _logins(watch)
    yield from _versions(watch)
    yield from _memory(watch)
    yield from _clients(state)
    yield from _balance(state)


def _of_server(watch: ServerWatch, server: KnownServer) -> Iterator[tuple[Kind, Symptom]]:
    reading, now_us = server.seen, watch.at_us
    if reading.jetstream is not None:
        yield from _store(reading.jetstream.file, kinds.V_STORAGE_FULL, kinds.V_STORAGE_NEAR)
        yield from _store(reading.jetstream.memory, kinds.V_MEMORY_FULL, kinds.V_MEMORY_NEAR)
    yield from _certificate(reading, now_us)
    recent = [us for us in server.restarted_at_us if now_us - us < RESTARTS_S * 1e6]
    if len(recent) >= RESTARTS_FEWEST:
        text = f"{len(recent)} times within {duration_text(RESTARTS_S)}"
        yield kinds.V_RESTARTED, Symptom(text, recent[0])
    elif recent:
        yield kinds.V_RESTART, Symptom(f"at {moment_text(recent[-1])} UTC", recent[-1])
    if server.slow_rose_count and now_us - server.slow_rose_at_us < SLOW_KEPT_US:
        text = f"{counted(server.slow_rose_count, 'connection')} closed"
        yield kinds.V_SLOW, Symptom(text, server.slow_rose_at_us)
    if reading.name in watch.leaving:
        yield kinds.V_LEAVING, Symptom(kinds.V_LEAVING.sentence)
    cores = reading.cores_count or 1
    if reading.cpu_percent is not None and reading.cpu_percent > 100 * SERVER_CPU_SHARE * cores:
        text = f"{reading.cpu_percent:.0f} % of {counted(cores, 'core')}"
        yield kinds.V_BUSY, Symptom(text)
    yield from _links(watch, server)


def _store(store: Storage, full: Kind, near: Kind) -> Iterator[tuple[Kind, Symptom]]:
    share = store.used_bytes / store.max_bytes if store.max_bytes > 0 else 0.0
    if share < STORE_NEAR_SHARE:
        return
    text = f"{bytes_text(store.used_bytes)} of {bytes_text(store.max_bytes)} used"
    yield (full if share >= STORE_FULL_SHARE else near), Symptom(text)


def _certificate(reading: ServerSeen, now_us: int) -> Iterator[tuple[Kind, Symptom]]:
    if reading.certificate_ends_at_us is None:
        return
    left_s = (reading.certificate_ends_at_us - now_us) / 1e6
    if left_s < CERTIFICATE_S:
        text = f"ends in {duration_text(left_s)}" if left_s > 0 else "has ended"
        yield (kinds.V_EXPIRED if left_s < CERTIFICATE_SOON_S else kinds.V_EXPIRES), Symptom(text)


def _links(watch: ServerWatch, server: KnownServer) -> Iterator[tuple[Kind, Symptom]]:
    reading = server.seen
    cluster = [
        each
        for each in watch.known.values()
        if each.down_since_us is None and each.seen.cluster == reading.cluster
    ]
    if reading.cluster and reading.neighbours_count is not None:
        others_count = len(cluster) - 1
        if reading.neighbours_count < others_count:
            text = f"connected to {reading.neighbours_count} of {counted(others_count, 'server')}"
            yield kinds.V_ROUTES, Symptom(text)
    lost = [
        f"{now_count} of {most_count} {what}"
        for now_count, most_count, what in (
            (reading.gateways_count, server.gateways_most_count, "gateways"),
            (reading.leafnodes_count, server.leafnodes_most_count, "leafnodes"),
        )
        if now_count is not None and now_count < most_count
    ]
    if lost:
        yield kinds.V_LINK_LOST, Symptom(", ".join(lost))
    most_count, now_count = reading.max_connections_count, reading.connections_count
    if most_count and (now_count or 0) >= STORE_NEAR_SHARE * most_count:
        is_full = (now_count or 0) >= most_count
        kind = kinds.V_CONNECTIONS_FULL if is_full else kinds.V_CONNECTIONS
        yield kind, Symptom(f"{now_count} of {most_count} connections")


def _missed(state: State, watch: ServerWatch, answering: set[str]) -> Counter[str]:
    """Return the servers that never replied, each with the number of leaders that miss it.

    A server in contact with a leader is running, though it may not reply to natstui.
    """
    missed: Counter[str] = Counter()
    if watch.newest is None or not watch.newest.rows:
        return missed
    heard: set[str] = set()
    for peers in state.streams.columns.peers:
        for peer in peers:
            if is_away(peer):
                missed[peer.name] += 1
            else:
                heard.add(peer.name)
    for meta in watch.newest.metas:
        for member in meta.peers:
            if is_away(member):
                missed[member.name] += 1
            else:
                heard.add(member.name)
    for name in {*watch.known, *heard, *answering}:
        missed.pop(name, None)
    return missed


def _silent(watch: ServerWatch, server: KnownServer, silent_count: int) -> tuple[Kind, Symptom]:
    """Return the condition of a server that replied before and does not now."""
    name, cluster, since_us = server.seen.name, server.seen.cluster, server.down_since_us
    announced = name in watch.leaving
    text = f"the last reply came at {moment_text(server.at_us)} UTC"
    if announced:
        open_count = _silent_routes_count(watch, cluster)
        left_us = _LAME_DUCK_US - (watch.at_us - (since_us or 0))
        if (open_count is None and left_us > 0) or (open_count or 0) > 0:
            return kinds.V_LEAVING, Symptom(f"it announced that; {text}", since_us)
        return kinds.V_DOWN, Symptom(f"it had announced lame duck mode; {text}", since_us)
    if _drains(watch, cluster, silent_count):
        return kinds.V_LEAVING, Symptom(_DRAINS, since_us)
    return kinds.V_DOWN, Symptom(text, since_us)


def _of_cluster(watch: ServerWatch, cluster: str | None) -> list[ServerSeen]:
    """Return the servers of a cluster that reply."""
    rows = [server.seen for server in watch.known.values() if server.down_since_us is None]
    return [reading for reading in rows if reading.cluster == cluster]


def _silent_routes_count(watch: ServerWatch, cluster: str | None) -> int | None:
    """Return the number of silent servers of a cluster with open routes; None if unknown.

    In lame duck mode a server keeps its routes until it stops.
    """
    rows = _of_cluster(watch, cluster)
    counts = [reading.neighbours_count for reading in rows if reading.neighbours_count is not None]
    return max(counts) + 1 - len(rows) if counts and cluster else None


def _drains(watch: ServerWatch, cluster: str | None, silent_count: int) -> bool:
    """Return whether all servers of a cluster that do not reply are in lame duck mode.

    They keep their routes, and the others do not send clients to them any more: to one that
    hangs they do, and one that stopped has no route.
    """
    rows = _of_cluster(watch, cluster)
    if _silent_routes_count(watch, cluster) != silent_count or not silent_count:
        return False
    advertised = [seen.advertised_count for seen in rows if seen.advertised_count is not None]
    return bool(advertised) and max(advertised) == len(rows)


def _meta(state: State, watch: ServerWatch) -> Iterator[Condition]:
    group = Entity(part="meta group")
    troubles = [trouble for trouble in state.unavailable.values() if is_of_meta_group(trouble)]
    metas = watch.newest.metas if watch.newest is not None else ()
    leaderless = [meta for meta in metas if meta.leader is None]
    if troubles:
        oldest = min(troubles, key=lambda trouble: trouble.at_us)
        yield group, kinds.V_NO_META, Symptom(oldest.reason, oldest.at_us)
    elif leaderless:
        first = leaderless[0]
        text = f"{first.cluster or 'the meta group'}: no leader, {first.size_count} members"
        if first.quorum_count is not None:
            text += f", of which {first.quorum_count} are needed"
        yield group, kinds.V_NO_META, Symptom(text)
    from_us = watch.at_us - round(LEADERS_WINDOW_S * 1e6)
    recent = [
        at_us
        for at_us in watch.meta_elected_at_us
        if at_us >= from_us and not watch.explains_election(at_us)
    ]
    if len(recent) >= LEADERS_FEWEST:
        text = f"{len(recent)} elections in {LEADERS_WINDOW_S / 60:.0f} min"
        yield group, kinds.V_META_FLAPS, Symptom(text, recent[0])
    for meta in metas:
        for member in meta.peers:
            server = watch.known.get(member.name)
            is_down = server is None or server.down_since_us is not None
            if is_away(member) and not is_down:
                text = f"no contact with {meta.leader}, the leader of the meta group"
                yield _server(member.name), kinds.V_META_AWAY, Symptom(text)


def _logins(watch: ServerWatch) -> Iterator[Condition]:
    """Yield a condition for servers that refuse clients repeatedly, for wrong credentials."""
    refused: dict[str, list[LoginsRefused]] = {}
    for refusal in watch.logins_refused:
        refused.setdefault(refusal.server, []).append(refusal)
    for server, clients in refused.items():
        count = sum(refusal.times_count for refusal in clients)
        if count < REFUSED_FEWEST:
            continue
        most = max(clients, key=lambda refusal: refusal.times_count)
        text = f"{counted(count, 'login')} refused within a minute, most of client {most.client}"
        text += f", user {most.user}" if most.user else ""
        yield _server(server), kinds.V_LOGINS, Symptom(text, numbers={"refused_count": count})


def _memory(watch: ServerWatch) -> Iterator[Condition]:
    """Yield a condition for servers with far more memory use than others of their cluster."""
    used: dict[str, dict[str, int]] = {}
    for name, server in watch.known.items():
        cluster, size = server.seen.cluster, server.seen.memory_bytes
        if cluster and size is not None and server.down_since_us is None:
            used.setdefault(cluster, {})[name] = size
    for sizes in used.values():
        mean = sum(sizes.values()) / len(sizes)
        for name, size in sizes.items():
            if size > max(MEMORY_OUTLIER * mean, mean + MEMORY_OUTLIER_BYTES):
                text = f"{bytes_text(size)}, the mean of the cluster is {bytes_text(round(mean))}"
                yield _server(name), kinds.V_MEMORY_OUTLIER, Symptom(text)


def _versions(watch: ServerWatch) -> Iterator[Condition]:
    names: dict[str, list[str]] = {}
    levels: dict[str, str] = {}
    for name, server in watch.known.items():
        if server.seen.version and server.down_since_us is None:
            names.setdefault(server.seen.version, []).append(name)
            if server.seen.jetstream is not None and server.seen.jetstream.api_level:
                levels[server.seen.version] = f" (API level {server.seen.jetstream.api_level})"
    if len(names) > 1:
        text = "; ".join(
            f"{version}{levels.get(version, '')}: {', '.join(who)}"
            for version, who in sorted(names.items())
        )
        usual = max(names.values(), key=len)
        others = [name for who in names.values() if who is not usual for name in who]
        is_one = len(others) == 1 and len(usual) > 1
        entity = _server(others[0]) if is_one else Entity(part="servers")
        yield entity, kinds.V_VERSIONS, Symptom(text)


def _clients(state: State) -> Iterator[Condition]:
    clients = state.clients
    if clients is None:
        return
    for client in clients.subscribed:
        if client.times_count >= CLIENT_SUBSCRIPTIONS:
            text = f"{client.times_count:,} subscriptions on one connection"
            yield Entity(part=f"client {client.client}"), kinds.V_SUBSCRIPTIONS, Symptom(text)
    for client in clients.closed:
        if client.times_count >= CLIENT_CLOSES:
            text = f"{counted(client.times_count, 'connection')} closed within a minute"
            yield Entity(part=f"client {client.client}"), kinds.V_FLAPPING, Symptom(text)
    for client in clients.slow:
        text = f"{counted(client.times_count, 'connection')} closed within a minute"
        yield Entity(part=f"client {client.client}"), kinds.V_SLOW, Symptom(text)


def _balance(state: State) -> Iterator[Condition]:
    """Yield a condition for servers that lead far more than their share of replicated streams.

    The share of a server is what it would lead if every stream chose its leader by chance among
    its own replicas: streams of other clusters and with other tags do not count for it.
    """
    if _is_restarting(state.servers):
        return
    columns = state.streams.columns
    leads: Counter[str] = Counter()
    share: defaultdict[str, float] = defaultdict(float)
    variance: defaultdict[str, float] = defaultdict(float)
    total: Counter[str] = Counter()
    for leader, peers in zip(columns.leader, columns.peers, strict=True):
        if not peers or leader is None:
            continue
        leads[leader] += 1
        members = [leader, *(peer.name for peer in peers if not is_away(peer))]
        chance = 1 / len(members)
        for name in members:
            share[name] += chance
            variance[name] += chance * (1 - chance)
            total[name] += 1
    for name, count in leads.items():
        if total[name] < UNBALANCED_FEWEST or count <= UNBALANCED_SHARE * share[name]:
            continue
        if count - share[name] <= UNBALANCED_DEVIATIONS * math.sqrt(variance[name]):
            continue
        text = f"{name} leads {count} of {counted(total[name], 'stream')} with replicas on it"
        text += f", an even share is {share[name]:.0f}"
        numbers = {"leads_count": float(count), "even_count": share[name]}
        yield _server(name), kinds.V_UNBALANCED, Symptom(text, numbers=numbers)


def _is_restarting(watch: ServerWatch) -> bool:
    """Return whether a server is down or returned recently, so that others lead instead."""
    from_us = watch.at_us - round(UNBALANCED_AFTER_S * 1e6)
    return any(
        server.down_since_us is not None
        or (server.restarted_at_us and server.restarted_at_us[-1] >= from_us)
        for server in watch.known.values()
    )
