"""What the server screen says of a server, and what it leaves out."""

from __future__ import annotations

import pytest

from natstui.model.live.state import State
from natstui.model.records.record import LinkChanged
from natstui.tui.servers.text import server_sections
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
