"""One connection in full, for as long as it lasts, and why it ended."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import monotonic
from typing import ClassVar

from textual.binding import BindingType

from natstui.clean import clean_line
from natstui.decoding import decoder_of
from natstui.model.assets.configuration import ConsumerConfiguration
from natstui.model.clients.connection import (
    ClientConnection,
    Connections,
    traffic_between,
)
from natstui.model.clients.holding import PushDelivery, push_consumers_of
from natstui.model.live.history import WINDOWS_S
from natstui.model.records.messages import Answered
from natstui.model.records.system import ReadConnection
from natstui.model.traffic import Traffic
from natstui.tui.connections.kicking import Kicking
from natstui.tui.frame.action_keys import KICK
from natstui.tui.frame.detail.screen import ChartedScreen
from natstui.tui.frame.live import Renewing
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

_PULLS = (
    "servers do not list who pulls: natstui consumer clients STREAM NAME --for 30s reads the "
    "pulls of a consumer"
)
_PUBLISHES = (
    "servers count messages, pulls and acks, but not by subject: natstui stream publishers "
    "STREAM shows who publishes"
)


@dataclass(frozen=True, slots=True)
class ConnectionSample:
    """What a connection did at one moment, on the viewer's clock."""

    at_s: float
    traffic: Traffic | None
    """None at the first look, and across a gap."""
    pending_bytes: int


def connection_sections(
    one: ClientConnection, traffic: Traffic | None, held: Sequence[PushDelivery]
) -> list[Section]:
    """Return everything known of a connection."""
    return [_who(one), _does(one, traffic), _held(held), _publishes(), _subscriptions(one)]


def _who(one: ClientConnection) -> Section:
    ended = one.stopped_at_us is not None
    state = f"ended: {one.reason or 'no reason told'}" if ended else "open"
    look = "bad" if one.was_slow == "cut off" else "dim" if ended else "ok"
    lines = [
        line("state", state, look),
        line("user", one.user or UNKNOWN),
        line("address", one.address),
        line("client", one.library or ("leafnode" if one.kind == "Leafnode" else UNKNOWN)),
        line("protocol", one.protocol or UNKNOWN),
        line("TLS", one.tls_version or "none"),
        line("server", f"{one.server_name}, number {one.connection_id}"),
        line("began", moment_text(one.started_at_us)),
        line("uptime", duration_text(one.uptime_s)),
        line("idle", duration_text(one.idle_s)),
    ]
    if ended:
        lines.insert(1, line("ended", moment_text(one.stopped_at_us)))
    return Section("CONNECTION", tuple(lines))


def _does(one: ClientConnection, traffic: Traffic | None) -> Section:
    rtt = duration_text(None if one.rtt_us is None else one.rtt_us / 1e6)
    lines = [
        line("round trip", f"{rtt}, at the server's last PING"),
        line("pending", bytes_text(one.pending_bytes), "warn" if one.pending_bytes else ""),
        line("sent", _both(one.in_msgs, one.in_bytes)),
        line("got", _both(one.out_msgs, one.out_bytes)),
    ]
    if one.stopped_at_us is None:
        lines += [line("sends", _rates(traffic, sent=True)), line("gets", _rates(traffic))]
    if one.was_slow is not None:
        stalled = f", {counted(one.stalls_count, 'time')}" if one.stalls_count else ""
        lines.append(line("too slow", one.was_slow + stalled, "bad"))
    return Section("TRAFFIC", tuple(lines))


def _both(msgs: int, size_bytes: int) -> str:
    return f"{count_text(msgs)} messages, {bytes_text(size_bytes)}"


def _rates(traffic: Traffic | None, *, sent: bool = False) -> str:
    if traffic is None:
        return UNKNOWN
    if sent:
        msgs, size = traffic.in_msgs_per_s, traffic.in_bytes_per_s
    else:
        msgs, size = traffic.out_msgs_per_s, traffic.out_bytes_per_s
    return f"{rate_text(msgs)} msgs/s, {bytes_text(size)}/s"


def _held(held: Sequence[PushDelivery]) -> Section:
    lines = [
        line("", f"{it.stream} › {it.consumer}, {count_text(it.delivered_msgs)} delivered")
        for it in held
    ] or [line("", "no push consumer delivers to this client", "dim")]
    return Section("ITS CONSUMERS", (*lines, line("", _PULLS, "dim")))


def _publishes() -> Section:
    return Section("STREAMS OF ITS PUBLISHES", (line("", _PUBLISHES, "dim"),))


def _subscriptions(one: ClientConnection) -> Section:
    lines = [_subscription(it.subject, it.queue, it.delivered_msgs) for it in one.listening]
    if (more := one.subscriptions_count - len(lines)) > 0 and lines:
        lines.append(line("", f"and {more:,} with fewer messages", "dim"))
    told = f"SUBSCRIPTIONS ({one.subscriptions_count:,})"
    return Section(told, tuple(lines) or (line("", "none", "dim"),))


def _subscription(subject: str, queue: str | None, delivered_msgs: int) -> Line:
    group = f" in {queue}" if queue else ""
    return line("", f"{subject}{group}, {count_text(delivered_msgs)} delivered")


def connection_charts(
    samples: Sequence[ConnectionSample], now_s: float, window_s: int
) -> list[ChartData]:
    """Return the charts: messages and bytes a second, and what waits for the client."""
    at_s = [sample.at_s - now_s for sample in samples]
    rates = [sample.traffic for sample in samples]
    msgs = (
        Series("sends", [None if rate is None else rate.in_msgs_per_s for rate in rates]),
        Series("gets", [None if rate is None else rate.out_msgs_per_s for rate in rates]),
    )
    size = (
        Series("sends", [None if rate is None else rate.in_bytes_per_s for rate in rates]),
        Series("gets", [None if rate is None else rate.out_bytes_per_s for rate in rates]),
    )
    pending = (Series("pending", [float(sample.pending_bytes) for sample in samples]),)
    return [
        ChartData("Messages", "msgs/s", at_s, msgs, window_s),
        ChartData("Bytes", "bytes/s", at_s, size, window_s),
        ChartData("Waiting in the server", "bytes", at_s, pending, window_s),
    ]


_decoder = decoder_of(Connections)
_RENEWED_AFTER_S = 2.0
_GAP_S = 4 * _RENEWED_AFTER_S
"""After so long, a rate between two looks says little of either moment."""
_SAMPLES_KEPT = round(WINDOWS_S[-1] / _RENEWED_AFTER_S)


class ConnectionDetail(ChartedScreen):
    """Who it is, what it does, what it holds and subscribes to; why it ended."""

    BINDINGS: ClassVar[list[BindingType]] = [KICK.binding("part('kicking', 'kick')")]

    def __init__(self, one: ClientConnection) -> None:
        super().__init__()
        self._one = one
        self.kicking = Kicking(self, lambda: self._one)
        self._seen: Connections | None = None
        self._traffic: Traffic | None = None
        self._problem = "asking …"
        self._samples: deque[ConnectionSample] = deque(maxlen=_SAMPLES_KEPT)
        self._held: Sequence[PushDelivery] = ()
        self._held_among: Mapping[tuple[str, str], ConsumerConfiguration] | None = None
        self._renewing = Renewing(
            self, lambda: ReadConnection(0, *one.key), _RENEWED_AFTER_S, self._keep
        )

    def on_mount(self) -> None:
        """Read it again and again."""
        self._renewing.begin()

    def refresh_state(self) -> None:
        """Show what is known, and read it again when that is due; one that ended stays so."""
        self._renewing.keep_up()
        self._follow_recording()
        self._match()
        one = self._one
        title = clean_line(one.name or one.address)
        if self._problem:
            title += f"  ·  {self._problem}"
        title += "  ·  paused (p)" if self.paused else ""
        charts = connection_charts(self._samples, monotonic(), self.window_s)
        self.show_detail(title, connection_sections(one, self._traffic, self._held), charts)

    def _follow_recording(self) -> None:
        """In a replay, show the connection as the recording has it at that moment."""
        if self.state.replay is None:
            return
        recorded = self.state.connections
        rows = () if recorded is None else recorded.newest.rows
        one = next((row for row in rows if row.key == self._one.key), None)
        self._problem = (
            "" if one is not None else "the connection is not in the recording at this moment"
        )
        self._one, self._held_among = one or self._one, None
        self._traffic = None if recorded is None else recorded.traffic.get(self._one.key)

    def _keep(self, reply: Answered) -> None:
        if reply.status != "done" or reply.body_json is None:
            self._problem = clean_line(reply.text)
            return
        self._problem, seen = "", _decoder.decode(reply.body_json)
        if not seen.rows:
            self._problem = "the connection has ended, and its server has forgotten it"
            return
        before, self._seen = self._seen, seen
        self._one, self._held_among = seen.rows[0], None
        traffic = traffic_between(before, seen) if before is not None else {}
        now_s, self._traffic = monotonic(), traffic.get(self._one.key)
        if self._one.stopped_at_us is not None:
            return
        if self._samples and now_s - self._samples[-1].at_s > _GAP_S:
            self._traffic = None
        self._samples.append(ConnectionSample(now_s, self._traffic, self._one.pending_bytes))

    def _match(self) -> None:
        """Find the consumers it holds, when either it or the consumers are newer."""
        if self._held_among is not self.state.consumer_configurations:
            self._held_among = self.state.consumer_configurations
            self._held = push_consumers_of(self._one, self._held_among.values())
