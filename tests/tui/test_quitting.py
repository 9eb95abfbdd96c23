"""Who leaves is asked first where something would end that was begun."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from natstui.model.bench.view import BenchmarkView
from natstui.model.live.state import State
from natstui.model.records.analysis import StartAnalysis
from natstui.model.records.benchmark import BenchmarkPlanned, BenchmarkSummed
from natstui.model.records.messages import Answered
from natstui.model.records.recording import (
    ChangeSession,
    ExportSelection,
    Gap,
    RecordingChanged,
    StartRecording,
)
from natstui.model.records.stores import (
    BackUp,
    GetFile,
    InspectBackup,
    PutFile,
    RestoreBackup,
)
from natstui.session.read.recording import Recording
from natstui.tui.app.screens import describe_running_work
from natstui.tui.frame.live import LiveScreen
from natstui.tui.frame.messages import Replay
from natstui.tui.kit.pick import PickDialog
from natstui.tui.sessions.screen import SessionsScreen
from natstui.values import replace
from tests.accounts import Account
from tests.model.test_benchmark_view import PLAN
from tests.session.making import made
from tests.session.scenario import Scenario
from tests.tui.engine_records import engine_records
from tests.tui.preloaded import make_ready
from tests.tui.test_moment import REPLAY
from tests.tui.viewer import Viewer, fed, frozen, viewing

pytestmark = pytest.mark.server

RECORDING = RecordingChanged(1, on=True, folder="a", size_bytes=1)
MEASURING = BenchmarkView(run_id="r", planned=BenchmarkPlanned(1, "r", PLAN))


def test_what_is_recorded_and_measured_would_end() -> None:
    both = State(recording=RECORDING, benchmark=MEASURING)
    for state in (State(), State(replay=REPLAY)):
        runs = describe_running_work(state, (StartAnalysis(1),), includes_recording=True)
        assert runs == ["an analysis is running"]
    names = ["a recording is running", "a benchmark is running"]
    assert describe_running_work(both, (), includes_recording=True) == names
    assert describe_running_work(both, (), includes_recording=False) == names[1:], (
        "the settings began it"
    )
    over = BenchmarkView(planned=MEASURING.planned, summed=BenchmarkSummed(2, "no room", True))
    assert describe_running_work(State(benchmark=over), (), includes_recording=True) == []
    assert describe_running_work(State(), (), includes_recording=True) == []


def test_a_transfer_of_every_kind_would_end() -> None:
    transfers = (
        BackUp(1, "S", "/a"), RestoreBackup(2, "/a"), PutFile(3, "F", "a", "/a"),
        GetFile(4, "F", "a", "/a"), InspectBackup(5, "/a"),
        ExportSelection(6, "/a", "csv", ("S",), ()), ChangeSession(7, "pack", "/a", "/b"),
        ChangeSession(8, "pack redacted", "/a", "/c"), ChangeSession(9, "note", "/a", "text"),
    )  # fmt: skip
    assert describe_running_work(State(), transfers, includes_recording=False) == [
        "a backup is running", "a restore is running", "an upload is running",
        "a download is running", "an export is running", "a recording is being packed",
        "a recording is being packed",
    ]  # fmt: skip


async def asked_to_leave(viewer: Viewer, reason: str, key: str = "q") -> None:
    await viewer.press(key)
    await viewer.until(lambda: isinstance(viewer.app.screen, PickDialog), "the question")
    assert reason in viewer.words
    await viewer.press("escape")
    await viewer.until(lambda: not isinstance(viewer.app.screen, PickDialog), "it stays")


async def test_who_leaves_during_a_backup_whose_screen_was_left_is_asked_until_it_ends() -> None:
    async with fed(*engine_records({"S": ()})) as viewer:
        await viewer.until(lambda: viewer.rows().get("S"), "the stream")
        await viewer.type_command("backup S /kept")
        await viewer.until(lambda: viewer.sent(BackUp), "it begins")
        await viewer.press("escape", "down", "enter")
        await viewer.until(lambda: len(viewer.app.screen_stack) == 1, "its screen is left")
        await asked_to_leave(viewer, "a backup is running")
        command_id = viewer.sent(BackUp)[0].command_id
        await viewer.feed(Answered(1, command_id, "done", "S: 1 message"))
        await viewer.until(lambda: "S: 1 message" in viewer.said, "it ended")
        await viewer.press("q")
        await viewer.until(lambda: viewer.app.return_code == 0, "it left")


async def goes_on(viewer: Viewer) -> None:
    polls = len(viewer.app.state.costs)
    await viewer.until(lambda: len(viewer.app.state.costs) > polls, "polls")


async def test_who_leaves_while_it_is_recorded_is_asked_whatever_became_of_the_recording() -> None:
    async with fed(*engine_records({})) as viewer:

        async def changed(reason: str | None = None, *, on: bool = True) -> None:
            await viewer.feed(replace(RECORDING, on=on, reason=reason))

        for count in (1, 2):
            await viewer.press("R")
            await viewer.until(lambda: len(viewer.sent(StartRecording)) == count, "it begins")  # noqa: B023
            if count == 1:
                await changed("the folder cannot be made", on=False)
                await viewer.until(lambda: "cannot be made" in viewer.said, "it cannot begin")
        await changed()
        await viewer.until(lambda: "● REC" in viewer.words, "it records")
        await changed("the folder was removed")
        await viewer.until(lambda: "the folder was removed" in viewer.said, "that it is gone")
        await changed()
        await viewer.until(
            lambda: viewer.app.state.recording and viewer.app.state.recording.reason is None,
            "recording resumed",
        )
        for stays in ("escape", "enter"):
            await viewer.press("q")
            await viewer.until(lambda: isinstance(viewer.app.screen, PickDialog), "the question")
            assert "a recording is running" in viewer.words
            await viewer.press(stays)
            await viewer.until(lambda: not isinstance(viewer.app.screen, PickDialog), "it stays")
            assert viewer.app.return_code is None
        await viewer.press("q")
        await viewer.until(lambda: isinstance(viewer.app.screen, PickDialog), "the question")
        await viewer.press("down", "enter")
        await viewer.until(lambda: viewer.app.return_code == 0, "it left")


@pytest.mark.long
async def test_a_recording_that_runs_again_after_its_folder_was_removed_is_left_after_a_question(
    account: Account, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    in_the_way = tmp_path / "sessions"
    in_the_way.write_text("a file")
    monkeypatch.setenv("NATSTUI_SESSION_FOLDER", str(in_the_way / "of this test"))
    async with viewing(account.url, size=(120, 40)) as viewer:
        await viewer.press("R")
        await viewer.until(lambda: "cannot" in viewer.said, "that it cannot begin")
        await goes_on(viewer)
        in_the_way.unlink()
        await viewer.press("R")
        await viewer.until(lambda: "● REC" in viewer.words, "it records")
        recording = viewer.app.state.recording
        assert recording is not None and recording.folder is not None
        folder = Path(recording.folder)
        shutil.rmtree(folder)
        await viewer.until(lambda: "the folder was removed" in viewer.said, "that it is gone")
        await goes_on(viewer)
        await viewer.until(
            lambda: viewer.app.state.recording and viewer.app.state.recording.reason is None,
            "recording resumed",
        )
        for stays in ("escape", "enter"):
            await viewer.press("q")
            await viewer.until(lambda: isinstance(viewer.app.screen, PickDialog), "the question")
            assert "a recording is running" in viewer.words
            await viewer.press(stays)
            await viewer.until(lambda: not isinstance(viewer.app.screen, PickDialog), "it stays")
            assert viewer.app.return_code is None
        await viewer.press("q")
        await viewer.until(lambda: isinstance(viewer.app.screen, PickDialog), "the question")
        await viewer.press("down", "enter")
        await viewer.until(lambda: viewer.app.return_code == 0, "it left")
    gaps = [record for record in Recording(folder).records() if isinstance(record, Gap)]
    assert len(gaps) == 1 and "removed" in gaps[0].reason


async def test_who_leaves_while_nothing_runs_is_not_asked() -> None:
    async with fed(*engine_records({})) as viewer:
        await viewer.press("q")
        await viewer.until(lambda: viewer.app.return_code == 0, "it left")


async def test_who_leaves_a_replay_while_its_engine_exports_is_asked_and_may_stay(
    tmp_path: Path,
) -> None:
    scenario = Scenario(streams=2, consumers=2)
    folder = made(tmp_path / "sessions", [*scenario.beginning(), *scenario.records(0, 20)])
    make_ready()
    async with fed(*engine_records({})) as viewer:
        viewer.app.post_message(Replay(str(folder)))
        await viewer.until(lambda: viewer.app.parts.engines.is_replaying, "the replay")
        await viewer.until(
            lambda: (
                isinstance(viewer.app.screen, LiveScreen) and viewer.app.screen.has_previous_screen
            ),
            "the key that leaves it",
        )
        with frozen(viewer):
            viewer.app.engine.request(ExportSelection(0, "/a", "csv", ("S",), ()))
            for key in ("q", "ctrl+q"):
                await asked_to_leave(viewer, "an export is running", key)
            await viewer.type_command("live")
            await viewer.until(lambda: isinstance(viewer.app.screen, PickDialog), "the question")
            await viewer.press("escape")
            await viewer.until(lambda: isinstance(viewer.app.screen, LiveScreen), "it stays")
            viewer.app.post_message(Replay(str(folder)))
            await viewer.until(lambda: isinstance(viewer.app.screen, PickDialog), "the question")
            await viewer.press("escape")
            await viewer.until(lambda: isinstance(viewer.app.screen, LiveScreen), "it stays")
            assert viewer.app.parts.engines.is_replaying
            await viewer.press("q")
            await viewer.until(lambda: isinstance(viewer.app.screen, PickDialog), "the question")
            await viewer.press("down", "enter")
            await viewer.until(lambda: not viewer.app.parts.engines.is_replaying, "it is left")
            await viewer.until(lambda: isinstance(viewer.app.screen, SessionsScreen), "the list")
