"""Benchmarks from the screen: started, watched, steered, summed up, saved and compared."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import nats
import pytest
from nats.js import JetStreamContext
from textual.widgets import Input, SelectionList, TextArea

from natstui.jetstream.testbed.broker import Broker
from natstui.model.bench.counts import Counts, Latencies, main_latency
from natstui.model.bench.latency import LatencyCounts, bucket_of, from_latencies
from natstui.model.bench.plan import BenchmarkPlan, Role
from natstui.model.bench.result import Accounting, BenchmarkResult, PreviousRun
from natstui.model.bench.view import (
    BenchmarkView,
    LatencyPoint,
    WorkerPoint,
    make_benchmark_so_far,
)
from natstui.model.records.benchmark import (
    AddWorker,
    BenchmarkFinished,
    BenchmarkLog,
    BenchmarkPhase,
    BenchmarkPlanned,
    BenchmarkProgress,
    BenchmarkReport,
    BenchmarkSummed,
    ChangePayload,
    ChangeRate,
    KillWorker,
    PauseWorkers,
    StartBenchmark,
    StopBenchmark,
)
from natstui.model.records.messages import Answered
from natstui.model.records.record import Command
from natstui.tui.app.screens import describe_running_work
from natstui.tui.bench import figures
from natstui.tui.bench.charts import (
    cumulative_chart,
    cumulative_msgs,
    rate_now_per_s,
    throughput,
    throughput_chart,
)
from natstui.tui.bench.figures import draw_large, main_figures
from natstui.tui.bench.form import BenchmarkForm
from natstui.tui.bench.runs import RunsScreen
from natstui.tui.bench.scenarios import ScenariosScreen
from natstui.tui.bench.screen import BenchmarkScreen
from natstui.tui.bench.text import distribution_section, message_counts_section
from natstui.tui.bench.workers import worker_sections
from natstui.tui.frame.messages import RunScenario
from natstui.tui.kit.chart.frame import ChartData
from natstui.tui.kit.chart.legend import legend_runs
from natstui.tui.kit.prompt import Prompt
from natstui.units import rate_text
from natstui.values import replace
from tests.accounts import Account
from tests.jetstream.pending import until_pending
from tests.model.test_benchmark_view import PLAN
from tests.tui.engine_records import engine_records
from tests.tui.test_moment import REPLAY
from tests.tui.viewer import Viewer, fed, viewing

FAN_OUT = """
title = "small fan-out"
[[role]]
name = "publishers"
pattern = "publish"
rate = 2000
msgs = 3000
[[role]]
name = "subscribers"
pattern = "subscribe"
workers = 2
"""


TAKING = """
title = "taking"
[stream]
name = "OWN"
create = false
[[role]]
name = "consumers"
pattern = "js-fetch"
consumer = "C"
msgs = 5
"""


def point(at_us: int, sent: int) -> WorkerPoint:
    return WorkerPoint(at_us, 0.1, sent, 0, 0, 0, 0.1)


def view_of(*workers: list[WorkerPoint]) -> BenchmarkView:
    series = {("p", number): tuple(points) for number, points in enumerate(workers)}
    totals = {
        key: Counts(sent_msgs=sum(p.sent_msgs for p in points)) for key, points in series.items()
    }
    return BenchmarkView(run_id="x", series=series, totals=totals)


def held(view: BenchmarkView) -> dict[str, str]:
    """Return what is shown below the counts of the workers."""
    return {line.label: line.text for line in message_counts_section(view).lines[4:]}


def test_the_cumulative_line_ends_at_the_sum_of_all_reports() -> None:
    view = view_of(
        [point(100_000 * at, 10) for at in range(1, 30)],
        [point(100_000 * at + 37_000, 7) for at in range(1, 25)],
    )
    line = cumulative_msgs(view, "sent_msgs")
    assert line[-1] == 29 * 10 + 24 * 7
    assert line == sorted(line)


def test_when_a_run_is_over_its_result_says_what_was_stored_not_the_last_poll_before_its_end() -> (
    None
):
    polled = BenchmarkProgress(
        100_000, "x", "steady", 0.1, None, None, Counts(), pending_msgs=2, stored_msgs=7
    )
    running = replace(view_of([point(100_000, 10)]), progress=polled)
    assert held(running) == {"stored": "7", "pending": "2"}
    books = Accounting(10, 10, 0, 0, 0, 0, 10, 10, 9, 9, 0, 0, 1, 0, True)
    result = BenchmarkResult(
        "t", 0, 1.0, "ok", False, (), 10.0, 9.0, 1.0, 1.0, Latencies(), Counts(), books, ()
    )
    over = replace(running, finished=BenchmarkFinished(200_000, "x", result, None))
    assert held(over) == {"stored": "10", "lost": "1"}


def test_what_is_behind_is_a_figure_where_the_run_counts_it() -> None:
    view = view_of([point(100_000 * at, 10) for at in range(1, 30)])
    view = replace(view, planned=BenchmarkPlanned(0, "x", PLAN))
    assert "behind" not in {figure.title for figure in main_figures(view)}
    for pending, look in ((3, "warn"), (0, "ok")):
        view = view.after(
            BenchmarkProgress(100_000, "x", "steady", 0.1, None, None, Counts(), pending)
        )
        (behind,) = (figure for figure in main_figures(view) if figure.title == "behind")
        assert (behind.value, behind.style_name) == (str(pending), look)


def test_responses_of_workers_are_not_taken_for_requests() -> None:
    roles = (Role("w", "js-respond"), Role("a", "js-request"))
    plan = BenchmarkPlan("t", "", roles, None, None)
    view = BenchmarkView(
        run_id="x",
        planned=BenchmarkPlanned(0, "x", plan),
        series={("w", 0): (point(100_000, 9),), ("a", 0): (point(100_000, 10),)},
        totals={
            ("w", 0): Counts(sent_msgs=9, received_msgs=9),
            ("a", 0): Counts(sent_msgs=10, acked_msgs=10, received_msgs=8),
        },
    )
    shown = {line.label: line.text for line in message_counts_section(view).lines}
    assert (shown["sent"], shown["received"], shown["responses"]) == ("10", "9", "8")
    assert cumulative_msgs(view, "sent_msgs")[-1] == 10


def test_reports_that_come_unevenly_make_an_even_rate() -> None:
    jitter = (0, 30_000, -30_000)
    view = view_of([point(100_000 * at + jitter[at % 3], 10) for at in range(1, 60)])
    rates = throughput(view, "sent_msgs")[3:]
    assert max(r or 0 for r in rates) < 160
    assert sum(r or 0 for r in rates) / len(rates) == pytest.approx(100, rel=0.05)


def test_the_figures_the_chart_and_the_sum_of_the_workers_are_of_one_window() -> None:
    view = view_of(
        [point(100_000 * at, 10 if at < 40 else 30) for at in range(1, 50)],
        [point(100_000 * at + 37_000, 7) for at in range(1, 47)],
    )
    view = replace(view, planned=BenchmarkPlanned(0, "x", BenchmarkPlan("t", "", (), None, None)))
    chart = throughput_chart(view)
    each = [rate_now_per_s(view, "sent_msgs", [key]) for key in view.series]
    assert chart is not None and None not in each
    total = sum(rate or 0.0 for rate in each)
    assert chart.series[0].values[-1] == pytest.approx(total)
    assert main_figures(view)[0].value == rate_text(total)
    assert rate_now_per_s(view_of([point(100_000, 10)]), "sent_msgs", [("p", 0)]) is None


def test_when_a_run_is_over_the_legends_have_what_is_of_all_of_it_and_say_so() -> None:
    books = Accounting(10, 10, 0, 0, 0, 0, 10, 10, 9, 9, 0, 0, 1, 0, True)
    result = BenchmarkResult(
        "t", 0, 1.0, "ok", False, (), 1491.0, 9.0, 1.0, 1.0, Latencies(), Counts(), books, ()
    )
    running = view_of([point(100_000 * at, 10) for at in range(1, 80)])
    over = replace(running, phase="finished", finished=BenchmarkFinished(1, "x", result, None))

    def legend(chart: ChartData | None) -> str:
        return "".join(text for text, _ in legend_runs(chart, 80))

    assert legend(throughput_chart(running)).split()[1:] == ["sent", "100"]
    assert legend(throughput_chart(over)).split() == ["mean", "▂▂▂", "sent", "1491"]
    assert legend(cumulative_chart(over)).startswith(" total  ▂▂▂ sent 790")


def test_every_chart_has_the_time_axis_of_all_reports() -> None:
    view = view_of([point(100_000 * at, 10) for at in range(1, 80)])
    sums = cumulative_chart(view)
    rates = throughput_chart(view)
    assert sums and rates
    assert sums.window_s == rates.window_s == pytest.approx(7.9)
    assert rates.at_s[-1] < 0 and rates.at_s[0] == pytest.approx(-7.9, abs=0.2)


def test_a_clock_that_is_set_forward_by_a_day_makes_no_chart_of_a_day() -> None:
    day_us = 86_400_000_000
    points = [point(100_000 * at + (day_us if at > 40 else 0), 10) for at in range(1, 80)]
    view = view_of(points, points)
    rates, sums = throughput_chart(view), cumulative_chart(view)
    assert rates and sums
    assert len(rates.at_s) <= len(sums.at_s) <= 1_202
    assert sums.window_s == rates.window_s == pytest.approx(120)
    assert sums.series[0].values[-1] == 2 * 79 * 10
    assert rates.series[0].values[-1] == pytest.approx(200)


def test_charts_of_a_run_that_is_over_end_when_it_did_and_not_now() -> None:
    running = view_of([point(100_000 * at, 10) for at in range(1, 80)])
    over = replace(running, phase="finished")
    for chart in (throughput_chart, cumulative_chart):
        now, then = chart(running), chart(over)
        assert now and then
        assert (now.ends_at_unix_s, then.ends_at_unix_s) == (None, pytest.approx(7.9))


def latencies(**counts: int) -> BenchmarkView:
    """Return a view with so many latencies of so many microseconds: `us100=7`."""
    buckets = {bucket_of(int(name[2:]) * 1000): count for name, count in counts.items()}
    one = LatencyCounts(tuple(buckets), tuple(buckets.values()))
    return replace(view_of([point(100_000, 10)]), merged=Latencies(e2e=one))


def test_the_distribution_is_as_long_as_its_counts_and_shows_where_the_percentiles_are() -> None:
    view = latencies(us100=9000, us1000=900, us60000=20)
    lines = distribution_section(view, 70, colors=("a", "b", "c")).lines
    told = {line.label: line.text.split() for line in lines}
    bars = {line.label: sum(letter in "█▏▎▍▌▋▊▉" for letter in line.text) for line in lines}
    assert told["< 0.2"][1:] == ["9000", "◂", "p50", "p90"]
    assert told["< 1.1"][1:] == ["900", "◂", "p99"]
    assert told["≥ 1.1"] == ["▏", "20", "◂", "p99.9"], "a tail can be seen"
    assert told["< 0.5"] == ["0"], "the axis has no hole where nothing was"
    assert bars["< 1.1"] == pytest.approx(bars["< 0.2"] / 10, abs=1)
    colors = {line.label: line.parts[0][2] for line in lines}
    assert (colors["< 0.2"], colors["< 1.1"], colors["≥ 1.1"]) == ("a", "b", "c")
    few = distribution_section(view, 70, 5).lines
    assert [line.label for line in few] == ["< 0.4", "< 0.8", "< 1.2", "≥ 1.2"]
    close = distribution_section(latencies(us100010=50, us100040=50), 70).lines
    assert [line.label for line in close] == ["< 100"], "no finer than a bucket"


def test_many_workers_stand_in_columns_and_a_busy_one_is_seen() -> None:
    view = view_of(*([point(100_000 * at, 10) for at in range(1, 30)] for _ in range(12)))
    view = replace(
        view, series={**view.series, ("p", 3): (WorkerPoint(2_900_000, 0.1, 1, 0, 0, 0, 0.95),)}
    )
    (narrow,) = worker_sections(view, 40)
    (wide,) = worker_sections(view, 120)
    assert (len(narrow.lines), narrow.title) == (13, "P (12)"), "no room for frames"
    assert 4 <= len(wide.lines) <= 7
    for section, width in ((narrow, 40), (wide, 120)):
        assert max(len(line.text) for line in section.lines) <= width
        assert [line.style_name for line in section.lines].count("warn") == 1
        assert "95%" in next(line.text for line in section.lines if line.style_name == "warn")


@pytest.mark.parametrize(("width", "height", "columns", "rows"), [
    (78, 9, 4, 9), (44, 30, 2, 30), (118, 20, 6, 18),
])  # fmt: skip
def test_every_worker_has_a_frame_in_as_many_columns_as_fit(
    width: int, height: int, columns: int, rows: int
) -> None:
    view = view_of(*([point(100_000 * at, 10) for at in range(1, 30)] for _ in range(12)))
    busy = (WorkerPoint(2_900_000, 0.1, 1, 0, 0, 0, 0.95),)
    view = replace(view, series={**view.series, ("p", 3): busy})
    (section,) = worker_sections(view, width, height, ("#010203",))
    lines = [line.text for line in section.lines]
    assert (lines[0].count("╭"), len(lines)) == (columns, rows)
    assert len({len(line) for line in lines}) == 1 and len(lines[0]) <= width
    assert " p 0 " in lines[0] and " 100/s " in lines[0] and " CPU 10% " in "".join(lines)
    warned = [line.text[start:end] for line in section.lines
              for start, end, look in line.parts if look == "warn"]  # fmt: skip
    assert [words.split()[:2] for words in warned] == [["CPU", "95%"]]
    assert any(look.startswith("#010203") for line in section.lines for *_, look in line.parts)


def test_who_is_over_shows_no_rate_of_now_and_shares_say_who_got_what() -> None:
    view = view_of(
        [point(100_000 * at, 10) for at in range(1, 60)],
        [point(100_000 * at, 10) for at in range(1, 21)],
    )
    again = replace(view.totals["p", 0], redelivered_msgs=7)
    (section,) = worker_sections(replace(view, totals={**view.totals, ("p", 0): again}), 45)
    head, works, dead = (line.text for line in section.lines)
    assert head.split() == ["CPU", "sent/s", "share", "again"]
    assert works.split()[-4:] == ["10%", "100", "75%", "7"]
    assert dead.split()[-4:] == ["off", "–", "25%", "0"]
    assert max(map(len, (head, works, dead))) <= 45


def report(role: str, worker_id: int, at_us: int, counts: Counts, **us: int) -> BenchmarkReport:
    """Return what a worker reports, its latencies in microseconds: `ack=200`."""
    measured = {name: from_latencies([one * 1000] * 10) for name, one in us.items()}
    return BenchmarkReport(at_us, "x", role, worker_id, 0.1, counts, Latencies(**measured), 0.1)


def test_of_every_worker_is_told_what_is_in_flight_and_how_long_its_messages_took() -> None:
    roles = (Role("p", "js-publish-async", 2), Role("c", "js-consume"))
    view = BenchmarkView().after(BenchmarkPlanned(0, "x", BenchmarkPlan("t", "", roles, None, 1)))
    for one in (
        report("p", 0, 100_000, Counts(sent_msgs=50), late=1),
        # Acknowledgements came later than the first report, and count for more.
        report("p", 0, 200_000, Counts(sent_msgs=10, acked_msgs=20), late=1, ack=200),
        report("p", 1, 200_000, Counts(sent_msgs=20, acked_msgs=15, refused_msgs=1), ack=3000),
        report("c", 0, 200_000, Counts(received_msgs=30, acks_sent_msgs=23), e2e=700),
    ):
        view = view.after(one)
    (framed,) = worker_sections(view, 240, 3)
    below = framed.lines[-1].text
    assert "share 75% · p99 0.20" in below and "share 25% · p99 3.01" in below
    assert "p99 0.70 · in flight 7" in below
    assert make_benchmark_so_far(view, 0).view() == view, (
        "a replay that begins here shows the same"
    )
    (narrow, _) = worker_sections(view, 60)
    assert narrow.lines[0].text.split()[-3:] == ["acked/s", "share", "p99"]
    assert max(len(one.text) for one in narrow.lines) <= 60


def test_phases_workers_and_rates_that_changed_are_marked_on_the_charts() -> None:
    view = view_of([point(100_000 * at, 10) for at in range(1, 80)])
    for one in (
        BenchmarkPhase(1_000_000, "x", "steady"),
        BenchmarkLog(2_000_000, "x", "is killed", "p/0", "killed", "-p/0"),
        BenchmarkLog(3_000_000, "x", "a remark"),
        BenchmarkLog(4_000_000, "x", "p sends 2000 now", None, "rate", "2,000/s"),
    ):
        view = view.after(one)
    chart = throughput_chart(view)
    assert chart is not None
    assert [(round(mark.at_s, 1), mark.text, mark.tone) for mark in chart.marks] == [
        (-6.9, "steady", "note"), (-5.9, "-p/0", "bad"), (-3.9, "2,000/s", "note"),
    ]  # fmt: skip


def test_a_long_run_merges_its_latencies_no_more_often_than_a_short_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def merged_count(seconds_count: int) -> int:
        merged: list[Latencies] = []

        def main(latencies: Latencies) -> tuple[str, LatencyCounts] | None:
            merged.append(latencies)
            return main_latency(latencies)

        monkeypatch.setattr(figures, "main_latency", main)
        seconds = tuple(LatencyPoint(1_000_000 * at, {}, {}) for at in range(seconds_count))
        main_figures(replace(view_of([point(100_000, 10)]), seconds=seconds))
        return len(merged)

    assert merged_count(100) == merged_count(1)


def test_the_result_is_three_figures_against_the_last_run_of_the_same_plan() -> None:
    running = BenchmarkView().after(
        BenchmarkPlanned(0, "x", BenchmarkPlan("t", "", (Role("p", "publish"),), None, None))
    )
    running = replace(running, merged=Latencies(e2e=from_latencies([106_000_000])))
    books = Accounting(10, 10, 0, 0, 0, 0, 10, 10, 9, 9, 0, 0, 0, 0, True)
    result = BenchmarkResult(
        "t", 0, 1.0, "ok", False, (), 10.0, 5669.0, 1.0, 1.0, Latencies(), Counts(), books, ()
    )
    over = running.after(BenchmarkFinished(200_000, "x", result, None))
    shown = main_figures(over)
    assert [one.text for one in shown] == ["5,669/s", "106 ms", "0 ✓"]
    assert {one.comparison_text for one in shown} == {""}
    before = PreviousRun("then", 0, None, 5000.0, "e2e", 212_000_000, 3)
    compared = main_figures(over.after(BenchmarkSummed(3, "so", False, before)))
    assert [one.comparison_text for one in compared] == [
        "+13% against 5,000/s in the last run",
        "-50% against 212 ms in the last run",
        "3 in the last run",
    ]
    other = replace(before, latency="ack")
    assert (
        main_figures(over.after(BenchmarkSummed(3, "so", False, other)))[1].comparison_text == ""
    )
    assert len(draw_large("5,669")) == 3 and len({len(row) for row in draw_large("5,669")}) == 1


def run_of(viewer: Viewer) -> str:
    return viewer.app.state.benchmark.run_id if viewer.app.state.benchmark else ""


START_S = 90.0
"""Within this workers have started: each is a process, and a busy machine starts them by turns."""


async def steady(viewer: Viewer) -> None:
    await viewer.until(
        lambda: viewer.app.state.benchmark and viewer.app.state.benchmark.phase == "steady",
        "steady",
        START_S,
    )


async def logged(viewer: Viewer, words: str) -> None:
    """Wait until the run tells of something: all of its log is on the screen."""
    await viewer.until(
        lambda: (
            viewer.app.state.benchmark
            and any(words in line.text for line in viewer.app.state.benchmark.log)
        ),
        words,
    )


async def finished(viewer: Viewer) -> None:
    await viewer.until(
        lambda: viewer.app.state.benchmark and viewer.app.state.benchmark.finished,
        "finished",
        START_S,
    )


@pytest.mark.slow
async def test_keys_that_steer_no_run_do_nothing_and_a_command_is_seen_above_the_footer() -> None:
    """Which of them are offered, test_key_footer.py tests."""
    async with fed(*engine_records(), size=(80, 24)) as viewer:
        for keys in (("colon", "Z", "Z"), ("b", "colon", "Z", "Z")):
            await viewer.press(*keys)
            await viewer.until(lambda: ":ZZ" in viewer.text, "what was typed")
            assert "esc Cancel" in viewer.words
            await viewer.press("escape")
        await viewer.press("ctrl+x", "a", "k", "P", "r", "f", "h")
        assert not viewer.toasts
        steering = (StartBenchmark, StopBenchmark, AddWorker, KillWorker, PauseWorkers)
        assert not any(isinstance(command, steering) for command in viewer.commands)
        assert isinstance(viewer.app.screen, BenchmarkScreen)


@pytest.mark.slow
async def test_each_key_and_the_payload_command_steer_the_run_that_goes_on() -> None:
    roles = (Role("p", "publish"), Role("s", "subscribe", 2))
    planned = BenchmarkPlanned(1, "x", BenchmarkPlan("t", "", roles, None, 60.0))
    async with fed(*engine_records(), planned, size=(80, 24)) as viewer:
        await viewer.press("b")
        await viewer.until(lambda: run_of(viewer), "the run")

        async def sends(command: Command, *keys: str) -> None:
            before = len(viewer.commands)
            await viewer.press(*keys)
            await viewer.until(lambda: len(viewer.commands) > before, str(keys), every_s=0.02)
            (sent,) = viewer.commands[before:]
            assert replace(sent, command_id=0) == command

        await sends(KillWorker(0, "s"), "k")
        await sends(AddWorker(0, "s"), "a")
        await sends(ChangeRate(0, factor_ratio=1.25), "plus")
        await sends(ChangeRate(0, factor_ratio=0.8), "minus")
        await sends(PauseWorkers(0, "s"), "f")
        await sends(PauseWorkers(0), "h")
        await viewer.press("P")
        await viewer.until(lambda: "New payload" in viewer.text, "the question")
        assert viewer.app.screen.query_one(Input).value == "128"
        await viewer.press("x", "enter")
        await viewer.until(lambda: "is not a size" in viewer.text, "why not")
        await sends(ChangePayload(0, "4kb"), *["backspace"] * 4, "4", "k", "b", "enter")
        await viewer.press("colon")
        await viewer.type("payload 24..64")
        await sends(ChangePayload(0, "24..64"), "enter")
        refused = Answered(2, viewer.commands[-1].command_id, "refused", "need 24 bytes")
        await viewer.feed(refused)
        await viewer.until(lambda: "need 24 bytes" in " ".join(viewer.toasts), "no")
        await viewer.type_command("payload")
        await viewer.until(lambda: "write :payload" in " ".join(viewer.toasts), "how to write it")
        await sends(StopBenchmark(0), "ctrl+x")
        os.killpg(viewer.app.link.pid, signal.SIGKILL)
        sentence = "the benchmark ended without a result: the engine was ended by SIGKILL"
        await viewer.until(lambda: sentence in viewer.words, "the sentence")
        await viewer.until(lambda: "starting · ended without a result" in viewer.words, "title")
        assert any("the engine ended before it replied" in toast for toast in viewer.toasts)
        assert describe_running_work(viewer.app.state, (), includes_recording=True) == []


async def test_a_recording_that_is_replayed_during_a_run_starts_none() -> None:
    async with fed(*engine_records()) as viewer:
        await viewer.type_command("bench fanout-slow")
        await viewer.until(lambda: "starting the benchmark" in viewer.words, "the run")
        await viewer.feed(REPLAY)
        await viewer.until(lambda: "no benchmark has run" in viewer.words, "none", s=15)
        assert "starting" not in viewer.words


LISTENING = """
title = "listening"
duration = "1s"
[[role]]
name = "subs"
pattern = "subscribe"
subject = "for.app"
"""


async def takes_nothing_unasked_or_of_a_consumer_created_again(
    viewer: Viewer, js: JetStreamContext
) -> None:
    await js.add_stream(name="OWN", subjects=["own"], storage="memory")
    await js.add_consumer("OWN", durable_name="C", ack_policy="explicit")
    await js.add_consumer("OWN", durable_name="P", deliver_subject="for.app", ack_policy="none")
    for _ in range(5):
        await js.publish("own", b"x")
    await until_pending(js, "OWN", 5, "C", "P")

    async def asks(scenario: str, question: str) -> None:
        viewer.app.screen.post_message(RunScenario(scenario))
        await viewer.until(
            lambda: isinstance(viewer.app.screen, Prompt) and question in viewer.words, question
        )

    await asks(LISTENING, "P of OWN delivers to for.app, which has no subscriber")
    await viewer.press("escape")
    assert (await js.consumer_info("OWN", "P")).num_pending == 5
    await asks(TAKING, "up to 5 messages of consumer C are acknowledged")
    await js.delete_consumer("OWN", "C")
    await js.add_consumer("OWN", durable_name="C", ack_policy="explicit")
    await viewer.press("C", "enter")
    await viewer.until(lambda: "changed before you confirmed" in viewer.words, "refused")
    for name in ("C", "P"):
        assert (await js.consumer_info("OWN", name)).num_pending == 5


@pytest.mark.long
@pytest.mark.server
async def test_a_server_that_goes_away_leaves_a_partial_result_on_the_screen_and_in_the_library(
    nats_server: Broker,
) -> None:
    paced = 'duration = "10m"' + FAN_OUT.replace("msgs = 3000\n", 'timeout = "1s"\n')
    async with viewing(nats_server.url, size=(200, 50)) as viewer:
        await viewer.press("b")
        viewer.app.screen.post_message(RunScenario(paced))
        await steady(viewer)
        nats_server.kill()
        await viewer.until(
            lambda: "the partial result is saved" in viewer.words, "sentence", START_S
        )
        await viewer.until(lambda: "verdict    failed · PARTIAL" in viewer.text, "its figures")
        await viewer.type_command("runs")
        await viewer.until(lambda: isinstance(viewer.app.screen, RunsScreen), "the saved runs")
        await viewer.until(lambda: "small-fan-out" in viewer.text, "the saved run")
        await viewer.until(lambda: "PARTIAL" in viewer.text, "marked")


@pytest.mark.slow
async def test_a_run_that_failed_after_its_plan_shows_why() -> None:
    planned = BenchmarkPlanned(1, "r", PLAN)
    failed = BenchmarkSummed(2, "workers p/0 were not ready in 30 s", failed=True)
    async with fed(*engine_records(), planned, failed, size=(120, 40)) as viewer:
        await viewer.press("b")
        await viewer.until(lambda: "workers p/0 were not ready" in viewer.words, "the sentence")


@pytest.mark.server
async def test_a_run_asks_a_scenario_is_edited_and_run_another_is_steered_and_both_are_compared(
    account: Account,
) -> None:
    nc = await nats.connect(account.url)
    # So high that its summary has room, however long the figures are in it.
    async with viewing(account.url, size=(120, 50)) as viewer:
        await viewer.type_command("bench nonsense")
        await viewer.until(lambda: "no scenario" in viewer.words, "the sentence")
        assert isinstance(viewer.app.screen, BenchmarkScreen)
        await takes_nothing_unasked_or_of_a_consumer_created_again(viewer, nc.jetstream())
        await viewer.press("b")
        assert isinstance(viewer.app.screen, BenchmarkForm)
        await viewer.press("ctrl+o")
        assert isinstance(viewer.app.screen, ScenariosScreen)
        await viewer.until(lambda: "fanout" in viewer.text, "the ready scenarios")
        # The form itself is the first.
        await viewer.press("down", "down", "down", "down")
        await viewer.until(lambda: 'title = "Fan-out' in viewer.text, "its text")
        await viewer.press("tab")
        editor = viewer.app.screen.query_one(TextArea)
        assert editor.has_focus
        editor.text = editor.text.replace('msgs = "15k"', 'msgs = "2k"').replace(
            "workers = 3", "workers = 1"
        )
        editor.text = 'assertions = ["lost == 0", "sent == 7"]\n' + editor.text
        await viewer.press("ctrl+s")
        await viewer.until(lambda: isinstance(viewer.app.screen, BenchmarkScreen))
        await finished(viewer)
        await viewer.until(lambda: "message accounted for" in viewer.words, "summary")
        assert "sent 2,000" in viewer.words
        assert "sent == 7: it is 2000; the result is saved as" in viewer.words
        first = run_of(viewer)

        # Slow, for 4 KiB at 2,000 a second are more than a busy machine can do beside the viewer.
        endless = 'duration = "10m"' + FAN_OUT.replace("msgs = 3000\n", "").replace("2000", "200")
        endless = endless.replace("workers = 2\n", "")
        viewer.app.screen.post_message(RunScenario(endless))
        await viewer.until(lambda: run_of(viewer) != first, "another run")
        await steady(viewer)
        await viewer.until(lambda: "subscribe… 0 " in viewer.words, "a panel for each worker")
        await viewer.press("k")
        await logged(viewer, "is killed")
        await viewer.press("a")
        await logged(viewer, "is added")
        await viewer.press("plus")
        await logged(viewer, "sends 250 messages")
        await viewer.type_command("payload 4kb")
        await logged(viewer, "publishers now sends 4.00 KiB a message")
        await viewer.type_command("bench work-queue")
        await viewer.until(lambda: "a benchmark runs already" in " ".join(viewer.toasts), "no")
        assert viewer.app.state.benchmark.is_running, "the first one goes on"
        await viewer.press("ctrl+x")
        await finished(viewer)
        await viewer.until(lambda: "PARTIAL" in viewer.text, "partial")
        over = viewer.app.state.benchmark and viewer.app.state.benchmark.finished
        assert over, "the result"
        (told_of,) = (one for one in over.result.notes if "4.00 KiB" in one and "128 B" in one)
        assert told_of.endswith("publishers now sends 4.00 KiB a message, not 128 B")

        await viewer.type_command("runs")
        await viewer.until(lambda: isinstance(viewer.app.screen, RunsScreen), "the saved runs")
        await viewer.until(lambda: "2 saved runs" in viewer.words, "both")
        await viewer.until(lambda: "verdict" in viewer.text, "the summary of one")
        await viewer.until(lambda: "PARTIAL" in viewer.text, "marked")
        await viewer.press("space", "down", "space", "equals_sign")
        await viewer.until(lambda: "publish_rate" in viewer.text, "the comparison")
    await nc.close()


@pytest.mark.server
async def test_more_runs_than_are_listed_are_counted(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(250):
        (tmp_path / f"{number:03}.json").write_text("{}")
    monkeypatch.setenv("NATSTUI_BENCHMARK_FOLDER", str(tmp_path))
    async with viewing(account.url) as viewer:
        await viewer.type_command("runs")
        await viewer.until(lambda: "the newest 200 of 250 saved runs" in viewer.words, "the count")
        runs = viewer.app.screen.query_one(SelectionList)
        assert [runs.get_option_at_index(index).value for index in (0, 199)] == ["249", "050"]
