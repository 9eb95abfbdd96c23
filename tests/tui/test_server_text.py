"""What the server screen says of a server, and what it leaves out."""

from __future__ import annotations

import pytest

from natstui.model.live.snapshot import ConsumerColumns, Peer, PollCost, StreamColumns
from natstui.model.live.state import State, TimedPollCost
from natstui.model.records.record import LinkChanged, Unavailable
from natstui.model.servers.leaders import LeaderCounts, count_leaders
from natstui.model.servers.server import Meta, MetaPeer, MissingData, Servers
from natstui.model.servers.text import meta_role, meta_text, summary
from natstui.model.servers.watch import NO_SERVERS, ServerWatch
from natstui.tui.servers.cells import SERVER_COLUMNS, ServerView
from natstui.tui.servers.text import monitor_sections, server_sections, system_sections
from natstui.units import UNKNOWN, duration_text, moment_text
from natstui.values import replace
from tests.model.builders import columns
from tests.model.findings.life import EPOCH_US
from tests.model.findings.test_servers import read, seen


def said(link: LinkChanged) -> dict[str, str]:
    connection = server_sections(State().after(link))[0]
    return {line.label: line.text for line in connection.lines}


def test_nothing_is_said_of_a_server_that_was_never_reached() -> None:
    lines = said(LinkChanged(1, "failed", "nothing listens there"))
    assert lines == {"target": UNKNOWN, "state": "failed: nothing listens there"}


@pytest.mark.parametrize(("level", "text"), [(None, UNKNOWN), (0, "0: before 2.11"), (5, "5")])
def test_an_api_level_that_nobody_told_is_unknown(level: int | None, text: str) -> None:
    link = LinkChanged(1, "connected", None, "n1", "2.15.1", api_level=level)
    assert said(link)["API level"] == text


def test_what_cannot_be_read_has_one_title_and_none_where_all_can_be_read() -> None:
    titles = [section.title for section in monitor_sections(State())]
    assert titles == ["COST OF MONITORING", "PERMISSIONS"]
    assert system_sections(Servers("account", ()), None, LeaderCounts()) == []
    state = State().after(Unavailable(1, "STREAM.LIST", "no permission", "$JS.API.STREAM.LIST"))
    seen = Servers(
        "account", (), missing=(MissingData("CPU of servers", "the account tells none"),)
    )
    first, *_ = monitor_sections(state)
    (beside,) = system_sections(seen, None, LeaderCounts())
    assert first.title == beside.title == "UNAVAILABLE"
    assert [line.text for line in (*first.lines, *beside.lines)] == [
        "no permission ($JS.API.STREAM.LIST)", "CPU of servers: the account tells none",
    ]  # fmt: skip


def test_what_monitoring_costs_has_the_units_of_the_last_poll() -> None:
    cost = PollCost(7, 2_048, 43_000, 2_340, 5_000_000, "the link is slow", 60_000_000)
    state = replace(State(), costs=(TimedPollCost(1, 1, cost, None, None),))
    section, *_ = monitor_sections(state)
    assert {line.label: line.text for line in section.lines} == {
        "own requests": UNKNOWN, "last poll": "7 requests", "received": "2.00 KiB",
        "took": "43ms", "API round trip": "2.34 ms",
        "interval": "every 5s, every row in 1m00s", "slowed down": "the link is slow",
    }  # fmt: skip


def test_a_meta_group_says_who_leads_it_and_who_is_missing() -> None:
    away = MetaPeer("n2", current=False, offline=False, active_ns=None, lag_entries_count=4)
    led = Meta("LAB", "n1", 3, 2, 0, (away,))
    lost = replace(led, leader=None, peers=())
    assert meta_text(led) == "led by n1, 3 members, 0 entries pending"
    stored = replace(led, snapshot_entries_count=7, snapshot_at_us=EPOCH_US)
    since = f"{meta_text(led)}; 7 since the last snapshot of {moment_text(EPOCH_US)}"
    assert meta_text(stored) == since
    took = replace(stored, snapshot_took_ns=1_500_000_000)
    assert meta_text(took) == f"{since}, which took {duration_text(1.5)}"
    assert meta_text(led, has_reply=False).startswith("led by n1, which does not reply, 3 members")
    without = "without a leader, 3 members, of which 2 are needed, 0 entries pending"
    assert meta_text(lost) == without
    assert [meta_role(led, name) for name in ("n1", "n2", "n3")] == ["leader", "away", UNKNOWN]
    assert [meta_role(meta, "n1") for meta in (lost, None)] == ["leaderless", UNKNOWN]
    lag = "away, lag 4, never in contact with the leader"
    for meta, lines in ((led, [("led by n1, 3", ""), (lag, "bad")]), (lost, [(without, "bad")])):
        servers = Servers("system", (seen("n1"),), (meta,), (), ("n3", "n2"))
        assert summary(servers).endswith("; no reply from n2, n3")
        sections = system_sections(servers, None, LeaderCounts(leaderless_count=2))
        by_title = {section.title: section.lines for section in sections}
        for drawn, (text, look) in zip(by_title["META GROUP"], lines, strict=True):
            assert drawn.text.startswith(text) and drawn.style_name == look
        led_by = {drawn.label: drawn.text for drawn in by_title["STREAMS LED, of this account"]}
        assert led_by["leaderless"] == "2"


def test_what_each_server_leads_and_which_replicas_are_behind_is_counted() -> None:
    well, lost = Peer("n2", True, False, 1, 0), Peer("n3", False, True, 1, 9)
    streams = columns(
        StreamColumns,
        [{"leader": "n1", "peers": (well, lost)}, {"leader": "n2", "peers": (lost,)},
         {"leader": None}, {"leader": ""}],
        1,
    )  # fmt: skip
    consumers = columns(
        ConsumerColumns, [{"leader": "n1", "peers": (replace(well, current=False),)}], 1
    )
    found = count_leaders(streams, consumers)
    assert found.streams_count == {"n1": 1, "n2": 1}
    assert found.consumers_count == {"n1": 1}
    assert found.behind_count == {"n3": 2, "n2": 1}
    assert found.leaderless_count == 1


def test_a_server_that_misses_one_answer_keeps_its_row_until_it_is_down_or_answers() -> None:
    every = [seen(name) for name in ("n1", "n2", "n3")]
    watch = NO_SERVERS.after(read(0, *every))
    without = Servers("system", (every[0], every[2]), silent=("n2",))

    def rows(shown: Servers, watch: ServerWatch, now_s: int) -> dict[str, str]:
        view = ServerView(shown, {}, LeaderCounts(), watch, EPOCH_US + now_s * 1_000_000)
        role = next(spec for spec in SERVER_COLUMNS if spec.id == "meta")
        return {view.at(row).seen.name: role.cell(view, row).text for row in view.rows()}

    up = rows(Servers("system", tuple(every)), watch, 1)
    assert up.keys() == {"n1", "n2", "n3"}
    assert rows(without, watch, 2) == up, "one question without an answer"
    down = rows(without, watch.after(read(3, every[0], every[2])), 5)
    assert down == {**up, "n2": down["n2"]} and down["n2"].startswith("down")
    assert rows(without, watch.after(read(6, *every)), 6) == up, "it is back, and not asked yet"
