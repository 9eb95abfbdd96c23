"""Texts about servers: connection, account, cost, leaders, meta group and all accounts."""

from __future__ import annotations

from natstui.model.live.age import oldest_row_us
from natstui.model.live.rates import own_requests_per_s
from natstui.model.live.snapshot import Account
from natstui.model.live.state import State
from natstui.model.records.link import LinkChanged
from natstui.model.servers.leaders import LeaderCounts
from natstui.model.servers.replicas import replica_state
from natstui.model.servers.server import Servers, ServerState
from natstui.model.servers.text import (
    account_text,
    leader_bars,
    meta_text,
    peer_text,
    storage_text,
)
from natstui.tui.kit.sections import Line, Section, line
from natstui.units import UNKNOWN, bytes_text, count_text, counted, duration_text

_BAR_CELLS = 12
_MAX_LISTED_ACCOUNTS = 50


def server_sections(state: State) -> list[Section]:
    """Return the sections of the connection and the account."""
    return [
        _connection_section(state),
        _account_section(state.account, is_own_account=not _watches_other_account(state)),
    ]


def _watches_other_account(state: State) -> bool:
    """Return whether the watched account is not that of the connection."""
    return state.started is not None and state.started.account is not None


def monitor_sections(state: State) -> list[Section]:
    """Return the sections on unavailable data, the cost of monitoring, and permissions."""
    sections = [_unavailable_section(state), _cost_section(state), _permissions_section(state)]
    return [section for section in sections if section.lines]


def _connection_section(state: State) -> Section:
    link, engine_started = state.link, state.started
    target = engine_started.target if engine_started else UNKNOWN
    if link is None:
        return Section("CONNECTION", (line("target", target), line("state", "connecting")))
    is_connected = link.state == "connected"
    # The reason may be about JetStream in the connection's account, not in the watched one.
    reason = "" if is_connected and _watches_other_account(state) else link.reason
    lines = [
        line("target", target),
        line(
            "state",
            link.state + (f": {reason}" if reason else ""),
            "ok" if is_connected else "bad",
        ),
    ]
    if link.server_version is not None:
        lines += _server_lines(link)
    return Section("CONNECTION", tuple(lines))


def _server_lines(link: LinkChanged) -> list[Line]:
    """Return lines with the INFO that the server sent at the connection."""
    api_level = link.api_level
    api_level_text = str(api_level) if api_level else "0: before 2.11"
    return [
        line("server", f"{link.server_name or UNKNOWN} v{link.server_version}"),
        line("address", link.server_url or UNKNOWN),
        line("cluster", link.cluster or "none"),
        line("TLS", "yes" if link.tls else "no"),
        line("user", link.user or "none"),
        line("account", link.account or UNKNOWN),
        line("JetStream domain", link.domain or "none"),
        line("API level", UNKNOWN if api_level is None else api_level_text),
        line("largest payload", bytes_text(link.max_payload_bytes)),
    ]


def _account_section(account: Account | None, *, is_own_account: bool) -> Section:
    """Return the section on the use of an account; missing limits mean unlimited if
    `is_own_account`.
    """
    if account is None:
        return Section("ACCOUNT", (line("", "not read yet", "dim"),))
    missing_limit_text = "unlimited" if is_own_account else "an unknown limit"

    def used_text(
        used_value: int,
        max_value: int | None,
        format_value: object = count_text,
        no_limit_text: str = "unlimited",
    ) -> str:
        assert callable(format_value)
        share = f" ({100 * used_value / max_value:.0f}%)" if max_value else ""
        limit_text = format_value(max_value) if max_value is not None else no_limit_text
        return f"{format_value(used_value)} of {limit_text}{share}"

    streams = used_text(
        account.streams_count, account.max_streams_count, no_limit_text=missing_limit_text
    )
    consumers = used_text(
        account.consumers_count, account.max_consumers_count, no_limit_text=missing_limit_text
    )

    inflight_count = account.api_inflight_count
    return Section(
        "ACCOUNT",
        (
            line("streams", streams),
            line("consumers", consumers),
            line("file", used_text(account.storage_bytes, account.max_storage_bytes, bytes_text)),
            line("memory", used_text(account.memory_bytes, account.max_memory_bytes, bytes_text)),
            line("API requests", str(account.api_requests_count)),
            line("API errors", f"{account.api_errors_count} since the servers started"),
            line("API in flight", UNKNOWN if inflight_count is None else str(inflight_count)),
        ),
    )


_UNAVAILABLE_TITLE = "UNAVAILABLE"


def _unavailable_section(state: State) -> Section:
    """Return the section on data that the polls could not read."""
    lines = [
        line(
            source, gap.reason + (f" ({gap.denied_subject})" if gap.denied_subject else ""), "warn"
        )
        for source, gap in state.unavailable.items()
    ]
    return Section(_UNAVAILABLE_TITLE, tuple(lines))


def _permissions_section(state: State) -> Section:
    permitted = state.permitted
    if permitted is None:
        return Section("PERMISSIONS", (line("", "the server did not report it", "dim"),))

    def text(subjects: tuple[str, ...] | None) -> str:
        return "everything" if subjects is None else ", ".join(subjects) or "nothing"

    return Section(
        "PERMISSIONS",
        (
            line("may publish", text(permitted.publish_allow)),
            line("may not publish", text(permitted.publish_deny)),
            line("may subscribe", text(permitted.subscribe_allow)),
            line("may not subscribe", text(permitted.subscribe_deny)),
        ),
    )


def _poll_interval_text(state: State) -> str:
    newest_cost, oldest_row_age_us = state.costs[-1].cost, oldest_row_us(state)
    text = f"every {duration_text(newest_cost.interval_us / 1e6)}"
    if newest_cost.round_us is not None:
        text += f", every row in {duration_text(newest_cost.round_us / 1e6)}"
    return (
        text
        if oldest_row_age_us is None
        else f"{text}, oldest row {duration_text(oldest_row_age_us / 1e6)}"
    )


def _cost_section(state: State) -> Section:
    if not state.costs:
        return Section("COST OF MONITORING", (line("", "no poll yet", "dim"),))
    newest_cost = state.costs[-1].cost
    rtt_text = (
        UNKNOWN if newest_cost.api_rtt_us is None else f"{newest_cost.api_rtt_us / 1000:.2f} ms"
    )
    own_per_s = own_requests_per_s(state.costs)
    return Section(
        "COST OF MONITORING",
        (
            line("own requests", UNKNOWN if own_per_s is None else f"{own_per_s:.1f}/s"),
            line("last poll", counted(newest_cost.requests_count, "request")),
            line("received", bytes_text(newest_cost.received_bytes)),
            line("took", duration_text(newest_cost.elapsed_us / 1e6)),
            line("API round trip", rtt_text),
            line("interval", _poll_interval_text(state)),
            line(
                "slowed down",
                newest_cost.backoff_reason or "no",
                "warn" if newest_cost.backoff_reason else "dim",
            ),
        ),
    )


def system_sections(
    servers: Servers | None, chosen_server: ServerState | None, leaders: LeaderCounts
) -> list[Section]:
    """Return the sections with content on a server, leaders, meta groups and accounts."""
    sections = [] if chosen_server is None else [_chosen_server_section(chosen_server, servers)]
    sections.append(_leaders_section(servers, leaders))
    if servers is not None:
        sections += [
            _meta_section(servers),
            _accounts_section(servers),
            _missing_replies_section(servers),
        ]
    return [section for section in sections if section.lines]


def _traffic_text(msgs: int | None, size_bytes: int | None) -> str:
    return f"{counted(count_text(msgs), 'message')}, {bytes_text(size_bytes)}"


def _chosen_server_section(server: ServerState, servers: Servers | None) -> Section:
    """Return the section on a server, with the reason for missing details."""
    jetstream = server.jetstream
    lines = [
        line("domain", server.domain or (UNKNOWN if jetstream is None else "none")),
        line("in", _traffic_text(server.in_msgs, server.in_bytes)),
        line("out", _traffic_text(server.out_msgs, server.out_bytes)),
        line("cores", count_text(server.cores_count)),
        line("routes", _routes_text(server)),
        line("leafnodes", count_text(server.leafnodes_count)),
        line("gateways", count_text(server.gateways_count)),
        line("file", storage_text(None if jetstream is None else jetstream.file)),
        line("memory", storage_text(None if jetstream is None else jetstream.memory)),
    ]
    if jetstream is not None:
        lines += [
            line(
                "streams",
                f"{jetstream.streams_count}, leads {count_text(jetstream.streams_led_count)}",
            ),
            line(
                "consumers",
                f"{jetstream.consumers_count}, leads {count_text(jetstream.consumers_led_count)}",
            ),
            line(
                "API requests",
                f"{jetstream.api_requests_count}, {jetstream.api_inflight_count} in flight",
            ),
        ]
    lines = [text_line for text_line in lines if text_line.text != UNKNOWN]
    if servers is not None and servers.source == "account":
        lines.append(line("", _SYSTEM_ACCOUNT_NOTE, "dim"))
    return Section(f"SERVER {server.name}", tuple(lines))


_SYSTEM_ACCOUNT_NOTE = "CPU, memory and storage: servers report them to the system account only"


def _routes_text(server: ServerState) -> str:
    if server.routes_count is None or server.neighbours_count is None:
        return UNKNOWN
    return f"{server.routes_count} to {server.neighbours_count} servers"


def _leaders_section(servers: Servers | None, leaders: LeaderCounts) -> Section:
    """Return the section on leaders by server: of all accounts, else of the watched account."""
    rows = () if servers is None else servers.rows
    led_count_by_server = {
        row.name: row.jetstream.streams_led_count
        for row in rows
        if row.jetstream is not None and row.jetstream.streams_led_count is not None
    }
    scope_text = "of all accounts" if led_count_by_server else "of this account"
    counts = led_count_by_server or {
        row.name: leaders.streams_count.get(row.name, 0) for row in rows
    }
    # A leader that does not answer is still a leader.
    for name, count in leaders.streams_count.items():
        counts.setdefault(name, count)
    lines = [line(name, bar) for name, bar in leader_bars(sorted(counts.items()), _BAR_CELLS)]
    if leaders.leaderless_count:
        lines.append(line("leaderless", str(leaders.leaderless_count), "bad"))
    return Section(f"STREAMS LED, {scope_text}", tuple(lines))


def _meta_section(servers: Servers) -> Section:
    lines: list[Line] = []
    for meta in servers.metas:
        label = meta.cluster if len(servers.metas) > 1 else ""
        has_leader_replied = servers.has_leader_reply(meta)
        is_ok = meta.leader is not None and has_leader_replied
        lines.append(
            line(label, meta_text(meta, has_reply=has_leader_replied), "" if is_ok else "bad")
        )
        for peer in meta.peers:
            is_ok = replica_state(peer) == "current"
            lines.append(line(peer.name, peer_text(peer), "" if is_ok else "bad"))
    return Section("META GROUP", tuple(lines))


def _accounts_section(servers: Servers) -> Section:
    lines = tuple(
        line(account.name, account_text(account))
        for account in servers.accounts[:_MAX_LISTED_ACCOUNTS]
    )
    more_count = len(servers.accounts) - len(lines)
    lines += (line("", f"and {more_count} more", "dim"),) if more_count else ()
    lines += (
        (line("", ":account NAME shows its streams and consumers too", "dim"),) if lines else ()
    )
    return Section("ACCOUNTS", lines)


def _missing_replies_section(servers: Servers) -> Section:
    """Return the section on replies of servers that did not arrive, with the reasons."""
    lines = tuple(line("", f"{part.what}: {part.reason}", "warn") for part in servers.missing)
    return Section(_UNAVAILABLE_TITLE, lines)
