from __future__ import annotations

import pytest

from natstui.model.live.snapshot import Account
from natstui.model.live.state import State
from natstui.model.records.record import EngineStarted, LinkChanged, Unavailable
from natstui.tui.frame.head.status_text import (
    STRIP_HELP,
    account_parts,
    findings_cell,
    fit_parts,
    link_parts,
)
from natstui.tui.kit.table.rows import Cell
from natstui.values import replace
from tests.model.builders import snapshot

ACCOUNT = Account(0, 10**6, 3, 6, None, None, None, None, 100, 0, 0, 1, None)


def started(colour: str | None) -> EngineStarted:
    return EngineStarted(
        at_us=1,
        natstui_version="1",
        schema_version=1,
        target="shop · a:4222",
        read_only=False,
        production=True,
        interval_s=1.0,
        theme="natstui",
        ascii_only=False,
        mouse=True,
        keys={},
        colour=colour,
    )


@pytest.mark.parametrize(
    ("colour", "look"),
    [
        ("red", "on red"),
        ("#ff8800", "on #ff8800"),
        (None, "accent"),
        ("red]x[/] $panel", "accent"),
        ("mud", "accent"),
    ],
)
def test_the_target_is_marked_with_the_colour_of_its_profile(
    colour: str | None, look: str
) -> None:
    parts = link_parts(State().after(started(colour)), 0)
    assert parts[1].style_name == look
    assert parts[1].text.strip() == "shop · a:4222"
    assert "shop · a:4222" in fit_parts(parts, 80).plain


def test_a_colour_is_the_ground_of_readable_text() -> None:
    spans = fit_parts(link_parts(State().after(started("red")), 0), 80).spans
    assert "auto on red" in [str(span.style) for span in spans]


def test_a_link_without_jetstream_says_why() -> None:
    reason = "the server 'n1' runs without JetStream"
    link = LinkChanged(at_us=2, state="connected", reason=reason, jetstream=False)
    parts = link_parts(State().after(started(None)).after(link), 0)
    assert Cell(f"▲ {reason}", "bad") in parts


@pytest.mark.parametrize(
    ("version", "told"),
    [
        ("2.9.25", "▲ nats-server 2.9.25 is not supported: natstui needs 2.10 or newer"),
        ("2.10.0-RC.1", None),
        ("2.10.26", None),
        ("\x1b[2J", None),
        (None, None),
    ],
)
def test_a_server_that_is_not_supported_is_told_once(
    version: str | None, told: str | None
) -> None:
    link = LinkChanged(2, "connected", None, jetstream=True, server_version=version)
    parts = link_parts(State().after(started(None)).after(link), 0)
    found = [cell for cell in parts if "not supported" in cell.text]
    assert found == ([] if told is None else [Cell(told, "bad")])


def test_the_strip_tells_how_long_all_rows_take_and_how_old_the_oldest_is() -> None:
    state = State()
    for mono_s in (100, 101):
        poll = snapshot(mono_s, [{"name": "S"}])
        state = state.after(replace(poll, account=ACCOUNT))
    assert "every row" not in fit_parts(account_parts(state), 200).plain
    cost = replace(state.costs[-1].cost, round_us=7_500_000)
    state = state.after(replace(snapshot(104), account=ACCOUNT, cost=cost))
    text = fit_parts(account_parts(state), 200).plain
    assert "every 1s, every row in 8s, oldest 3s" in text
    cost = replace(cost, backoff_reason="the server is busy")
    state = state.after(replace(snapshot(105), account=ACCOUNT, cost=cost))
    assert Cell("▲ the server is busy", "warn") in account_parts(state)


def test_a_screen_that_was_told_nothing_yet_does_not_say_that_the_app_connects() -> None:
    said = [
        [part.text for part in link_parts(one, 0)]
        for one in (State(), State().after(started(None)))
    ]
    assert said[0] == ["natstui"]
    assert said[1][-1] == "◌ connecting"


def test_the_help_says_which_errors_are_counted_since_when_and_where_to_look() -> None:
    text = dict(STRIP_HELP)["err"]
    for part in ("API requests that failed", "since the servers started", "ADVISORY.API"):
        assert part in text


def test_what_cannot_be_read_is_not_called_fine_unless_streams_are_known() -> None:
    def cell(state: State) -> Cell:
        return findings_cell([State(), state])

    assert cell(State()) == Cell("● fine", "ok")
    for what in ("STREAM.LIST", "answers"):
        unread = State().after(Unavailable(1, what, "no reply"))
        assert cell(unread) == Cell("? not judged", "warn")
        assert cell(unread.after(snapshot(1, [{"name": "S"}]))).text == "● fine"
    assert cell(State().after(Unavailable(1, "CONSUMER.LIST.S", "no reply"))).text == "● fine"
