"""How long until something is to be seen: `natstui --version`, first frame, first data.

From starting the interpreter, in a real pseudo-terminal, on a real server.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import statistics
import subprocess
import sys
import time

from benchmarks.viewer import drain, in_terminal
from natstui.jetstream.testbed.broker import Broker

RUNS = 5


def version_s() -> float:
    """Time `natstui --version`."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-m", "natstui", "--version"], capture_output=True, check=True)
    return time.perf_counter() - start


def import_s(module: str) -> float:
    """Time an import in a new interpreter, as a measure of the machine."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", f"import {module}"], check=True)
    return time.perf_counter() - start


def frames_s(url: str) -> tuple[float, float]:
    """Return when the table's titles, and when a stream's name, reached the terminal."""
    start = time.perf_counter()
    pid, fd = in_terminal([sys.executable, "-m", "natstui", "--server", url])
    seen, frame_s, data_s = b"", 0.0, 0.0
    while not data_s and time.perf_counter() - start < 20:
        if select.select([fd], [], [], 0.05)[0]:
            with contextlib.suppress(OSError):
                seen += os.read(fd, 1 << 16)
        if not frame_s and b"INGEST" in seen:
            frame_s = time.perf_counter() - start
        if b"ORDERS" in seen:
            data_s = time.perf_counter() - start
    os.kill(pid, signal.SIGTERM)
    drain(fd, 0.5)
    os.waitpid(pid, 0)
    os.close(fd)
    return frame_s, data_s


def main() -> None:
    """Print medians of five runs."""
    version = statistics.median(version_s() for _ in range(RUNS))
    with Broker() as broker:
        subprocess.run([sys.executable, "-c", _MAKE_STREAM, broker.url], check=True)
        runs = [frames_s(broker.url) for _ in range(RUNS)]
    textual = statistics.median(import_s("textual.app") for _ in range(RUNS))
    frame = statistics.median(run[0] for run in runs)
    data = statistics.median(run[1] for run in runs)
    print(f"natstui --version   {version:.3f} s")
    print(f"first frame         {frame:.3f} s")
    print(f"first data          {data:.3f} s ({data - frame:+.3f} s)")
    print(f"import textual.app  {textual:.3f} s in the same minute: the floor of any Textual app")


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
