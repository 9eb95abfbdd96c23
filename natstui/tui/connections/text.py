"""One connection in full, as text and as the lines of its charts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from natstui.model.clients.connection import ClientConnection, Traffic
from natstui.model.clients.holding import Held
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
    "who pulls is in no list of a server: "
    "natstui consumer clients STREAM NAME --for 30s reads the pulls of a consumer"
)
_PUBLISHES = (
    "servers count what it sent, not where to, and its pulls and acknowledgements too: "
    "natstui stream publishers STREAM reads who publishes"
)


@dataclass(frozen=True, slots=True)
class Sampled:
    """What a connection did at one moment, on the viewer's clock."""

    at_s: float
    traffic: Traffic | None
    """None at the first look, and across a gap."""
    pending_bytes: int


def connection_sections(
    one: ClientConnection, traffic: Traffic | None, held: Sequence[Held]
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


def _held(held: Sequence[Held]) -> Section:
    lines = [
        line("", f"{it.stream} › {it.consumer}, {count_text(it.delivered_msgs)} delivered")
        for it in held
    ] or [line("", "no push consumer delivers to it", "dim")]
    return Section("CONSUMERS IT HOLDS", (*lines, line("", _PULLS, "dim")))


def _publishes() -> Section:
    return Section("STREAMS IT PUBLISHES TO", (line("", _PUBLISHES, "dim"),))


def _subscriptions(one: ClientConnection) -> Section:
    lines = [_subscription(it.subject, it.queue, it.delivered_msgs) for it in one.listening]
    if (more := one.subscriptions_count - len(lines)) > 0 and lines:
        lines.append(line("", f"and {more:,} that got less", "dim"))
    told = f"SUBSCRIPTIONS ({one.subscriptions_count:,})"
    return Section(told, tuple(lines) or (line("", "none", "dim"),))


def _subscription(subject: str, queue: str | None, delivered_msgs: int) -> Line:
    group = f" in {queue}" if queue else ""
    return line("", f"{subject}{group}, {count_text(delivered_msgs)} delivered")


def connection_charts(samples: Sequence[Sampled], now_s: float, window_s: int) -> list[ChartData]:
    """Return the charts: messages and bytes a second, and what waits for the client."""
    at_s = [one.at_s - now_s for one in samples]
    rates = [one.traffic for one in samples]
    msgs = (
        Series("sends", [None if it is None else it.in_msgs_per_s for it in rates]),
        Series("gets", [None if it is None else it.out_msgs_per_s for it in rates]),
    )
    size = (
        Series("sends", [None if it is None else it.in_bytes_per_s for it in rates]),
        Series("gets", [None if it is None else it.out_bytes_per_s for it in rates]),
    )
    pending = (Series("pending", [float(one.pending_bytes) for one in samples]),)
    return [
        ChartData("Messages", "msgs/s", at_s, msgs, window_s),
        ChartData("Bytes", "bytes/s", at_s, size, window_s),
        ChartData("Waiting in the server", "bytes", at_s, pending, window_s),
    ]
