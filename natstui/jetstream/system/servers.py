"""The servers of the system: each with its load and JetStream, the meta group, the accounts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

import msgspec

from natstui.errors import PermissionDenied, RequestFailed
from natstui.jetstream.connection.replies import read, reading
from natstui.jetstream.connection.times import time_or_never_us, time_us
from natstui.jetstream.system.asking import ServerAnswer, ServerRequests
from natstui.jetstream.system.connections import CONNZ, STATZ
from natstui.jetstream.system.source import NOT_SET, CompleteSource, Options, System
from natstui.model.servers.server import (
    AccountSeen,
    JetStreamHere,
    Meta,
    MetaPeer,
    Missing,
    Servers,
    ServerSeen,
    Storage,
)
from natstui.model.servers.versions import OLDEST, version_of

_UNLIMITED = 2**63
"""Minimum of an unlimited value: as an unsigned number, -1 is larger than this."""


class _Cluster(msgspec.Struct):
    name: str | None = None


class _Gateway(msgspec.Struct):
    gateways: list[msgspec.Raw] | None = None


class _Varz(msgspec.Struct):
    server_id: str
    server_name: str
    version: str
    start: str
    now: str
    mem: int
    cores: int
    cpu: float
    connections: int
    subscriptions: int
    in_msgs: int
    in_bytes: int
    out_msgs: int
    out_bytes: int
    slow_consumers: int
    routes: int = 0
    remotes: int = 0
    leafnodes: int = 0
    max_connections: int | None = None
    tls_cert_not_after: str | None = None
    connect_urls: list[str] | None = None
    cluster: _Cluster = msgspec.field(default_factory=_Cluster)
    gateway: _Gateway = msgspec.field(default_factory=_Gateway)


class _Api(msgspec.Struct):
    level: int = 0
    total: int = 0
    errors: int = 0
    inflight: int = 0


class _Config(msgspec.Struct):
    max_memory: int = 0
    max_storage: int = 0
    domain: str | None = None


class _Peer(msgspec.Struct):
    name: str = ""
    current: bool = False
    offline: bool = False
    active: int = 0
    lag: int = 0


class _Snapshot(msgspec.Struct):
    pending_entries: int | None = None
    pending_size: int | None = None
    last_time: str | None = None
    last_duration: int | None = None


class _MetaCluster(msgspec.Struct):
    name: str = ""
    leader: str | None = None
    cluster_size: int = 0
    quorum_needed: int | None = None
    pending: int = 0
    replicas: list[_Peer] | None = None
    snapshot: _Snapshot | None = None


class _AccountUse(msgspec.Struct):
    name: str
    memory: int = 0
    storage: int = 0
    reserved_memory: int = 0
    reserved_storage: int = 0


class _Jsz(msgspec.Struct):
    server_id: str
    disabled: bool = False
    memory: int = 0
    storage: int = 0
    reserved_memory: int = 0
    reserved_storage: int = 0
    ha_assets: int = 0
    streams: int = 0
    consumers: int = 0
    # Only servers since 2.11 count them, and leave a 0 out.
    streams_leader: int = 0
    consumers_leader: int = 0
    api: _Api = msgspec.field(default_factory=_Api)
    config: _Config = msgspec.field(default_factory=_Config)
    meta_cluster: _MetaCluster | None = None
    account_details: list[_AccountUse] | None = None


class _Traffic(msgspec.Struct):
    msgs: int = 0
    bytes: int = 0


class _AccountStatz(msgspec.Struct):
    acc: str = ""
    # Only servers since 2.11 have it; `acc` is the public key where there are JWTs.
    name: str = ""
    conns: int = 0
    leafnodes: int = 0
    num_subscriptions: int = 0
    slow_consumers: int = 0
    sent: _Traffic = msgspec.field(default_factory=_Traffic)
    received: _Traffic = msgspec.field(default_factory=_Traffic)


class _Accounts(msgspec.Struct):
    account_statz: list[_AccountStatz] | None = None


class _Count(msgspec.Struct):
    now: str
    total: int = 0


async def read_servers(asking: ServerRequests, system: System) -> Servers:
    """Return the servers, as far as the best source reports them.

    Without permission for any there are no rows, and all that is missing is named. Raises
    RequestTimedOut, ServerGone, else RequestFailed, when even the account's own view cannot be
    read.
    """
    telling, missing = await system.telling()
    if telling is not None:
        try:
            return await _of_system(telling, missing)
        except RequestFailed as error:
            source_text = (
                "the system account" if telling.source == "system" else "the monitoring ports"
            )
            missing.append(Missing(source_text, str(error)))
    elif not missing:
        missing.append(Missing("the servers themselves", NOT_SET))
    return await _of_account(asking, missing)


async def _of_system(telling: CompleteSource, missing: Sequence[Missing]) -> Servers:
    replies = await telling.ask("VARZ", {})
    silent = telling.silent(replies)
    problems = list(missing)
    # Without streams: with them it grows by each, and a cluster may have 10,000.
    jsz = await _or_missing(telling, "JSZ", {"accounts": True, "raft": True}, problems)
    statz = await _or_missing(telling, "STATZ", {"include_unused": True}, problems)
    of_server = {reply.server_id: read("JSZ", reply.data, _Jsz) for reply in jsz}
    counts = [read("STATZ", reply.data, _Accounts).account_statz or [] for reply in statz]
    rows = []
    for reply in replies:
        varz = read("VARZ", reply.data, _Varz)
        with reading("VARZ"):
            rows.append(_server(varz, of_server.get(varz.server_id)))
    with reading("JSZ"):
        metas = _metas(of_server.values())
    return Servers(
        telling.source,
        _ordered(rows),
        metas,
        tuple(_accounts(of_server.values(), counts)),
        silent,
        tuple(problems),
    )


async def read_heartbeat(asking: ServerRequests, system: System, before: Servers) -> Servers:
    """Return which servers reply now, with the JetStream, accounts and traffic of `before`.

    It costs each server one short reply. Raises what `read_servers` raises.
    """
    telling, missing = await system.telling()
    known_servers = {server.server_id: server for server in before.rows}
    if telling is not None and telling.source == before.source:
        replies = await telling.ask("VARZ", {})
        silent = telling.silent(replies)
        rows = []
        for reply in replies:
            varz = read("VARZ", reply.data, _Varz)
            with reading("VARZ"):
                row = _server(varz, None)
            was = known_servers.get(row.server_id)
            if was is not None:
                row = replace(row, jetstream=was.jetstream, domain=was.domain)
            rows.append(row)
        return replace(before, rows=_ordered(rows), silent=silent)
    if telling is not None or before.source != "account":
        return await read_servers(asking, system)
    replies = await asking.ask(CONNZ, {"limit": 1})
    rows = []
    for answer in replies:
        page = read(CONNZ, answer.data, _Count)
        with reading(CONNZ):
            row = _by_account(answer, page, None)
        was = known_servers.get(row.server_id)
        if was is not None:
            # Its counters are those of before, and so is their time.
            row = replace(was, connections_count=row.connections_count)
        rows.append(row)
    missing = [*missing, *(gap for gap in before.missing if gap not in missing)]
    return replace(
        before, rows=_ordered(rows), silent=asking.silent(replies), missing=tuple(missing)
    )


def _ordered(rows: Iterable[ServerSeen]) -> tuple[ServerSeen, ...]:
    return tuple(sorted(rows, key=lambda row: (row.cluster or "", row.name, row.server_id)))


async def read_metas(system: System) -> tuple[Meta, ...]:
    """Return the meta group of each cluster; raises RequestFailed without a permitted source."""
    telling, missing = await system.telling()
    if telling is None:
        raise RequestFailed(missing[0].reason if missing else NOT_SET)
    replies = await telling.ask("JSZ", {})
    with reading("JSZ"):
        return _metas(read("JSZ", reply.data, _Jsz) for reply in replies)


async def _or_missing(
    telling: CompleteSource, request: str, options: Options, problems: list[Missing]
) -> list[ServerAnswer]:
    """Return the replies; empty if that one request is refused, which is added to `problems`."""
    try:
        return await telling.ask(request, options)
    except RequestFailed as error:
        problems.append(Missing("JetStream" if request == "JSZ" else "accounts", str(error)))
        return []


def _server(varz: _Varz, jsz: _Jsz | None) -> ServerSeen:
    return ServerSeen(
        server_id=varz.server_id,
        name=varz.server_name or varz.server_id,
        cluster=varz.cluster.name or None,
        version=varz.version,
        at_us=time_us(varz.now),
        connections_count=varz.connections,
        subscriptions_count=varz.subscriptions,
        in_msgs=varz.in_msgs,
        in_bytes=varz.in_bytes,
        out_msgs=varz.out_msgs,
        out_bytes=varz.out_bytes,
        slow_consumers_count=varz.slow_consumers,
        domain=jsz.config.domain if jsz is not None else None,
        started_at_us=time_us(varz.start),
        cpu_percent=varz.cpu,
        cores_count=varz.cores,
        memory_bytes=varz.mem,
        routes_count=varz.routes,
        neighbours_count=varz.remotes,
        advertised_count=len(varz.connect_urls) if varz.connect_urls is not None else None,
        leafnodes_count=varz.leafnodes,
        gateways_count=len(varz.gateway.gateways or ()),
        jetstream=_jetstream(jsz, varz.version) if jsz is not None and not jsz.disabled else None,
        max_connections_count=varz.max_connections,
        certificate_ends_at_us=time_or_never_us(varz.tls_cert_not_after),
    )


def _jetstream(jsz: _Jsz, version: str) -> JetStreamHere:
    has_field = (version_of(version) or OLDEST) >= (2, 11, 0)
    return JetStreamHere(
        memory=Storage(jsz.memory, jsz.reserved_memory, jsz.config.max_memory),
        file=Storage(jsz.storage, jsz.reserved_storage, jsz.config.max_storage),
        ha_assets_count=jsz.ha_assets,
        streams_count=jsz.streams,
        consumers_count=jsz.consumers,
        streams_led_count=jsz.streams_leader if has_field else None,
        consumers_led_count=jsz.consumers_leader if has_field else None,
        api_requests_count=jsz.api.total,
        api_errors_count=jsz.api.errors,
        api_inflight_count=jsz.api.inflight,
        api_level=jsz.api.level,
    )


def _metas(jsz_replies: Iterable[_Jsz]) -> tuple[Meta, ...]:
    """Return the meta group of each cluster; only its leader knows the lag of the others."""
    best: dict[str, _MetaCluster] = {}
    for jsz in jsz_replies:
        meta = jsz.meta_cluster
        if meta is None:
            continue
        previous = best.get(meta.name)
        # The leader's own list is the only one in which it does not stand itself.
        of_leader = meta.leader and all(
            replica.name != meta.leader for replica in meta.replicas or ()
        )
        if previous is None or (of_leader and meta.replicas):
            best[meta.name] = meta
    return tuple(_meta(cluster) for cluster in best.values())


def _meta(cluster: _MetaCluster) -> Meta:
    # Without a leader nobody knows of the others: each tells what was once, and of itself.
    of_leader = cluster.leader and all(
        replica.name != cluster.leader for replica in cluster.replicas or ()
    )
    peers = cluster.replicas or [] if of_leader else []
    snapshot = cluster.snapshot or _Snapshot()
    return Meta(
        cluster=cluster.name,
        leader=cluster.leader or None,
        size_count=cluster.cluster_size,
        quorum_count=cluster.quorum_needed,
        pending_count=cluster.pending,
        peers=tuple(
            # `active` 0 is "never heard of", not "heard of just now".
            MetaPeer(one.name, one.current, one.offline, one.active or None, one.lag)
            for one in sorted(peers, key=lambda peer: peer.name)
        ),
        snapshot_entries_count=snapshot.pending_entries,
        snapshot_bytes=snapshot.pending_size,
        snapshot_at_us=time_or_never_us(snapshot.last_time),
        snapshot_took_ns=snapshot.last_duration,
    )


def _accounts(
    jsz_replies: Iterable[_Jsz], counts: Sequence[Sequence[_AccountStatz]]
) -> list[AccountSeen]:
    """Return the accounts: connections of all servers, and the highest JetStream use of any."""
    uses: dict[str, list[_AccountUse]] = {}
    for jsz in jsz_replies:
        for use in jsz.account_details or ():
            uses.setdefault(use.name, []).append(use)
    stats: dict[str, list[_AccountStatz]] = {}
    for rows in counts:
        for row in rows:
            stats.setdefault(row.name or row.acc, []).append(row)
    return [
        _account(name, uses.get(name, []), stats.get(name)) for name in sorted({*uses, *stats})
    ]


def _account(
    name: str, uses: Sequence[_AccountUse], stats: Sequence[_AccountStatz] | None
) -> AccountSeen:
    stats = stats or ()
    return AccountSeen(
        name=name,
        connections_count=sum(stat.conns for stat in stats) if stats else None,
        subscriptions_count=sum(stat.num_subscriptions for stat in stats) if stats else None,
        slow_consumers_count=sum(stat.slow_consumers for stat in stats) if stats else None,
        memory_bytes=max((use.memory for use in uses), default=None),
        max_memory_bytes=_limit(use.reserved_memory for use in uses),
        file_bytes=max((use.storage for use in uses), default=None),
        max_file_bytes=_limit(use.reserved_storage for use in uses),
    )


def _limit(values: Iterable[int]) -> int | None:
    """Return the largest limit; None is unlimited."""
    return max((value for value in values if value < _UNLIMITED), default=None)


async def _of_account(asking: ServerRequests, missing: Sequence[Missing]) -> Servers:
    """Return what any user of an account may read of the servers."""
    problems = list(missing)
    try:
        replies = await asking.ask(CONNZ, {"limit": 1})
    except PermissionDenied as denied:
        # What else would tell of them is worth knowing then, as it is otherwise.
        problems.insert(0, Missing("the account's connections", str(denied)))
        return Servers("account", (), missing=tuple(problems))
    silent = asking.silent(replies)
    try:
        statz = await asking.ask(STATZ, {"include_unused": True})
    except RequestFailed as error:
        problems.append(Missing("traffic of the account", str(error)))
        statz = []
    statz_by_id = {
        reply.server_id: read(STATZ, reply.data, _Accounts).account_statz for reply in statz
    }
    rows = []
    for reply in replies:
        page = read(CONNZ, reply.data, _Count)
        with reading(CONNZ):
            rows.append(
                _by_account(reply, page, next(iter(statz_by_id.get(reply.server_id) or ()), None))
            )
    return Servers("account", _ordered(rows), silent=silent, missing=tuple(problems))


def _by_account(
    reply: ServerAnswer, page: _Count, account_statz: _AccountStatz | None
) -> ServerSeen:
    return ServerSeen(
        server_id=reply.server_id,
        name=reply.name,
        cluster=reply.cluster,
        version=reply.version,
        at_us=time_us(page.now),
        connections_count=page.total,
        subscriptions_count=None if account_statz is None else account_statz.num_subscriptions,
        in_msgs=None if account_statz is None else account_statz.received.msgs,
        in_bytes=None if account_statz is None else account_statz.received.bytes,
        out_msgs=None if account_statz is None else account_statz.sent.msgs,
        out_bytes=None if account_statz is None else account_statz.sent.bytes,
        slow_consumers_count=None if account_statz is None else account_statz.slow_consumers,
    )
