"""The servers over time: known servers, downtimes, restarts and rates. A pure fold."""

from __future__ import annotations

from collections.abc import Mapping

from msgspec import Struct, field

from natstui.model.servers.server import Servers, ServerState, rates_between
from natstui.model.traffic import Traffic
from natstui.values import replace

SLOW_CONSUMERS_REPORTED_US = 300_000_000
"""Time for which an increase of slow consumers is kept."""
_MAX_KEPT_RESTARTS = 16
_RECENT_RETURN_US = 45_000_000
_ELECTIONS_EXPECTED_US = 60_000_000
"""Time before and after the return of a server in which elections are expected."""
_MAX_RATE_SPAN_US = 120_000_000
"""Maximum time between two readings for a rate."""
REMOVED_AFTER_US = 24 * 3600 * 1_000_000
"""Downtime after which a server counts as removed."""


class KnownServer(Struct, frozen=True):
    """A server that replied at least once."""

    seen: ServerState
    """Its last reply."""
    at_us: int
    """Time of its last reply, by natstui's clock."""
    down_since_us: int | None = None
    """Start of its downtime; None while it replies."""
    restarted_at_us: tuple[int, ...] = ()
    """Times of its observed restarts, the newest last."""
    slow_rose_count: int = 0
    """Slow consumers since the start of the kept rise."""
    slow_rose_at_us: int = 0
    leafnodes_most_count: int = 0
    gateways_most_count: int = 0
    """Maximum of its gateways since it is watched."""


class RefusedLogin(Struct, frozen=True):
    """A client whose login a server refused within the last minute."""

    server: str
    client: str
    """Name of the client, else its library."""
    user: str | None
    times_count: int


class ServersRead(Struct, frozen=True):
    """A reading of the servers, with the data that is missing in it.

    A recording has one reading per 10 s, and each in which other servers reply.
    """

    at_us: int
    servers: Servers
    leaving: tuple[str, ...] = ()
    """Names of servers in lame duck mode."""
    meta_elected_at_us: tuple[int, ...] = ()
    """Times of elections of the meta group, UTC, the newest last."""
    logins_refused: tuple[RefusedLogin, ...] = ()
    """Clients whose credentials were refused, by advisories; the most frequent first."""


class ServersSoFar(Struct, frozen=True):
    """The state of the servers in a keyframe."""

    at_us: int
    newest: ServersRead
    known: tuple[KnownServer, ...]
    """Every server that replied at least once, even if it is down."""


class ServerWatch(Struct, frozen=True):
    """The state of the servers over time."""

    newest: Servers | None = None
    at_us: int = 0
    """Time of the newest reading."""
    known: Mapping[str, KnownServer] = field(default_factory=dict)
    leaving: tuple[str, ...] = ()
    meta_elected_at_us: tuple[int, ...] = ()
    logins_refused: tuple[RefusedLogin, ...] = ()
    rates: Mapping[str, Traffic] = field(default_factory=dict)
    """Server id → its traffic per second between the two newest readings."""

    def after(self, reading: ServersRead) -> ServerWatch:
        """Return the state after one more reading.

        A server without a reply is down, and removed after a day. A reading of another source
        replaces the state, unless it failed and has no servers.
        """
        servers, at_us = reading.servers, reading.at_us
        if self.newest is not None and not servers.rows:
            servers = replace(servers, source=self.newest.source)
        if self.newest is not None and self.newest.source != servers.source:
            # Another source counts otherwise, and may know other servers.
            return ServerWatch().after(reading)
        reply_by_name = {row.name: row for row in servers.rows}
        previous_names = self._find_previous_names(reply_by_name)
        known_servers = {
            name: _update_known_server(
                self.known.get(previous_names.get(name, name)), server_state, at_us
            )
            for name, server_state in reply_by_name.items()
        }
        replied_names = {*reply_by_name, *previous_names.values()}
        for name, server in self.known.items():
            since_us = server.at_us if server.down_since_us is None else server.down_since_us
            if name in replied_names or not reply_by_name or at_us - since_us > REMOVED_AFTER_US:
                continue
            known_servers[name] = replace(server, down_since_us=since_us)
        if not reply_by_name:
            known_servers = dict(self.known)
        leaving = tuple(name for name in reading.leaving if name in known_servers)
        return ServerWatch(
            servers, at_us, known_servers, leaving, reading.meta_elected_at_us,
            reading.logins_refused, self._update_rates(reading),
        )  # fmt: skip

    def _find_previous_names(self, reply_by_name: Mapping[str, ServerState]) -> dict[str, str]:
        """Return new name → previous name of restarted servers without `server_name`.

        The name of such a server is its id, which changes at each start. A new one in the cluster
        of one that does not reply any more counts as its restart.
        """
        silent_servers = [
            server.seen
            for name, server in self.known.items()
            if name == server.seen.server_id and name not in reply_by_name
        ]
        previous_names = {}
        for name, server_state in reply_by_name.items():
            if name != server_state.server_id or name in self.known:
                continue
            for silent_server in silent_servers:
                if silent_server.cluster == server_state.cluster:
                    previous_names[name] = silent_server.name
                    silent_servers.remove(silent_server)
                    break
        return previous_names

    def _update_rates(self, reading: ServersRead) -> Mapping[str, Traffic]:
        """Return server id → its newest traffic per second, for the servers that reply."""
        if self.newest is None or not 0 < reading.at_us - self.at_us <= _MAX_RATE_SPAN_US:
            return {}
        new_rates = rates_between(self.newest, reading.servers)
        previous_rate_by_id = {
            row.server_id: self.rates.get(row.server_id) for row in reading.servers.rows
        }
        # A server whose counters were not read keeps its rate.
        return {
            server_id: rate for server_id, rate in previous_rate_by_id.items() if rate is not None
        } | new_rates

    def so_far(self, at_us: int) -> ServersSoFar | None:
        """Return the state for a keyframe; None before the first reading."""
        if self.newest is None:
            return None
        newest = ServersRead(
            self.at_us, self.newest, self.leaving, self.meta_elected_at_us, self.logins_refused
        )
        return ServersSoFar(at_us, newest, tuple(self.known.values()))

    def explains_election(self, at_us: int) -> bool:
        """Return whether a server stopped or returned within a minute of `at_us` (UTC).

        Then an election is expected.
        """
        return any(
            (
                server.down_since_us is not None
                and abs(at_us - server.down_since_us) < _ELECTIONS_EXPECTED_US
            )
            or any(
                abs(at_us - start_us) < _ELECTIONS_EXPECTED_US
                for start_us in server.restarted_at_us
            )
            for server in self.known.values()
        )

    def has_server_returned_recently(self, at_us: int) -> bool:
        """Return whether a server returned within 45 s before `at_us` (UTC).

        Then mirrors and sources reconnect.
        """
        return any(
            0 <= at_us - restarted_us < _RECENT_RETURN_US
            for server in self.known.values()
            for restarted_us in server.restarted_at_us
        )

    @property
    def down(self) -> tuple[KnownServer, ...]:
        """Return the servers that replied before and do not reply now."""
        return tuple(server for server in self.known.values() if server.down_since_us is not None)


NO_SERVERS = ServerWatch()


def watch_of_keyframe(so_far: ServersSoFar) -> ServerWatch:
    """Return the state of the servers from a keyframe."""
    newest = so_far.newest
    known_by_name = {server.seen.name: server for server in so_far.known}
    return ServerWatch(
        newest.servers, newest.at_us, known_by_name, newest.leaving, newest.meta_elected_at_us,
        newest.logins_refused,
    )  # fmt: skip


def _update_known_server(
    known_server: KnownServer | None, server: ServerState, at_us: int
) -> KnownServer:
    leafnodes, gateways = server.leafnodes_count or 0, server.gateways_count or 0
    if known_server is None:
        return KnownServer(
            server, at_us, leafnodes_most_count=leafnodes, gateways_most_count=gateways
        )
    was_restarted = known_server.seen.server_id != server.server_id
    new_slow_consumers_count = (server.slow_consumers_count or 0) - (
        0 if was_restarted else known_server.seen.slow_consumers_count or 0
    )
    slow_rise_count, slow_rise_at_us = known_server.slow_rose_count, known_server.slow_rose_at_us
    if at_us - slow_rise_at_us > SLOW_CONSUMERS_REPORTED_US:
        slow_rise_count = 0
    if new_slow_consumers_count > 0:
        slow_rise_count, slow_rise_at_us = slow_rise_count + new_slow_consumers_count, at_us
    return replace(
        known_server,
        seen=server,
        at_us=at_us,
        down_since_us=None,
        restarted_at_us=(*known_server.restarted_at_us[1 - _MAX_KEPT_RESTARTS :], at_us)
        if was_restarted
        else known_server.restarted_at_us,
        slow_rose_count=slow_rise_count,
        slow_rose_at_us=slow_rise_at_us,
        leafnodes_most_count=max(known_server.leafnodes_most_count, leafnodes),
        gateways_most_count=max(known_server.gateways_most_count, gateways),
    )


class ServerChange(Struct, frozen=True):
    """An event of a server between two readings."""

    type: str
    """`server_down`, `server_back`, `server_restarted` or `server_leaving`."""
    server: str
    text: str
    """One sentence for people."""


def server_changes(before: ServerWatch, after: ServerWatch) -> list[ServerChange]:
    """Return the events of servers between two states: down, back, restarted, lame duck."""
    changes = []
    for name, server in after.known.items():
        server_before = before.known.get(name)
        if server_before is None:
            if server.restarted_at_us[-1:] == (after.at_us,):
                # Without `server_name`, it has another name since its restart.
                changes.append(
                    ServerChange("server_restarted", name, f"server {name} was restarted")
                )
            continue
        if server.down_since_us is not None and server_before.down_since_us is None:
            changes.append(ServerChange("server_down", name, f"server {name} does not reply"))
        elif server.restarted_at_us != server_before.restarted_at_us:
            changes.append(ServerChange("server_restarted", name, f"server {name} was restarted"))
        elif server.down_since_us is None and server_before.down_since_us is not None:
            changes.append(ServerChange("server_back", name, f"server {name} replies again"))
    for name in after.leaving:
        if name not in before.leaving:
            text = f"server {name} is in lame duck mode: its clients go to other servers"
            changes.append(ServerChange("server_leaving", name, text))
    return changes
