"""The servers over time: which are known, since when one does not answer, and what rose.

A pure fold over `ServersRead`, the same in the engine, on the screen and headless.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from natstui.model.servers.server import Servers, ServerSeen, rates_between
from natstui.model.traffic import Traffic

SLOW_KEPT_US = 300_000_000
"""For so long a rise of slow consumers is remembered."""
_RESTARTS_KEPT = 16
_SETTLED_US = 45_000_000
_OUTAGE_US = 60_000_000
"""So long before and after a server comes back, elections are expected."""
_RATES_US = 120_000_000
"""Between readings so far apart, a rate says little of either moment."""
_FORGOTTEN_US = 24 * 3600 * 1_000_000
"""A server that is down for so long was taken away."""


@dataclass(frozen=True, slots=True)
class KnownServer:
    """One server that answered at least once."""

    seen: ServerSeen
    """As it answered last,"""
    at_us: int
    """and when, by our clock."""
    down_since_us: int | None = None
    """Since when it does not answer; None: it does."""
    restarted_at_us: tuple[int, ...] = ()
    """When it began anew since it is watched, the newest last."""
    slow_rose_count: int = 0
    """Slow consumers that came since the rise began that is remembered."""
    slow_rose_at_us: int = 0
    leafnodes_most_count: int = 0
    gateways_most_count: int = 0
    """The most that it had since it is watched."""


@dataclass(frozen=True, slots=True)
class LoginsRefused:
    """A client that a server did not let in, within the last minute."""

    server: str
    client: str
    """Its name, else its library."""
    user: str | None
    times_count: int


@dataclass(frozen=True, slots=True)
class ServersRead:
    """The servers as they answered now; what is not told is named in it.

    Of the readings, a recording holds one in 10 s, and each in which other servers answer.
    """

    at_us: int
    servers: Servers
    leaving: tuple[str, ...] = ()
    """Names of servers that announced that they leave (lame duck mode)."""
    meta_elected_at_us: tuple[int, ...] = ()
    """When a leader of the meta group was announced, UTC, the newest last."""
    logins_refused: tuple[LoginsRefused, ...] = ()
    """Clients whose credentials were refused, as servers announce it; the most frequent first."""


@dataclass(frozen=True, slots=True)
class ServersSoFar:
    """All that is known of the servers now, as a keyframe repeats it."""

    at_us: int
    newest: ServersRead
    known: tuple[KnownServer, ...]
    """Every server that answered at least once, also those that are down."""


@dataclass(frozen=True, slots=True)
class ServerWatch:
    """All that is known of the servers until now."""

    newest: Servers | None = None
    at_us: int = 0
    """When that was read."""
    known: Mapping[str, KnownServer] = field(default_factory=dict)
    leaving: tuple[str, ...] = ()
    meta_elected_at_us: tuple[int, ...] = ()
    logins_refused: tuple[LoginsRefused, ...] = ()
    rates: Mapping[str, Traffic] = field(default_factory=dict)
    """Server id → what it got and sent a second, between the two newest readings."""

    def after(self, read: ServersRead) -> ServerWatch:
        """Return what is known after one more reading."""
        servers, at_us = read.servers, read.at_us
        if self.newest is not None and self.newest.source != servers.source:
            # Another source counts otherwise, and may know other servers.
            return ServerWatch().after(read)
        answered = {row.name: row for row in servers.rows}
        known = {
            name: _after(self.known.get(name), seen, at_us) for name, seen in answered.items()
        }
        for name, one in self.known.items():
            since_us = one.at_us if one.down_since_us is None else one.down_since_us
            if name in answered or not answered or at_us - since_us > _FORGOTTEN_US:
                continue
            known[name] = replace(one, down_since_us=since_us)
        if not answered:
            known = dict(self.known)
        leaving = tuple(name for name in read.leaving if name in known)
        return ServerWatch(
            servers, at_us, known, leaving, read.meta_elected_at_us, read.logins_refused,
            self._rates(read),
        )  # fmt: skip

    def _rates(self, read: ServersRead) -> Mapping[str, Traffic]:
        """Return the newest rates of the servers that answer."""
        if self.newest is None or not 0 < read.at_us - self.at_us <= _RATES_US:
            return {}
        newer = rates_between(self.newest, read.servers)
        before = {row.server_id: self.rates.get(row.server_id) for row in read.servers.rows}
        # One whose counters were not read anew keeps its rate.
        return {id: rate for id, rate in before.items() if rate is not None} | newer

    def so_far(self, at_us: int) -> ServersSoFar | None:
        """Return what a keyframe repeats; None before the first reading."""
        if self.newest is None:
            return None
        newest = ServersRead(
            self.at_us, self.newest, self.leaving, self.meta_elected_at_us, self.logins_refused
        )
        return ServersSoFar(at_us, newest, tuple(self.known.values()))

    def explains_election(self, at_us: int) -> bool:
        """Return whether a server stopped or came back about then: others lead in its place."""
        return any(
            (one.down_since_us is not None and abs(at_us - one.down_since_us) < _OUTAGE_US)
            or any(abs(at_us - back_us) < _OUTAGE_US for back_us in one.restarted_at_us)
            for one in self.known.values()
        )  # fmt: skip

    def is_settling(self, at_us: int) -> bool:
        """Tell whether a server has just come back: mirrors and sources connect again by turns."""
        return any(
            0 <= at_us - back_us < _SETTLED_US
            for one in self.known.values()
            for back_us in one.restarted_at_us
        )

    @property
    def down(self) -> tuple[KnownServer, ...]:
        """Return the servers that answered before and do not now."""
        return tuple(one for one in self.known.values() if one.down_since_us is not None)


NO_SERVERS = ServerWatch()


def watch_of(so_far: ServersSoFar) -> ServerWatch:
    """Return what is known of the servers, as a keyframe has it."""
    newest = so_far.newest
    known = {server.seen.name: server for server in so_far.known}
    return ServerWatch(
        newest.servers, newest.at_us, known, newest.leaving, newest.meta_elected_at_us,
        newest.logins_refused,
    )  # fmt: skip


def _after(known: KnownServer | None, seen: ServerSeen, at_us: int) -> KnownServer:
    leafnodes, gateways = seen.leafnodes_count or 0, seen.gateways_count or 0
    if known is None:
        return KnownServer(
            seen, at_us, leafnodes_most_count=leafnodes, gateways_most_count=gateways
        )
    again = known.seen.server_id != seen.server_id
    rose_count = (seen.slow_consumers_count or 0) - (
        0 if again else known.seen.slow_consumers_count or 0
    )
    slow_count, slow_at_us = known.slow_rose_count, known.slow_rose_at_us
    if at_us - slow_at_us > SLOW_KEPT_US:
        slow_count = 0
    if rose_count > 0:
        slow_count, slow_at_us = slow_count + rose_count, at_us
    return replace(
        known,
        seen=seen,
        at_us=at_us,
        down_since_us=None,
        restarted_at_us=(*known.restarted_at_us[1 - _RESTARTS_KEPT :], at_us)
        if again
        else known.restarted_at_us,
        slow_rose_count=slow_count,
        slow_rose_at_us=slow_at_us,
        leafnodes_most_count=max(known.leafnodes_most_count, leafnodes),
        gateways_most_count=max(known.gateways_most_count, gateways),
    )


@dataclass(frozen=True, slots=True)
class ServerChange:
    """Something that happened to one server between two readings."""

    type: str
    """`server_down`, `server_back`, `server_restarted` or `server_leaving`."""
    server: str
    text: str
    """One sentence for people."""


def changes(before: ServerWatch, after: ServerWatch) -> list[ServerChange]:
    """Return what happened to servers from one reading to the next."""
    found = []
    for name, one in after.known.items():
        known = before.known.get(name)
        if known is None:
            continue
        if one.down_since_us is not None and known.down_since_us is None:
            found.append(ServerChange("server_down", name, f"server {name} does not reply"))
        elif one.restarted_at_us != known.restarted_at_us:
            found.append(ServerChange("server_restarted", name, f"server {name} was restarted"))
        elif one.down_since_us is None and known.down_since_us is not None:
            found.append(ServerChange("server_back", name, f"server {name} answers again"))
    for name in after.leaving:
        if name not in before.leaving:
            text = f"server {name} is in lame duck mode: its clients go to other servers"
            found.append(ServerChange("server_leaving", name, text))
    return found
