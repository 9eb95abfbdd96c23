"""The servers in words: our connection, account and cost; leaders, meta group, all accounts."""

from __future__ import annotations

from natstui.model.live.age import oldest_row_us
from natstui.model.live.rates import own_requests_per_s
from natstui.model.live.snapshot import Account
from natstui.model.live.state import State
from natstui.model.records.link import LinkChanged
from natstui.model.servers.leaders import Leaders
from natstui.model.servers.replicas import state_of
from natstui.model.servers.server import Servers, ServerSeen
from natstui.model.servers.words import (
    account_text,
    meta_text,
    peer_text,
    shares,
    storage_text,
)
from natstui.tui.kit.sections import Line, Section, line
from natstui.units import UNKNOWN, bytes_text, count_text, counted, duration_text

_BAR_CELLS = 12
_MOST_ACCOUNTS = 50


def server_sections(state: State) -> list[Section]:
    """Return everything known of the connection and the account."""
    return [_connection(state), _account(state.account, own=not _other(state))]


def _other(state: State) -> bool:
    """Return whether another account than that of the connection is watched."""
    return state.started is not None and state.started.account is not None


def monitor_sections(state: State) -> list[Section]:
    """Return what cannot be read, if anything, what monitoring costs, and what the user may do."""
    sections = [_unavailable(state), _cost(state), _permissions(state)]
    return [section for section in sections if section.lines]


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
    unknown = "unlimited" if own else "an unknown limit"

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
            line("API errors", f"{account.api_errors_count} since the servers started"),
            line("API in flight", UNKNOWN if inflight is None else str(inflight)),
        ),
    )


_UNAVAILABLE = "UNAVAILABLE"


def _unavailable(state: State) -> Section:
    """Return what the polls could not read."""
    lines = [
        line(what, gap.reason + (f" ({gap.denied_subject})" if gap.denied_subject else ""), "warn")
        for what, gap in state.unavailable.items()
    ]
    return Section(_UNAVAILABLE, tuple(lines))


def _permissions(state: State) -> Section:
    known = state.permitted
    if known is None:
        return Section("PERMISSIONS", (line("", "the server did not report it", "dim"),))

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


def around_sections(
    seen: Servers | None, chosen: ServerSeen | None, leaders: Leaders
) -> list[Section]:
    """Return all sections on the servers that have something to say."""
    sections = [] if chosen is None else [_chosen_server(chosen, seen)]
    sections.append(_leaders(seen, leaders))
    if seen is not None:
        sections += [_metas(seen), _accounts(seen), _missing(seen)]
    return [section for section in sections if section.lines]


def _chosen_server(one: ServerSeen, seen: Servers | None) -> Section:
    """Return what is known of a server, and once why there is no more."""
    it = one.jetstream
    lines = [
        line("domain", one.domain or (UNKNOWN if it is None else "none")),
        line("in", f"{count_text(one.in_msgs)} messages, {bytes_text(one.in_bytes)}"),
        line("out", f"{count_text(one.out_msgs)} messages, {bytes_text(one.out_bytes)}"),
        line("cores", count_text(one.cores_count)),
        line("routes", _routes(one)),
        line("leafnodes", count_text(one.leafnodes_count)),
        line("gateways", count_text(one.gateways_count)),
        line("file", storage_text(None if it is None else it.file)),
        line("memory", storage_text(None if it is None else it.memory)),
    ]
    if it is not None:
        lines += [
            line("streams", f"{it.streams_count}, leads {count_text(it.streams_led_count)}"),
            line("consumers", f"{it.consumers_count}, leads {count_text(it.consumers_led_count)}"),
            line("API requests", f"{it.api_requests_count}, {it.api_inflight_count} in flight"),
        ]
    lines = [each for each in lines if each.text != UNKNOWN]
    if seen is not None and seen.source == "account":
        lines.append(line("", _OF_SYSTEM_ACCOUNT, "dim"))
    return Section(f"SERVER {one.name}", tuple(lines))


_OF_SYSTEM_ACCOUNT = "CPU, memory and storage: servers report them to the system account only"


def _routes(one: ServerSeen) -> str:
    if one.routes_count is None or one.neighbours_count is None:
        return UNKNOWN
    return f"{one.routes_count} to {one.neighbours_count} servers"


def _leaders(seen: Servers | None, leaders: Leaders) -> Section:
    """Return who leads how many streams: of all accounts where they are told, else of ours."""
    rows = () if seen is None else seen.rows
    told = {
        row.name: row.jetstream.streams_led_count
        for row in rows
        if row.jetstream is not None and row.jetstream.streams_led_count is not None
    }
    whose = "of all accounts" if told else "of this account"
    counts = told or {row.name: leaders.streams_count.get(row.name, 0) for row in rows}
    # A leader that does not answer is still a leader.
    for name, count in leaders.streams_count.items():
        counts.setdefault(name, count)
    lines = [line(name, bar) for name, bar in shares(sorted(counts.items()), _BAR_CELLS)]
    if leaders.leaderless_count:
        lines.append(line("leaderless", str(leaders.leaderless_count), "bad"))
    return Section(f"STREAMS LED, {whose}", tuple(lines))


def _metas(seen: Servers) -> Section:
    lines: list[Line] = []
    for meta in seen.metas:
        label = meta.cluster if len(seen.metas) > 1 else ""
        answers = seen.leader_answers(meta)
        well = meta.leader is not None and answers
        lines.append(line(label, meta_text(meta, answers=answers), "" if well else "bad"))
        for peer in meta.peers:
            well = state_of(peer) == "current"
            lines.append(line(peer.name, peer_text(peer), "" if well else "bad"))
    return Section("META GROUP", tuple(lines))


def _accounts(seen: Servers) -> Section:
    lines = tuple(
        line(account.name, account_text(account)) for account in seen.accounts[:_MOST_ACCOUNTS]
    )
    more = len(seen.accounts) - len(lines)
    lines += (line("", f"and {more} more", "dim"),) if more else ()
    lines += (
        (line("", ":account NAME shows its streams and consumers too", "dim"),) if lines else ()
    )
    return Section("ACCOUNTS", lines)


def _missing(seen: Servers) -> Section:
    """Return what the servers did not reply."""
    lines = tuple(line("", f"{part.what}: {part.reason}", "warn") for part in seen.missing)
    return Section(_UNAVAILABLE, lines)
