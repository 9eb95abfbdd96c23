"""What a user chose of the screens, here and in the next run, and what the help finds."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from natstui.tui.app.app import load_last_theme
from natstui.tui.frame.stored_settings import load_view_setting, store_view_setting
from natstui.tui.kit.pick import PickSeveralDialog
from natstui.tui.streams.screen import StreamsScreen
from tests.tui.engine_records import engine_records
from tests.tui.viewer import Viewer, fed

STREAMS = {"ALPHA": (), "BETA": ("one",)}


def heads(viewer: Viewer) -> list[str]:
    screen = viewer.app.screen
    assert isinstance(screen, StreamsScreen)
    return [spec.title for spec in screen.rows.specs] if screen.rows is not None else []


def test_what_is_remembered_at_once_is_all_kept() -> None:
    values = {f"screen {number}": number for number in range(40)}
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda item: store_view_setting(*item), values.items()))
    assert {name: load_view_setting(name) for name in values} == values


@pytest.mark.slow
async def test_columns_are_chosen_and_chosen_still_in_the_next_run() -> None:
    async with fed(*engine_records(STREAMS), size=(120, 40)) as viewer:
        await viewer.until(lambda: "ALPHA" in viewer.text)
        every = heads(viewer)
        await viewer.press("ctrl+k")
        await viewer.until(lambda: isinstance(viewer.app.screen, PickSeveralDialog), "the columns")
        assert "space marks" in viewer.words and "Messages stored now" in viewer.words
        picked = viewer.app.screen
        assert isinstance(picked, PickSeveralDialog)
        # Those that are seen are marked: away with all but two.
        listed = picked.query_one("MultipleChoiceList")
        listed.deselect_all()  # type: ignore[attr-defined]
        listed.select("msgs")  # type: ignore[attr-defined]
        listed.select("leader")  # type: ignore[attr-defined]
        await viewer.press("enter")
        await viewer.until(lambda: heads(viewer) == ["STREAM", "MSGS", "LEADER"])
        assert "LEADER" in viewer.text and "INGEST" not in viewer.text
    async with fed(*engine_records(STREAMS), size=(80, 24)) as viewer:
        await viewer.until(lambda: heads(viewer) == ["STREAM", "MSGS", "LEADER"])
        await viewer.press("ctrl+k", "escape")
        assert heads(viewer) == ["STREAM", "MSGS", "LEADER"], "cancelled"
        await viewer.press("ctrl+k", "space", "down", "space", "enter")
        await viewer.until(lambda: len(heads(viewer)) == 5)
        await viewer.press("ctrl+k")
        viewer.app.screen.query_one("MultipleChoiceList").deselect_all()  # type: ignore[attr-defined]
        await viewer.press("enter")
        await viewer.until(lambda: heads(viewer) == every, "none chosen: as before")


@pytest.mark.slow
async def test_the_theme_and_the_last_screen_are_those_of_the_last_run() -> None:
    async with fed(*engine_records(STREAMS), size=(80, 24)) as viewer:
        await viewer.type_command("theme natstui-light")
        await viewer.until(lambda: viewer.app.theme == "natstui-light")
        await viewer.press("5")
        await viewer.type_command("quit")
        await viewer.until(lambda: viewer.app.return_code == 0, "it left")
    assert load_view_setting("screen") == "findings"
    assert load_view_setting("theme") == ["natstui-light", viewer.app._engine_started.theme]
    assert load_last_theme(viewer.app._engine_started.theme) == "natstui-light"
    assert load_last_theme("another-is-configured-now") == "another-is-configured-now"
    store_view_setting("theme", "damaged")
    assert load_last_theme("natstui") == "natstui"


@pytest.mark.slow
async def test_who_leaves_the_guide_finds_the_screen_of_the_last_run_without_it() -> None:
    async with fed(*engine_records(STREAMS), size=(80, 24), is_guided=True) as viewer:
        assert viewer.app.current_mode == "overview", "the guide begins there"
        await viewer.until(lambda: viewer.app.state.costs, "no poll yet")
        await viewer.press("5")
        await viewer.until(lambda: viewer.app.current_mode == "findings")
        await viewer.press("q")
        await viewer.until(lambda: viewer.app.return_code == 0, "it left")
    assert load_view_setting("screen") == "streams"
