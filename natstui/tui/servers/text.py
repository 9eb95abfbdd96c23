"""The server screen: connection, account, what is unavailable and why, permissions, our cost."""

from __future__ import annotations

from natstui.model.live.age import oldest_row_us
from natstui.model.live.rates import own_requests_per_s
from natstui.model.live.snapshot import Account
from natstui.model.live.state import State
from natstui.model.records.link import LinkChanged
from natstui.tui.kit.sections import Line, Section, line
from natstui.units import UNKNOWN, bytes_text, count_text, counted, duration_text


def server_sections(state: State) -> list[Section]:
    """Return everything known of the connection and the account."""
    return [_connection(state), _account(state.account, own=not _other(state))]


def _other(state: State) -> bool:
    """Return whether another account than that of the connection is watched."""
    return state.started is not None and state.started.account is not None


def monitor_sections(state: State) -> list[Section]:
    """Return what cannot be read, what the user may do, and what monitoring costs."""
    return [_unavailable(state), _cost(state), _permissions(state)]


def _connection(state: State) -> Section:
    link, started = state.link, state.started
    target = started.target if started else UNKNOWN
    if link is None:
        return Section("CONNECTION", (line("target", target), line("state", "connecting")))
    well = link.state == "connected"
    # That the connection's own account has no JetStream says nothing of another one.
    reason = "" if well and _other(state) else link.reason
    lines = [
        line("target", target),
        line("state", link.state + (f": {reason}" if reason else ""), "ok" if well else "bad"),
    ]
    if link.server_version is not None:
        lines += _server(link)
    return Section("CONNECTION", tuple(lines))


def _server(link: LinkChanged) -> list[Line]:
    """Return what the server said of itself when it was reached."""
    level = link.api_level
    return [
        line("server", f"{link.server_name or UNKNOWN} v{link.server_version}"),
        line("address", link.server_url or UNKNOWN),
        line("cluster", link.cluster or "none"),
        line("TLS", "yes" if link.tls else "no"),
        line("user", link.user or "none"),
        line("account", link.account or UNKNOWN),
        line("JetStream domain", link.domain or "none"),
        line("API level", UNKNOWN if level is None else str(level) if level else "0: before 2.11"),
        line("largest payload", bytes_text(link.max_payload_bytes)),
    ]


def _account(account: Account | None, *, own: bool) -> Section:
    """Return the use of an account; how many streams it may have, servers tell its users only."""
    if account is None:
        return Section("ACCOUNT", (line("", "not read yet", "dim"),))
    unknown = "unlimited" if own else "a limit that is not told"

    def used(
        now: int, limit: int | None, text: object = count_text, without: str = "unlimited"
    ) -> str:
        assert callable(text)
        share = f" ({100 * now / limit:.0f}%)" if limit else ""
        return f"{text(now)} of {text(limit) if limit is not None else without}{share}"

    streams = used(account.streams_count, account.max_streams_count, without=unknown)
    consumers = used(account.consumers_count, account.max_consumers_count, without=unknown)

    inflight = account.api_inflight_count
    return Section(
        "ACCOUNT",
        (
            line("streams", streams),
            line("consumers", consumers),
            line("file", used(account.storage_bytes, account.max_storage_bytes, bytes_text)),
            line("memory", used(account.memory_bytes, account.max_memory_bytes, bytes_text)),
            line("API requests", str(account.api_requests_count)),
            line("API errors", str(account.api_errors_count)),
            line("API in flight", UNKNOWN if inflight is None else str(inflight)),
        ),
    )


def _unavailable(state: State) -> Section:
    lines = [
        line(what, it.reason + (f" ({it.denied_subject})" if it.denied_subject else ""), "warn")
        for what, it in state.unavailable.items()
    ]
    return Section("UNAVAILABLE", tuple(lines) or (line("", "nothing", "dim"),))


def _permissions(state: State) -> Section:
    known = state.permitted
    if known is None:
        return Section("PERMISSIONS", (line("", "the server did not tell", "dim"),))

    def text(subjects: tuple[str, ...] | None) -> str:
        return "everything" if subjects is None else ", ".join(subjects) or "nothing"

    return Section(
        "PERMISSIONS",
        (
            line("may publish", text(known.publish_allow)),
            line("may not publish", text(known.publish_deny)),
            line("may subscribe", text(known.subscribe_allow)),
            line("may not subscribe", text(known.subscribe_deny)),
        ),
    )


def _interval_text(state: State) -> str:
    newest, oldest_us = state.costs[-1].cost, oldest_row_us(state)
    text = f"every {duration_text(newest.interval_us / 1e6)}"
    if newest.round_us is not None:
        text += f", every row in {duration_text(newest.round_us / 1e6)}"
    return text if oldest_us is None else f"{text}, oldest row {duration_text(oldest_us / 1e6)}"


def _cost(state: State) -> Section:
    if not state.costs:
        return Section("COST OF MONITORING", (line("", "no poll yet", "dim"),))
    newest = state.costs[-1].cost
    rtt = UNKNOWN if newest.api_rtt_us is None else f"{newest.api_rtt_us / 1000:.2f} ms"
    own_per_s = own_requests_per_s(state.costs)
    return Section(
        "COST OF MONITORING",
        (
            line("our requests", UNKNOWN if own_per_s is None else f"{own_per_s:.1f}/s"),
            line("last poll", counted(newest.requests_count, "request")),
            line("received", bytes_text(newest.received_bytes)),
            line("took", duration_text(newest.elapsed_us / 1e6)),
            line("API round trip", rtt),
            line("interval", _interval_text(state)),
            line(
                "slowed down",
                newest.backoff_reason or "no",
                "warn" if newest.backoff_reason else "dim",
            ),
        ),
    )
