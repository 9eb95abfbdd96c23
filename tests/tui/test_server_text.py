"""What the server screen says of a server, and what it leaves out."""

from __future__ import annotations

import pytest

from natstui.model.live.state import State
from natstui.model.records.record import LinkChanged, Unavailable
from natstui.model.servers.leaders import Leaders
from natstui.model.servers.server import Missing, Servers
from natstui.tui.servers.text import around_sections, monitor_sections, server_sections
from natstui.units import UNKNOWN


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
    assert around_sections(Servers("account", ()), None, Leaders()) == []
    state = State().after(Unavailable(1, "STREAM.LIST", "no permission", "$JS.API.STREAM.LIST"))
    seen = Servers("account", (), missing=(Missing("CPU of servers", "the account tells none"),))
    first, *_ = monitor_sections(state)
    (beside,) = around_sections(seen, None, Leaders())
    assert first.title == beside.title == "UNAVAILABLE"
    assert [line.text for line in (*first.lines, *beside.lines)] == [
        "no permission ($JS.API.STREAM.LIST)", "CPU of servers: the account tells none",
    ]  # fmt: skip
