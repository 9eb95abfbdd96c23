"""The servers in words: the one under the cursor, the leaders, the meta group, the accounts."""

from __future__ import annotations

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
from natstui.units import UNKNOWN, bytes_text, count_text

_BAR_CELLS = 12


def around_sections(
    seen: Servers | None, chosen: ServerSeen | None, leaders: Leaders
) -> list[Section]:
    """Return all sections on the servers that have something to say."""
    sections = [] if chosen is None else [_server(chosen)]
    sections.append(_leaders(seen, leaders))
    if seen is not None:
        sections += [_metas(seen), _accounts(seen), _missing(seen)]
    return [section for section in sections if section.lines]


def _server(one: ServerSeen) -> Section:
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
    return Section(f"SERVER {one.name}", tuple(lines))


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


_MOST_ACCOUNTS = 50


def _missing(seen: Servers) -> Section:
    lines = tuple(line("", f"{it.what}: {it.reason}", "warn") for it in seen.missing)
    return Section("NOT AVAILABLE", lines)
