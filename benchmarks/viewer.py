"""What watching 10,000 streams and 100,000 consumers costs the viewer, and how fast keys answer.

In a real pseudo-terminal of 160 × 40; figures are processor time of the viewer's process.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import statistics
import struct
import sys
import tempfile
import termios
import time
from pathlib import Path

SECONDS = 15
KEYS_TIMED = 40


def in_terminal(argv: list[str]) -> tuple[int, int]:
    """Start a command in a pseudo-terminal; return its process id and our end of it."""
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(TERM="xterm-256color", COLORTERM="truecolor")
        os.execv(argv[0], argv)
    fcntl.ioctl(fd, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
    return pid, fd


def drain(fd: int, for_s: float) -> bytes:
    """Read what comes within a time."""
    got, end = b"", time.monotonic() + for_s
    while (left := end - time.monotonic()) > 0:
        if select.select([fd], [], [], left)[0]:
            with contextlib.suppress(OSError):
                got += os.read(fd, 1 << 16)
    return got


def key_to_frame_ms(fd: int, there: bytes, back: bytes) -> list[float]:
    """Press keys and time each until something is drawn."""
    times = []
    for number in range(KEYS_TIMED):
        drain(fd, 0.12)
        start = time.perf_counter()
        os.write(fd, there if number % 20 < 10 else back)
        if select.select([fd], [], [], 2)[0]:
            times.append((time.perf_counter() - start) * 1000)
    return sorted(times)


def measure(title: str, streams: int, consumers: int, keys: str) -> None:
    """Print one row: processor share, frames, key latency."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "figures.json"
        module = [sys.executable, "-m", "benchmarks._viewer_run"]
        pid, fd = in_terminal(
            [*module, str(streams), str(consumers), keys, str(SECONDS), str(file)]
        )
        while not file.exists():
            drain(fd, 0.5)
        figures = json.loads(file.read_text())
        times = key_to_frame_ms(fd, *((b"w", b"w") if "d" in keys else (b"j", b"k")))
        os.kill(pid, signal.SIGTERM)
        drain(fd, 1.0)
        os.waitpid(pid, 0)
        os.close(fd)
    p95 = times[int(len(times) * 0.95) - 1]
    print(
        f"{title:34} cpu {figures['cpu_percent']:5.1f} %  "
        f"frame {figures['frame_ms_median']:5.1f} ms (p95 {figures['frame_ms_p95']:5.1f})  "
        f"key → frame {statistics.median(times):5.1f} ms (p95 {p95:5.1f})  "
        f"{figures['polls_per_s']:.2f} polls/s",
        flush=True,
    )


def main() -> None:
    """Measure the tables at scale, and a detail screen with live charts."""
    measure("10,000 streams at 1 Hz", 10_000, 0, "1")
    measure("100,000 consumers at 1 Hz", 100, 100_000, "2")
    measure("consumer detail, charts, 1,000", 100, 1_000, "2d")


if __name__ == "__main__":
    main()
