"""An hour of the demo, quicker: viewer and engine at ten polls a second, memory once a minute.

SOAK_MINUTES (6 by default) at 10 polls a second make as many polls as ten times that at one.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.viewer import drain, in_terminal

MINUTES = float(os.environ.get("SOAK_MINUTES", "6"))
KEYS = (b"2", b"d", b"w", b"\x1b", b"3", b"4", b"1", b"d", b"\x1b", b"j")


def resident_mb(pid: int) -> float:
    """Return the resident memory of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    return next(int(line.split()[1]) for line in status.splitlines() if "VmRSS" in line) / 1024


def children(pid: int) -> list[int]:
    """Return the processes a process started."""
    return [int(p) for p in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def main() -> None:
    """Print the memory of viewer and engine over time, while keys are pressed."""
    demo = subprocess.Popen(
        [sys.executable, "-m", "natstui", "demo", "--headless"],
        stdout=subprocess.PIPE,
        stdin=subprocess.PIPE,
        text=True,
    )
    assert demo.stdout is not None
    url = demo.stdout.readline().strip()
    words = [sys.executable, "-m", "natstui", "--server", url, "--interval", "100ms"]
    pid, fd = in_terminal(words)
    drain(fd, 10)
    (engine, *_) = children(pid)
    end = time.monotonic() + MINUTES * 60
    number = 0
    while time.monotonic() < end:
        print(
            f"{MINUTES - (end - time.monotonic()) / 60:5.1f} min  "
            f"viewer {resident_mb(pid):6.1f} MB  engine {resident_mb(engine):6.1f} MB",
            flush=True,
        )
        minute = min(end, time.monotonic() + 60)
        while time.monotonic() < minute:
            os.write(fd, KEYS[number % len(KEYS)])
            number += 1
            drain(fd, 1.5)
    os.kill(pid, signal.SIGTERM)
    drain(fd, 2)
    os.waitpid(pid, 0)
    os.close(fd)
    demo.terminate()
    demo.wait()


if __name__ == "__main__":
    main()
