"""The columns of servers."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from msgspec import Struct, field

from natstui.model.columns.column import Column, column, text_or_dash
from natstui.model.columns.traffic import rate_columns, total_columns
from natstui.model.findings.thresholds import SERVER_CPU_SHARE
from natstui.model.live.limits import is_near_limit
from natstui.model.servers.leaders import LeaderCounts
from natstui.model.servers.server import Meta, ServerJetStream, ServerState, Storage
from natstui.model.servers.text import LEADER, meta_role
from natstui.model.traffic import Traffic
from natstui.units import UNKNOWN, bytes_text, count_text, duration_text

MANY_HA_ASSETS_COUNT = 1_000


class ServerRow(Struct, frozen=True):
    """A server with its traffic, meta group, leaders and downtime."""

    seen: ServerState
    traffic: Traffic | None = None
    meta: Meta | None = None
    leaders: LeaderCounts = field(default_factory=LeaderCounts)
    down_s: float | None = None
    """Time since its last reply; None while it replies."""

    @property
    def role(self) -> str:
        """Return the server's role in the meta group, or its downtime, as text."""
        if self.down_s is not None:
            return f"down {duration_text(max(0.0, self.down_s))}"
        return meta_role(self.meta, self.seen.name)

    @property
    def streams_led_count(self) -> int | None:
        """Return the number of streams that the server leads, None if unknown.

        It counts the streams of all accounts if the server reports them, else of this account.
        """
        jetstream, streams_by_server = self.seen.jetstream, self.leaders.streams_count
        if jetstream is not None and jetstream.streams_led_count is not None:
            return jetstream.streams_led_count
        return streams_by_server.get(self.seen.name, 0) if streams_by_server else None

    @property
    def consumers_led_count(self) -> int | None:
        """Return the number of consumers that the server leads, None if unknown.

        It counts the consumers of all accounts if the server reports them, else of this account.
        """
        jetstream, leaders = self.seen.jetstream, self.leaders
        if jetstream is not None and jetstream.consumers_led_count is not None:
            return jetstream.consumers_led_count
        return leaders.consumers_count.get(self.seen.name, 0) if leaders.streams_count else None

    @property
    def is_cpu_busy(self) -> bool:
        """Return whether the server's CPU use is above `SERVER_CPU_SHARE` of its cores."""
        max_cpu_percent = 100 * SERVER_CPU_SHARE * (self.seen.cores_count or 1)
        return (self.seen.cpu_percent or 0) > max_cpu_percent

    @property
    def is_storage_nearly_full(self) -> bool:
        """Return whether the server's file or memory storage is nearly full."""
        jetstream = self.seen.jetstream
        return jetstream is not None and any(
            is_near_limit(store.used_bytes, store.max_bytes)
            for store in (jetstream.file, jetstream.memory)
        )


def _role_level(row: ServerRow) -> str:
    if row.down_s is not None:
        return "bad"
    if row.role.startswith("lag "):
        return ""
    return {LEADER: "ok", UNKNOWN: "dim"}.get(row.role, "bad")


def _cpu_ratio(row: ServerRow) -> float:
    return (row.seen.cpu_percent or 0) / (100 * (row.seen.cores_count or 1))


def _jetstream_value(
    get: Callable[[ServerJetStream], int | None],
) -> Callable[[ServerRow], int | None]:
    return lambda row: None if row.seen.jetstream is None else get(row.seen.jetstream)


def _store_column(
    key: str, title: str, help: str, store_of: Callable[[ServerJetStream], Storage], priority: int
) -> Column[ServerRow]:
    def level(row: ServerRow) -> str:
        store = row.seen.jetstream and store_of(row.seen.jetstream)
        return "bad" if store and is_near_limit(store.used_bytes, store.max_bytes) else ""

    def used_ratio(row: ServerRow) -> float:
        store = row.seen.jetstream and store_of(row.seen.jetstream)
        return store.used_bytes / store.max_bytes if store and store.max_bytes > 0 else 0.0

    value = _jetstream_value(lambda jetstream: store_of(jetstream).used_bytes)
    return column(key, title, help, value, bytes_text, level, used_ratio, priority=priority)


_text: Callable[..., Column[ServerRow]] = partial(column, format=text_or_dash, numeric=False)
_number: Callable[..., Column[ServerRow]] = partial(column, format=count_text)

SERVER_COLUMNS: tuple[Column[ServerRow], ...] = (
    _text("name", "NAME", "The server's name.", lambda row: row.seen.name,
          level=lambda row: "strong", priority=0, may_be_cut=True),
    _text("meta", "META",
          "Leader of the meta group, or how many entries the server lags, or how long it is down.",
          lambda row: row.role, level=_role_level, priority=2),
    _text("version", "VERSION", "The version of nats-server.", lambda row: row.seen.version,
          dims_unknown=False, priority=5),
    _text("cluster", "CLUSTER", "Cluster that the server belongs to.",
          lambda row: row.seen.cluster, dims_unknown=False, priority=8, may_be_cut=True),
    _number("uptime", "UPTIME", "How long the server has been running.",
            lambda row: None if row.down_s is not None else row.seen.uptime_s,
            format=duration_text, dims_unknown=False, priority=4),
    _number("cpu", "CPU%", "CPU use in percent of one core: a server with 4 cores has 400.",
            lambda row: row.seen.cpu_percent,
            format=lambda percent: UNKNOWN if percent is None else f"{percent:.0f}",
            level=lambda row: "warn" if row.is_cpu_busy else "", used_ratio=_cpu_ratio,
            priority=1),
    _number("memory", "MEMORY", "Memory that the server process uses.",
            lambda row: row.seen.memory_bytes, format=bytes_text, priority=3),
    _number("conns", "CONNS",
            "Connections of clients; without the system account only those of your account.",
            lambda row: row.seen.connections_count, priority=2),
    _number("subs", "SUBS",
            "Subscriptions; without the system account only those of your account.",
            lambda row: row.seen.subscriptions_count, priority=9),
    *rate_columns(lambda row: row.traffic, "received from clients and other servers.",
                  "sent to clients and other servers."),
    *total_columns(lambda row: row.seen, "received since the server started.",
                   "sent since the server started."),
    _number("slow", "SLOW", "How often the server cut off a slow client, since the server "
                            "started.",
            lambda row: row.seen.slow_consumers_count,
            level=lambda row: "bad" if row.seen.slow_consumers_count else "", priority=6),
    _number("routes", "ROUTES",
            "Connections to other servers of the cluster; each pair of servers has several.",
            lambda row: row.seen.routes_count, priority=12),
    _number("streams_led", "LEADS",
            "Streams that the server leads; without the system account only those of your "
            "account.",
            lambda row: row.streams_led_count, priority=1),
    _number("consumers_led", "C LEADS",
            "Consumers that the server leads; without the system account only those of your "
            "account.",
            lambda row: row.consumers_led_count, priority=6),
    _number("behind", "BEHIND",
            "Replicas of your account on the server that are offline, behind, or silent for 5 s.",
            lambda row: row.leaders.behind_count.get(row.seen.name, 0),
            level=lambda row: "bad" if row.leaders.behind_count.get(row.seen.name) else "",
            priority=3, screen_only=True),
    _store_column("file", "STORAGE",
                  "JetStream file storage in use, and its share of the maximum.",
                  lambda jetstream: jetstream.file, priority=5),
    _number("reserved", "RESERVED", "File storage reserved by streams with max bytes.",
            _jetstream_value(lambda jetstream: jetstream.file.reserved_bytes), format=bytes_text),
    _number("free", "FREE", "File storage that is neither used nor reserved.",
            _jetstream_value(lambda jetstream: jetstream.file.free_bytes), format=bytes_text,
            priority=7),
    _store_column("store", "MEM STORE",
                  "JetStream memory storage in use, and its share of the maximum.",
                  lambda jetstream: jetstream.memory, priority=10),
    _number("memory_free", "MEM FREE", "Memory storage that is still free.",
            _jetstream_value(lambda jetstream: jetstream.memory.free_bytes), format=bytes_text),
    _number("ha", "HA",
            "Streams and consumers with several replicas on the server; above 1,000 it gets slow.",
            _jetstream_value(lambda jetstream: jetstream.ha_assets_count),
            level=lambda row: "warn" if row.seen.jetstream is not None
            and row.seen.jetstream.ha_assets_count > MANY_HA_ASSETS_COUNT else "", priority=9),
    _number("inflight", "API NOW", "JetStream API requests in progress.",
            _jetstream_value(lambda jetstream: jetstream.api_inflight_count), priority=11),
    _number("errors", "API ERR",
            "JetStream API requests that failed since the server started.",
            _jetstream_value(lambda jetstream: jetstream.api_errors_count), priority=12),
)  # fmt: skip
