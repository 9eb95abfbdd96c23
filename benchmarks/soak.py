"""A day of viewer, engine and recorder, accelerated: their memory, and the size of recordings.

First on a real server: viewer, engine and `natstui record`, at the quickest polls there are
(SOAK_MINUTES, 3 by default). Then a day of SOAK_HOURS (24) of polls SOAK_STEP_S (3) seconds apart
that an engine makes up as fast as the viewer folds them, with a recorder on the same clock. Keys
are pressed all the time.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks._day_engine import resident_mb
from benchmarks.viewer import drain, in_terminal
from natstui.session.files.folder import folder_size_bytes
from natstui.tui.kit.sparkline import sparkline

MINUTES = float(os.environ.get("SOAK_MINUTES", "3"))
HOURS = float(os.environ.get("SOAK_HOURS", "24"))
STEP_S = int(os.environ.get("SOAK_STEP_S", "3"))
POLLS_PER_S = 5
KEYS = (b"2", b"d", b"w", b"\x1b", b"3", b"4", b"1", b"d", b"\x1b", b"5", b"6", b"1", b"j")
SAMPLES = 12
NATSTUI = [sys.executable, "-m", "natstui"]


def children(pid: int) -> list[int]:
    """Return the processes a process started."""
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


@contextmanager
def viewer(words: list[str]) -> Iterator[tuple[int, int]]:
    """Run a viewer in a terminal; yield its process and our end of the terminal."""
    pid, fd = in_terminal(words)
    try:
        drain(fd, 10)
        yield pid, fd
    finally:
        os.kill(pid, signal.SIGTERM)
        drain(fd, 2)
        os.waitpid(pid, 0)
        os.close(fd)


def press_until(fd: int, end_s: float, presses_count: int) -> int:
    """Press one key after the other until a moment; return how many have been pressed."""
    while time.monotonic() < end_s:
        os.write(fd, KEYS[presses_count % len(KEYS)])
        presses_count += 1
        drain(fd, 1.5)
    return presses_count


class Curves:
    """What is measured again and again, and printed as rows and then as curves."""

    def __init__(self, *names: str) -> None:
        self._names = names
        self._rows: list[tuple[float, ...]] = []

    def add(self, moment: str, *values: float) -> None:
        """Take and print what was measured at a moment."""
        self._rows.append(values)
        told = (f"{n} {v:6.1f} MB" for n, v in zip(self._names, values, strict=True))
        print(f"  {moment:>8}  {'  '.join(told)}", flush=True)

    def draw(self) -> None:
        """Print the curve of each, and how much it grew in the second half."""
        half = self._rows[len(self._rows) // 2 :]
        for name, values in zip(self._names, zip(*self._rows, strict=True), strict=True):
            index = self._names.index(name)
            grown = half[-1][index] - half[0][index]
            print(
                f"  {name:18} {sparkline(values, len(values))}  {min(values):.1f} to "
                f"{max(values):.1f} MB, {grown:+.1f} in the second half",
                flush=True,
            )


@contextmanager
def running(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """Run a command; yield its process and the first line that it prints."""
    process = subprocess.Popen(
        [*NATSTUI, *words], stdout=subprocess.PIPE, stdin=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.terminate()
        process.wait()


def recordings_mb(folder: Path) -> float:
    """Return the size of all recordings in a folder."""
    return sum(folder_size_bytes(one) for one in folder.iterdir() if one.is_dir()) / 1e6


def on_a_server(folder: Path) -> None:
    """Watch and record the demo's server at the quickest polls."""
    with running("demo", "--headless") as (_, url):
        _watched_and_recorded(folder, url)


def _watched_and_recorded(folder: Path, url: str) -> None:
    where = ["--server", url]
    os.environ["NATSTUI_MONITOR_INTERVAL_S"] = str(1 / POLLS_PER_S)
    polls_count = MINUTES * 60 * POLLS_PER_S
    print(f"{MINUTES:g} minutes of the demo, {polls_count:g} polls: as many as in "
          f"{polls_count / 3600:.1f} hours")  # fmt: skip
    curves, presses_count = Curves("viewer", "engine", "record", "recording"), 0
    recording = running("record", *where, "--sessions", str(folder))
    with recording as (recorder, _), viewer([*NATSTUI, *where]) as (pid, fd):
        engine, began_s = children(pid)[0], time.monotonic()
        for sample in range(SAMPLES + 1):
            minutes = MINUTES * sample / SAMPLES
            presses_count = press_until(fd, began_s + 60 * minutes, presses_count)
            memory = (resident_mb(one) for one in (pid, engine, recorder.pid))
            curves.add(f"{minutes:.1f} min", *memory, recordings_mb(folder))
    curves.draw()


def of_a_day(folder: Path) -> None:
    """Watch and record a day that passes in minutes."""
    print(f"{HOURS:g} hours of polls, {STEP_S} s apart by the clock of who makes them up")
    os.environ.update(DAY_FOLDER=str(folder), DAY_HOURS=str(HOURS), DAY_STEP_S=str(STEP_S))
    engine_words = f"{sys.executable} -m benchmarks._day_engine"
    curves, presses_count, told = Curves("viewer", "engine + recorder", "recording"), 0, 0
    began_s = time.monotonic()
    with viewer([*NATSTUI, "--engine", engine_words]) as (pid, fd):
        lines: list[str] = []
        while "over" not in lines:
            presses_count = press_until(fd, time.monotonic() + 2, presses_count)
            lines = (folder / "hours").read_text().split("\n")[:-1]
            for line in lines[told:]:
                if line != "over":
                    hour, engine_mb = line.split()
                    # Here: the list of all files is no memory of the recorder's.
                    size_mb = recordings_mb(folder)
                    curves.add(f"{hour} h", resident_mb(pid), float(engine_mb), size_mb)
            told = len(lines)
    curves.draw()
    print(f"  {presses_count} keys, {time.monotonic() - began_s:.0f} s")


def main() -> None:
    """Print the memory of viewer, engine and recorder, and the size of recordings, over time."""
    with tempfile.TemporaryDirectory() as folder:
        for part in (on_a_server, of_a_day):
            own = Path(folder) / part.__name__
            own.mkdir()
            part(own)


if __name__ == "__main__":
    main()
