"""The table of connections."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial

from natstui.clean import clean_line
from natstui.model.clients.connection import ClientConnection, Traffic
from natstui.tui.frame.columns import ColumnSpec, Listed
from natstui.tui.kit.table.rows import Cell
from natstui.units import UNKNOWN, bytes_text, count_text, duration_text, rate_text


class ConnectionView(Listed[ClientConnection]):
    """Connections, by row."""

    def __init__(
        self, found: Sequence[ClientConnection], rates: Mapping[tuple[str, int], Traffic]
    ) -> None:
        keys = [(one.name or one.address, *one.key, one.server_name) for one in found]
        texts = [" ".join(filter(None, _texts(one))) for one in found]
        super().__init__(found, keys, texts)
        self._rates = rates

    def problem(self, row: int) -> bool:
        """Return whether it does not read fast enough."""
        return self.things[row].was_slow is not None

    def rate(self, row: int) -> Traffic | None:
        """Return what it sent and got a second; None before the second look."""
        return self._rates.get(self.things[row].key)


def library_text(one: ClientConnection) -> str | None:
    """Return language and version of its library; a leafnode is a whole other server."""
    return one.library or ("leafnode" if one.kind == "Leafnode" else None)


def _texts(one: ClientConnection) -> tuple[str | None, ...]:
    return one.name, one.user, one.address, one.library, one.server_name, one.reason


def words(text: str | None, look: str = "") -> Cell:
    """Return what a client says of itself; None is not known."""
    return Cell(UNKNOWN, "dim") if text is None else Cell(clean_line(text), look)


def _name(view: ConnectionView, row: int) -> Cell:
    """What the client calls itself."""
    return words(view.things[row].name, "strong")


def _user(view: ConnectionView, row: int) -> Cell:
    """The user it is: a name, or a public key without one."""
    return words(view.things[row].user)


def _address(view: ConnectionView, row: int) -> Cell:
    """Where it comes from, as the server sees it."""
    return words(view.things[row].address)


def _client(view: ConnectionView, row: int) -> Cell:
    """Language and version of its library; a leafnode is a whole other server."""
    return words(library_text(view.things[row]))


def _state(view: ConnectionView, row: int) -> Cell:
    """Open, or why it ended; whether publishers had to wait because it does not read."""
    one = view.things[row]
    if one.stopped_at_us is not None:
        return words(one.reason or "ended", "bad" if one.was_slow else "dim")
    return Cell("open", "ok") if one.was_slow is None else Cell(one.was_slow, "warn")


def _rtt(view: ConnectionView, row: int) -> Cell:
    """Round trip of the server's last PING to it, which may be minutes ago."""
    rtt_us = view.things[row].rtt_us
    return Cell(duration_text(None if rtt_us is None else rtt_us / 1e6))


def _subscriptions(view: ConnectionView, row: int) -> Cell:
    """How many subscriptions it has."""
    return Cell(count_text(view.things[row].subscriptions_count))


def _pending(view: ConnectionView, row: int) -> Cell:
    """What waits in the server because it has not read it yet."""
    pending_bytes = view.things[row].pending_bytes
    return Cell(bytes_text(pending_bytes), "warn" if pending_bytes else "")


def _in_rate(view: ConnectionView, row: int) -> Cell:
    """Messages a second that it sends, between the last two looks."""
    rate = view.rate(row)
    return Cell(rate_text(rate.in_msgs_per_s if rate else None))


def _out_rate(view: ConnectionView, row: int) -> Cell:
    """Messages a second that it gets, between the last two looks."""
    rate = view.rate(row)
    return Cell(rate_text(rate.out_msgs_per_s if rate else None))


def _in_bytes_rate(view: ConnectionView, row: int) -> Cell:
    """Bytes a second that it sends."""
    rate = view.rate(row)
    return Cell(bytes_text(rate.in_bytes_per_s if rate else None))


def _out_bytes_rate(view: ConnectionView, row: int) -> Cell:
    """Bytes a second that it gets."""
    rate = view.rate(row)
    return Cell(bytes_text(rate.out_bytes_per_s if rate else None))


def _in(view: ConnectionView, row: int) -> Cell:
    """Messages that it sent since it is connected."""
    return Cell(count_text(view.things[row].in_msgs))


def _out(view: ConnectionView, row: int) -> Cell:
    """Messages that it got since it is connected."""
    return Cell(count_text(view.things[row].out_msgs))


def _uptime(view: ConnectionView, row: int) -> Cell:
    """For how long it is, or was, connected."""
    return Cell(duration_text(view.things[row].uptime_s))


def _idle(view: ConnectionView, row: int) -> Cell:
    """For how long it neither sent nor got anything."""
    return Cell(duration_text(view.things[row].idle_s))


def _server(view: ConnectionView, row: int) -> Cell:
    """The server that it is connected to."""
    return words(view.things[row].server_name)


def _by(get: Callable[[ClientConnection], object]) -> Callable[[ConnectionView], Sequence[object]]:
    return lambda view: [get(thing) for thing in view.things]


def _by_rate(get: Callable[[Traffic], float]) -> Callable[[ConnectionView], Sequence[object]]:
    def values(view: ConnectionView) -> Sequence[object]:
        rates = [view.rate(row) for row in view.rows()]
        return [None if rate is None else get(rate) for rate in rates]

    return values


_text: Callable[..., ColumnSpec[ConnectionView]] = partial(
    ColumnSpec, align="left", descends=False
)

CONNECTION_COLUMNS: tuple[ColumnSpec[ConnectionView], ...] = (
    _text("name", "NAME", 18, 0, _name, _by(lambda one: one.name), flex=3),
    _text("state", "STATE", 10, 1, _state, _by(lambda one: one.was_slow or one.reason), flex=1),
    _text("user", "USER", 8, 6, _user, _by(lambda one: one.user), flex=1, max_width=20),
    _text("address", "ADDRESS", 15, 4, _address, _by(lambda one: one.address), flex=1),
    _text("client", "CLIENT", 14, 10, _client, _by(lambda one: one.library), flex=1),
    _text("server", "SERVER", 8, 3, _server, _by(lambda one: one.server_name), max_width=20),
    ColumnSpec("rtt", "RTT", 6, 7, _rtt, _by(lambda one: one.rtt_us)),
    ColumnSpec("subs", "SUBS", 5, 8, _subscriptions, _by(lambda one: one.subscriptions_count)),
    ColumnSpec("pending", "PENDING", 8, 5, _pending, _by(lambda one: one.pending_bytes)),
    ColumnSpec("in_s", "IN/S", 6, 2, _in_rate, _by_rate(lambda rate: rate.in_msgs_per_s)),
    ColumnSpec("out_s", "OUT/S", 6, 2, _out_rate, _by_rate(lambda rate: rate.out_msgs_per_s)),
    ColumnSpec("in_b", "IN B/S", 8, 12, _in_bytes_rate, _by_rate(lambda r: r.in_bytes_per_s)),
    ColumnSpec("out_b", "OUT B/S", 8, 12, _out_bytes_rate, _by_rate(lambda r: r.out_bytes_per_s)),
    ColumnSpec("in", "IN", 6, 13, _in, _by(lambda one: one.in_msgs)),
    ColumnSpec("out", "OUT", 6, 13, _out, _by(lambda one: one.out_msgs)),
    ColumnSpec("uptime", "UPTIME", 7, 9, _uptime, _by(lambda one: one.uptime_s)),
    ColumnSpec("idle", "IDLE", 7, 11, _idle, _by(lambda one: one.idle_s)),
)
