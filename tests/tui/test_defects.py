"""What nobody foresaw ends one row, one picture, one record or one command; the viewer goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from textual.css.query import NoMatches

from natstui import defects
from natstui.defects import log_folder
from natstui.tui.app import commands
from natstui.tui.app.app import NatstuiApp
from natstui.tui.app.follower import Follower
from natstui.tui.frame.messages import ScreenShown
from natstui.tui.frame.row_order import Rows
from natstui.tui.streams.screen import StreamsScreen
from tests.model.builders import snapshot
from tests.tui.engine_records import engine_records
from tests.tui.viewer import Viewer, fed


@pytest.fixture(autouse=True)
def own_reports(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(defects, "_reported_defects", {})
    monkeypatch.setattr("platformdirs.user_log_path", lambda _name: tmp_path / "reports")


async def said(viewer: Viewer, what: str) -> None:
    """Wait for the sentence, and see that what it promises is there."""
    await viewer.until(lambda: f"{what} failed by a defect" in " ".join(viewer.toasts), what)
    (report,) = log_folder().iterdir()
    assert "NoMatches" in report.read_text()
    assert str(report) in " ".join(viewer.toasts)


def fail(*_: Any, **__: Any) -> Any:
    raise NoMatches("nobody foresaw this")


@pytest.mark.slow
async def test_a_row_that_cannot_be_shown_says_so_and_the_others_are_shown(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    cells = Rows.cells

    def all_but_one(rows: Rows[Any], row: int) -> Any:
        shown = cells(rows, row)
        return fail() if shown[0].text == "BAD" else shown

    monkeypatch.setattr(Rows, "cells", all_but_one)
    async with fed(*engine_records({"BAD": (), "GOOD": ()})) as viewer:
        await viewer.until(lambda: "GOOD" in viewer.text and "defect" in viewer.text, "both")
        await said(viewer, "showing a row")


async def test_a_screen_that_cannot_show_a_state_goes_on_with_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with fed(*engine_records({"S": ()})) as viewer:
        with monkeypatch.context() as broken:
            broken.setattr(StreamsScreen, "refresh_state", fail)
            await viewer.feed(snapshot(2, [{"name": "S"}]))
            await said(viewer, "showing this")
        await viewer.feed(snapshot(3, [{"name": "S"}, {"name": "LATER"}]))
        await viewer.until(lambda: "LATER" in viewer.text, "shown again")


async def test_a_key_and_a_typed_command_and_a_record_with_a_defect_end_nothing_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with fed(*engine_records()) as viewer:
        with monkeypatch.context() as broken:
            broken.setattr(NatstuiApp, "action_help", fail)
            await viewer.press("question_mark")
            await said(viewer, "the action of the key")
        with monkeypatch.context() as broken:
            broken.setattr(commands, "execute_line", fail)
            await viewer.type_command("streams")
            await said(viewer, "the command")
        with monkeypatch.context() as broken:
            broken.setattr(Follower, "fold_without_findings", fail)
            await viewer.feed(snapshot(2))
            await said(viewer, "reading the engine's output")
        polls_count = len(viewer.app.state.costs)
        await viewer.feed(snapshot(3))
        await viewer.until(lambda: len(viewer.app.state.costs) > polls_count, "it goes on")
        assert viewer.app.return_code is None


async def test_what_a_screen_asks_for_while_the_app_ends_is_let_go() -> None:
    async with fed(*engine_records()) as viewer:
        app = viewer.app
    assert not app.screen_stack
    await app._execute_request(ScreenShown())
    assert app.check_action("part", ("systems", "switch")) is False
