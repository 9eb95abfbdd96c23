"""The servers at one time; unknown values are None, with the reason in `MissingData`."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from natstui.model.traffic import Traffic, traffic_of

Source = Literal["system", "monitoring", "account"]
"""Source of the data: the system account, the monitoring ports, or requests of any user."""


class Storage(Struct, frozen=True):
    """The use of a kind of JetStream storage on a server."""

    used_bytes: int
    reserved_bytes: int
    """Bytes reserved by streams with max bytes, including the used ones."""
    max_bytes: int

    @property
    def free_bytes(self) -> int:
        """Return the bytes that are neither used nor reserved, at least 0."""
        return max(0, self.max_bytes - max(self.used_bytes, self.reserved_bytes))


class ServerJetStream(Struct, frozen=True):
    """JetStream on a server (`JSZ`)."""

    memory: Storage
    file: Storage
    ha_assets_count: int
    streams_count: int
    consumers_count: int
    streams_led_count: int | None
    """Streams that it leads; None before server 2.11."""
    consumers_led_count: int | None
    api_requests_count: int
    api_errors_count: int
    api_inflight_count: int
    api_level: int = 0
    """API level of its options (`api.level`); 0 before server 2.11."""


class ServerState(Struct, frozen=True):
    """A server, with its counters since its start."""

    server_id: str
    name: str
    cluster: str | None
    version: str | None
    at_us: int
    """Time of its reply, by its own clock."""
    connections_count: int | None
    """Connections; only those of the account if the source is `account`, as all traffic."""
    subscriptions_count: int | None
    in_msgs: int | None
    """Messages received from clients and other servers; of an account, only from clients."""
    in_bytes: int | None
    out_msgs: int | None
    out_bytes: int | None
    slow_consumers_count: int | None
    domain: str | None = None
    started_at_us: int | None = None
    cpu_percent: float | None = None
    """Percent of one core."""
    cores_count: int | None = None
    memory_bytes: int | None = None
    routes_count: int | None = None
    """Connections to other servers of the cluster; each pair has several."""
    neighbours_count: int | None = None
    """Servers at the other ends of the routes (`remotes`)."""
    leafnodes_count: int | None = None
    gateways_count: int | None = None
    jetstream: ServerJetStream | None = None
    """None without JetStream, or if unknown."""
    max_connections_count: int | None = None
    certificate_ends_at_us: int | None = None
    """When its certificate for clients expires; None without TLS, and before server 2.12."""
    advertised_count: int | None = None
    """Addresses of its cluster's servers to which it sends clients (`connect_urls`)."""

    @property
    def uptime_s(self) -> float | None:
        """Return the time since the server's start in s; None if unknown."""
        return None if self.started_at_us is None else (self.at_us - self.started_at_us) / 1e6


class MetaPeer(Struct, frozen=True):
    """A member of the meta group, as its leader reports it."""

    name: str
    current: bool
    offline: bool
    active_ns: int | None
    """Time since the leader's last contact; None without any."""
    lag_entries_count: int


class Meta(Struct, frozen=True):
    """The Raft group that stores which streams and consumers exist (`meta_cluster`)."""

    cluster: str
    leader: str | None
    """Name of its leader; None without one."""
    size_count: int
    quorum_count: int | None
    pending_count: int
    """Entries that wait to be applied."""
    peers: tuple[MetaPeer, ...]
    """All members except the leader, as it reports them; empty without its reply."""
    snapshot_entries_count: int | None = None
    """Entries since the last snapshot."""
    snapshot_bytes: int | None = None
    snapshot_at_us: int | None = None
    """Time of the last snapshot."""
    snapshot_took_ns: int | None = None
    """Duration of the last snapshot."""

    def peer(self, name: str) -> MetaPeer | None:
        """Return the leader's report of a member; None for the leader itself."""
        return next((peer for peer in self.peers if peer.name == name), None)


class AccountTotals(Struct, frozen=True):
    """An account, summed over all servers that replied."""

    name: str
    connections_count: int | None
    subscriptions_count: int | None
    slow_consumers_count: int | None
    memory_bytes: int | None
    """Memory of all replicas, as reported by the server with the highest value; None without
    JetStream.
    """
    max_memory_bytes: int | None
    """Limit of memory; None: unlimited."""
    file_bytes: int | None
    max_file_bytes: int | None


class MissingData(Struct, frozen=True):
    """Data that is unknown, with the reason."""

    what: str
    reason: str
    """A sentence with the reason, and how an operator grants access."""


class Servers(Struct, frozen=True):
    """The servers of the system at one time."""

    source: Source
    rows: tuple[ServerState, ...]
    metas: tuple[Meta, ...] = ()
    """The meta group of each domain."""
    accounts: tuple[AccountTotals, ...] = ()
    silent: tuple[str, ...] = ()
    """Servers that stopped replying during the reading."""
    missing: tuple[MissingData, ...] = ()

    def has_leader_reply(self, meta: Meta) -> bool:
        """Return whether a meta group's leader is among the servers that replied.

        With monitoring ports, of which only some may be known, it always counts as replying.
        """
        names = {row.name for row in self.rows}
        return self.source == "monitoring" or meta.leader in names

    def meta_of(self, server: ServerState) -> Meta | None:
        """Return the meta group of a server; None without one."""
        return next((meta for meta in self.metas if meta.cluster == server.cluster), None)


def rates_between(before: Servers, after: Servers) -> dict[str, Traffic]:
    """Return the traffic per second of each server, by server id.

    A restarted server has another id, and no rates yet. Empty if the source of the data changed.
    """
    if before.source != after.source:
        return {}
    old_server_by_id = {row.server_id: row for row in before.rows}
    rates = {}
    for server in after.rows:
        server_before = old_server_by_id.get(server.server_id)
        if server_before is not None and server.at_us > server_before.at_us:
            traffic = traffic_of(server_before, server, (server.at_us - server_before.at_us) / 1e6)
            if traffic is not None:
                rates[server.server_id] = traffic
    return rates
