"""The servers at one moment; what is not told is None, and `Missing` says why."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from natstui.model.traffic import Traffic, traffic_of

Source = Literal["system", "monitoring", "account"]
"""Who told: the system account, the monitoring ports, or what any user of an account may ask."""


@dataclass(frozen=True, slots=True)
class Storage:
    """What JetStream holds on one kind of store of one server."""

    used_bytes: int
    reserved_bytes: int
    """What streams with a size of their own may still take, used bytes included."""
    max_bytes: int

    @property
    def free_bytes(self) -> int:
        """Return what is neither used nor promised."""
        return max(0, self.max_bytes - max(self.used_bytes, self.reserved_bytes))


@dataclass(frozen=True, slots=True)
class JetStreamHere:
    """JetStream on one server (`JSZ`)."""

    memory: Storage
    file: Storage
    ha_assets_count: int
    streams_count: int
    consumers_count: int
    streams_led_count: int | None
    """None before 2.11 of the server."""
    consumers_led_count: int | None
    api_requests_count: int
    api_errors_count: int
    api_inflight_count: int
    api_level: int = 0
    """Which options it knows (`api.level`); 0 before 2.11 of the server."""


@dataclass(frozen=True, slots=True)
class ServerSeen:
    """One server; its counters begin with its start."""

    server_id: str
    name: str
    cluster: str | None
    version: str | None
    at_us: int
    """When it answered, by its own clock."""
    connections_count: int | None
    """Of the account alone, where the source is `account`; as all counters of traffic."""
    subscriptions_count: int | None
    in_msgs: int | None
    """What it was sent, by clients and by other servers; of the account by clients alone."""
    in_bytes: int | None
    out_msgs: int | None
    out_bytes: int | None
    slow_consumers_count: int | None
    domain: str | None = None
    started_at_us: int | None = None
    cpu_percent: float | None = None
    """Of one core."""
    cores_count: int | None = None
    memory_bytes: int | None = None
    routes_count: int | None = None
    """Connections to other servers of the cluster; each pair has several."""
    neighbours_count: int | None = None
    """Servers at the other ends of the routes (`remotes`)."""
    leafnodes_count: int | None = None
    gateways_count: int | None = None
    jetstream: JetStreamHere | None = None
    """None without JetStream, and where it is not told."""
    max_connections_count: int | None = None
    certificate_ends_at_us: int | None = None
    """When its certificate for clients expires; None without TLS, and before server 2.12."""
    advertised_count: int | None = None
    """Addresses of its cluster's servers to which it sends clients (`connect_urls`)."""

    @property
    def uptime_s(self) -> float | None:
        """Return for how long it runs."""
        return None if self.started_at_us is None else (self.at_us - self.started_at_us) / 1e6


@dataclass(frozen=True, slots=True)
class MetaPeer:
    """A member of the meta group, as its leader sees it."""

    name: str
    current: bool
    offline: bool
    active_ns: int | None
    """Since the leader heard of it last; None when it never did."""
    lag_entries_count: int


@dataclass(frozen=True, slots=True)
class Meta:
    """The group that decides which streams and consumers there are (`meta_cluster`)."""

    cluster: str
    leader: str | None
    """None: there is none now."""
    size_count: int
    quorum_count: int | None
    pending_count: int
    """Entries that wait to be applied."""
    peers: tuple[MetaPeer, ...]
    """All but the leader, as it sees them; empty when it did not answer, or there is none."""
    snapshot_entries_count: int | None = None
    """Entries since the last snapshot,"""
    snapshot_bytes: int | None = None
    snapshot_at_us: int | None = None
    """which was made then,"""
    snapshot_took_ns: int | None = None
    """and took so long."""

    def peer(self, name: str) -> MetaPeer | None:
        """Return what the leader tells of a server; None of the leader itself."""
        return next((peer for peer in self.peers if peer.name == name), None)


@dataclass(frozen=True, slots=True)
class AccountSeen:
    """One account, over all servers that answered."""

    name: str
    connections_count: int | None
    subscriptions_count: int | None
    slow_consumers_count: int | None
    memory_bytes: int | None
    """Of all replicas on all servers, as the server that knows most; None without JetStream."""
    max_memory_bytes: int | None
    """None is unlimited."""
    file_bytes: int | None
    max_file_bytes: int | None


@dataclass(frozen=True, slots=True)
class Missing:
    """Something that was not told."""

    what: str
    reason: str
    """One sentence, with how an operator grants it."""


@dataclass(frozen=True, slots=True)
class Servers:
    """The servers of the system at one moment."""

    source: Source
    rows: tuple[ServerSeen, ...]
    metas: tuple[Meta, ...] = ()
    """One of each domain."""
    accounts: tuple[AccountSeen, ...] = ()
    silent: tuple[str, ...] = ()
    """Servers that answered at first and then not."""
    missing: tuple[Missing, ...] = ()

    def leader_answers(self, meta: Meta) -> bool:
        """Return whether a meta group's leader is among those that answered.

        Of monitoring ports only some may be known: then it is not told.
        """
        names = {row.name for row in self.rows}
        return self.source == "monitoring" or meta.leader in names

    def meta_of(self, one: ServerSeen) -> Meta | None:
        """Return the meta group that a server belongs to."""
        return next((meta for meta in self.metas if meta.cluster == one.cluster), None)


def rates_between(before: Servers, after: Servers) -> dict[str, Traffic]:
    """Return server id → its rates; a server that began anew has another id, and none yet."""
    if before.source != after.source:
        return {}
    old = {row.server_id: row for row in before.rows}
    rates = {}
    for new in after.rows:
        was = old.get(new.server_id)
        if was is not None and new.at_us > was.at_us:
            traffic = traffic_of(was, new, (new.at_us - was.at_us) / 1e6)
            if traffic is not None:
                rates[new.server_id] = traffic
    return rates
