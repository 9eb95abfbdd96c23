"""A recording goes on when its engine is killed; where it cannot, the screen says so."""

from __future__ import annotations

import os
import shutil
import signal
from pathlib import Path

import pytest

from natstui.model.live.snapshot import Snapshot
from natstui.model.records.record import EngineStarted
from natstui.model.records.recording import Gap
from natstui.session.read.recording import Recording
from natstui.session.share.verify import verify
from tests.accounts import Account
from tests.tui.viewer import Viewer, viewing

pytestmark = pytest.mark.server


@pytest.fixture
def sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("NATSTUI_SESSION_FOLDER", str(tmp_path / "sessions"))
    return tmp_path / "sessions"


def recording_now(viewer: Viewer) -> bool:
    told = viewer.app.state.recording
    return told is not None and told.on and told.reason is None


def polls_in(sessions: Path) -> int:
    """Return how many polls are in the segment that is written now."""
    return sum(path.read_bytes().count(b'"kind":"snapshot"') for path in sessions.rglob("*.jsonl"))


async def killed(viewer: Viewer) -> None:
    """Kill the engine as the system does, and wait until the screen says so."""
    os.kill(viewer.app.link.pid, signal.SIGKILL)
    # In one look, and often: the next engine may be there, and record, soon after.
    await viewer.until(
        lambda: not recording_now(viewer) and "● REC" not in viewer.words,
        "the recording is interrupted",
        every_s=0.02,
    )


async def test_a_recording_goes_on_in_the_next_engine_and_one_that_cannot_is_said(
    account: Account, sessions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Every engine starts a recording, except the one that has to go on with another.
    monkeypatch.setenv("NATSTUI_SESSION_RECORD", "true")
    async with viewing(account.url, size=(160, 40)) as viewer:
        await viewer.until(lambda: recording_now(viewer), "recording")
        await viewer.until(lambda: "● REC" in viewer.words, "it is shown")
        await viewer.until(lambda: polls_in(sessions) > 1, "something is recorded")
        await killed(viewer)
        await viewer.until(lambda: recording_now(viewer), "it goes on")
        await viewer.until(lambda: polls_in(sessions) > 0, "something more is recorded")
        await viewer.press("R")
        await viewer.until(lambda: not viewer.app.state.recording.on, "stopped")  # type: ignore[union-attr]
        (folder,) = sessions.iterdir()
        is_whole_with_one_gap(folder)

        shutil.rmtree(folder)
        # The next engine would start none; it is to go on with what the key began.
        monkeypatch.delenv("NATSTUI_SESSION_RECORD")
        await viewer.press("R")
        await viewer.until(lambda: recording_now(viewer), "recording again")
        await killed(viewer)
        shutil.rmtree(next(sessions.iterdir()))
        await viewer.until(lambda: not viewer.app.state.recording.on, "given up")  # type: ignore[union-attr]
        await viewer.until(lambda: "cannot be continued" in viewer.said, "it is said")
        assert "● REC" not in viewer.words
        await viewer.until(lambda: "● connected" in viewer.words, "connected")
        await viewer.press("R")
        await viewer.until(lambda: recording_now(viewer), "recording once more")


def is_whole_with_one_gap(folder: Path) -> None:
    recording = Recording(folder)
    records = list(recording.records())
    (gap,) = (record for record in records if isinstance(record, Gap))
    assert gap.from_at_us < gap.at_us
    polls = [record for record in records if isinstance(record, Snapshot)]
    assert any(poll.taken_at_us <= gap.from_at_us for poll in polls)
    assert any(poll.taken_at_us >= gap.at_us for poll in polls)
    assert sum(isinstance(record, EngineStarted) for record in records) <= 2
    assert recording.info.ended_at_us is not None and not recording.info.cut_off
    assert recording.info.records_count["gap"] == 1
    # The poll in the first keyframe was taken before the recording.
    assert recording.info.records_count["snapshot"] in (len(polls) - 1, len(polls))
    assert not verify(folder).damaged
