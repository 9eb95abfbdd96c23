"""What recording costs a consumer sample, and how long it takes to show another moment."""

from __future__ import annotations

import asyncio
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from benchmarks.server_share import cpu_s
from natstui.model.records.findings import FindingsChanged
from natstui.model.records.record import Record
from natstui.model.records.recording import ReplayPosition, SeekTo
from natstui.session.files.folder import folder_size_bytes, list_segments
from natstui.session.files.keyframe import KeyframeBuilder
from natstui.session.read.recording import Recording
from natstui.session.write.recorder import Clock, Recorder
from natstui.session.write.settings import RecorderSettings
from natstui.tui.app.follower import Follower
from natstui.tui.app.link import Link
from natstui.values import replace
from tests.session.making import Maker, wait_until
from tests.session.scenario import START_US, Scenario

STREAMS_COUNT = 20
CONSUMERS_COUNT = 1000
MINUTES = 3
HOURS = 24
SEEKS = 25


class PollClock:
    """A clock that goes one second per poll, so that minutes pass at once."""

    def __init__(self) -> None:
        self.passed_us = 0

    def now_us(self) -> int:
        """Return the time for both clocks."""
        return START_US + self.passed_us


def thread_s(name: str) -> float:
    """Return the processor time a thread of ours has used."""
    thread = next(thread for thread in threading.enumerate() if thread.name == name)
    assert thread.ident is not None
    return time.clock_gettime(time.pthread_getcpuclockid(thread.ident))


def cost(busy_ratio: float, sessions: Path) -> None:
    """Record some minutes of 1,000 consumers at 1 Hz, and print what a sample cost."""
    scenario = Scenario(streams=STREAMS_COUNT, consumers=CONSUMERS_COUNT, busy_ratio=busy_ratio)
    clock = PollClock()
    settings = RecorderSettings(sessions, f"busy {busy_ratio}")
    recorder = Recorder(
        settings,
        KeyframeBuilder().keyframe(0),
        lambda change: None,
        Clock(clock.now_us, clock.now_us),
    )
    for record in scenario.beginning():
        recorder.add(record)
    slowest_s = 0.0
    for second in range(MINUTES * 60):
        clock.passed_us += 1_000_000
        poll = scenario.poll(second)
        began_s = time.perf_counter()
        recorder.add(poll)
        slowest_s = max(slowest_s, time.perf_counter() - began_s)
        wait_until(lambda: not recorder.is_behind, 60)
    # The last segment is sealed by the next tick, and belongs to the account.
    clock.passed_us += 60_000_000
    wait_until(lambda: len(list_segments(recorder.folder)) > MINUTES, 60)
    wait_until(lambda: all(s.sealed for s in list_segments(recorder.folder)[:-1]), 60)
    used_s = thread_s("recorder")
    recorder.stop()
    samples = MINUTES * 60 * CONSUMERS_COUNT
    size_bytes = folder_size_bytes(recorder.folder)
    print(
        f"{busy_ratio:4.0%} of 1,000 consumers busy in every second:"
        f" {used_s / samples * 1e6:5.2f} µs CPU and {size_bytes / samples:5.1f} bytes a consumer"
        f" sample ({STREAMS_COUNT} streams included); the longest add took"
        f" {slowest_s * 1e6:.0f} µs"
    )


def day(hours: int) -> Iterator[Record]:
    """Yield a day of 200 consumers at 1 Hz: the same busy minutes again and again."""
    scenario = Scenario(streams=40, consumers=200)
    yield from scenario.beginning()
    # As recordings do, it holds its findings: a jump judges nothing anew.
    yield FindingsChanged(START_US, ())
    minute = [scenario.poll(second) for second in range(60)]
    for second in range(hours * 3600):
        poll = minute[second % 60]
        passed_us = second * 1_000_000
        yield replace(
            poll, taken_at_us=START_US + passed_us, taken_mono_us=5_000_000_000 + passed_us
        )
        yield from scenario.events(second, START_US + passed_us + 1000)


def seeks(sessions: Path) -> None:
    """Jump to random moments of a day, and print how long it took to have their state."""
    maker = Maker(sessions)
    for record in day(HOURS):
        maker.add(record)
    maker.disk.finish(START_US)
    folder = maker.disk.folder
    began_s = time.perf_counter()
    recording = Recording(folder)
    opened_s = time.perf_counter() - began_s
    times_s, used_s, peak_kib = _timed(folder, recording)
    print(
        f"{HOURS} h of 200 consumers at 1 Hz, {folder_size_bytes(folder) / 1e6:.0f} MB,"
        f" opened in {opened_s * 1e3:.0f} ms;\n  {SEEKS} random moments, until the state is"
        f" whole: median {statistics.median(times_s) * 1e3:.0f} ms,"
        f" slowest {max(times_s) * 1e3:.0f} ms;\n  CPU of a seek: {used_s[0] * 1e3:.0f} ms in the"
        f" replay process and, at the same time, {used_s[1] * 1e3:.0f} ms in the viewer;"
        f" {peak_kib / 1024:.0f} MiB at most in the replay process"
    )


def _timed(folder: Path, recording: Recording) -> tuple[list[float], tuple[float, float], int]:
    return asyncio.run(_seeks(folder, recording))


async def _seeks(
    folder: Path, recording: Recording
) -> tuple[list[float], tuple[float, float], int]:
    """Seek as the app does: its link, its fold; without the screen."""
    chance = random.Random(1)
    times_s: list[float] = []
    argv = [sys.executable, "-m", "natstui", "replay-engine", str(folder), "--paused"]
    link = Link(argv)
    follower = Follower(link, link.wait_started())
    records = link.records()
    await _until_whole(follower, records)
    # It makes the small parts of the recording handy now, while a person looks at the beginning.
    await asyncio.sleep(2)
    here_s, there_s = time.process_time(), cpu_s(link.pid)
    for number in range(SEEKS):
        at_us = chance.randrange(recording.start_us, recording.end_us)
        began_s = time.perf_counter()
        link.send(SeekTo(number, at_us))
        await _until_whole(follower, records)
        times_s.append(time.perf_counter() - began_s)
        state = follower.state
        assert state.replay is not None and state.replay.at_us == at_us
        assert at_us - 1_000_000 < state.costs[-1].at_us <= at_us
        assert len(state.consumers) == 200
    used_s = ((cpu_s(link.pid) - there_s) / SEEKS, (time.process_time() - here_s) / SEEKS)
    with open(f"/proc/{link.pid}/status", encoding="ascii") as file:
        peak = next(line for line in file if line.startswith("VmHWM"))
    link.close()
    return times_s, used_s, int(peak.split()[1])


async def _until_whole(follower: Follower, records: AsyncIterator[Record]) -> None:
    async for record in records:
        if follower.fold(record) and isinstance(record, ReplayPosition):
            return
    raise AssertionError("the replay ended")


def main() -> None:
    """Print both."""
    with tempfile.TemporaryDirectory() as folder:
        for busy_ratio in (0.1, 0.5, 1.0):
            cost(busy_ratio, Path(folder))
        seeks(Path(folder))
