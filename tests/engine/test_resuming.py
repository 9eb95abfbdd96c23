"""An engine continues the recording that a killed one left, or says why it cannot."""

from __future__ import annotations

from pathlib import Path

from natstui.engine.process import _resume_recording
from natstui.engine.recording import EngineRecorder
from natstui.model.records.record import Record
from natstui.model.records.recording import Gap, RecordingChanged
from natstui.session.files.info import read_info
from natstui.session.read.recording import Recording
from natstui.session.share.verify import verify
from natstui.session.write.settings import RecorderSettings
from tests.session.test_damage import cut_off


class Told(list[Record]):
    """A sink that keeps what it is told."""

    add = list.append


def engine_recorder(sessions: Path, viewer: Told) -> EngineRecorder:
    return EngineRecorder(sessions, lambda name: RecorderSettings(sessions, name), viewer.add)


async def test_what_a_killed_engine_left_goes_on_in_its_folder_with_a_gap(tmp_path: Path) -> None:
    folder, viewer = cut_off(tmp_path), Told()
    before, left_at_us = list(Recording(folder).records()), Recording(folder).end_us
    recorder = engine_recorder(tmp_path, viewer)
    assert _resume_recording(recorder, folder, viewer)
    await recorder.close()
    assert list(tmp_path.iterdir()) == [folder]
    records = list(Recording(folder).records())
    assert records[: len(before)] == before
    (gap,) = (record for record in records if isinstance(record, Gap))
    assert (gap.from_at_us, gap.lost_records_count) == (left_at_us, 0)
    assert gap.reason == "the recording engine was killed"
    assert not read_info(folder).cut_off
    assert not verify(folder).damaged
    told = [change for change in viewer if isinstance(change, RecordingChanged)]
    assert told and {(change.folder, change.reason) for change in told} == {(str(folder), None)}
    assert not told[-1].on


async def test_what_is_gone_is_not_continued_and_the_viewer_is_told(tmp_path: Path) -> None:
    gone, viewer = tmp_path / "gone", Told()
    recorder = engine_recorder(tmp_path, viewer)
    assert not _resume_recording(recorder, gone, viewer)
    (told,) = viewer
    assert isinstance(told, RecordingChanged)
    assert (told.on, told.folder) == (False, str(gone))
    assert (told.reason or "").startswith("the recording cannot be continued: ")
    await recorder.close()
    assert list(tmp_path.iterdir()) == []
