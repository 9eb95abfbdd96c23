"""Charts keep gaps, stay harmless, survive their drawing process and never ask too often."""

from __future__ import annotations

import asyncio
import math
import os
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from textual.app import App, ComposeResult

from natstui.model.live.state import State
from natstui.model.records.record import Advisory
from natstui.tui.frame.detail.charts import announced_at_us
from natstui.tui.kit.chart.chart import Chart, ChartData, Plotter, Series
from natstui.tui.kit.chart.cross import column_of, crossed, moment_of, moved, values_at
from natstui.tui.kit.chart.frame import plot_frame, runs
from natstui.tui.kit.chart.plotter import parse_line
from natstui.tui.kit.looks import register_themes

AT_S = [float(second) for second in range(-99, 1)]


def data(title: str = "Ingest", label: str = "in") -> ChartData:
    one: list[float | None] = [100.0 + 50 * math.sin(at / 9) for at in AT_S]
    two: list[float | None] = [40.0] * 100
    two[30:60] = [None] * 30
    two[5], two[6], two[7] = math.nan, math.inf, -math.inf
    return ChartData(title, "msgs/s", AT_S, (Series(label, one), Series("removed", two)), 100)


class ChartApp(App[None]):
    def __init__(self, plotter: Plotter | None = None) -> None:
        super().__init__()
        self.plotter = plotter or Plotter()

    def compose(self) -> ComposeResult:
        yield Chart(self.plotter)

    async def on_unmount(self) -> None:
        await self.plotter.close()

    @property
    def chart(self) -> Chart:
        return self.query_one(Chart)

    def text(self) -> str:
        return "\n".join(strip.text for strip in self.screen._compositor.render_strips())


async def until(app: ChartApp, pilot: object, wanted: str) -> str:
    for _ in range(100):
        await pilot.pause(0.1)  # type: ignore[attr-defined]
        if wanted in app.text():
            break
    return app.text()


def test_a_line_has_at_most_one_point_in_a_column_and_its_gaps() -> None:
    found = list(runs([-3.5, -3.4, -2.5, -1.5, -0.5], [1.0, 3.0, None, 5.0, math.inf], 4, 4))
    assert found == [([-3.45], [2.0]), ([-1.5], [5.0])]


def test_sparse_points_are_joined_and_dense_ones_thinned() -> None:
    assert len(list(runs([-90.0, -50.0, -10.0], [1.0, 2.0, 3.0], 100, 400))) == 1
    dense = [-index / 10 for index in range(1000, -1, -1)]
    (line,) = runs(dense, [1.0] * 1001, 100, 50)
    assert len(line[0]) <= 51


async def test_what_was_announced_is_marked_where_it_fell() -> None:
    app = ChartApp()
    async with app.run_test(size=(80, 20)) as pilot:
        marked = replace(data(), events_at_s=(-150.0, -50.0, -1.0), events_label="announced")
        app.chart.show(marked)
        text = await until(app, pilot, "! announced")
        lines = [line for line in text.splitlines() if "!" in line and "announced" not in line]
    (line,) = lines
    places = [at for at, each in enumerate(line) if each == "!"]
    assert len(places) == 2
    assert abs(places[0] - 43) <= 3 and places[1] >= 76, line


def test_a_frame_of_nothing_still_has_axes() -> None:
    frame = plot_frame(ChartData("x", "msgs", [], (Series("a", []),), 60), 40, 10)
    assert frame.lines == ((),)
    assert [label for _, label in frame.y_ticks] == ["0", "1"]


def test_colours_are_palette_numbers_and_nothing_else() -> None:
    assert parse_line("a\x1b[38;5;16mb\x1b[0mc\x1b[31md") == [
        ("a", 0),
        ("b", 16),
        ("c", 0),
        ("d", 0),
    ]


async def test_a_chart_shows_title_unit_legend_and_axes() -> None:
    app = ChartApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.chart.show(data())
        text = await until(app, pilot, "now")
        assert "Ingest (msgs/s)" in text
        assert "in 100" in text
        assert "⠤●⠤ removed 40" in text
        for label in ("-1m", "now", "150", "0┤"):
            assert label in text
        await pilot.resize_terminal(18, 24)
        await pilot.pause()
        assert "too small" in app.text()


async def test_a_narrow_chart_names_its_lines_and_cuts_no_number() -> None:
    app = ChartApp()
    async with app.run_test(size=(24, 24)) as pilot:
        app.chart.show(data())
        text = await until(app, pilot, "now")
        assert "⠤●⠤ remov…" in text
        assert "in 100" not in text


async def test_lines_take_the_colours_of_the_theme() -> None:
    app = ChartApp()
    register_themes(app)
    async with app.run_test(size=(80, 24)) as pilot:
        app.chart.show(data())
        await until(app, pilot, "now")
        for theme, color in (("natstui-dark", "#56b4e9"), ("natstui-light", "#0072b2")):
            app.theme = theme
            await pilot.pause(0.3)
            strips = app.screen._compositor.render_strips()
            inks = {
                segment.style.color.triplet.hex
                for strip in strips[1:15]
                for segment in strip
                if segment.style and segment.style.color and segment.style.color.triplet
            }
            assert color in inks


async def test_a_killed_drawing_process_is_started_again() -> None:
    app = ChartApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.chart.show(data())
        await until(app, pilot, "now")
        first = app.plotter.pid
        assert first is not None
        os.kill(first, signal.SIGKILL)
        for _ in range(20):
            app.chart.show(data("Later"))
            await pilot.pause(0.3)
            if app.plotter.pid not in (None, first):
                break
        assert "now" in await until(app, pilot, "Later")
        assert app.plotter.pid not in (None, first)


@pytest.mark.slow
async def test_a_drawing_process_that_does_not_start_is_not_started_for_ever() -> None:
    app = ChartApp(Plotter((sys.executable, "-c", "raise SystemExit(1)")))
    async with app.run_test(size=(80, 24)) as pilot:
        for _ in range(9):
            app.chart.show(data())
            await pilot.pause(0.55)
        assert "cannot draw" in app.text()
        assert app.plotter.pid is None


async def test_the_drawing_process_ends_with_the_app() -> None:
    app = ChartApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.chart.show(data())
        await until(app, pilot, "now")
        pid = app.plotter.pid
    assert pid is not None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return
    raise AssertionError("the drawing process outlived the app")


@pytest.mark.slow
async def test_the_drawing_process_ends_when_its_app_is_killed() -> None:
    code = """
import asyncio
from natstui.tui.kit.chart.chart import ChartData, Plotter, Series
from natstui.tui.kit.chart.frame import plot_frame
async def main():
    plotter = Plotter()
    data = ChartData("x", "msgs", [-1.0, 0.0], (Series("a", [1.0, 2.0]),), 1)
    await plotter.draw(plot_frame(data, 40, 10))
    print(plotter.pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    parent = await asyncio.create_subprocess_exec(
        sys.executable, "-c", code, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE
    )
    assert parent.stdout is not None
    child = int(await parent.stdout.readline())
    os.kill(child, 0)
    parent.kill()
    await parent.wait()
    for _ in range(100):
        if not is_running(child):
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the drawing process outlived its app")


def is_running(pid: int) -> bool:
    """Tell whether a process runs; one that ended and waits for its new parent does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def test_announcements_of_a_storm_and_rare_ones_are_marked_by_the_second() -> None:
    state = State()
    at_us = 1_700_000_000_000_000
    for second in range(3):
        for _ in range(5):
            body = '{"stream_seq": 7, "deliveries": 2}'
            nak = Advisory(at_us + second * 1_000_000, "nak", "S", "C", "nak", body)
            state = state.after(nak)
    state = state.after(Advisory(at_us + 9_000_000, "leader_elected", "S", "C", "leader", "{}"))
    state = state.after(Advisory(at_us + 5_000_000, "nak", "S", "D", "of another", "{}"))
    found = [one - at_us for one in announced_at_us(state, "S", "C")]
    assert found == [0, 1_000_000, 2_000_000, 9_000_000]
    assert announced_at_us(state, "S", "") == []


def test_the_column_of_a_moment_is_the_moment_of_a_column() -> None:
    frame = plot_frame(data(), 80, 20)
    for column in range(frame.left, frame.left + frame.columns):
        at_s = moment_of(frame, column)
        assert at_s is not None and column_of(frame, at_s) == column
    assert moment_of(frame, frame.left - 1) is None
    assert moment_of(frame, frame.left + frame.columns) is None
    assert column_of(frame, -101.0) is None
    assert moved(frame, None, -1) == 0
    assert moved(frame, -99.9, -5) == -100


def test_a_cross_hair_reads_what_was_measured_nearest_and_makes_nothing_up() -> None:
    series = (Series("a", [1.0, None, 3.0]), Series("b", [4.0, 5.0]))
    three = ChartData("x", "msgs", [-10.0, -5.0, 0.0], series, 10)
    assert values_at(three, -9.0) == [1.0, 4.0]
    assert values_at(three, -6.0) == [None, 5.0]
    assert values_at(three, 0.0) == [3.0, None]
    assert values_at(replace(three, at_s=[]), -1.0) == [None, None]


def test_a_cross_hair_hides_no_line() -> None:
    assert crossed([("a  b", 3)], 1, 9) == [("a", 3), ("│", 9), (" b", 3)]
    assert crossed([("a  b", 3)], 3, 9) == [("a  b", 3)]
    assert crossed([("ab", 3)], 4, 9) == [("ab", 3), ("  ", 0), ("│", 9)]


def test_a_log_scale_has_powers_of_ten_and_no_place_for_nothing() -> None:
    series = (Series("a", [0.0, 0.002, 0.3, 9.0]),)
    chart = ChartData("x", "s", [-3.0, -2.0, -1.0, 0.0], series, 3, logarithmic=True)
    frame = plot_frame(chart, 60, 16)
    assert [label for _, label in frame.y_ticks] == ["1ms", "10ms", "100ms", "1s", "10s"]
    assert [at for at, _ in frame.y_ticks] == pytest.approx([-3, -2, -1, 0, 1])
    ((xs, ys),) = frame.lines[0]
    assert xs == [-2.0, -1.0, 0.0]
    assert ys == pytest.approx([math.log10(value) for value in (0.002, 0.3, 9.0)])
    nothing = replace(chart, series=(Series("a", [0.0] * 4),))
    assert plot_frame(nothing, 60, 16).lines == ((),)


async def test_the_mouse_reads_values_off_a_chart_and_a_log_scale_is_named() -> None:
    app = ChartApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.chart.show(replace(data(), logarithmic=True))
        text = await until(app, pilot, "now")
        assert "Ingest (msgs/s, log scale)" in text
        assert "1000" in text and "10.0" in text
        await pilot.hover(Chart, offset=(40, 8))
        await pilot.pause()
        assert app.chart._cross_at_s is not None and -60 < app.chart._cross_at_s < -40
        text = app.text()
        assert "  at -" in text.splitlines()[0]
        assert "removed –" in text, "a gap has no value"
        assert any(line[40] == "│" for line in text.splitlines()[2:15])
