"""How long until something is to be seen: `--version`, `--help`, first frame, first data.

From starting the interpreter, in a real pseudo-terminal, on a real server.
"""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.viewer import drain, in_terminal
from natstui.jetstream.testbed.broker import Broker

RUNS = 10

_NATSTUI = (sys.executable, "-m", "natstui")
_PLAIN = {
    "natstui --version": (*_NATSTUI, "--version"),
    "natstui --help": (*_NATSTUI, "--help"),
    "import textual.app": (sys.executable, "-c", "import textual.app"),
}


def children_cpu_s() -> float:
    """Return the processor time of every child that has ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def plain_s(command: tuple[str, ...]) -> tuple[float, float]:
    """Return how long a command took, and its processor time."""
    start, before_s = time.perf_counter(), children_cpu_s()
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    return time.perf_counter() - start, children_cpu_s() - before_s


def cpu_s_of(pid: int) -> float:
    """Return the processor time of a process that runs."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def frames_s(url: str) -> tuple[float, float, float]:
    """Return when the table's titles, and when a stream's name, reached the terminal.

    And the processor time of the viewer until the first of them; the engine's is beside it.
    """
    start = time.perf_counter()
    pid, fd = in_terminal([*_NATSTUI, "--server", url])
    seen, frame_s, data_s, cpu_s = b"", 0.0, 0.0, 0.0
    while not data_s and time.perf_counter() - start < 20:
        if select.select([fd], [], [], 0.05)[0]:
            with contextlib.suppress(OSError):
                seen += os.read(fd, 1 << 16)
        if not frame_s and b"INGEST" in seen:
            frame_s, cpu_s = time.perf_counter() - start, cpu_s_of(pid)
        if b"ORDERS" in seen:
            data_s = time.perf_counter() - start
    os.kill(pid, signal.SIGTERM)
    drain(fd, 0.5)
    os.waitpid(pid, 0)
    os.close(fd)
    return frame_s, data_s, cpu_s


def main() -> None:
    """Print medians of ten runs, each of which does everything once."""
    # As it is installed: with its byte code, which a first run that is not counted writes.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    plain: dict[str, list[tuple[float, float]]] = {title: [] for title in _PLAIN}
    runs = []
    with Broker() as broker:
        subprocess.run([sys.executable, "-c", _MAKE_STREAM, broker.url], check=True)
        frames_s(broker.url)
        for _ in range(RUNS):
            for title, command in _PLAIN.items():
                plain[title].append(plain_s(command))
            runs.append(frames_s(broker.url))
    for title, timed in plain.items():
        wall_s, cpu_s = (statistics.median(each) for each in zip(*timed, strict=True))
        print(f"{title:19} {wall_s:.3f} s   cpu {cpu_s:.3f} s")
    frame_s, data_s, cpu_s = (statistics.median(each) for each in zip(*runs, strict=True))
    print(f"first frame         {frame_s:.3f} s   cpu {cpu_s:.2f} s of the viewer")
    print(f"first data          {data_s:.3f} s   {data_s - frame_s:+.3f} s")
    print(f"medians of {RUNS}, in turn; load of the machine {os.getloadavg()[0]:.1f}")


_MAKE_STREAM = """
import asyncio, sys, nats
async def main():
    nc = await nats.connect(sys.argv[1])
    await nc.jetstream().add_stream(name="ORDERS", subjects=["orders.>"])
    await nc.close()
asyncio.run(main())
"""


if __name__ == "__main__":
    main()
