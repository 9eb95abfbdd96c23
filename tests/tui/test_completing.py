"""The command line offers commands, and behind them the names that are there."""

from __future__ import annotations

import pytest
from textual.widgets import Input, Static

from natstui.tui.analysis.screen import AnalysisScreen
from natstui.tui.app.commands import COMMAND_NAMES
from natstui.tui.kit.command_line import MAX_COUNTED_SUGGESTIONS, CommandLine, suggestions_text
from tests.tui.engine_records import engine_records
from tests.tui.viewer import fed

OFFERED = (
    ("consum", "consumers"),
    ("consumers KV", "consumers KV_carts"),
    ("stream O", "stream ORDERS"),
    ("consumer ORDERS w", "consumer ORDERS worker"),
    ("buckets c", "buckets carts"),
    ("subsc", "subscribe"),
    ("sub o", "sub orders.>"),
    ("theme no", "theme nord"),
)


@pytest.mark.slow
async def test_commands_and_names_are_offered_and_taken_with_tab() -> None:
    streams = {"ORDERS": ("worker",), "KV_carts": ()}
    async with fed(*engine_records(streams), size=(120, 40)) as viewer:
        await viewer.until(lambda: "KV_carts" in viewer.text)
        await viewer.until(lambda: len(viewer.app.screen.state.consumers) == 1)
        await viewer.press("colon")
        line = viewer.app.screen.query_one(CommandLine).query_one(Input)
        for typed, whole in OFFERED:
            line.value = typed
            line.cursor_position = len(typed)
            await viewer.until(lambda whole=whole: line._suggestion == whole, whole)
            await viewer.press("tab")
            assert line.value == whole
        for typed in ("stream X", "stream ORDERS O", "nothing O"):
            line.value = typed
            await viewer.press("end")
            await viewer.pilot.pause(0.2)
            assert line._suggestion == "", typed


async def test_a_list_that_is_cut_says_how_many_more_there_are() -> None:
    async with fed(*engine_records(), size=(80, 24)) as viewer:
        await viewer.press("colon")
        offers = viewer.app.screen.query_one("#offers", Static)
        line = str(offers.render()).strip()
        *shown, more = line.split("  ")
        assert more == f"… {len(COMMAND_NAMES) - len(shown)} more, type to narrow"
        assert shown == COMMAND_NAMES[: len(shown)] and len(line) <= 78
        await viewer.press("g")
        await viewer.until(lambda: str(offers.render()).strip() == "guide", "all of them")


@pytest.mark.slow
async def test_a_closed_line_takes_no_keys_where_nothing_else_takes_them() -> None:
    async with fed(*engine_records(), size=(80, 24)) as viewer:
        await viewer.type_command("analyze")
        await viewer.until(lambda: isinstance(viewer.app.screen, AnalysisScreen), "the screen")
        screen = viewer.app.screen
        assert screen.focus_chain == [], "nothing here takes keys"
        line = screen.query_one(CommandLine)
        await viewer.press("colon")
        assert screen.focused is line.query_one(Input)
        await viewer.type("sess")
        await viewer.press("escape")
        assert not line.is_open and screen.focused is None
        await viewer.press("2")
        await viewer.until(lambda: viewer.app.current_mode == "consumers", "2 is a key again")


@pytest.mark.parametrize(
    ("offers", "width", "line"),
    [
        ([], 40, ""),
        (["alpha", "beta"], 11, "alpha  beta"),
        (["alpha", "beta", "c" * 30], 34, "alpha  … 2 more, type to narrow"),
        (["a" * 50], 40, "… 1 more, type to narrow"),
        (["a"] * MAX_COUNTED_SUGGESTIONS, 34, "a  a  … 998+ more, type to narrow"),
        (["数" * 5, "b", "c" * 30], 40, "数数数数数  b  … 1 more, type to narrow"),
    ],
)
def test_offers_that_do_not_fit_are_counted(offers: list[str], width: int, line: str) -> None:
    assert suggestions_text(offers, width) == line


async def test_what_is_missing_is_said_by_its_name() -> None:
    async with fed(*engine_records(), size=(80, 24)) as viewer:
        for line, missing in (("stream", "STREAM"), ("consumer ORDERS", "STREAM CONSUMER")):
            viewer.toasts.clear()
            await viewer.type_command(line)
            await viewer.until(lambda: "write :" in " ".join(viewer.toasts), line)
            assert missing in " ".join(viewer.toasts)
