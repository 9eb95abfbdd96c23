"""The screen of a connection: identity, traffic, consumers and subscriptions."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from time import monotonic
from typing import ClassVar

from msgspec import Struct
from textual.binding import BindingType

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.model.assets.configuration import ConsumerConfiguration
from natstui.model.clients.connection import (
    ClientConnection,
    Connections,
    traffic_between,
)
from natstui.model.clients.recipients import PushDelivery, push_consumers_of
from natstui.model.live.history import WINDOWS_S
from natstui.model.records.messages import Answered
from natstui.model.records.system import KickConnection, ReadConnection
from natstui.model.traffic import Traffic
from natstui.tui.frame.action_keys import KICK_CONNECTION, is_allowed
from natstui.tui.frame.confirmation import request_and_show_reply
from natstui.tui.frame.detail.screen import ChartedScreen
from natstui.tui.frame.live import LiveScreen, RepeatedRequest, ScreenPart
from natstui.tui.frame.requests import run_task
from natstui.tui.kit.chart.frame import ChartData, Series
from natstui.tui.kit.sections import Line, Section, line
from natstui.units import (
    UNKNOWN,
    bytes_text,
    count_text,
    counted,
    duration_text,
    moment_text,
    rate_text,
)

_PULLS_NOTE = (
    "servers do not list who pulls: natstui consumer clients STREAM NAME --for 30s reads the "
    "pulls of a consumer"
)
_PUBLISHES_NOTE = (
    "servers count messages, pulls and acks, but not by subject: natstui stream publishers "
    "STREAM shows who publishes"
)


class ConnectionSample(Struct, frozen=True):
    """The traffic of a connection at a time of the viewer's monotonic clock."""

    at_s: float
    traffic: Traffic | None
    """The rates since the last reading; None at the first reading and after a gap."""
    pending_bytes: int


def connection_sections(
    connection: ClientConnection, traffic: Traffic | None, deliveries: Sequence[PushDelivery]
) -> list[Section]:
    """Return the sections of the connection screen: identity, traffic, consumers, publishing,
    subscriptions.
    """
    return [
        _identity_section(connection),
        _traffic_section(connection, traffic),
        _consumers_section(deliveries),
        _publishes_section(),
        _subscriptions_section(connection),
    ]


def _identity_section(connection: ClientConnection) -> Section:
    is_closed = connection.stopped_at_us is not None
    state = f"ended: {connection.reason or 'no reason reported'}" if is_closed else "open"
    style_name = "bad" if connection.slow_text == "cut off" else "dim" if is_closed else "ok"
    lines = [
        line("state", state, style_name),
        line("user", connection.user or UNKNOWN),
        line("address", connection.address),
        line(
            "client",
            connection.library or ("leafnode" if connection.kind == "Leafnode" else UNKNOWN),
        ),
        line("protocol", connection.protocol or UNKNOWN),
        line("TLS", connection.tls_version or "none"),
        line("server", f"{connection.server_name}, number {connection.connection_id}"),
        line("began", moment_text(connection.started_at_us)),
        line("uptime", duration_text(connection.uptime_s)),
        line("idle", duration_text(connection.idle_s)),
    ]
    if is_closed:
        lines.insert(1, line("ended", moment_text(connection.stopped_at_us)))
    return Section("CONNECTION", tuple(lines))


def _traffic_section(connection: ClientConnection, traffic: Traffic | None) -> Section:
    rtt_text = duration_text(None if connection.rtt_us is None else connection.rtt_us / 1e6)
    lines = [
        line("round trip", f"{rtt_text}, at the server's last PING"),
        line(
            "pending",
            bytes_text(connection.pending_bytes),
            "warn" if connection.pending_bytes else "",
        ),
        line("sent", _counts_text(connection.in_msgs, connection.in_bytes)),
        line("got", _counts_text(connection.out_msgs, connection.out_bytes)),
    ]
    if connection.stopped_at_us is None:
        lines += [
            line("sends", _rates_text(traffic, is_sent=True)),
            line("gets", _rates_text(traffic)),
        ]
    if connection.slow_text is not None:
        stalls_text = (
            f", {counted(connection.stalls_count, 'time')}" if connection.stalls_count else ""
        )
        lines.append(line("too slow", connection.slow_text + stalls_text, "bad"))
    return Section("TRAFFIC", tuple(lines))


def _counts_text(msgs: int, size_bytes: int) -> str:
    return f"{counted(count_text(msgs), 'message')}, {bytes_text(size_bytes)}"


def _rates_text(traffic: Traffic | None, *, is_sent: bool = False) -> str:
    if traffic is None:
        return UNKNOWN
    if is_sent:
        msgs_per_s, bytes_per_s = traffic.in_msgs_per_s, traffic.in_bytes_per_s
    else:
        msgs_per_s, bytes_per_s = traffic.out_msgs_per_s, traffic.out_bytes_per_s
    return f"{rate_text(msgs_per_s)} msgs/s, {bytes_text(bytes_per_s)}/s"


def _consumers_section(deliveries: Sequence[PushDelivery]) -> Section:
    lines = [
        line(
            "",
            f"{delivery.stream} › {delivery.consumer}, "
            f"{count_text(delivery.delivered_msgs)} delivered",
        )
        for delivery in deliveries
    ] or [line("", "no push consumer delivers to this client", "dim")]
    return Section("ITS CONSUMERS", (*lines, line("", _PULLS_NOTE, "dim")))


def _publishes_section() -> Section:
    return Section("STREAMS OF ITS PUBLISHES", (line("", _PUBLISHES_NOTE, "dim"),))


def _subscriptions_section(connection: ClientConnection) -> Section:
    lines = [
        _subscription_line(subscription.subject, subscription.queue, subscription.delivered_msgs)
        for subscription in connection.listening
    ]
    if (more_count := connection.subscriptions_count - len(lines)) > 0 and lines:
        lines.append(line("", f"and {more_count:,} with fewer messages", "dim"))
    title = f"SUBSCRIPTIONS ({connection.subscriptions_count:,})"
    return Section(title, tuple(lines) or (line("", "none", "dim"),))


def _subscription_line(subject: str, queue: str | None, delivered_msgs: int) -> Line:
    queue_text = f" in {queue}" if queue else ""
    return line("", f"{subject}{queue_text}, {count_text(delivered_msgs)} delivered")


def connection_charts(
    samples: Sequence[ConnectionSample], now_s: float, window_s: int
) -> list[ChartData]:
    """Return the charts: messages and bytes per second, and pending bytes of the client."""
    at_s = [sample.at_s - now_s for sample in samples]
    rates = [sample.traffic for sample in samples]
    msgs_series = (
        Series("sends", [None if rate is None else rate.in_msgs_per_s for rate in rates]),
        Series("gets", [None if rate is None else rate.out_msgs_per_s for rate in rates]),
    )
    bytes_series = (
        Series("sends", [None if rate is None else rate.in_bytes_per_s for rate in rates]),
        Series("gets", [None if rate is None else rate.out_bytes_per_s for rate in rates]),
    )
    pending_series = (Series("pending", [float(sample.pending_bytes) for sample in samples]),)
    return [
        ChartData("Messages", "msgs/s", at_s, msgs_series, window_s),
        ChartData("Bytes", "bytes/s", at_s, bytes_series, window_s),
        ChartData("Waiting in the server", "bytes", at_s, pending_series, window_s),
    ]


_decoder = decoder_of(Connections)
_REREAD_INTERVAL_S = 2.0
_MAX_SAMPLE_INTERVAL_S = 4 * _REREAD_INTERVAL_S
"""Maximum interval between two readings for which rates are shown."""
_MAX_SAMPLES = round(WINDOWS_S[-1] / _REREAD_INTERVAL_S)


class KickKey(ScreenPart):
    """The key that closes a connection."""

    def __init__(
        self, screen: LiveScreen, get_connection: Callable[[], ClientConnection | None]
    ) -> None:
        self._screen, self._get_connection = screen, get_connection

    def is_offered(self, action: str, arguments: tuple[object, ...]) -> bool | None:
        """Return True for an open connection of a live server, None without permission, else
        False.
        """
        state, connection = self._screen.state, self._get_connection()
        if state.replay is not None or connection is None or connection.stopped_at_us is not None:
            return False
        return True if is_allowed(state, KICK_CONNECTION.name) else None

    def action_kick(self) -> None:
        """Close the connection, once its name is typed."""
        if (connection := self._get_connection()) is not None:
            command = KickConnection(
                0, connection.server_id, connection.connection_id, connection.started_at_us
            )
            # The cursor may be on a row of another system when the name is typed.
            engine, title = self._screen.shown_engine, f"kick {connection.display_name}"
            run_task(self._screen, request_and_show_reply, self._screen, command, engine, title)


class ConnectionDetail(ChartedScreen):
    """The screen of a connection; a closed connection stays shown, with the reason of its end."""

    BINDINGS: ClassVar[list[BindingType]] = [KICK_CONNECTION.binding("part('kicking', 'kick')")]

    def __init__(self, connection: ClientConnection) -> None:
        super().__init__()
        self._connection = connection
        self.kicking = KickKey(self, lambda: self._connection)
        self._last_connections: Connections | None = None
        self._traffic: Traffic | None = None
        self._status_text = "reading …"
        self._samples: deque[ConnectionSample] = deque(maxlen=_MAX_SAMPLES)
        self._deliveries: Sequence[PushDelivery] = ()
        self._searched_configurations: Mapping[tuple[str, str], ConsumerConfiguration] | None = (
            None
        )
        self._repeated_request = RepeatedRequest(
            self, lambda: ReadConnection(0, *connection.key), _REREAD_INTERVAL_S, self._store_reply
        )

    def on_mount(self) -> None:
        """Start to read the connection repeatedly."""
        self._repeated_request.start()

    def refresh_state(self) -> None:
        """Show the last reading, and read the connection again if due."""
        self._repeated_request.send_if_due()
        self._follow_recording()
        self._find_consumers()
        connection = self._connection
        title = clean_line(connection.name or connection.address)
        if self._status_text:
            title += f"  ·  {self._status_text}"
        title += "  ·  paused (p)" if self.paused else ""
        charts = connection_charts(self._samples, monotonic(), self.window_s)
        self.show_detail(
            title, connection_sections(connection, self._traffic, self._deliveries), charts
        )

    def _follow_recording(self) -> None:
        """In a replay, use the connection as recorded at the shown moment."""
        if self.state.replay is None:
            return
        recorded_connections = self.state.connections
        rows = () if recorded_connections is None else recorded_connections.newest.rows
        connection = next((row for row in rows if row.key == self._connection.key), None)
        self._status_text = (
            ""
            if connection is not None
            else "the connection is not in the recording at this moment"
        )
        self._connection, self._searched_configurations = connection or self._connection, None
        self._traffic = (
            None
            if recorded_connections is None
            else recorded_connections.traffic.get(self._connection.key)
        )

    def _store_reply(self, reply: Answered) -> None:
        if reply.status != "done" or reply.body_json is None:
            self._status_text = clean_line(reply.text)
            return
        self._status_text, connections = "", _decoder.decode(reply.body_json)
        if not connections.rows:
            self._status_text = "the connection has ended, and its server has forgotten it"
            return
        previous_connections, self._last_connections = self._last_connections, connections
        self._connection, self._searched_configurations = connections.rows[0], None
        traffic = (
            traffic_between(previous_connections, connections)
            if previous_connections is not None
            else {}
        )
        now_s, self._traffic = monotonic(), traffic.get(self._connection.key)
        if self._connection.stopped_at_us is not None:
            return
        if self._samples and now_s - self._samples[-1].at_s > _MAX_SAMPLE_INTERVAL_S:
            self._traffic = None
        self._samples.append(
            ConnectionSample(now_s, self._traffic, self._connection.pending_bytes)
        )

    def _find_consumers(self) -> None:
        """Find the push consumers of the connection again, if the connection or a consumer
        configuration has changed.
        """
        if self._searched_configurations is not self.state.consumer_configurations:
            self._searched_configurations = self.state.consumer_configurations
            self._deliveries = push_consumers_of(
                self._connection, self._searched_configurations.values()
            )
