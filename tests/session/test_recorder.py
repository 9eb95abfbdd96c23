"""What is recorded comes back, whatever the disk and the clock do."""

from __future__ import annotations

import errno
import os
import shutil
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

import pytest

from natstui.clock import steady_us, wall_us
from natstui.errors import SessionError
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.findings import FindingReport, FindingsChanged, FindingsSoFar
from natstui.model.records.record import (
    Configured,
    LinkChanged,
    Noted,
    Outcome,
    Record,
    Unavailable,
)
from natstui.model.records.recording import ClockStepped, Gap, RecordingChanged
from natstui.session.files import segment
from natstui.session.files.entry import RecordSplitter, encode_keyframe, join_parts, parse_part
from natstui.session.files.folder import is_recording, list_segments, segment_path
from natstui.session.files.info import read_info
from natstui.session.files.keyframe import KeyframeBuilder
from natstui.session.files.segment import MAX_SEGMENT_BYTES
from natstui.session.library import list_session_folders
from natstui.session.read.findings import read_findings
from natstui.session.read.recording import Recording, Span
from natstui.session.share.verify import Verdict, verify
from natstui.session.write import recording_folder
from natstui.session.write.recorder import Clock, Recorder, RecordQueue
from natstui.session.write.seal import seal
from natstui.session.write.settings import RecorderSettings
from natstui.units import bytes_text
from natstui.values import replace
from tests.session.making import Maker, fold, wait_until
from tests.session.scenario import START_US, Scenario


@dataclass
class Recorded:
    """A recorder and everything it told."""

    recorder: Recorder
    told: list[RecordingChanged] = field(default_factory=list)

    def records(self) -> list[Record]:
        """What it was given: what it found in that is left out."""
        records = Recording(self.recorder.folder).records()
        return [one for one in records if not isinstance(one, FindingsChanged | FindingsSoFar)]

    def reasons(self) -> list[str]:
        return [change.reason for change in list(self.told) if change.reason]


def spans(recorded: Recorded) -> list[Span]:
    return Recording(recorded.recorder.folder).spans


Start = Callable[..., Recorded]


@pytest.fixture
def start(tmp_path: Path) -> Start:
    def started(
        keyframes: KeyframeBuilder | None = None, clock: Clock | None = None, **rest: object
    ) -> Recorded:
        told: list[RecordingChanged] = []
        settings = RecorderSettings(tmp_path / "sessions", **rest)  # type: ignore[arg-type]
        keyframe = (keyframes or KeyframeBuilder()).keyframe(START_US)
        return Recorded(Recorder(settings, keyframe, told.append, clock), told)

    return started


def test_everything_recorded_comes_back_in_order(start: Start) -> None:
    scenario = Scenario(streams=4, consumers=100)
    records = [*scenario.beginning(), *scenario.records(0, 120)]
    recorded = start(name="all of it")
    for record in records:
        recorded.recorder.add(record)
    sentence = recorded.recorder.stop()
    assert recorded.records() == records
    assert verify(recorded.recorder.folder).findings == ()
    end = recorded.told[-1]
    assert end.on is False
    assert sentence == f"recorded {bytes_text(end.size_bytes)} into {recorded.recorder.folder}"


def test_a_recording_that_begins_later_begins_with_what_is_known(start: Start) -> None:
    scenario, memory = Scenario(), KeyframeBuilder()
    for record in [*scenario.beginning(), *scenario.records(0, 3)]:
        memory.add(record)
    recorded = start(memory)
    recorded.recorder.stop()
    kinds = [type(record).__name__ for record in recorded.records()]
    assert kinds == ["EngineStarted", "LinkChanged", "Permitted", "Configured", "Snapshot"]
    assert read_info(recorded.recorder.folder).server_name == "n1"


def test_neither_credentials_nor_payloads_are_recorded(start: Start) -> None:
    recorded = start()
    url = "nats://me:s3cret@host:4222"
    recorded.recorder.add(LinkChanged(START_US, "connected", None, server_url=url))
    recorded.recorder.add(Outcome(START_US, 1, "done", "message 7", '{"data":"s3cret"}'))
    recorded.recorder.stop()
    first, second = recorded.records()
    assert first == LinkChanged(START_US, "connected", None, server_url="nats://host:4222")
    assert second == Outcome(START_US, 1, "done", "message 7")
    assert "s3cret" not in (recorded.recorder.folder / "session.json").read_text()


def test_what_is_asked_for_may_be_recorded(start: Start) -> None:
    recorded = start(payloads=True)
    answer = Outcome(START_US, 1, "done", "message 7", '{"data":"x"}')
    recorded.recorder.add(answer)
    recorded.recorder.stop()
    assert recorded.records() == [answer]
    assert read_info(recorded.recorder.folder).payloads


def test_records_without_room_are_counted() -> None:
    waiting = RecordQueue(max_queued_rows=2)
    for number in range(5):
        waiting.add(Noted(number, "x"))
    assert len(waiting.get_all(0)) == 2
    assert (waiting.count_newly_lost(), waiting.count_newly_lost()) == (3, 0)
    waiting.add(Noted(9, "room again"))
    assert waiting.get_all(0) == [Noted(9, "room again")]


def test_segments_are_sealed_and_each_begins_with_all_that_is_known(start: Start) -> None:
    scenario = Scenario()
    recorded = start(segment_bytes=20_000)
    for record in scenario.beginning():
        recorded.recorder.add(record)
    for second in range(12):
        recorded.recorder.add(scenario.poll(second))
        recorded.recorder.add(Noted(START_US, "x" * 5000))
        wait_until(lambda: not recorded.recorder.is_behind)
    recorded.recorder.stop()
    recording = Recording(recorded.recorder.folder)
    assert len(recording.spans) >= 3
    for span in recording.spans[1:]:
        keyframe = recording.keyframe(span)
        assert keyframe is not None and keyframe.snapshot is not None
        assert len(keyframe.configured.consumers) == 6
    assert len(recorded.records()) == 5 + 24


def test_records_that_come_all_at_once_are_in_segments_of_the_usual_size(start: Start) -> None:
    may_write = threading.Event()

    def wall_us_when_allowed() -> int:
        if threading.current_thread().name == "recorder":
            may_write.wait(30)
        return wall_us()

    recorded = start(segment_bytes=100_000, clock=Clock(wall_us_when_allowed, steady_us))
    records = [Noted(START_US + number, "x" * 5000) for number in range(1500)]
    for record in records:
        recorded.recorder.add(record)
    may_write.set()
    recorded.recorder.stop()
    recording = Recording(recorded.recorder.folder)
    # 7.5 MB, of which 1 MiB is written at once.
    assert len(recording.spans) >= 6
    assert recorded.records() == records


def test_a_keyframe_larger_than_a_segment_starts_no_segment_at_every_look(start: Start) -> None:
    scenario, keyframes = Scenario(streams=2, consumers=300), KeyframeBuilder()
    for record in [*scenario.beginning(), scenario.poll(0)]:
        keyframes.add(record)
    recorded = start(keyframes, segment_bytes=20_000)
    assert len(encode_keyframe(keyframes.keyframe(START_US))) > 20_000
    for number in range(4):
        recorded.recorder.add(Noted(START_US + number, "small"))
        wait_until(lambda: not recorded.recorder.is_behind)
    recorded.recorder.add(Noted(START_US + 4, "x" * 20_000))
    wait_until(lambda: len(list_segments(recorded.recorder.folder)) == 2)
    recorded.recorder.stop()
    assert [span.index.records_count.get("noted") for span in spans(recorded)] == [5, None]


def test_what_no_reader_accepts_is_not_written_and_reported(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(segment, "MAX_LINE_BYTES", 10_000)
    recorded = start(segment_s=0)
    recorded.recorder.add(Noted(START_US, "before"))
    wait_until(lambda: not recorded.recorder.is_behind)
    recorded.recorder.add(Scenario(streams=1, consumers=50).configured(START_US))
    wait_until(recorded.reasons)
    recorded.recorder.stop()
    assert recorded.reasons()[0].startswith("not recording: a line would be longer than ")
    assert recorded.records() == [Noted(START_US, "before")]
    keyframes = KeyframeBuilder()
    keyframes.add(Scenario(streams=1, consumers=50).configured(START_US))
    with pytest.raises(SessionError, match="a line would be longer than "):
        start(keyframes)


def test_a_gap_is_written_before_the_next_segment_begins(start: Start) -> None:
    recorded = start(segment_s=0)
    recorded.recorder.add(Noted(START_US, "before"))
    wait_until(lambda: not recorded.recorder.is_behind)
    shutil.rmtree(recorded.recorder.folder)
    wait_until(recorded.reasons)
    wait_until(lambda: recorded.told[-1].reason is None)
    recorded.recorder.stop()
    (gap,) = recorded.records()
    assert isinstance(gap, Gap) and "the folder was removed" in gap.reason


def test_what_is_larger_than_a_segment_is_neither_sealed_nor_deleted(tmp_path: Path) -> None:
    path = segment_path(tmp_path, 1, sealed=False)
    path.touch()
    os.truncate(path, MAX_SEGMENT_BYTES + 1)
    with pytest.raises(OSError, match="too large for a segment"):
        seal(tmp_path, 1)
    assert path.stat().st_size == MAX_SEGMENT_BYTES + 1


def test_an_index_that_cannot_be_written_stops_neither_sealing_nor_limits(tmp_path: Path) -> None:
    maker = Maker(tmp_path / "sessions", polls_per_segment=2)
    folder, records = maker.disk.folder, list(Scenario().records(0, 9))
    maker.add(records[0])
    maker.rotate()
    # As after `cp -al`: a log that has a second name is not written.
    os.link(folder / "index.jsonl", tmp_path / "backup")
    for record in records[1:]:
        maker.add(record)
    sealed = [segment.sealed for segment in list_segments(folder)]
    assert len(sealed) > 3 and sealed == [True] * (len(sealed) - 1) + [False]
    maker.disk.finish(START_US)
    assert not read_info(folder).cut_off
    assert list(Recording(folder).records()) == records


def test_a_segment_whose_plain_file_is_gone_is_sealed(tmp_path: Path) -> None:
    segment_path(tmp_path, 1, sealed=True).touch()
    assert seal(tmp_path, 1) is None


def test_a_disk_that_does_not_finish_in_time_is_no_complete_recording(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    is_answering = threading.Event()
    recorded = start()
    recorded.recorder.add(Noted(START_US, "x"))
    wait_until(lambda: not recorded.recorder.is_behind)
    monkeypatch.setattr(os, "fsync", lambda descriptor: is_answering.wait(30))
    with pytest.raises(SessionError, match=r"not complete: its disk did not finish within 0\.1 s"):
        recorded.recorder.stop(timeout_s=0.1)
    is_answering.set()
    recorded.recorder.stop()
    assert recorded.records() == [Noted(START_US, "x")]


def test_a_recorder_that_ends_by_a_defect_is_reported_and_is_no_complete_recording(
    tmp_path: Path,
) -> None:
    changes: list[RecordingChanged] = []

    def fail_at_first(change: RecordingChanged) -> None:
        changes.append(change)
        if len(changes) == 1:
            raise ZeroDivisionError

    folder = tmp_path / "sessions"
    keyframe = KeyframeBuilder().keyframe(START_US)
    recorder = Recorder(RecorderSettings(folder), keyframe, fail_at_first)
    wait_until(lambda: len(changes) == 2)
    assert not changes[1].on
    assert changes[1].reason is not None
    assert changes[1].reason.startswith("recording failed by a defect (ZeroDivisionError); ")
    with pytest.raises(SessionError, match="not complete: it ended by a defect"):
        recorder.stop()
    assert not is_recording(recorder.folder)
    recorder.add(Noted(START_US, "too late"))
    assert not recorder.is_behind, "it would fill the memory"


def test_the_oldest_segments_go_when_there_are_too_many_bytes(start: Start) -> None:
    recorded = start(segment_bytes=10_000, max_bytes=3_000)
    for number in range(30):
        # Nothing that compresses away.
        recorded.recorder.add(Noted(START_US + number, str(Scenario(seed=number).poll(1))))
        wait_until(lambda: not recorded.recorder.is_behind)
    recorded.recorder.stop()
    numbers = [segment.number for segment in list_segments(recorded.recorder.folder)]
    assert numbers[0] > 1 and numbers == list(range(numbers[0], numbers[-1] + 1))
    dropped = read_info(recorded.recorder.folder).dropped
    assert dropped is not None and dropped.segments_count == numbers[0] - 1
    verdict = verify(recorded.recorder.folder)
    assert not verdict.damaged
    assert "were deleted because of --max-bytes" in verdict.findings[0].text


class SetClock:
    """A clock that a test lets pass, and whose wall clock it can set."""

    def __init__(self) -> None:
        self.set_us = 0
        self.passed_us = 0

    def wall_us(self) -> int:
        return wall_us() + self.passed_us + self.set_us

    def steady_us(self) -> int:
        return steady_us() + self.passed_us


def noted(recorded: Recorded) -> list[str]:
    return [record.text for record in recorded.records() if isinstance(record, Noted)]


HOUR_US = 3_600_000_000


def test_old_segments_go_when_they_are_older_than_asked_for(start: Start) -> None:
    clock = SetClock()
    recorded = start(segment_bytes=1, retain_s=3600, clock=Clock(clock.wall_us, clock.steady_us))
    folder = recorded.recorder.folder
    for number in (1, 2):
        recorded.recorder.add(Noted(clock.wall_us(), f"old {number}"))
        wait_until(lambda number=number: len(list_segments(folder)) > number)
    wait_until(
        lambda: [segment.sealed for segment in list_segments(folder)] == [True, True, False]
    )
    clock.passed_us = HOUR_US + 30_000_000
    wait_until(lambda: (dropped := read_info(folder).dropped) and dropped.segments_count == 2)
    recorded.recorder.add(Noted(clock.wall_us(), "new"))
    recorded.recorder.stop()
    assert noted(recorded) == ["new"]
    notices = [change.notice for change in recorded.told if change.notice]
    assert len(notices) == 1
    assert notices[0].startswith("--retain 1h00m has deleted 2 segments so far, of before 20")


def test_old_segments_go_while_the_disk_is_too_full_to_seal_another(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(folder: Path, number: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    clock = SetClock()
    recorded = start(segment_bytes=1, retain_s=3600, clock=Clock(clock.wall_us, clock.steady_us))
    folder = recorded.recorder.folder
    recorded.recorder.add(Noted(clock.wall_us(), "old"))
    wait_until(lambda: [segment.sealed for segment in list_segments(folder)] == [True, False])
    with monkeypatch.context() as patched:
        patched.setattr(recording_folder, "seal", full)
        recorded.recorder.add(Noted(clock.wall_us(), "not sealed"))
        wait_until(lambda: "No space left on device" in str(recorded.reasons()))
        clock.passed_us = HOUR_US + 30_000_000
        wait_until(lambda: read_info(folder).dropped)
    recorded.recorder.stop()
    assert noted(recorded) == ["not sealed"]


@pytest.mark.parametrize("step_us", [240 * HOUR_US, 2 * HOUR_US, -240 * HOUR_US])
def test_a_clock_that_is_wrong_for_a_while_deletes_nothing(start: Start, step_us: int) -> None:
    clock = SetClock()
    recorded = start(segment_bytes=1, retain_s=3600, clock=Clock(clock.wall_us, clock.steady_us))
    folder = recorded.recorder.folder

    def record(text: str) -> None:
        sealed_count = sum(segment.sealed for segment in list_segments(folder))
        recorded.recorder.add(Noted(clock.wall_us(), text))
        wait_until(lambda: sum(segment.sealed for segment in list_segments(folder)) > sealed_count)

    record("right")
    for set_us, text in ((step_us, "wrong"), (0, "right again")):
        clock.set_us = set_us
        told_count = len(recorded.reasons())
        wait_until(lambda told_count=told_count: len(recorded.reasons()) > told_count)
        record(text)
    record("last")
    recorded.recorder.stop()
    assert read_info(folder).dropped is None
    assert sorted(noted(recorded)) == sorted(["right", "wrong", "right again", "last"])
    assert recorded.reasons()[0].endswith("and --retain deletes nothing sooner because of it")
    assert not any(change.notice for change in recorded.told)


def test_a_clock_set_back_is_told_at_once_and_time_goes_on(start: Start) -> None:
    clock = SetClock()
    recorded = start(clock=Clock(clock.wall_us, steady_us))
    recorded.recorder.add(Noted(clock.wall_us(), "before"))
    wait_until(lambda: not recorded.recorder.is_behind)
    clock.set_us = -3_600_000_000
    wait_until(recorded.reasons)
    recorded.recorder.add(Noted(clock.wall_us(), "after"))
    recorded.recorder.stop()
    assert recorded.reasons()[0] == "the clock was set back by 1h00m; the recording continues"
    before, step, after = recorded.records()
    assert isinstance(step, ClockStepped) and abs(step.step_us + 3_600_000_000) < 500_000
    assert isinstance(before, Noted) and isinstance(after, Noted)
    recording = Recording(recorded.recorder.folder)
    assert recording.spans[0].end_us <= recording.spans[1].start_us <= recording.end_us
    assert recording.end_us - recording.start_us < 60_000_000


def test_a_removed_folder_is_told_and_recording_begins_again(start: Start) -> None:
    scenario = Scenario()
    recorded = start()
    for record in scenario.beginning():
        recorded.recorder.add(record)
    wait_until(lambda: not recorded.recorder.is_behind)
    shutil.rmtree(recorded.recorder.folder)
    wait_until(recorded.reasons)
    assert "the folder was removed" in recorded.reasons()[0]
    wait_until(lambda: recorded.told[-1].reason is None)
    recorded.recorder.add(scenario.poll(1))
    recorded.recorder.stop()
    records = recorded.records()
    gaps = [record for record in records if isinstance(record, Gap)]
    assert len(gaps) == 1 and gaps[0].lost_records_count == 5
    assert any(isinstance(record, Configured) for record in records)


def test_what_was_lost_is_told_even_when_the_disk_refuses_the_line_that_tells_it(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorded, refused, write = start(), [], os.write

    def full_once(descriptor: int, data: memoryview) -> int:
        if b'"kind":"gap"' in bytes(data) and not refused:
            refused.append(data)
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return write(descriptor, data)

    for number in range(5):
        recorded.recorder.add(Noted(START_US + number, "before"))
    wait_until(lambda: not recorded.recorder.is_behind)
    monkeypatch.setattr(os, "write", full_once)
    shutil.rmtree(recorded.recorder.folder)
    wait_until(lambda: refused and recorded.told[-1].reason is None)
    recorded.recorder.stop()
    gaps = [record for record in recorded.records() if isinstance(record, Gap)]
    assert sum(gap.lost_records_count for gap in gaps) == 5
    assert "No space left on device" in gaps[-1].reason


def test_a_recording_whose_recorder_was_killed_goes_on_in_its_folder_and_notes_the_gap(
    tmp_path: Path,
) -> None:
    scenario, maker = Scenario(), Maker(tmp_path, polls_per_segment=2)
    before = [*scenario.beginning(), *scenario.records(0, 5)]
    for record in before:
        maker.add(record)
    # As the system does for a process that is killed.
    maker.disk.abandon()
    folder = maker.disk.folder
    assert [segment.sealed for segment in list_segments(folder)] == [True, True, False]
    last_us = max(r.taken_at_us if isinstance(r, Snapshot) else r.at_us for r in before)
    told: list[RecordingChanged] = []
    settings = RecorderSettings(tmp_path, max_bytes=10**9)
    recorder = Recorder(settings, KeyframeBuilder().keyframe(START_US), told.append, None, folder)
    assert recorder.folder == folder and is_recording(folder)
    assert [segment.sealed for segment in list_segments(folder)] == [True, True, True, False]
    after = Noted(START_US + 60_000_000, "after")
    recorder.add(after)
    recorder.stop()
    *first, gap, last = Recorded(recorder, told).records()
    assert (first, last) == (before, after)
    assert isinstance(gap, Gap) and gap.from_at_us == last_us < gap.at_us
    assert (gap.lost_records_count, gap.reason) == (0, "the recording engine was killed")
    info = read_info(folder)
    assert info.ended_at_us is not None and not info.cut_off
    assert info.records_count["snapshot"] == 5 and info.records_count["gap"] == 1
    (finding,) = verify(folder).findings
    assert not finding.damage and "the recording engine was killed" in finding.text
    assert told[-1].size_bytes == sum(s.path.stat().st_size for s in list_segments(folder))
    assert list_session_folders(tmp_path) == [folder]


def test_what_only_a_killed_recorder_knew_ends_at_its_last_record(tmp_path: Path) -> None:
    scenario, maker = Scenario(), Maker(tmp_path)
    beginning, last_us = scenario.beginning(), START_US + 3_000_000
    ended = FindingReport("NT-C07", "ORDERS", "shipping", START_US, "", START_US + 9, "no pulls")
    left_open = replace(ended, consumer="billing")
    over = replace(ended, until_at_us=START_US + 2_000_000)
    found = (
        FindingsChanged(START_US + 1_500_000, (ended, left_open)),
        FindingsChanged(START_US + 2_000_000, (over,)),
    )
    unread = Unavailable(last_us, "CONSUMER.LIST.ORDERS", "no reply")
    for record in (*beginning, scenario.poll(1), *found, unread):
        maker.add(record)
    maker.disk.abandon()
    keyframes, folder = KeyframeBuilder(), maker.disk.folder
    keyframes.add(beginning[0])
    recorder = Recorder(
        RecorderSettings(tmp_path),
        keyframes.keyframe(START_US + 60_000_000),
        lambda change: None,
        continued_folder=folder,
    )
    recorder.add(scenario.poll(61))
    recorder.stop()
    reports = [report for report in read_findings(folder) if report.stream == "ORDERS"]
    assert reports == [over, replace(left_open, until_at_us=last_us)]
    assert fold(Recording(folder).records()).unavailable == {}


def test_a_recording_goes_on_in_no_folder_that_another_recorder_writes(tmp_path: Path) -> None:
    other, before = Maker(tmp_path).disk, len(os.listdir("/dev/fd"))
    with pytest.raises(SessionError, match="another process is recording"):
        Recorder(
            RecorderSettings(tmp_path),
            KeyframeBuilder().keyframe(START_US),
            lambda change: None,
            continued_folder=other.folder,
        )
    assert len(os.listdir("/dev/fd")) == before
    other.finish(START_US)
    assert [segment.number for segment in list_segments(other.folder)] == [1]


def test_a_disk_that_fills_as_it_begins_leaves_nothing_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int, data: memoryview) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    before = set(os.listdir("/proc/self/fd"))
    with monkeypatch.context() as patched, pytest.raises(SessionError, match="No space left"):
        patched.setattr(os, "write", full)
        Recorder(RecorderSettings(tmp_path), KeyframeBuilder().keyframe(0), lambda change: None)
    assert set(os.listdir("/proc/self/fd")) == before
    assert not is_recording(list_session_folders(tmp_path)[0])


def test_a_recording_that_cannot_begin_says_why(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    settings = RecorderSettings(tmp_path / "file" / "sessions")
    with pytest.raises(SessionError, match="cannot record into"):
        Recorder(settings, KeyframeBuilder().keyframe(0), lambda change: None)


@pytest.mark.slow
def test_adding_never_waits_for_the_disk(start: Start) -> None:
    recorded = start()
    poll = Scenario(streams=10, consumers=2000).poll(0)
    took_s = []
    for _ in range(30):
        began_s = time.perf_counter()
        recorded.recorder.add(poll)
        took_s.append(time.perf_counter() - began_s)
    # Not the mean: the machine may stop us at any of them.
    assert median(took_s) < 0.002
    recorded.recorder.stop()
    assert verify(recorded.recorder.folder).polls_count == 30


def test_rows_that_come_in_the_middle_of_a_segment_do_not_get_a_line_each() -> None:
    splitter = RecordSplitter()
    splitter.lines(Scenario(streams=300, consumers=1).poll(1), 1)
    many = Scenario(streams=300, consumers=2000).poll(2)
    lines = splitter.lines(many, 2)
    assert len(lines) < 150
    entry = join_parts([parse_part(line[:-1], 0) for line in lines])
    assert entry is not None and entry.record() == many


def test_what_a_full_disk_leaves_unsealed_is_counted_in_the_last_sentence(
    start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    recorded = start()
    for number in range(24):
        recorded.recorder.add(Noted(START_US + number, "x" * 100))
    wait_until(lambda: not recorded.recorder.is_behind)
    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", full)
        recorded.recorder.stop()
    ended = recorded.told[-1]
    assert ended.on is False and "No space left on device" in (ended.reason or "")
    assert sum(isinstance(record, Noted) for record in recorded.records()) == 24
    assert (ended.size_bytes or 0) > 24 * 100


@pytest.mark.slow
def test_what_is_being_recorded_is_never_called_damaged(start: Start) -> None:
    recorded = start(segment_bytes=10_000, max_bytes=10_000)
    verdicts: list[Verdict] = []
    with ThreadPoolExecutor(1) as pool:
        over = threading.Event()

        def verify_again_and_again() -> None:
            while not over.is_set():
                verdicts.append(verify(recorded.recorder.folder))

        verifying = pool.submit(verify_again_and_again)
        for number in range(70):
            # Each is a segment, is sealed, and pushes another out.
            recorded.recorder.add(Noted(START_US + number, str(Scenario(seed=number).poll(1))))
            wait_until(lambda: not recorded.recorder.is_behind)
        recorded.recorder.stop()
        over.set()
        verifying.result()
    assert [f.text for verdict in verdicts for f in verdict.findings if f.damage] == []
    dropped = read_info(recorded.recorder.folder).dropped
    assert verdicts and dropped is not None and dropped.segments_count > 10
