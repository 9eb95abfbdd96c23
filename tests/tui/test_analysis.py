"""What an analysis found, as the screen shows it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from platformdirs import user_cache_path

from benchmarks._fleet import Plan
from benchmarks._sessions import write_session
from natstui.analysis.folders import prepare_tables_folder, resolve_sessions
from natstui.analysis.job import create_parser
from natstui.analysis.result_cache import run_fingerprint, write_cached_result
from natstui.model.records.analysis import AnalysisProgress, StartAnalysis, StopAnalysis
from natstui.model.records.messages import Answered
from natstui.tui.analysis.screen import AnalysisScreen, charts_of
from natstui.tui.analysis.text import (
    AnalysisResult,
    CellValue,
    ResultColumn,
    ResultRows,
    ResultTable,
    meaning_text,
    menu_entries,
    progress_text,
    verdict_text,
)
from natstui.tui.kit.table.paint import Sort
from tests.analysis import drawn
from tests.session.scenario import START_US, Scenario
from tests.tui.viewer import Viewer, fed, viewing

VERDICT_NAMES = ("session", "kind", "subject", "sentence", "evidence", "start_at_us",
                 "end_at_us", "weight", "harm", "code", "advice")  # fmt: skip


def table(names: tuple[str, ...], *rows: tuple[CellValue, ...], cut: bool = False) -> ResultTable:
    columns = tuple(
        ResultColumn(n, "bigint" if n.endswith(("_us", "_s", "_count")) else "string", "", n)
        for n in names
    )
    return ResultTable("What it says.", columns, rows, cut)


def result(*sessions: str) -> AnalysisResult:
    found = ("A", "stuck", "ORDERS › pay\x1b[2J", "did not move for 60 s", "12 pending",
             1_790_000_000_000_000, 1_790_000_060_000_000, 90.0, "stuck", "NT-C07",
             "Check whether a client of it runs. Start the client.")  # fmt: skip
    lag = table(("session", "consumer", "behind_s"), ("A", "pay", 90), ("A", "pack", None),
                ("A", "bill", 5), cut=True)  # fmt: skip
    return AnalysisResult("/out", sessions, {"lag": lag, "verdict": table(VERDICT_NAMES, found)})


def test_the_verdict_tells_each_finding_with_its_evidence_and_time() -> None:
    text = verdict_text(result("A"), 100).plain
    lines = text.splitlines()
    assert lines[0].endswith("stuck  NT-C07") and "ORDERS › pay" in lines[0]
    assert "\x1b" not in text
    assert lines[1].strip() == "did not move for 60 s"
    assert lines[2].strip() == "12 pending  ·  2026-09-21 14:13:20 UTC for 1m00s"
    assert lines[3].strip() == "→ Check whether a client of it runs. Start the client."
    assert verdict_text(result("A", "B"), 100).plain.splitlines()[2].endswith("·  A")


def test_a_long_finding_is_wrapped_below_its_own_indent() -> None:
    lines = verdict_text(result("A"), 40).plain.splitlines()
    assert len(lines) == 6
    assert all(line.startswith("    ") and len(line) <= 40 for line in lines[1:])


def test_a_verdict_without_findings_says_so() -> None:
    nothing = AnalysisResult("/out", ("A",), {"verdict": table(VERDICT_NAMES)})
    assert verdict_text(nothing, 100).plain == "Nothing stands out."


def test_the_verdict_stands_first_and_a_cut_table_says_where_the_rest_is() -> None:
    assert menu_entries(result("A")) == (
        ("verdict", "Needs attention", "1"),
        ("lag", "lag", "3+"),
    )
    assert meaning_text(result("A"), "lag").endswith("all are in /out/gold/lag.")


def test_everything_and_the_worst_consumers_are_drawn_on_one_axis() -> None:
    names = ("session", "rank", "stream", "consumer", "bucket_at_us", "width_s",
             "published_per_s", "delivered_per_s", "pending_msgs", "repeated_msgs")  # fmt: skip
    at_us = [1_790_000_000_000_000 + second * 5_000_000 for second in range(3)]
    rows = [("A", 0, None, None, at, 5, 10.0, 8.0, 90.0, 0) for at in at_us]
    # The worst came later than the first bucket; what it delivered again is not known.
    rows += [("A", 1, "ORDERS", "pay", at, 5, None, None, 60.0, None) for at in at_us[1:]]
    picture = {"picture": table(names, *rows)}  # type: ignore[arg-type]
    load, pending, worst = charts_of(AnalysisResult("/out", ("A",), picture))
    assert [line.label for line in load.series] == ["published", "delivered"]
    assert pending.series[0].values == [90.0, 90.0, 90.0]
    (line,) = worst.series
    assert (line.label, line.values) == ("ORDERS › pay", [None, 60.0, 60.0])
    for chart in (load, pending, worst):
        assert (list(chart.at_s), chart.window_s) == ([-15.0, -10.0, -5.0], 15.0)
        assert chart.ends_at_unix_s == at_us[-1] / 1e6 + 5
    assert charts_of(result("A")) == ()


def test_a_table_leaves_out_the_session_that_is_the_same_in_every_row() -> None:
    assert [column.title for column in ResultRows(result("A"), "lag").columns()] == [
        "CONSUMER",
        "BEHIND",
    ]
    assert len(ResultRows(result("A", "B"), "lag").columns()) == 3


def test_rows_are_sorted_by_their_values_with_the_unknown_last() -> None:
    rows = ResultRows(result("A"), "lag", "behind_s", reverse=True)
    assert [[cell.text for cell in rows.cells(row)] for row in rows.order] == [
        ["pay", "1m30s"],
        ["bill", "5s"],
        ["pack", "–"],
    ]
    assert rows.descends("behind_s") and not rows.descends("consumer")


def test_the_bar_counts_steps_and_the_tasks_within_one() -> None:
    told = AnalysisProgress(0, 1, "A", "reading the lines", 5, 10, 1, 2)
    bar, step = progress_text(told, 75).plain.splitlines()
    assert bar == "█" * 18 + "░" * 14 + "   55 %   1m15s"
    assert step == "step 6 of 10: reading the lines"


NAME = "20260921T141320Z-small"


@pytest.fixture
def recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A recording in a library of its own."""
    monkeypatch.setenv("NATSTUI_SESSION_FOLDER", str(tmp_path / "sessions"))
    return write_session(tmp_path / "sessions" / NAME, Plan(4, 6, 90))


@pytest.mark.long
@pytest.mark.spark
async def test_a_recording_is_analysed_from_the_command_line(recorded: Path) -> None:
    async with viewing("nats://127.0.0.1:1", polled=False, size=(120, 40)) as viewer:
        await viewer.type_command("analyze 20260921")
        await viewer.until(lambda: isinstance(viewer.app.screen, AnalysisScreen))
        screen = viewer.app.screen
        assert isinstance(screen, AnalysisScreen)
        await viewer.until(lambda: "ctrl+x stops the analysis" in viewer.words, "no progress")
        # Left alone it goes on, and says when it is done.
        await viewer.press("escape")
        await viewer.until(lambda: ":analyze shows it" in viewer.words, "no word", s=300)
        await viewer.type_command("analyze")
        await viewer.until(lambda: isinstance(viewer.app.screen, AnalysisScreen))
        run, screen = screen.analysis_run, viewer.app.screen
        assert isinstance(screen, AnalysisScreen) and screen.analysis_run is run
        await shows_answers(viewer, s=300)


async def shows_answers(viewer: Viewer, s: float) -> None:
    """Look at the answers of the screen in view, and leave it."""
    screen = viewer.app.screen
    assert isinstance(screen, AnalysisScreen)
    await viewer.until(lambda: screen.has_class("-answered"), "no answers", s=s)
    await viewer.until(lambda: "Needs attention" in viewer.words, "drawn")
    await viewer.until(lambda: "^x Stop" not in viewer.words, "a key for what has ended")
    assert NAME in viewer.text
    names = [option.id for option in screen.tables.options]
    assert names[:2] == ["verdict", "picture"]
    await viewer.press("j")
    await viewer.until(lambda: "Load, all streams and consumers" in viewer.words, "no chart")
    await viewer.press("k")
    await viewer.press(*["j"] * names.index("consumer_rate"))
    await viewer.until(lambda: "CONSUMER" in viewer.text, "no table")
    await viewer.press("enter", "greater_than_sign")
    sorts = [screen.table.sort]
    for _ in range(3):
        await viewer.press("r")
        sorts.append(screen.table.sort)
    sort, reverse, *_ = sorts
    assert sort is not None and reverse == Sort(sort.column_id, not sort.descending)
    assert sorts == [sort, reverse, sort, reverse]
    # What comes back from another table is sorted as it was.
    await viewer.press("j", "k")
    await viewer.until(lambda: screen.table.sort == reverse, "the sort")
    await viewer.press("escape")
    await viewer.until(lambda: not isinstance(viewer.app.screen, AnalysisScreen))


def keep_known(folder: Path) -> None:
    """Keep a result for a recording, as an analysis of it does for the next one."""
    out = prepare_tables_folder(str(user_cache_path("natstui") / "analysis"))
    found = drawn.result((NAME,), lasted_s=90)
    for name in found["tables"]:
        marked = Path(out, "gold", name)
        marked.mkdir(parents=True)
        (marked / "_SUCCESS").touch()
    options = create_parser().parse_args([str(folder.resolve()), "--pipe", f"--out={out}"])
    state = run_fingerprint(options, resolve_sessions(options.sessions))
    assert state is not None
    write_cached_result(out, state, found)
    # What says that an analysis wrote here.
    Path(out, ".lock").touch()


@pytest.mark.slow
async def test_without_a_recording_it_is_said_and_what_was_found_before_is_shown_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sessions = tmp_path / "sessions"
    monkeypatch.setenv("NATSTUI_SESSION_FOLDER", str(sessions))
    async with viewing("nats://127.0.0.1:1", polled=False, size=(120, 40)) as viewer:
        await viewer.type_command("analyze")
        await viewer.until(lambda: "there is no session in" in viewer.words)
        await viewer.press("escape")
        await viewer.until(lambda: not isinstance(viewer.app.screen, AnalysisScreen))
        keep_known(write_session(sessions / NAME, Plan(4, 6, 90)))
        await viewer.type_command("analyze 20260921")
        await viewer.until(lambda: isinstance(viewer.app.screen, AnalysisScreen))
        await shows_answers(viewer, s=60)


def begun(start: StartAnalysis) -> AnalysisProgress:
    """Return the first progress of an analysis."""
    return AnalysisProgress(START_US, start.command_id, NAME, "starting Spark", 0, 0, 0, 0)


@pytest.mark.slow
async def test_escape_leaves_an_analysis_running_and_ctrl_x_stops_it() -> None:
    async with fed(*Scenario(streams=1, consumers=1).beginning(), size=(80, 24)) as viewer:
        await viewer.type_command("analyze")
        await viewer.until(lambda: isinstance(viewer.app.screen, AnalysisScreen))
        await viewer.until(lambda: viewer.sent(StartAnalysis))
        (start,) = viewer.sent(StartAnalysis)
        await viewer.feed(begun(start))
        await viewer.until(
            lambda: (
                "starting Spark" in viewer.words and "ctrl+x stops the analysis" in viewer.words
            )
        )
        assert "escape leaves, and the analysis continues" in viewer.words
        await viewer.press("escape")
        await viewer.until(lambda: not isinstance(viewer.app.screen, AnalysisScreen))
        await viewer.type_command("analyze")
        await viewer.until(lambda: "ctrl+x stops the analysis" in viewer.words)
        assert viewer.sent(StartAnalysis) == [start]
        await viewer.press("ctrl+x")
        await viewer.until(lambda: viewer.sent(StopAnalysis))
        (stop,) = viewer.sent(StopAnalysis)
        await viewer.feed(
            Answered(START_US, stop.command_id, "done", "stopping"),
            Answered(START_US, start.command_id, "failed", "cancelled"),
        )
        await viewer.until(lambda: "escape leaves" in viewer.words and "cancelled" in viewer.text)
        assert not viewer.toasts


async def test_an_analysis_has_ended_when_its_engine_is_killed_and_says_why() -> None:
    async with fed(*Scenario(streams=1, consumers=1).beginning(), size=(120, 24)) as viewer:
        await viewer.type_command("analyze")
        await viewer.until(lambda: viewer.sent(StartAnalysis))
        await viewer.feed(begun(viewer.sent(StartAnalysis)[0]))
        await viewer.until(lambda: "starting Spark" in viewer.words)
        os.killpg(viewer.app.link.pid, signal.SIGKILL)
        sentence = "the analysis ended without a result: the engine was ended by SIGKILL"
        await viewer.until(lambda: sentence in viewer.words, "the sentence")
        assert "ctrl+x stops the analysis" not in viewer.words


async def test_an_analysis_that_was_left_is_named_when_quitting_and_a_toast_tells_its_end() -> (
    None
):
    async with fed(*Scenario(streams=1, consumers=1).beginning(), size=(120, 24)) as viewer:
        await viewer.type_command("analyze")
        await viewer.until(lambda: viewer.sent(StartAnalysis))
        (start,) = viewer.sent(StartAnalysis)
        await viewer.feed(begun(start))
        await viewer.until(lambda: "starting Spark" in viewer.words)
        await viewer.press("escape")
        await viewer.until(lambda: not isinstance(viewer.app.screen, AnalysisScreen))
        await viewer.press("q")
        await viewer.until(lambda: "an analysis is running" in viewer.words, "the question")
        await viewer.press("escape")
        body = json.dumps(drawn.result((NAME,), lasted_s=90))
        await viewer.feed(Answered(START_US, start.command_id, "done", f"analysed {NAME}", body))
        told = f"analysed {NAME}; :analyze shows it"
        await viewer.until(lambda: told in viewer.toasts, told)
        # A result that nobody has seen is shown, also for the name of its recording.
        await viewer.type_command(f"analyze {NAME}")
        await viewer.until(lambda: viewer.app.screen.has_class("-answered"), "the result")
        assert viewer.sent(StartAnalysis) == [start]
        await viewer.press("escape")
        await viewer.until(lambda: not isinstance(viewer.app.screen, AnalysisScreen))
        await viewer.type_command("analyze")
        await viewer.until(lambda: len(viewer.sent(StartAnalysis)) == 2, "another begins")
        await viewer.type_command("analyze other")
        this_is_it = "an analysis runs already: this is it"
        await viewer.until(lambda: this_is_it in viewer.toasts, this_is_it)
        assert len(viewer.sent(StartAnalysis)) == 2


async def test_an_analysis_that_was_left_says_why_it_ended_with_its_engine() -> None:
    async with fed(*Scenario(streams=1, consumers=1).beginning(), size=(120, 24)) as viewer:
        await viewer.type_command("analyze")
        await viewer.until(lambda: viewer.sent(StartAnalysis))
        await viewer.feed(begun(viewer.sent(StartAnalysis)[0]))
        await viewer.until(lambda: "starting Spark" in viewer.words)
        await viewer.press("escape")
        await viewer.until(lambda: not isinstance(viewer.app.screen, AnalysisScreen))
        os.killpg(viewer.app.link.pid, signal.SIGKILL)
        sentence = "the analysis ended without a result: the engine was ended by SIGKILL"
        await viewer.until(lambda: sentence in viewer.toasts, sentence)
