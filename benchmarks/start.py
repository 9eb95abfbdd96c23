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
from typing import NamedTuple

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


def queued_s_of(pid: int) -> float:
    """Return how long the main thread of a process could have run, and others did instead."""
    return int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) / 1e9


def plain_s(command: tuple[str, ...]) -> tuple[float, float, float]:
    """Return how long a command took, its processor time, and how long it waited for one."""
    start, before_s = time.perf_counter(), children_cpu_s()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    # It has ended and is not reaped: its figures are still there.
    os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
    taken_s, queued_s = time.perf_counter() - start, queued_s_of(process.pid)
    if code := process.wait():
        raise SystemExit(f"{command} ended with {code}")
    return taken_s, children_cpu_s() - before_s, queued_s


def cpu_s_of(pid: int) -> float:
    """Return the processor time of a process that runs."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Frames(NamedTuple):
    """When the table's titles, and a stream's name, reached the terminal; and what was used."""

    frame_s: float
    data_s: float
    cpu_s: float
    """Of the viewer until the first of them; the engine's is beside it."""
    frame_queued_s: float
    """How long the viewer waited for a processor until then."""
    data_queued_s: float


def frames_s(url: str) -> Frames:
    """Start the viewer, and measure it until it shows a stream."""
    start = time.perf_counter()
    pid, fd = in_terminal([*_NATSTUI, "--server", url])
    seen, frame_s, data_s, cpu_s, frame_queued_s, data_queued_s = b"", 0.0, 0.0, 0.0, 0.0, 0.0
    while not data_s and time.perf_counter() - start < 20:
        if select.select([fd], [], [], 0.05)[0]:
            with contextlib.suppress(OSError):
                seen += os.read(fd, 1 << 16)
        if not frame_s and b"INGEST" in seen:
            frame_s, cpu_s = time.perf_counter() - start, cpu_s_of(pid)
            frame_queued_s = queued_s_of(pid)
        if b"ORDERS" in seen:
            data_s, data_queued_s = time.perf_counter() - start, queued_s_of(pid)
    os.kill(pid, signal.SIGTERM)
    # A terminal that nobody reads from holds up who writes to it, and so the end of the viewer.
    while not os.waitpid(pid, os.WNOHANG)[0]:
        drain(fd, 0.05)
    os.close(fd)
    return Frames(frame_s, data_s, cpu_s, frame_queued_s, data_queued_s)


def main() -> None:
    """Print medians of ten runs, each of which does everything once."""
    # As it is installed: with its byte code, which a first run that is not counted writes.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    plain: dict[str, list[tuple[float, float, float]]] = {title: [] for title in _PLAIN}
    runs = []
    with Broker() as broker:
        subprocess.run([sys.executable, "-c", _MAKE_STREAM, broker.url], check=True)
        frames_s(broker.url)
        for _ in range(RUNS):
            for title, command in _PLAIN.items():
                plain[title].append(plain_s(command))
            runs.append(frames_s(broker.url))
    for title, timed in plain.items():
        wall_s, cpu_s, queued_s = map(statistics.median, zip(*timed, strict=True))
        own_s = statistics.median(wall - queued for wall, _, queued in timed)
        print(f"{title:19} {wall_s:.3f} s   cpu {cpu_s:.3f} s   {_without(queued_s, own_s)}")
    frame_s, data_s, cpu_s, queued_s, _ = map(statistics.median, zip(*runs, strict=True))
    own_s = statistics.median(run.frame_s - run.frame_queued_s for run in runs)
    later_s = statistics.median(run.data_s - run.data_queued_s for run in runs) - own_s
    print(f"first frame         {frame_s:.3f} s   cpu {cpu_s:.3f} s   {_without(queued_s, own_s)}")
    print(f"first data          {data_s:.3f} s   {data_s - frame_s:+.3f} s, or {later_s:+.3f} s")
    print(f"medians of {RUNS}, in turn; load of the machine {os.getloadavg()[0]:.1f}")


def _without(queued_s: float, own_s: float) -> str:
    """Say what a busy machine added, and what is left."""
    return f"waited {queued_s:.3f} s for a processor: {own_s:.3f} s without"


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
