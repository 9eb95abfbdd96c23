"""The replay process speaks the engine's language: records on stdout, commands on stdin."""

from __future__ import annotations

import gzip
import os
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace

import pytest

from natstui.config.settings import Viewer
from natstui.engine import replay as replay_process
from natstui.engine.replay import ReplayProcess
from natstui.lines import decode_record, encode_command
from natstui.model.live.snapshot import Snapshot
from natstui.model.live.state import State
from natstui.model.records.messages import Answered
from natstui.model.records.record import Command, EngineStarted, Noted, Record, SetInterval
from natstui.model.records.recording import (
    ChangeSpeed,
    PauseReplay,
    Play,
    ReplayMarks,
    ReplayPosition,
    ReplayReset,
    SeekMark,
    SeekTo,
    Step,
)
from natstui.session.files.entry import RecordSplitter
from natstui.session.files.folder import list_segments
from natstui.session.files.keyframe import KeyframeBuilder
from natstui.session.read.player import Player
from natstui.session.read.recording import Recording
from natstui.session.share.verify import verify
from natstui.session.write.recording_folder import RecordingFolder
from natstui.session.write.settings import RecorderSettings
from tests.cli.processes import NatstuiProcess
from tests.session.making import Maker, fold, made, wait_until
from tests.session.scenario import START_US, Scenario
from tests.session.test_seek import facts

pytestmark = [pytest.mark.slow, pytest.mark.xdist_group("replay")]

LAST_S = 150


def second(number: float) -> int:
    return START_US + round(number * 1e6)


class Replay:
    """A replay process and the state its lines fold into."""

    def __init__(self, folder: Path, *options: str) -> None:
        commands, write_end = os.pipe()
        self._process = NatstuiProcess("replay-engine", str(folder), *options, stdin=commands)
        os.close(commands)
        self._stdin = os.fdopen(write_end, "wb")
        self.state = State()
        self.heard: list[Record] = []
        self.started = self.next()
        self.until_position()

    def next(self) -> Record:
        record = decode_record(self._process.stdout.readline().encode())
        self.heard.append(record)
        self.state = self.state.after(record)
        return record

    def until_position(self) -> ReplayPosition:
        while not isinstance(record := self.next(), ReplayPosition):
            pass
        return record

    def ask(self, command: Command) -> ReplayPosition:
        """Send a command and take everything up to the position it leads to."""
        self._stdin.write(encode_command(command))
        self._stdin.flush()
        return self.until_position()

    def close(self) -> int | None:
        self._stdin.close()
        self._process.communicate(timeout=60)
        return self._process.returncode


@pytest.fixture(scope="module")
def records() -> list[Record]:
    scenario = Scenario(streams=2, consumers=4)
    return [*scenario.beginning(), *scenario.records(0, LAST_S)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, records: list[Record]) -> Path:
    return made(tmp_path_factory.mktemp("sessions"), records, polls_per_segment=40)


@pytest.fixture(scope="module")
def running(folder: Path) -> Iterator[Replay]:
    """One replay for the tests that leave its recording as it is."""
    replay = Replay(folder, "--paused")
    yield replay
    assert replay.close() == 0


@pytest.fixture
def replay(running: Replay) -> Replay:
    """The replay, paused at its beginning, at its lowest speed."""
    running.ask(PauseReplay(0))
    running.ask(ChangeSpeed(0, -99))
    running.ask(SeekTo(0, START_US))
    return running


def live(records: list[Record], at_us: int) -> dict[str, object]:
    state = fold(
        record
        for record in records
        if (record.taken_at_us if isinstance(record, Snapshot) else record.at_us) <= at_us
    )
    return without_replay(state)


def without_replay(state: State) -> dict[str, object]:
    known = facts(state)
    return {name: fact for name, fact in known.items() if not name.startswith("replay")}


def test_the_viewer_hears_who_records_then_marks_then_the_beginning(running: Replay) -> None:
    kinds = [type(record) for record in running.heard]
    assert kinds[:4] == [EngineStarted, ReplayMarks, ReplayReset, EngineStarted]
    assert isinstance(running.started, EngineStarted) and running.started.read_only
    position = next(record for record in running.heard if isinstance(record, ReplayPosition))
    assert not position.playing and not position.recording
    assert (position.start_at_us, position.end_at_us) == (START_US, second(149))


def test_seeking_and_stepping_both_ways_shows_what_was_live(
    replay: Replay, records: list[Record]
) -> None:
    for place, at_us in enumerate((second(100.5), second(3.2), second(81.9))):
        assert replay.ask(SeekTo(place, at_us)).at_us == at_us
        assert without_replay(replay.state) == live(records, at_us)
    assert replay.ask(Step(4, 1)).at_us == second(82)
    forward = without_replay(replay.state)
    assert forward == live(records, second(82))
    assert replay.ask(Step(5, -3)).at_us == second(79)
    assert without_replay(replay.state) == live(records, second(79))
    assert replay.ask(Step(6, 3)).at_us == second(82)
    assert without_replay(replay.state) == forward


def test_the_ends_hold(replay: Replay) -> None:
    assert replay.ask(SeekTo(1, 0)).at_us == START_US
    assert replay.ask(Step(2, -1)).at_us == START_US
    end_us = replay.ask(SeekTo(3, 2**62)).at_us
    assert end_us == second(149)
    assert replay.ask(Step(4, 5)).at_us == end_us


def test_one_jumps_from_mark_to_mark(replay: Replay) -> None:
    marks = next(record for record in replay.heard if isinstance(record, ReplayMarks)).marks
    assert {mark.kind for mark in marks} >= {"note", "advisory", "unavailable", "configuration"}
    replay.ask(SeekTo(1, second(39)))
    at_us = replay.ask(SeekMark(2, forward=True)).at_us
    assert (at_us, replay.state.recent_events[-1].at_us) == (second(40) + 1002, at_us)
    assert replay.ask(SeekMark(3, forward=False)).at_us == second(36) + 1001


def test_playing_goes_through_to_the_end_and_stops(replay: Replay, records: list[Record]) -> None:
    replay.ask(SeekTo(1, second(140)))
    assert replay.ask(ChangeSpeed(2, 99)).speed_ratio == 64.0
    position = replay.ask(Play(3))
    assert position.playing
    while position.playing:
        position = replay.until_position()
    assert position.at_us == position.end_at_us
    assert without_replay(replay.state) == live(records, position.at_us)


def test_pausing_holds_the_moment(replay: Replay) -> None:
    replay.ask(Play(1))
    position = replay.ask(PauseReplay(2))
    while position.playing:
        position = replay.until_position()
    assert replay.ask(ChangeSpeed(3, 1)).at_us == position.at_us


def test_the_time_that_a_seek_takes_is_not_played(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    now_s = [0.0]
    seek = Player.seek

    def slow_seek(player: Player, at_us: int) -> Iterator[bytes]:
        now_s[0] += 1
        return seek(player, at_us)

    (stdin, commands), (lines, stdout) = os.pipe(), os.pipe()
    monkeypatch.setattr(Player, "seek", slow_seek)
    monkeypatch.setattr(replay_process, "_STDIN", stdin)
    monkeypatch.setattr(replay_process, "_STDOUT", stdout)
    clock = SimpleNamespace(monotonic=lambda: now_s[0], time_ns=time.time_ns)
    monkeypatch.setattr(replay_process, "time", clock)
    process = ReplayProcess(Recording(folder), Viewer(), folder.parent)
    os.write(commands, encode_command(ChangeSpeed(1, 99)) + encode_command(SeekTo(2, second(20))))
    with ThreadPoolExecutor(1) as pool, os.fdopen(lines, "rb") as file:
        running = pool.submit(process.run, playing=True)
        records = map(decode_record, file)
        times_us = (record.at_us for record in records if isinstance(record, ReplayPosition))
        assert next(at_us for at_us in times_us if at_us > START_US) == second(20)
        # Nothing but the seek took time of this clock.
        assert next(times_us) == second(20)
        os.close(commands)
    running.result()
    os.close(stdout)


def test_what_only_a_server_can_do_is_refused(replay: Replay) -> None:
    replay.ask(SetInterval(7, 1.0))
    outcome = replay.heard[-2]
    assert isinstance(outcome, Answered) and outcome.status == "refused"


def test_a_session_is_replayed_while_it_is_recorded(tmp_path: Path) -> None:
    scenario = Scenario(streams=2, consumers=4)
    records = [*scenario.beginning(), *scenario.records(0, 30)]
    maker = Maker(tmp_path, polls_per_segment=12)
    for record in records[:40]:
        maker.add(record)
    replay = Replay(maker.disk.folder, "--paused")
    position = replay.ask(SeekTo(1, 2**62))
    assert position.recording
    for record in records[40:]:
        maker.add(record)
    end_us = Recording(maker.disk.folder).end_us
    while position.end_at_us < end_us:
        position = replay.until_position()
    assert replay.ask(SeekTo(2, end_us)).at_us == end_us
    assert without_replay(replay.state) == live(records, end_us)
    maker.disk.finish(end_us)
    while position.recording:
        position = replay.until_position()
    assert replay.ask(SeekTo(3, second(20))).at_us == second(20)
    assert without_replay(replay.state) == live(records, second(20))
    assert replay.close() == 0


def test_a_seek_in_progress_ends_with_its_viewer(folder: Path) -> None:
    process = ReplayProcess(Recording(folder), Viewer(), folder.parent)
    process._commands.put(None)
    assert list(process._until_newer_seek(iter([b"1\n", b"2\n"]))) == [b"1\n"]
    with pytest.raises(BrokenPipeError):
        process._run_turn()


def test_what_the_recorder_writes_as_it_ends_is_replayed(tmp_path: Path) -> None:
    scenario = Scenario(streams=2, consumers=4)
    records = [*scenario.beginning(), *scenario.records(0, 30)]
    maker = Maker(tmp_path, polls_per_segment=12)
    for record in records[:-3]:
        maker.add(record)
    replay = Replay(maker.disk.folder, "--paused")
    assert replay.ask(SeekTo(1, 2**62)).recording
    for record in records[-3:]:
        maker.add(record)
    maker.disk.finish(second(30))
    end_us = Recording(maker.disk.folder).end_us
    wait_until(lambda: replay.ask(SeekTo(2, 2**62)).at_us == end_us)
    assert without_replay(replay.state) == live(records, end_us)
    assert replay.close() == 0


def test_a_replay_follows_a_recording_that_is_continued_after_its_engine_was_killed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scenario, maker = Scenario(streams=2, consumers=4), Maker(tmp_path)
    for record in [*scenario.beginning(), *scenario.records(0, 5)]:
        maker.add(record)
    folder, output = maker.disk.folder, tmp_path / "output"
    stdout = os.open(output, os.O_WRONLY | os.O_CREAT)
    monkeypatch.setattr(replay_process, "_STDOUT", stdout)
    process = ReplayProcess(Recording(folder), Viewer(), tmp_path)

    def refresh(now_s: float) -> ReplayPosition:
        process._refresh_recording(now_s)
        record = decode_record(output.read_bytes().splitlines(keepends=True)[-1])
        assert isinstance(record, ReplayPosition)
        return record

    # As the system does for a process that is killed.
    maker.disk.abandon()
    assert not refresh(1).recording
    continued = RecordingFolder(
        RecorderSettings(tmp_path), KeyframeBuilder().keyframe(second(60)), second(60), folder
    )
    continued.append(b"".join(RecordSplitter().lines(Noted(second(61), "after"), 1)))
    position = refresh(2)
    assert position.recording and position.end_at_us == second(61)
    continued.finish(second(61))
    assert not refresh(3).recording
    os.close(stdout)


def test_pausing_at_the_end_of_what_is_being_recorded_does_not_lead_to_its_start(
    tmp_path: Path,
) -> None:
    scenario, maker = Scenario(streams=2, consumers=4), Maker(tmp_path)
    for record in [*scenario.beginning(), *scenario.records(0, 5)]:
        maker.add(record)
    replay = Replay(maker.disk.folder, "--paused")
    replay.ask(SeekTo(1, 2**62))
    replay.ask(Play(2))
    position = replay.ask(PauseReplay(3))
    while position.playing:
        position = replay.until_position()
    position = replay.ask(Play(4))
    assert position.playing and position.recording
    assert position.at_us == position.end_at_us
    assert replay.close() == 0
    maker.disk.abandon()


def test_a_replay_goes_on_after_segments_that_were_deleted_before_they_were_played(
    tmp_path: Path,
) -> None:
    scenario = Scenario(streams=2, consumers=4)
    maker = Maker(tmp_path, polls_per_segment=5)
    for record in [*scenario.beginning(), *scenario.records(0, 40)]:
        maker.add(record)
    folder = maker.disk.folder
    replay = Replay(folder, "--paused")
    replay.ask(ChangeSpeed(1, 99))
    for segment in list_segments(folder)[:4]:
        segment.path.unlink()
    left = Recording(folder)
    position = replay.ask(Play(2))
    while position.at_us < left.end_us:
        position = replay.until_position()
    assert position.start_at_us == left.start_us
    assert replay.close() == 0
    maker.disk.abandon()


@pytest.mark.long
@pytest.mark.parametrize("gone", [0, -1])
def test_a_replay_tells_what_is_missing_on_its_timeline_and_at_its_end(
    tmp_path: Path, records: list[Record], gone: int
) -> None:
    folder = made(tmp_path, records, polls_per_segment=40)
    files = list_segments(folder)
    files[gone].path.unlink()
    process = NatstuiProcess("replay-engine", str(folder), "--paused")
    out, err = process.communicate(timeout=120)
    sentence = f"segment {files[gone].number} is missing"
    told = [decode_record(line) for line in out.encode().splitlines(keepends=True)]
    (marks,) = (record.marks for record in told if isinstance(record, ReplayMarks))
    assert sentence in [mark.text for mark in marks if mark.kind == "gap"]
    assert process.returncode == 6
    assert err.strip().endswith(f"{folder} is damaged: {sentence}")


def spoil(path: Path) -> None:
    """Change a byte in the middle of a file, whose size stays the same."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def test_a_spoiled_segment_is_played_through_and_told(
    tmp_path: Path, records: list[Record]
) -> None:
    folder = made(tmp_path, records, polls_per_segment=40)
    spoiled = list_segments(folder)[1].path
    spoil(spoiled)
    sentence = f"{spoiled.name} is damaged: only what can be read of it is shown"
    replay = Replay(folder, "--paused")
    start_us, end_us = replay.state.replay.start_at_us, replay.state.replay.end_at_us  # type: ignore[union-attr]
    replay.ask(ChangeSpeed(1, 6))
    replay.ask(SeekTo(2, start_us + 35_000_000))
    position = replay.ask(Play(3))
    while position.playing:
        position = replay.until_position()
    assert position.at_us == end_us
    # Older polls and events of the spoiled segment are missing, and nothing else.
    shown, told = without_replay(replay.state), live(records, end_us)
    for kept in ("stream_history", "consumer_history", "costs", "recent_events"):
        del shown[kept], told[kept]
    assert shown == told
    assert replay.state.replay_marks is not None
    assert sentence in [mark.text for mark in replay.state.replay_marks.marks]
    # One also goes into it.
    inside = replay.ask(SeekTo(4, start_us + 50_000_000))
    assert inside.at_us == start_us + 50_000_000
    assert not [record for record in replay.heard if isinstance(record, Answered)]
    assert replay.close() == 6


@pytest.mark.long
def test_a_spoiled_segment_is_opened_too_when_nothing_else_knows_what_is_in_it(
    tmp_path: Path, records: list[Record]
) -> None:
    folder = made(tmp_path, records, polls_per_segment=40)
    spoil(list_segments(folder)[0].path)
    (folder / "index.jsonl").unlink()
    replay = Replay(folder, "--paused")
    end_us = replay.state.replay.end_at_us  # type: ignore[union-attr]
    replay.ask(SeekTo(1, end_us))
    assert len(replay.state.streams) == len(fold(records).streams)
    assert replay.close() == 6


@pytest.mark.long
def test_a_replay_says_how_many_lines_are_left_out(tmp_path: Path, records: list[Record]) -> None:
    folder = made(tmp_path, records[: len(records) // 3], polls_per_segment=10_000)
    (file,) = list_segments(folder)
    plain = file.path.with_suffix("")
    plain.write_bytes(gzip.decompress(file.path.read_bytes()) + b"noise\n" * 3)
    file.path.unlink()
    replay = Replay(folder, "--paused")
    assert replay.state.replay is not None
    assert replay.state.replay.left_out_lines_count == verify(folder).unreadable_lines_count == 3
    assert replay.close() == 6
