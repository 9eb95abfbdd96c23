"""The table of servers."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

from natstui.clean import clean_line
from natstui.model.live.limits import is_near
from natstui.model.servers.leaders import Leaders
from natstui.model.servers.server import (
    JetStreamHere,
    ServerRates,
    Servers,
    ServerSeen,
    Storage,
)
from natstui.model.servers.watch import KnownServer
from natstui.model.servers.words import LEADER, meta_role
from natstui.tui.frame.columns import ColumnSpec, Listed
from natstui.tui.kit.sparkline import bar
from natstui.tui.kit.table.rows import Cell
from natstui.units import UNKNOWN, bytes_text, count_text, duration_text, rate_text

_BAR_CELLS = 4
BUSY_PERCENT = 90.0
"""Of each core."""


class ServerView(Listed[ServerSeen]):
    """Servers, by row."""

    def __init__(
        self,
        seen: Servers | None,
        rates: Mapping[str, ServerRates],
        leaders: Leaders,
        down: Sequence[KnownServer] = (),
        now_us: int = 0,
    ) -> None:
        """`down` are servers that do not answer now: they are rows as well, with their age."""
        answering = () if seen is None else seen.rows
        self.down_s = {one.seen.name: (now_us - one.at_us) / 1e6 for one in down}
        rows = (
            *(one for one in answering if one.name not in self.down_s),
            *(one.seen for one in down),
        )
        texts = [" ".join(filter(None, (it.name, it.cluster, it.version))) for it in rows]
        super().__init__(rows, [(it.name, it.server_id) for it in rows], texts)
        self._seen, self._rates, self.leaders = seen, rates, leaders

    def problem(self, row: int) -> bool:
        """Return whether it was too slow for somebody, or a store is nearly full."""
        one = self.things[row]
        if one.name in self.down_s:
            return True
        return bool(one.slow_consumers_count) or _is_full(one.jetstream) or _is_busy(one)

    def rate(self, row: int) -> ServerRates | None:
        """Return what it got and sent a second; None before the second look."""
        one = self.things[row]
        return None if one.name in self.down_s else self._rates.get(one.server_id)

    def role(self, row: int) -> tuple[str, str]:
        """Return what it is in the meta group, and the look of that."""
        one = self.things[row]
        if one.name in self.down_s:
            return f"down {duration_text(max(0.0, self.down_s[one.name]))}", "bad"
        role = meta_role(self._seen.meta_of(one) if self._seen is not None else None, one.name)
        if role.startswith("lag "):
            return role, ""
        return role, {LEADER: "ok", UNKNOWN: "dim"}.get(role, "bad")

    def led(self, row: int, kind: str) -> int | None:
        """Return how many `streams` or `consumers` it leads: of all, or of our account."""
        one = self.things[row]
        if one.jetstream is not None:
            streams = kind == "streams"
            it = one.jetstream
            count = it.streams_led_count if streams else it.consumers_led_count
            if count is not None:
                return count
        known = self.leaders.streams_count
        counts = known if kind == "streams" else self.leaders.consumers_count
        return counts.get(one.name, 0) if known else None


def _is_full(it: JetStreamHere | None) -> bool:
    stores = () if it is None else (it.file, it.memory)
    return any(is_near(one.used_bytes, one.max_bytes) for one in stores)


def _is_busy(one: ServerSeen) -> bool:
    return (one.cpu_percent or 0) > BUSY_PERCENT * (one.cores_count or 1)


def _number(value: int | None, look: str = "") -> Cell:
    return Cell(count_text(value), "dim" if value is None else look)


def _used(store: Storage | None) -> Cell:
    """Return a bar of what is used, and the bytes."""
    if store is None:
        return Cell(UNKNOWN, "dim")
    share = store.used_bytes / store.max_bytes if store.max_bytes > 0 else 0.0
    look = "bad" if is_near(store.used_bytes, store.max_bytes) else ""
    return Cell(f"{bar(share, _BAR_CELLS)} {bytes_text(store.used_bytes):>8}", look)


def _size(value: int | None, look: str = "") -> Cell:
    return Cell(bytes_text(value), "dim" if value is None else look)


def _name(view: ServerView, row: int) -> Cell:
    """The server's name."""
    one = view.things[row]
    return Cell(clean_line(one.name), "bad" if one.name in view.down_s else "strong")


def _version(view: ServerView, row: int) -> Cell:
    """The version of nats-server."""
    return Cell(clean_line(view.things[row].version or UNKNOWN))


def _cluster(view: ServerView, row: int) -> Cell:
    """The cluster that it belongs to."""
    return Cell(clean_line(view.things[row].cluster or UNKNOWN))


def _meta(view: ServerView, row: int) -> Cell:
    """Leader of the meta group, or how many entries it lags; or for how long it is down."""
    return Cell(*view.role(row))


def _uptime(view: ServerView, row: int) -> Cell:
    """For how long it runs."""
    one = view.things[row]
    return Cell(duration_text(None if one.name in view.down_s else one.uptime_s))


def _cpu(view: ServerView, row: int) -> Cell:
    """What it takes of one core, in percent: a server of 4 cores has 400."""
    one = view.things[row]
    if one.cpu_percent is None:
        return Cell(UNKNOWN, "dim")
    share = one.cpu_percent / (100 * (one.cores_count or 1))
    text = f"{bar(share, _BAR_CELLS)} {one.cpu_percent:>4.0f}"
    return Cell(text, "warn" if _is_busy(one) else "")


def _memory(view: ServerView, row: int) -> Cell:
    """What the process holds in memory."""
    return _size(view.things[row].memory_bytes)


def _connections(view: ServerView, row: int) -> Cell:
    """Connections of clients; of our account alone, where only the account tells."""
    return _number(view.things[row].connections_count)


def _subscriptions(view: ServerView, row: int) -> Cell:
    """Subscriptions there; of our account alone, where only the account tells."""
    return _number(view.things[row].subscriptions_count)


def _in_rate(view: ServerView, row: int) -> Cell:
    """Messages a second that it gets, from clients and other servers."""
    rate = view.rate(row)
    return Cell(rate_text(rate.in_msgs_per_s if rate else None))


def _out_rate(view: ServerView, row: int) -> Cell:
    """Messages a second that it sends."""
    rate = view.rate(row)
    return Cell(rate_text(rate.out_msgs_per_s if rate else None))


def _in_bytes(view: ServerView, row: int) -> Cell:
    """Bytes a second that it gets."""
    rate = view.rate(row)
    return Cell(bytes_text(rate.in_bytes_per_s if rate else None))


def _out_bytes(view: ServerView, row: int) -> Cell:
    """Bytes a second that it sends."""
    rate = view.rate(row)
    return Cell(bytes_text(rate.out_bytes_per_s if rate else None))


def _slow(view: ServerView, row: int) -> Cell:
    """How often it cut off a client that read too slowly, since it began."""
    count = view.things[row].slow_consumers_count
    return _number(count, "bad" if count else "")


def _routes(view: ServerView, row: int) -> Cell:
    """Connections to other servers of its cluster; each pair of servers has several."""
    return _number(view.things[row].routes_count)


def _streams_led(view: ServerView, row: int) -> Cell:
    """Streams that it leads: of all accounts, or of ours where only that is known."""
    return _number(view.led(row, "streams"))


def _consumers_led(view: ServerView, row: int) -> Cell:
    """Consumers that it leads: of all accounts, or of ours where only that is known."""
    return _number(view.led(row, "consumers"))


def _behind(view: ServerView, row: int) -> Cell:
    """Replicas of our account there that are offline, behind, or not heard of for 5 s."""
    count = view.leaders.behind_count.get(view.things[row].name, 0)
    return _number(count, "bad" if count else "")


def _js(get: Callable[[JetStreamHere], int]) -> Callable[[ServerSeen], int | None]:
    return lambda one: None if one.jetstream is None else get(one.jetstream)


_file_bytes = _js(lambda it: it.file.used_bytes)
_file_free_bytes = _js(lambda it: it.file.free_bytes)
_store_bytes = _js(lambda it: it.memory.used_bytes)
_ha_count = _js(lambda it: it.ha_assets_count)
_inflight_count = _js(lambda it: it.api_inflight_count)
_errors_count = _js(lambda it: it.api_errors_count)


def _file(view: ServerView, row: int) -> Cell:
    """What JetStream holds in files, and how much of what it may that is."""
    it = view.things[row].jetstream
    return _used(None if it is None else it.file)


def _free(view: ServerView, row: int) -> Cell:
    """What JetStream may still store in files: neither used nor reserved."""
    return _size(_file_free_bytes(view.things[row]))


def _store(view: ServerView, row: int) -> Cell:
    """What JetStream holds in memory, and how much of what it may that is."""
    it = view.things[row].jetstream
    return _used(None if it is None else it.memory)


def _ha(view: ServerView, row: int) -> Cell:
    """Streams and consumers there with several replicas; above 1,000 a server suffers."""
    count = _ha_count(view.things[row])
    return _number(count, "warn" if (count or 0) > 1000 else "")


def _inflight(view: ServerView, row: int) -> Cell:
    """Requests of the JetStream API that it works on now."""
    return _number(_inflight_count(view.things[row]))


def _errors(view: ServerView, row: int) -> Cell:
    """Requests of the JetStream API that failed since the server started."""
    return _number(_errors_count(view.things[row]))


def _whole_row(column: ColumnSpec[ServerView]) -> ColumnSpec[ServerView]:
    """Return a column whose cells are red where the server is down."""

    def cell(view: ServerView, row: int) -> Cell:
        shown = column.cell(view, row)
        down = view.things[row].name in view.down_s
        return Cell(shown.text, "bad") if down else shown

    cell.__doc__ = column.cell.__doc__
    return replace(column, cell=cell)


def _by(get: Callable[[ServerSeen], object]) -> Callable[[ServerView], Sequence[object]]:
    return lambda view: [get(one) for one in view.things]


def _by_rate(get: Callable[[ServerRates], float]) -> Callable[[ServerView], Sequence[object]]:
    def values(view: ServerView) -> Sequence[object]:
        rates = [view.rate(row) for row in view.rows()]
        return [None if rate is None else get(rate) for rate in rates]

    return values


_text: Callable[..., ColumnSpec[ServerView]] = partial(ColumnSpec, align="left", descends=False)

SERVER_COLUMNS: tuple[ColumnSpec[ServerView], ...] = tuple(map(_whole_row, (
    _text("name", "NAME", 10, 0, _name, _by(lambda one: one.name), flex=3),
    _text("meta", "META", 8, 2, _meta, lambda view: [view.role(row)[0] for row in view.rows()]),
    _text("version", "VERSION", 7, 5, _version, _by(lambda one: one.version), max_width=14),
    _text("cluster", "CLUSTER", 7, 8, _cluster, _by(lambda one: one.cluster), max_width=16),
    ColumnSpec("uptime", "UPTIME", 7, 4, _uptime, _by(lambda one: one.uptime_s)),
    ColumnSpec("cpu", "CPU%", 9, 1, _cpu, _by(lambda one: one.cpu_percent)),
    ColumnSpec("memory", "MEMORY", 8, 3, _memory, _by(lambda one: one.memory_bytes)),
    ColumnSpec("conns", "CONNS", 5, 2, _connections, _by(lambda one: one.connections_count)),
    ColumnSpec("subs", "SUBS", 5, 9, _subscriptions, _by(lambda one: one.subscriptions_count)),
    ColumnSpec("in_s", "IN/S", 6, 4, _in_rate, _by_rate(lambda rate: rate.in_msgs_per_s)),
    ColumnSpec("out_s", "OUT/S", 6, 4, _out_rate, _by_rate(lambda rate: rate.out_msgs_per_s)),
    ColumnSpec("slow", "SLOW", 4, 6, _slow, _by(lambda one: one.slow_consumers_count)),
    ColumnSpec("streams_led", "LEADS", 5, 1, _streams_led,
               lambda view: [view.led(row, "streams") for row in view.rows()]),
    ColumnSpec("consumers_led", "C LEADS", 7, 6, _consumers_led,
               lambda view: [view.led(row, "consumers") for row in view.rows()]),
    ColumnSpec("behind", "BEHIND", 6, 3, _behind,
               lambda view: [view.leaders.behind_count.get(one.name, 0) for one in view.things]),
    ColumnSpec("file", "STORAGE", 13, 5, _file, _by(_file_bytes)),
    ColumnSpec("free", "FREE", 8, 7, _free, _by(_file_free_bytes)),
    ColumnSpec("store", "MEM STORE", 13, 10, _store, _by(_store_bytes)),
    ColumnSpec("ha", "HA", 5, 9, _ha, _by(_ha_count)),
    ColumnSpec("inflight", "API NOW", 7, 11, _inflight, _by(_inflight_count)),
    ColumnSpec("errors", "API ERR", 7, 12, _errors, _by(_errors_count)),
    ColumnSpec("routes", "ROUTES", 6, 12, _routes, _by(lambda one: one.routes_count)),
    ColumnSpec("in_b", "IN B/S", 8, 13, _in_bytes, _by_rate(lambda rate: rate.in_bytes_per_s)),
    ColumnSpec("out_b", "OUT B/S", 8, 13, _out_bytes, _by_rate(lambda r: r.out_bytes_per_s)),
)))  # fmt: skip
