"""Charts of one screen are read together: one moment, one scale, one time axis."""

from __future__ import annotations

import pytest

from natstui.tui.frame.detail.screen import DetailScreen
from natstui.tui.frame.messages import Open
from natstui.tui.kit.chart.chart import Chart
from natstui.tui.kit.chart.frame import PlotFrame
from tests.looks.showing import OVER_S, RECORDING, at_rest, goes_to
from tests.tui.viewer import Viewer, replaying

pytestmark = pytest.mark.slow


async def opened(viewer: Viewer) -> None:
    await goes_to(viewer, OVER_S)
    viewer.app.post_message(Open("consumer", "PAYMENTS", "risk-score"))
    await viewer.until(lambda: isinstance(viewer.app.screen, DetailScreen))
    await at_rest(viewer)


def frames(viewer: Viewer) -> list[PlotFrame]:
    charts = [chart for chart in viewer.app.screen.query(Chart) if chart.display]
    found = [chart._frame for chart in charts if chart._frame is not None]
    assert len(found) == len(charts)
    return found


async def test_charts_share_axis_moment_and_scale_and_keys_move_through_a_zoomed_one() -> None:
    async with replaying(RECORDING, size=(120, 50)) as viewer:
        await opened(viewer)
        assert len(frames(viewer)) == 4
        assert len({(frame.left, frame.columns, frame.x_ticks) for frame in frames(viewer)}) == 1

        await viewer.pilot.hover(Chart, offset=(40, 5))
        await viewer.until(lambda: viewer.text.count("  at -") == 4, "the moment in every chart")
        await viewer.pilot.hover("#sections", offset=(3, 3))
        await viewer.until(lambda: "  at -" not in viewer.text, "no moment any more")

        await viewer.press("L")
        await viewer.until(lambda: viewer.text.count("log scale)") == 4, "every chart")
        await viewer.press("L")
        await viewer.until(lambda: "log scale)" not in viewer.words, "evenly again")

        assert "Earlier" not in viewer.text
        await viewer.press("left")
        assert "  at " not in viewer.text, "only where one chart is zoomed"
        await viewer.press("z")
        await viewer.until(lambda: "← Earlier" in viewer.words, "the keys in the footer")
        await at_rest(viewer)
        await viewer.press("left")
        await viewer.until(lambda: "  at now" in viewer.text)
        await viewer.press("left", "left")
        await viewer.until(lambda: "  at -1s" in viewer.text)
        await viewer.press("right", "right")
        await viewer.until(lambda: "  at now" in viewer.text)
        await viewer.press("z")
        await viewer.until(lambda: "  at " not in viewer.text)
