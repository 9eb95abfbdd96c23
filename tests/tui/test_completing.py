"""The command line offers commands, and behind them the names that are there."""

from __future__ import annotations

import pytest
from textual.widgets import Input

from natstui.tui.kit.command_line import CommandLine
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


@pytest.mark.parametrize("line", ["stream", "consumer ORDERS"])
async def test_what_is_missing_is_said_by_its_name(line: str) -> None:
    async with fed(*engine_records(), size=(120, 40)) as viewer:
        await viewer.type_command(line)
        await viewer.until(lambda: "write :" in viewer.words and "STREAM" in viewer.text)
