"""Reads the servers of the system with their load and JetStream, meta groups and accounts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import msgspec

from natstui.errors import PermissionDenied, RequestFailed, RequestTimedOut
from natstui.jetstream.connection.replies import raise_unreadable, read
from natstui.jetstream.connection.times import time_or_never_us, time_us
from natstui.jetstream.system.connections import CONNZ, STATZ
from natstui.jetstream.system.requests import ServerReply, ServerRequests
from natstui.jetstream.system.source import (
    MAX_REPLY_ACCOUNTS,
    NO_SYSTEM_USER_TEXT,
    CompleteSource,
    RequestOptions,
    SystemConnection,
)
from natstui.model.servers.server import (
    AccountTotals,
    Meta,
    MetaPeer,
    MissingData,
    ServerJetStream,
    Servers,
    ServerState,
    Storage,
)
from natstui.model.servers.versions import OLDEST_SUPPORTED_VERSION, version_of
from natstui.values import replace

_UNLIMITED = 2**63
"""Minimum of values that mean unlimited: -1 as an unsigned number is larger than this."""


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


class _MetaPeer(msgspec.Struct):
    name: str = ""
    current: bool = False
    offline: bool = False
    active: int = 0
    lag: int = 0


class _MetaSnapshot(msgspec.Struct):
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
    replicas: list[_MetaPeer] | None = None
    snapshot: _MetaSnapshot | None = None


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


class _MessageTraffic(msgspec.Struct):
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
    sent: _MessageTraffic = msgspec.field(default_factory=_MessageTraffic)
    received: _MessageTraffic = msgspec.field(default_factory=_MessageTraffic)


class _Accounts(msgspec.Struct):
    account_statz: list[_AccountStatz] | None = None


class _ConnectionCount(msgspec.Struct):
    now: str
    total: int = 0


async def read_servers(
    server_requests: ServerRequests, system: SystemConnection, last_servers: Servers | None = None
) -> Servers:
    """Return the servers, as the best available source reports them.

    Without permission for any source there are no rows; `missing` names what cannot be read.
    Raises RequestTimedOut, ConnectionLost, else RequestFailed, if even the account's own
    connections cannot be read; RequestTimedOut also if the source of `last_servers`, the
    last result, does not reply in time, as it usually replies again soon.
    """
    source, missing = await system.find_source()
    if source is not None:
        try:
            return await _read_from_source(source, missing)
        except RequestFailed as error:
            if (
                isinstance(error, RequestTimedOut)
                and last_servers
                and last_servers.source == source.name
            ):
                raise
            source_text = (
                "the system account" if source.name == "system" else "the monitoring ports"
            )
            missing.append(MissingData(source_text, str(error)))
    elif not missing:
        missing.append(MissingData("the servers themselves", NO_SYSTEM_USER_TEXT))
    return await _read_from_account(server_requests, missing)


async def _read_from_source(source: CompleteSource, missing: Sequence[MissingData]) -> Servers:
    replies = await source.request("VARZ", {})
    silent = source.find_silent(replies)
    problems = list(missing)
    # Without streams: with them it grows by each, and a cluster may have 10,000.
    jsz_replies = await _request_or_add_problem(
        source, "JSZ", {"accounts": True, "raft": True, "limit": MAX_REPLY_ACCOUNTS}, problems
    )
    statz_replies = await _request_or_add_problem(
        source, "STATZ", {"include_unused": True}, problems
    )
    jsz_by_server_id = {reply.server_id: read("JSZ", reply.data, _Jsz) for reply in jsz_replies}
    statz_by_server = [
        read("STATZ", reply.data, _Accounts).account_statz or [] for reply in statz_replies
    ]
    rows = []
    for reply in replies:
        varz = read("VARZ", reply.data, _Varz)
        with raise_unreadable("VARZ"):
            rows.append(_make_server(varz, jsz_by_server_id.get(varz.server_id)))
    with raise_unreadable("JSZ"):
        metas = _make_metas(jsz_by_server_id.values())
    return Servers(
        source.name,
        _sort_servers(rows),
        metas,
        tuple(_make_accounts(jsz_by_server_id.values(), statz_by_server)),
        silent,
        tuple(problems),
    )


async def read_heartbeat(
    server_requests: ServerRequests, system: SystemConnection, last_servers: Servers
) -> Servers:
    """Return the servers that reply now, with JetStream and accounts of `last_servers`.

    Each server sends only one short reply. Raises what `read_servers` raises.
    """
    source, missing = await system.find_source()
    known_servers = {server.server_id: server for server in last_servers.rows}
    if source is not None and source.name == last_servers.source:
        replies = await source.request("VARZ", {})
        silent = source.find_silent(replies)
        rows = []
        for reply in replies:
            varz = read("VARZ", reply.data, _Varz)
            with raise_unreadable("VARZ"):
                row = _make_server(varz, None)
            known_server = known_servers.get(row.server_id)
            if known_server is not None:
                row = replace(row, jetstream=known_server.jetstream, domain=known_server.domain)
            rows.append(row)
        return replace(last_servers, rows=_sort_servers(rows), silent=silent)
    if source is not None or last_servers.source != "account":
        return await read_servers(server_requests, system, last_servers)
    replies = await server_requests.request_all(CONNZ, {"limit": 1})
    rows = []
    for reply in replies:
        page = read(CONNZ, reply.data, _ConnectionCount)
        with raise_unreadable(CONNZ):
            row = _make_server_from_account(reply, page, None)
        known_server = known_servers.get(row.server_id)
        if known_server is not None:
            # Its counters and their time are those of `before`.
            row = replace(known_server, connections_count=row.connections_count)
        rows.append(row)
    missing = [
        *missing,
        *(
            missing_source
            for missing_source in last_servers.missing
            if missing_source not in missing
        ),
    ]
    return replace(
        last_servers,
        rows=_sort_servers(rows),
        silent=server_requests.find_silent(replies),
        missing=tuple(missing),
    )


def _sort_servers(rows: Iterable[ServerState]) -> tuple[ServerState, ...]:
    return tuple(sorted(rows, key=lambda row: (row.cluster or "", row.name, row.server_id)))


async def read_metas(system: SystemConnection) -> tuple[Meta, ...]:
    """Return the meta group of each cluster; raises RequestFailed without a permitted source."""
    source, missing = await system.find_source()
    if source is None:
        raise RequestFailed(missing[0].reason if missing else NO_SYSTEM_USER_TEXT)
    replies = await source.request("JSZ", {})
    with raise_unreadable("JSZ"):
        return _make_metas(read("JSZ", reply.data, _Jsz) for reply in replies)


async def _request_or_add_problem(
    source: CompleteSource, request: str, options: RequestOptions, problems: list[MissingData]
) -> list[ServerReply]:
    """Return the replies to a request; if it fails, an empty list, and add it to `problems`."""
    try:
        return await source.request(request, options)
    except RequestFailed as error:
        problems.append(MissingData("JetStream" if request == "JSZ" else "accounts", str(error)))
        return []


def _make_server(varz: _Varz, jsz: _Jsz | None) -> ServerState:
    return ServerState(
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
        jetstream=_make_jetstream(jsz, varz.version)
        if jsz is not None and not jsz.disabled
        else None,
        max_connections_count=varz.max_connections,
        certificate_ends_at_us=time_or_never_us(varz.tls_cert_not_after),
    )


def _make_jetstream(jsz: _Jsz, version: str) -> ServerJetStream:
    has_leader_counts = (version_of(version) or OLDEST_SUPPORTED_VERSION) >= (2, 11, 0)
    return ServerJetStream(
        memory=Storage(jsz.memory, jsz.reserved_memory, jsz.config.max_memory),
        file=Storage(jsz.storage, jsz.reserved_storage, jsz.config.max_storage),
        ha_assets_count=jsz.ha_assets,
        streams_count=jsz.streams,
        consumers_count=jsz.consumers,
        streams_led_count=jsz.streams_leader if has_leader_counts else None,
        consumers_led_count=jsz.consumers_leader if has_leader_counts else None,
        api_requests_count=jsz.api.total,
        api_errors_count=jsz.api.errors,
        api_inflight_count=jsz.api.inflight,
        api_level=jsz.api.level,
    )


def _make_metas(jsz_replies: Iterable[_Jsz]) -> tuple[Meta, ...]:
    """Return the meta group of each cluster, preferably from its leader, which knows all lags."""
    best_meta_by_cluster: dict[str, _MetaCluster] = {}
    for jsz in jsz_replies:
        meta = jsz.meta_cluster
        if meta is None:
            continue
        previous_cluster = best_meta_by_cluster.get(meta.name)
        # Only the leader's own list does not contain the leader.
        is_from_leader = meta.leader and all(
            replica.name != meta.leader for replica in meta.replicas or ()
        )
        if previous_cluster is None or (is_from_leader and meta.replicas):
            best_meta_by_cluster[meta.name] = meta
    return tuple(_make_meta(cluster) for cluster in best_meta_by_cluster.values())


def _make_meta(cluster: _MetaCluster) -> Meta:
    # Without a leader, no server knows the state of the others: lists are outdated.
    is_from_leader = cluster.leader and all(
        replica.name != cluster.leader for replica in cluster.replicas or ()
    )
    peers = cluster.replicas or [] if is_from_leader else []
    snapshot = cluster.snapshot or _MetaSnapshot()
    return Meta(
        cluster=cluster.name,
        leader=cluster.leader or None,
        size_count=cluster.cluster_size,
        quorum_count=cluster.quorum_needed,
        pending_count=cluster.pending,
        peers=tuple(
            # `active` 0 means that the leader never received anything from it.
            MetaPeer(peer.name, peer.current, peer.offline, peer.active or None, peer.lag)
            for peer in sorted(peers, key=lambda peer: peer.name)
        ),
        snapshot_entries_count=snapshot.pending_entries,
        snapshot_bytes=snapshot.pending_size,
        snapshot_at_us=time_or_never_us(snapshot.last_time),
        snapshot_took_ns=snapshot.last_duration,
    )


def _make_accounts(
    jsz_replies: Iterable[_Jsz], statz_by_server: Sequence[Sequence[_AccountStatz]]
) -> list[AccountTotals]:
    """Return the accounts: sums of connections, and the highest JetStream use that any server
    reports.
    """
    uses_by_account: dict[str, list[_AccountUse]] = {}
    for jsz in jsz_replies:
        for account_use in jsz.account_details or ():
            uses_by_account.setdefault(account_use.name, []).append(account_use)
    stats_by_account: dict[str, list[_AccountStatz]] = {}
    for rows in statz_by_server:
        for row in rows:
            stats_by_account.setdefault(row.name or row.acc, []).append(row)
    return [
        _make_account(name, uses_by_account.get(name, []), stats_by_account.get(name))
        for name in sorted({*uses_by_account, *stats_by_account})
    ]


def _make_account(
    name: str, uses: Sequence[_AccountUse], stats: Sequence[_AccountStatz] | None
) -> AccountTotals:
    stats = stats or ()
    return AccountTotals(
        name=name,
        connections_count=sum(account_stat.conns for account_stat in stats) if stats else None,
        subscriptions_count=sum(account_stat.num_subscriptions for account_stat in stats)
        if stats
        else None,
        slow_consumers_count=sum(account_stat.slow_consumers for account_stat in stats)
        if stats
        else None,
        memory_bytes=max((account_use.memory for account_use in uses), default=None),
        max_memory_bytes=_find_max_limit(account_use.reserved_memory for account_use in uses),
        file_bytes=max((account_use.storage for account_use in uses), default=None),
        max_file_bytes=_find_max_limit(account_use.reserved_storage for account_use in uses),
    )


def _find_max_limit(values: Iterable[int]) -> int | None:
    """Return the largest limit; None if unlimited."""
    return max((value for value in values if value < _UNLIMITED), default=None)


async def _read_from_account(
    server_requests: ServerRequests, missing: Sequence[MissingData]
) -> Servers:
    """Return what any user of the account may read of the servers: connections and traffic."""
    problems = list(missing)
    try:
        replies = await server_requests.request_all(CONNZ, {"limit": 1})
    except PermissionDenied as denied:
        # The denial is named first, before the other sources that cannot be read.
        problems.insert(0, MissingData("the account's connections", str(denied)))
        return Servers("account", (), missing=tuple(problems))
    silent = server_requests.find_silent(replies)
    try:
        statz_replies = await server_requests.request_all(STATZ, {"include_unused": True})
    except RequestFailed as error:
        problems.append(MissingData("traffic of the account", str(error)))
        statz_replies = []
    statz_by_id = {
        reply.server_id: read(STATZ, reply.data, _Accounts).account_statz
        for reply in statz_replies
    }
    rows = []
    for reply in replies:
        page = read(CONNZ, reply.data, _ConnectionCount)
        with raise_unreadable(CONNZ):
            rows.append(
                _make_server_from_account(
                    reply, page, next(iter(statz_by_id.get(reply.server_id) or ()), None)
                )
            )
    return Servers("account", _sort_servers(rows), silent=silent, missing=tuple(problems))


def _make_server_from_account(
    reply: ServerReply, page: _ConnectionCount, account_statz: _AccountStatz | None
) -> ServerState:
    return ServerState(
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
