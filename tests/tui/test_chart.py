"""Charts keep gaps, show every series, and are drawn seldom and only in view."""

from __future__ import annotations

import asyncio
import itertools
import math
import time

import pytest
from textual.app import App, ComposeResult
from textual.color import Color
from textual.containers import VerticalScroll

from natstui.model.columns.view import StreamView
from natstui.model.live.state import State
from natstui.model.records.record import Advisory
from natstui.tui.frame.detail.charts import advisory_times_us, stream_charts
from natstui.tui.kit.chart import chart as chart_module
from natstui.tui.kit.chart.chart import (
    Chart,
    ChartData,
    Series,
    column_of,
    draw_crosshair,
    moment_s_of,
    moved_moment_s,
    values_at,
)
from natstui.tui.kit.chart.frame import (
    AREA_SHADES,
    PALETTE_BACKGROUND_FACTOR,
    Mark,
    PlotFrame,
    column_values,
    plot_frame,
    series_and_shade,
)
from natstui.tui.kit.chart.legend import Runs, legend_runs
from natstui.tui.kit.chart.plot import draw
from natstui.tui.kit.styles import register_themes
from natstui.values import replace
from tests.model.builders import snapshot

AT_S = [float(second) for second in range(-99, 1)]


def data(title: str = "Ingest", label: str = "in") -> ChartData:
    one: list[float | None] = [100.0 + 50 * math.sin(at / 9) for at in AT_S]
    two: list[float | None] = [40.0] * 100
    two[30:60] = [None] * 30
    two[5], two[6], two[7] = math.nan, math.inf, -math.inf
    return ChartData(title, "msgs/s", AT_S, (Series(label, one), Series("removed", two)), 100)


class ChartApp(App[None]):
    def compose(self) -> ComposeResult:
        yield Chart()

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


def test_a_line_has_the_mean_of_each_column_and_its_gaps() -> None:
    at_s = [-3.0, -2.9, -2.0, -1.0, 0.0]
    assert column_values(at_s, [1.0, 3.0, None, 5.0, math.inf], 3, 4) == (2.0, None, 5.0, None)
    assert column_values([-9.0, -3.0, 0.0], [9.0, 1.0, 4.0], 3, 4) == (1.0, 2.0, 3.0, 4.0)
    assert column_values([], [], 3, 4) == (None,) * 4


def test_a_gap_between_two_columns_is_none_on_the_line() -> None:
    assert column_values([-4.0, -2.0, 0.0], [1.0, None, 3.0], 4, 5) == (1.0, None, None, None, 3.0)


def palette_numbers_by_row(chart: ChartData, width: int = 60, height: int = 16) -> list[list[int]]:
    """Return the palette number of every cell that a chart draws."""
    return [
        [palette_number for text, palette_number in line for _ in text]
        for line in draw(plot_frame(chart, width, height))
    ]


def test_the_first_series_is_an_area_with_a_line_and_others_are_lines() -> None:
    series = (Series("a", [50.0] * 100), Series("b", [20.0] * 100))
    rows = palette_numbers_by_row(ChartData("x", "msgs", AT_S, series, 100))
    column = [row[30] for row in rows[:14]]
    top = next(at for at, ink in enumerate(column) if ink)
    below = column[top + 1 :]
    assert area(column[top]) == 1
    assert [ink % PALETTE_BACKGROUND_FACTOR for ink in below].count(2) == 1
    assert all(area(ink) == 1 for ink in below)
    shares = [series_and_shade(ink // PALETTE_BACKGROUND_FACTOR)[1] for ink in below]  # type: ignore[index]
    assert shares == sorted(shares, reverse=True) and len(set(shares)) > 1, "darker further down"


def area(ink: int) -> int | None:
    """Return of which series the area is that a cell is on, or else that begins in it."""
    found = series_and_shade(ink // PALETTE_BACKGROUND_FACTOR) or series_and_shade(
        ink % PALETTE_BACKGROUND_FACTOR
    )
    return found and found[0]


def drawn_zones(chart: ChartData, height: int = 16) -> list[int | None]:
    """Return the areas of a column of a chart from above."""
    return [area(row[30]) for row in palette_numbers_by_row(chart, height=height)[: height - 2]]


def test_what_lies_between_two_series_has_the_colour_of_the_higher_one() -> None:
    series = (Series("sent", [50.0] * 100), Series("received", [20.0] * 100))
    chart = ChartData("x", "msgs", AT_S, series, 100, fill="between")
    found = [each for each in drawn_zones(chart) if each]
    assert found == sorted(found), found
    assert found.count(1) > 3 and found.count(2) > 3
    same = replace(chart, series=(series[0], Series("received", [51.0] * 100)))
    edges = {area(ink) for row in palette_numbers_by_row(same)[:14] for ink in row[20:50] if ink}
    assert edges == {1, 2}, "where both are one, both are seen"


def test_a_band_is_what_lies_between_its_ends() -> None:
    series = (Series("p50", [20.0] * 100), Series("p99", [50.0] * 100))
    chart = ChartData("x", "s", AT_S, series, 100, fill="band", color_offset=3)
    column = [row[30] // PALETTE_BACKGROUND_FACTOR for row in palette_numbers_by_row(chart)[:14]]
    shares = [found[1] for ink in column if (found := series_and_shade(ink))]
    assert {area(ink * PALETTE_BACKGROUND_FACTOR) for ink in column if ink} == {4}
    assert shares[0] > 0.3 and shares[-1] < 0.2, "below it the ground shows through"
    gap = replace(
        chart, series=(series[0], Series("p99", [50.0] * 30 + [None] * 40 + [50.0] * 30))
    )
    assert not any(drawn_zones(gap)), "one end alone is no band"


def test_what_happened_is_marked_on_the_time_axis_and_named_where_there_is_room() -> None:
    marks = (Mark(-50.0, "+", "+p/1", "good"), Mark(-48.0, "✖", "-p/0", "bad"),
             Mark(-46.0, "±", "900/s"), Mark(-200.0, "▲", "long ago"))  # fmt: skip
    chart = ChartData("x", "msgs", AT_S, (Series("a", [5.0] * 100),), 100, marks=marks)
    frame = plot_frame(chart, 60, 16)
    lines = ["".join(text for text, _ in line) for line in draw(frame)]
    assert [sign for sign in lines[14] if sign in "+✖±▲"] == ["+", "✖", "±"]
    assert "+p/1" in lines[0] and "-p/0" in lines[1] and "900/s" not in "".join(lines)
    assert lines[14][frame.left + frame.column_of(-50.0)] == "+"


def test_a_series_that_is_zero_throughout_is_in_the_legend_only() -> None:
    series = (Series("failed", [0.0] * 100), Series("sent", [20.0] * 100))
    chart = ChartData("x", "msgs", AT_S, series, 100)
    found = {palette_number for row in palette_numbers_by_row(chart) for palette_number in row}
    of = {
        each[0]
        for ink in found
        for part in divmod(ink, PALETTE_BACKGROUND_FACTOR)
        if (each := series_and_shade(part))
    }
    assert of == {2} and 1 not in {ink % PALETTE_BACKGROUND_FACTOR for ink in found}
    legend = legend_runs(chart, 80)
    assert "failed 0" in "".join(text for text, _ in legend)
    assert ("   ", 1) in legend
    assert [
        (ink % PALETTE_BACKGROUND_FACTOR, area(ink)) for text, ink in legend if text == "▂▂▂"
    ] == [(2, 2)]


def test_two_series_that_coincide_are_both_seen() -> None:
    same = [50.0] * 100
    chart = ChartData("x", "msgs", AT_S, (Series("a", same), Series("b", list(same))), 100)
    rows = [
        [ink % PALETTE_BACKGROUND_FACTOR for ink in row] for row in palette_numbers_by_row(chart)
    ]
    (line,) = [row for row in rows if 2 in row]
    assert 60 - line.count(2) > 15 and line.count(2) > 15
    three = replace(chart, series=(*chart.series, Series("c", [51.0] * 100)))
    found = {
        palette_number % PALETTE_BACKGROUND_FACTOR
        for row in palette_numbers_by_row(three, height=8)
        for palette_number in row
    }
    assert {2, 3} <= found and any(series_and_shade(each) for each in found)


@pytest.mark.parametrize("height", [2, 3, 4, 5, 9, 14, 30, 58])
def test_ticks_are_evenly_spaced_at_every_height(height: int) -> None:
    for high in (0.003, 1.0, 97.0, 1234.0, 9.9e6):
        values = [high * (index % 10) / 10 for index in range(99)] + [high]
        chart = ChartData("x", "msgs/s", AT_S, (Series("a", values),), 100)
        frame = plot_frame(chart, 60, height)
        lines = ["".join(text for text, _ in line) for line in draw(frame)]
        assert len(lines) == height
        plot = lines[: height - frame.time_axis_lines]
        at = [number for number, line in enumerate(plot) if line[frame.left - 1] == "┤"]
        spaces = {after - before for before, after in itertools.pairwise(at)}
        assert len(spaces) == 1, high
        assert frame.axis.low <= 0 and frame.axis.high >= high * (1 - 1e-9)
        assert at[-1] == len(plot) - 1, f"the lowest line has a label, up to {high}"


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
    assert frame.lines == ()
    assert [label for _, label in frame.y_ticks] == ["0", "1"]
    assert len(draw(frame)) == 10


async def test_a_chart_shows_title_unit_legend_and_axes() -> None:
    app = ChartApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.chart.show(data())
        text = await until(app, pilot, "now")
        assert "Ingest (msgs/s)" in text
        assert "in 100" in text
        assert "⠤⠤⠤ removed 40" in text
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
        assert "⠤⠤⠤ remov…" in text
        assert "in 100" not in text


def inks_of(app: ChartApp) -> set[str]:
    return {
        segment.style.color.triplet.hex
        for strip in app.screen._compositor.render_strips()[1:15]
        for segment in strip
        if segment.style and segment.style.color and segment.style.color.triplet
    }


async def test_lines_take_the_colours_of_the_theme() -> None:
    app = ChartApp()
    register_themes(app)
    async with app.run_test(size=(80, 24)) as pilot:
        app.chart.show(data())
        await until(app, pilot, "now")
        for theme, color in (("natstui-dark", "#56b4e9"), ("natstui-light", "#0072b2")):
            app.theme = theme
            for _ in range(300):
                await pilot.pause(0.1)
                ground = Color.parse(app.theme_variables["background"])
                ink = ground.blend(Color.parse(color), AREA_SHADES[0]).hex.lower()
                if ink in inks_of(app):
                    break
            else:
                raise AssertionError(f"no {ink} in {inks_of(app)}")


class Scrolled(App[None]):
    CSS = "#above { height: 60; } Chart { height: 12; }"

    def compose(self) -> ComposeResult:
        with VerticalScroll():
            yield VerticalScroll(id="above")
            yield Chart()


async def test_a_chart_is_drawn_once_it_is_in_view(monkeypatch: pytest.MonkeyPatch) -> None:
    app, drawn = Scrolled(), list[int]()

    def count(frame: PlotFrame) -> list[Runs]:
        drawn.append(frame.width)
        return draw(frame)

    monkeypatch.setattr(chart_module, "draw", count)
    async with app.run_test(size=(80, 24)) as pilot:
        app.query_one(Chart).show(data())
        await pilot.pause(0.3)
        assert drawn == []
        app.query_one(VerticalScroll).scroll_end(animate=False)
        for _ in range(100):
            await pilot.pause(0.05)
            if drawn:
                break
        assert len(drawn) == 1


async def test_a_chart_is_drawn_twice_a_second_at_most(monkeypatch: pytest.MonkeyPatch) -> None:
    app, drawn_at_s = ChartApp(), list[float]()

    def count(frame: PlotFrame) -> list[Runs]:
        drawn_at_s.append(time.monotonic())
        return draw(frame)

    monkeypatch.setattr(chart_module, "draw", count)
    async with app.run_test(size=(80, 24)) as pilot:
        while len(drawn_at_s) < 3:
            app.chart.show(data())
            await pilot.pause(0.02)
    # A busy machine draws the first of two frames up to a tenth of a second after it was due.
    assert all(b - a > 0.4 for a, b in itertools.pairwise(drawn_at_s))


@pytest.mark.slow
async def test_a_chart_of_another_subject_keeps_nothing_of_the_one_before() -> None:
    app = ChartApp()

    def plot() -> list[str]:
        """Draw the screen, and return what is below the title."""
        return app.text().splitlines()[1:]

    async def drawn() -> list[str]:
        while app.chart.is_frame_pending:
            # Not the pilot's pause, which may last longer than a frame.
            await asyncio.sleep(0.01)
        return plot()

    async with app.run_test(size=(80, 24)):
        app.chart.show(data())
        first = await drawn()
        assert "100" in "".join(first)
        app.chart.show(data("Next"))
        assert plot() == first, "the next frame waits for half a second"
        other = ChartData("Other", "msgs/s", AT_S, (Series("in", [7.0] * 100),), 100)
        app.chart.show_another_row(other)
        assert "".join(plot()).split() == ["…"]
        assert "100" not in "".join(await drawn())
        app.chart.show(None)
        assert "".join(plot()).split() == []


async def test_a_machine_on_which_plotext_cannot_draw_is_told_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(_frame: object) -> None:
        raise ImportError("no kernel for this machine\nInstall another one")

    monkeypatch.setattr(chart_module, "draw", refuse)
    app = ChartApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.chart.show(data())
        assert "cannot draw: no kernel for this machine" in await until(app, pilot, "cannot")


async def test_three_lines_are_enough_for_a_chart() -> None:
    app = ChartApp()
    async with app.run_test(size=(80, 3)) as pilot:
        app.chart.show(data())
        text = await until(app, pilot, "┤")
        assert "Ingest (msgs/s)" in text and "removed" in text
        assert "too small" not in text and text.count("┤") == 2


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
    found = [one - at_us for one in advisory_times_us(state, "S", "C")]
    assert found == [0, 1_000_000, 2_000_000, 9_000_000]
    assert advisory_times_us(state, "S", "") == []


def test_the_column_of_a_moment_is_the_moment_of_a_column() -> None:
    frame = plot_frame(data(), 80, 20)
    for column in range(frame.left, frame.left + frame.columns):
        at_s = moment_s_of(frame, column)
        assert at_s is not None and column_of(frame, at_s) == column
    assert moment_s_of(frame, frame.left - 1) is None
    assert moment_s_of(frame, frame.left + frame.columns) is None
    assert column_of(frame, -101.0) is None
    assert moved_moment_s(frame, None, -1) == 0
    assert moved_moment_s(frame, -99.9, -5) == -100


def test_a_cross_hair_reads_what_was_measured_nearest_and_makes_nothing_up() -> None:
    series = (Series("a", [1.0, None, 3.0]), Series("b", [4.0, 5.0]))
    three = ChartData("x", "msgs", [-10.0, -5.0, 0.0], series, 10)
    assert values_at(three, -9.0) == [1.0, 4.0]
    assert values_at(three, -6.0) == [None, 5.0]
    assert values_at(three, 0.0) == [3.0, None]
    assert values_at(replace(three, at_s=[]), -1.0) == [None, None]


def test_a_cross_hair_hides_no_line() -> None:
    assert draw_crosshair([("a  b", 3)], 1, 9) == [("a", 3), ("│", 9), (" b", 3)]
    assert draw_crosshair([("a  b", 3)], 3, 9) == [("a  b", 3)]
    assert draw_crosshair([("ab", 3)], 4, 9) == [("ab", 3), ("  ", 0), ("│", 9)]
    on = 32 * PALETTE_BACKGROUND_FACTOR
    assert draw_crosshair([("a  ", on)], 1, 9) == [("a", on), ("│", 9 + on), (" ", on)]


def test_a_log_scale_has_powers_of_ten_and_no_place_for_nothing() -> None:
    series = (Series("a", [0.0, 0.002, 0.3, 9.0]),)
    chart = ChartData("x", "s", [-3.0, -2.0, -1.0, 0.0], series, 3, is_logarithmic=True)
    frame = plot_frame(chart, 60, 16)
    assert [label for _, label in frame.y_ticks] == ["1ms", "10ms", "100ms", "1s", "10s"]
    assert [at for at, _ in frame.y_ticks] == pytest.approx([-3, -2, -1, 0, 1])
    ((palette_number, values),) = frame.lines
    assert palette_number == 1 and values[0] is None and values[-1] == pytest.approx(math.log10(9))
    known = [value for value in values if value is not None]
    assert known == sorted(known) and known[0] == pytest.approx(math.log10(0.002))
    nothing = replace(chart, series=(Series("a", [0.0] * 4),))
    assert plot_frame(nothing, 60, 16).lines == ()


async def test_the_mouse_reads_values_off_a_chart_and_a_log_scale_is_named() -> None:
    app = ChartApp()
    async with app.run_test(size=(80, 24)) as pilot:
        app.chart.show(replace(data(), is_logarithmic=True))
        text = await until(app, pilot, "now")
        assert "Ingest (msgs/s, log scale)" in text
        assert "1000" in text and "10.0" in text
        await pilot.hover(Chart, offset=(40, 8))
        await pilot.pause()
        assert app.chart._crosshair_at_s is not None and -60 < app.chart._crosshair_at_s < -40
        text = app.text()
        assert "  at -" in text.splitlines()[0]
        assert "removed –" in text, "a gap has no value"
        assert any(line[40] == "│" for line in text.splitlines()[2:15])


def test_removed_messages_per_second_are_unknown_where_the_rate_or_the_level_is() -> None:
    def state(*polls: tuple[float, int, int]) -> State:
        known = State()
        for at_s, last_seq, stored_msgs in polls:
            row = {"name": "S", "last_seq": last_seq, "stored_msgs": stored_msgs}
            known = known.after(snapshot(at_s, [row]))
        return known

    # 10 messages come and 4 go each second; nothing was polled for most of a minute.
    known = state((1, 10, 10), (2, 20, 16), (3, 30, 22), (50, 500, 304), (51, 510, 310))
    rates, *_ = stream_charts(StreamView(known), 0, 60)
    assert {series.label: list(series.values) for series in rates.series} == {
        "in": [10.0, 10.0, None, 10.0],
        "removed": [4.0, 4.0, None, 4.0],
    }
