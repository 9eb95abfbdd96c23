"""Who leaves is asked first where something would end that was begun."""

from __future__ import annotations

from pathlib import Path

import pytest

from natstui.model.bench.view import BenchmarkView
from natstui.model.live.state import State
from natstui.model.records.benchmark import BenchmarkPlanned, BenchmarkSummed
from natstui.model.records.recording import RecordingChanged
from natstui.tui.app.screens import at_work
from natstui.tui.kit.pick import Pick
from tests.accounts import Account
from tests.model.test_benchmark_view import PLAN
from tests.tui.viewer import viewing

pytestmark = pytest.mark.server

RECORDING = RecordingChanged(1, on=True, folder="a", size_bytes=1)
MEASURING = BenchmarkView(run_id="r", planned=BenchmarkPlanned(1, "r", PLAN))


def test_what_is_recorded_and_measured_would_end() -> None:
    both = State(recording=RECORDING, benchmark=MEASURING)
    names = ["a recording is running", "a benchmark is running"]
    assert at_work([both], recording=True) == names
    assert at_work([both], recording=False) == names[1:], "the settings began it"
    over = BenchmarkView(planned=MEASURING.planned, summed=BenchmarkSummed(2, "no room", True))
    assert at_work([State(benchmark=over), State()], recording=True) == []


async def test_who_leaves_while_a_recording_runs_is_asked(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATSTUI_SESSION_FOLDER", str(tmp_path / "sessions"))
    async with viewing(account.url, size=(120, 40)) as viewer:
        await viewer.press("R")
        await viewer.until(lambda: "● REC" in viewer.words, "it records")
        for stays in ("escape", "enter"):
            await viewer.press("q")
            await viewer.until(lambda: isinstance(viewer.app.screen, Pick), "the question")
            assert "a recording is running" in viewer.words
            await viewer.press(stays)
            await viewer.until(lambda: not isinstance(viewer.app.screen, Pick), "it stays")
            assert viewer.app.return_code is None
        await viewer.press("q")
        await viewer.until(lambda: isinstance(viewer.app.screen, Pick), "the question")
        await viewer.press("down", "enter")
        await viewer.until(lambda: viewer.app.return_code == 0, "it left")


async def test_who_leaves_while_nothing_runs_is_not_asked(account: Account) -> None:
    async with viewing(account.url, size=(120, 40)) as viewer:
        await viewer.press("q")
        await viewer.until(lambda: viewer.app.return_code == 0, "it left")
