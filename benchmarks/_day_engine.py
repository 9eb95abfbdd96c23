"""An engine that lives through a day in minutes, and records it: started by `soak.py`.

DAY_HOURS hours of polls, DAY_STEP_S seconds apart by its own clock, as fast as the viewer takes
them. Each hour it writes a line to DAY_FOLDER/hours: its memory.
"""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.recording import PollClock
from natstui.lines import encode_record
from natstui.model.records.record import Record
from natstui.session.files.keyframe import KeyframeBuilder
from natstui.session.write.recorder import Clock, Recorder
from natstui.session.write.settings import RecorderSettings
from tests.session.scenario import START_US, Scenario

STREAMS_COUNT, CONSUMERS_COUNT = 10, 20
"""As many as the demo has."""
MINUTE_S, HOUR_S = 60, 3600


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if "VmRSS" in line) / 1024


def polls(hours: float, step_s: int, clock: PollClock) -> Iterator[tuple[int, list[Record]]]:
    """Yield the seconds of a day, and what an engine says then; first its beginning."""
    scenario = Scenario(STREAMS_COUNT, CONSUMERS_COUNT)
    yield 0, scenario.beginning()
    for second in range(step_s, round(hours * HOUR_S) + 1, step_s):
        clock.passed_us = second * 1_000_000
        yield second, [scenario.poll(second), *scenario.events(second, START_US + clock.passed_us)]


def read_until_the_end(ended: threading.Event) -> None:
    """Drop what the viewer asks for, at each poll anew: it is no memory of the recorder's."""
    while sys.stdin.buffer.read1():
        pass
    ended.set()


def main() -> None:
    """Write lines and a recording until the day is over, then wait for the end of stdin."""
    ended = threading.Event()
    threading.Thread(target=read_until_the_end, args=(ended,), daemon=True).start()
    folder, hours = Path(os.environ["DAY_FOLDER"]), float(os.environ["DAY_HOURS"])
    clock, out = PollClock(), sys.stdout.buffer
    recorder = Recorder(
        RecorderSettings(folder, "a day"),
        KeyframeBuilder().keyframe(0),
        lambda change: None,
        Clock(clock.now_us, clock.now_us),
    )
    with (folder / "hours").open("w", buffering=1) as progress:
        for second, records in polls(hours, int(os.environ["DAY_STEP_S"]), clock):
            for record in records:
                recorder.add(record)
                out.write(encode_record(record))
            out.flush()
            # Its clock goes with ours: it may be behind by less than a segment.
            while second % MINUTE_S == 0 and recorder.is_behind and not ended.is_set():
                time.sleep(0.001)
            if second % HOUR_S == 0:
                progress.write(f"{second // HOUR_S} {resident_mb(os.getpid()):.1f}\n")
            if ended.is_set():
                break
        else:
            progress.write("over\n")
            ended.wait()
    recorder.stop()


if __name__ == "__main__":
    main()
