"""Keys, the command line, filters and sorting, as users expect them."""

from __future__ import annotations

import re

import pytest
from textual.app import App
from textual.keys import format_key
from textual.widgets import Input

from natstui.model.findings.catalogue.consumers import NO_PULLS
from natstui.model.findings.catalogue.every import KINDS
from natstui.model.findings.finding import Entity, Finding
from natstui.model.keys import DEFAULT_KEYS
from natstui.model.records.record import (
    Describe,
    Noted,
    SetInterval,
    WriteNote,
)
from natstui.tui.app.app import check_keymap, import_all_bindings
from natstui.tui.app.help import HelpScreen, HelpSection
from natstui.tui.app.key_descriptions import DESCRIPTION_BY_KEY_ID
from natstui.tui.consumers.detail import ConsumerDetail
from natstui.tui.consumers.screen import ConsumersScreen
from natstui.tui.frame.columns import SortAndFilter
from natstui.tui.frame.head.tabs import TABS
from natstui.tui.kit.keys import key_of, user_keys
from natstui.tui.managing.raw import RawScreen
from natstui.tui.streams.detail import StreamDetail
from natstui.tui.streams.screen import StreamsScreen
from tests.session.scenario import START_US
from tests.tui.engine_records import engine_records
from tests.tui.viewer import Viewer, fed

STREAMS = {"ALPHA": (), "BETA": ("one",), "GAMMA": ("two",)}


def shown(viewer: Viewer) -> list[str]:
    return list(viewer.rows())


@pytest.mark.slow
async def test_filters_sorting_and_copying_act_on_the_rows_in_view(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    copied: list[str] = []
    monkeypatch.setattr(App, "copy_to_clipboard", lambda _self, text: copied.append(text))
    async with fed(*engine_records(STREAMS), size=(200, 30)) as viewer:
        await viewer.until(lambda: len(shown(viewer)) == 3)

        async def filters(text: str, *expected: str) -> None:
            await viewer.press("slash")
            await viewer.type(text)
            await viewer.press("enter")
            await viewer.until(lambda: shown(viewer) == list(expected), text)

        # An expression, case matters; then its inverse, and one that is none.
        await filters("ta$")
        await viewer.press("escape")
        await filters("^B", "BETA")
        assert "1 of 3" in viewer.words
        await viewer.press("escape")
        await filters("!^B", "ALPHA", "GAMMA")
        await viewer.press("escape", "slash", "left_parenthesis", "enter")
        await viewer.until(lambda: "is not a regular expression" in viewer.words)
        await viewer.press("slash", "escape")
        await viewer.until(lambda: len(shown(viewer)) == 3)
        await viewer.press("c", "C")
        assert copied[0] == "ALPHA"
        assert '"name": "ALPHA"' in copied[1]

        columns = []
        for spec in viewer.table.SPECS:
            viewer.send("greater_than_sign")
            await viewer.settle()
            assert sorted(shown(viewer)) == ["ALPHA", "BETA", "GAMMA"], spec.id
            columns.append(viewer.table.ordering.order.column)
            if columns[-1] == "msgs":
                assert shown(viewer) == ["GAMMA", "BETA", "ALPHA"]
                await viewer.press("r")
                assert shown(viewer) == ["ALPHA", "BETA", "GAMMA"]
                await viewer.press("r")
        assert set(columns) == {spec.id for spec in viewer.table.SPECS}
        viewer.table.ordering.order = SortAndFilter("name")
        while viewer.table.ordering.order.column != "msgs":
            viewer.send("greater_than_sign")
            await viewer.settle()
    async with fed(*engine_records(STREAMS), size=(120, 30)) as viewer:
        await viewer.until(lambda: shown(viewer) == ["GAMMA", "BETA", "ALPHA"], "remembered")
        await viewer.press("r")
        title = viewer.text.splitlines()[4].index("MSGS")
        await viewer.pilot.click(offset=(title, 4))
        await viewer.until(lambda: shown(viewer) == ["GAMMA", "BETA", "ALPHA"], "the mouse sorts")
        table = viewer.table.table
        assert not is_marked_as_pointed_at(viewer, 1)
        await viewer.pilot.hover(offset=(3, 6))
        assert is_marked_as_pointed_at(viewer, 1) and table.cursor == 0
        await viewer.pilot.hover(offset=(3, 0))
        assert not is_marked_as_pointed_at(viewer, 1)
        await viewer.pilot.click(offset=(3, 5), times=2)
        await viewer.until(lambda: isinstance(viewer.app.screen, ConsumersScreen), "it opens")


def is_marked_as_pointed_at(viewer: Viewer, row: int) -> bool:
    """Return whether a row is drawn on another ground than the one below it."""
    table = viewer.table.table
    grounds = [
        {segment.style.bgcolor for segment in table.render_line(1 + at) if segment.style}
        for at in (row, row + 1)
    ]
    return grounds[0] != grounds[1]


@pytest.mark.slow
async def test_enter_drills_down_d_describes_y_shows_raw_and_escape_comes_back() -> None:
    # High enough for all of a detail, also when a busy machine makes it stale meanwhile.
    async with fed(*engine_records(STREAMS), size=(120, 60)) as viewer:
        await viewer.until(lambda: len(shown(viewer)) == 3)
        await viewer.press("down", "enter")
        assert isinstance(viewer.app.screen, ConsumersScreen)
        await viewer.until(lambda: shown(viewer) == ["one"])
        await viewer.press("enter")
        assert isinstance(viewer.app.screen, ConsumerDetail)
        await viewer.until(lambda: "CONFIGURATION" in viewer.text)
        await viewer.press("y")
        assert isinstance(viewer.app.screen, RawScreen)
        await viewer.until(lambda: viewer.sent(Describe))
        assert [(it.stream, it.consumer) for it in viewer.sent(Describe)] == [("BETA", "one")]
        await viewer.press("escape", "escape", "escape", "d")
        assert isinstance(viewer.app.screen, StreamDetail)
        await viewer.until(lambda: "beta.>" in viewer.text)
        await viewer.press("escape")
        assert isinstance(viewer.app.screen, StreamsScreen)
        await viewer.press("q")
        assert viewer.app.return_code == 0


def help_text(viewer: Viewer, title: str) -> str:
    """Return what a section of the open help has to show; empty if there is none."""
    sections = viewer.app.screen.query(HelpSection)
    pairs = [
        pair for section in sections if section._title == title for pair in section._shown_terms
    ]
    return "  ".join(text for pair in pairs for text in pair)


@pytest.mark.slow
async def test_help_uses_the_width_there_is_says_what_columns_mean_and_is_searched() -> None:
    first: dict[int, str] = {}
    async with fed(*engine_records(STREAMS), size=(80, 40)) as viewer:
        await viewer.press("question_mark")
        assert isinstance(viewer.app.screen, HelpScreen)
        assert "KEYS" in viewer.text
        for width in (80, 120, 200):
            await viewer.pilot.resize_terminal(width, 40)
            await viewer.settle()
            await viewer.until(lambda: "↑ k" in viewer.words, "the keys")
            lines = viewer.text.splitlines()
            line = next(one for one in lines if "↑ k" in one)
            first[width] = line[line.index("↑") : line.rindex("│")]
        assert "including hidden ones of mirrors and sources" in help_text(viewer, "TOP LINES")
        assert "Name of the stream." in help_text(viewer, "COLUMNS")
        assert help_text(viewer, "CHARTS") == ""
        await viewer.press("slash")
        await viewer.type("orphaned")
        await viewer.until(lambda: "COMMANDS" not in viewer.text and "orphaned" in viewer.words)
        await viewer.press("escape")
        await viewer.until(lambda: "COMMANDS" in viewer.text or "KEYS" in viewer.text)
        await viewer.press("escape")
        assert isinstance(viewer.app.screen, HelpScreen), "only its line is closed"
        await viewer.press("escape")
        await viewer.until(lambda: isinstance(viewer.app.screen, StreamsScreen), "closed")
        await viewer.app.push_screen(ConsumerDetail("BETA", "one"))
        await viewer.press("question_mark")
        assert "The first series is an area" in help_text(viewer, "CHARTS")
        assert help_text(viewer, "COLUMNS") == ""
    # Of the same width each, one, two and three columns of keys.
    assert [len(re.findall(r"\S  +(?=\S)", one)) for one in first.values()] == [1, 3, 5]


@pytest.mark.slow
async def test_the_command_line_goes_everywhere_and_says_what_is_wrong() -> None:
    async with fed(*engine_records(STREAMS), size=(120, 40)) as viewer:
        await viewer.until(lambda: len(shown(viewer)) == 3)
        await viewer.type_command("consumers GAMMA")
        await viewer.until(lambda: shown(viewer) == ["two"])
        await viewer.type_command("stream BETTA")
        await viewer.until(lambda: "there is no stream BETTA" in viewer.said)
        await viewer.type_command("consumer GAMMA two")
        await viewer.until(lambda: isinstance(viewer.app.screen, ConsumerDetail))
        await viewer.type_command("note seen")
        await viewer.until(lambda: [note.text for note in viewer.sent(WriteNote)] == ["seen"])
        await viewer.type_command("events")
        await viewer.feed(Noted(START_US, "seen"))
        await viewer.until(lambda: "seen" in viewer.text)
        await viewer.type_command("interval 5s")
        await viewer.until(lambda: [it.interval_s for it in viewer.sent(SetInterval)] == [5.0])
        await viewer.type_command("nonsense")
        await viewer.until(lambda: "no command :nonsense" in viewer.said)
        await viewer.press("colon", "up")
        assert "nonsense" in viewer.text
        await viewer.press("escape")


@pytest.mark.long
async def test_every_key_of_the_app_works_on_another_table() -> None:
    """All other keys of footers, and these on the first table, are in test_every_key.py."""
    async with fed(*engine_records(STREAMS), size=(80, 24)) as viewer:
        await viewer.until(lambda: len(shown(viewer)) == 3)
        await viewer.press("3")
        table = viewer.app.screen
        bindings = viewer.app.screen.active_bindings.values()
        shared = [one.binding for one in bindings if one.node is viewer.app]
        keys = [one.key for one in shared if one.show and one.key not in ("q", "ctrl+q")]
        assert {"p", "R"} <= set(keys)
        # The tabs in the first line name these.
        for key in (*keys, *(tab.key for tab in TABS)):
            await viewer.press(key)
            assert viewer.app.is_running
            if viewer.app.screen is not table or isinstance(viewer.app.focused, Input):
                await viewer.press("escape", "escape", "3")
                assert viewer.app.screen is table


def test_a_keymap_takes_known_actions_and_keys_and_says_what_it_does_not_take() -> None:
    good, complaints = check_keymap(
        {
            "pause": "P,ctrl+p",
            "bench.stop": "question_mark",
            "puase": "x",
            "help": "nonsense_key",
            "quit": "ctrl+m",
        }
    )
    assert good == {"pause": "P,ctrl+p", "bench.stop": "question_mark"}
    assert complaints == [
        "viewer.keys: there is no action 'puase'; did you mean pause?",
        "viewer.keys.help: 'nonsense_key' is not a key",
        "viewer.keys.quit: terminals cannot tell 'ctrl+m' from enter",
    ]


async def test_keys_are_remapped_by_the_settings() -> None:
    keys = {"pause": "Z", "consumer.actions": "X", "nonsense": "x"}
    async with fed(*engine_records(STREAMS, keys=keys), first="consumers") as viewer:
        await viewer.until(lambda: "no action 'nonsense'" in " ".join(viewer.toasts), "said")
        await viewer.press("Z")
        await viewer.until(lambda: not viewer.app.parts.polling.is_on, "paused")
        # The key of actions is looked up where keys are defined.
        await viewer.until(lambda: key_of(viewer.app.screen, "consumer.actions") == "X", "moved")


def test_each_key_in_an_advice_is_named_by_an_id_and_is_that_of_its_binding() -> None:
    bindings = {binding.id: binding for binding in import_all_bindings()}
    defaults = {
        name: bindings[name].key_display or format_key(bindings[name].key) for name in DEFAULT_KEYS
    }
    assert defaults == DEFAULT_KEYS
    keys = {*DEFAULT_KEYS.values()}
    for kind in KINDS.values():
        written = re.findall("`([^` ]+)`", f"{kind.check_template} {kind.act_template}")
        assert not keys & {*written}, kind.code
        named = re.findall("`([a-z]+[.][a-z_]+|undo)`", f"{kind.check} {kind.act}")
        assert named == [], f"{kind.code} names an action that has no key"


def test_an_advice_has_the_keys_of_the_user() -> None:
    finding = Finding(NO_PULLS, Entity("S", "c", 5), 1, "")
    assert "`N` pulls one message" in finding.act
    assert "`F2` pulls one message" in finding.advice({"pull.next_of": "F2"})


async def test_advice_on_the_screen_has_the_keys_that_the_user_has_set() -> None:
    keys = {"stream.purge": "f2,P", "finding.act": "full_stop", "stream.edit": "ctrl+e"}
    async with fed(*engine_records(STREAMS, keys=keys)) as viewer:
        await viewer.until(lambda: viewer.app.keymap == keys, "set")
        assert user_keys(viewer.app.screen) == {
            "stream.purge": "f2", "finding.act": ".", "stream.edit": "ctrl+e",
        }  # fmt: skip


def test_what_a_key_does_is_said_of_keys_that_exist_and_of_every_key_in_a_footer() -> None:
    known = {binding.id: binding for binding in import_all_bindings()}
    assert DESCRIPTION_BY_KEY_ID.keys() <= known.keys()
    # What these do their name says.
    plain = {"Cancel", "Close", "Back", "Next", "Refresh", "Play/pause", "Copy", "Dismiss"}
    shown = {
        name
        for name, it in known.items()
        if it.show and not it.tooltip and it.description not in plain
    }
    assert shown - DESCRIPTION_BY_KEY_ID.keys() == set()


async def test_polling_more_or_less_often_never_does_the_opposite() -> None:
    async with fed(*engine_records({"S": ()})) as viewer:
        await viewer.until(lambda: "S" in viewer.rows(), "the stream")
        for command, key in (("interval 5m", "minus"), ("interval 200ms", "plus")):
            await viewer.type_command(command)
            await viewer.press(key)
        await viewer.type_command("interval 100ms")
        await viewer.until(lambda: "between 200ms and 1h" in viewer.said, "the engine polls less")
        await viewer.type_command("interval 2s")
        await viewer.until(
            lambda: (
                [command.interval_s for command in viewer.sent(SetInterval)]
                == [300, 300, 0.2, 0.2, 2]
            )
        )
