"""The row under the cursor in brief, below or beside its table."""

from __future__ import annotations

from pathlib import Path

import pytest
from textual.containers import VerticalScroll
from textual.geometry import Size

from natstui.tui.consumers.screen import ConsumersScreen
from natstui.tui.frame.detail.peek import PanelPosition, Peek, choose_position
from natstui.tui.kit.chart.chart import Chart
from tests.tui.engine_records import engine_records
from tests.tui.test_overview import polls
from tests.tui.viewer import Viewer, fed

STREAMS = {"A": (), "B": ("C",)}


@pytest.mark.parametrize(
    ("chosen", "columns", "lines", "rows_count", "place"),
    [
        (None, 80, 19, 3, "below"),
        (None, 80, 19, 30, "none"),
        (None, 120, 35, 20, "below"),
        (None, 159, 35, 40, "none"),
        (None, 160, 35, 40, "beside"),
        (None, 200, 54, 12, "below"),
        (None, 200, 54, 40, "beside"),
        ("none", 200, 60, 1, "none"),
        ("below", 200, 60, 500, "below"),
        ("below", 80, 12, 500, "none"),
        ("beside", 120, 35, 500, "beside"),
        ("beside", 80, 20, 500, "below"),
    ],
)
def test_it_stands_where_it_was_put_or_where_rows_leave_room(
    chosen: PanelPosition | None, columns: int, lines: int, rows_count: int, place: PanelPosition
) -> None:
    assert choose_position(chosen, Size(columns, lines), rows_count) == place


def title(viewer: Viewer) -> str:
    """Return what the panel is about; empty where there is none."""
    peek = viewer.app.screen.query_one(Peek)
    shown = peek.display and peek.region.height
    return str(peek.query_one(VerticalScroll).border_title) if shown else ""


@pytest.mark.slow
async def test_it_follows_the_cursor_and_tells_findings() -> None:
    async with fed(*engine_records({"ALPHA": (), "BETA": ("one",)}), panel=True) as viewer:
        await viewer.feed(*polls())
        await viewer.until(lambda: [*viewer.rows()] == ["BETA", "ALPHA"], "the worse one first")
        await viewer.press("home")
        await viewer.until(lambda: title(viewer) == "BETA", "the first row")
        await viewer.press("down")
        assert title(viewer) == "ALPHA", "told with the key, not with the next poll"
        charts = viewer.app.screen.query_one(Peek).query(Chart)
        await viewer.until(
            lambda: viewer.text and all(chart._frame_lines for chart in charts), "two"
        )
        await viewer.press("2")
        await viewer.until(lambda: title(viewer) == "BETA › one", "the consumer")
        await viewer.until(lambda: "NT-C44" in viewer.text, "its finding")
        said = "no pull request is open"
        await viewer.until(lambda: said in viewer.words, "what it is")


@pytest.mark.slow
async def test_a_key_puts_it_elsewhere_and_the_next_run_knows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    async with fed(*engine_records(STREAMS), size=(120, 40), panel=True) as viewer:
        await viewer.until(lambda: title(viewer) == "A", "the panel")
        peek = viewer.app.screen.query_one(Peek)
        assert peek.position == "below"
        await viewer.press("v")
        await viewer.until(lambda: peek.region.x > 40, "that it stands beside")
        await viewer.press("v")
        await viewer.until(lambda: not title(viewer), "that it is gone")
    async with fed(*engine_records(STREAMS), size=(200, 60), panel=True) as viewer:
        await viewer.until(lambda: viewer.rows().keys() == STREAMS.keys(), "both streams")
        assert not title(viewer)
        await viewer.press("v")
        await viewer.until(lambda: title(viewer) == "A", "that it is back")


async def test_another_size_gives_it_another_place() -> None:
    async with fed(*engine_records(STREAMS), size=(200, 28), panel=True) as viewer:
        peek = viewer.app.screen.query_one(Peek)
        await viewer.until(lambda: peek.position == "beside" and title(viewer) == "A", "beside")
        await viewer.pilot.resize_terminal(100, 40)
        await viewer.until(lambda: peek.position == "below" and peek.region.y > 5, "below")
        await viewer.press("v")
        said = "no room for the panel beside the table"
        await viewer.until(lambda: said in " ".join(viewer.toasts), said)


def test_a_screen_offers_no_key_of_a_part_that_is_still_being_made() -> None:
    assert not ConsumersScreen().check_action("part", ("panel", "next"))
