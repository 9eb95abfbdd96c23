"""What the live benchmark screen costs the benchmark, and how fast it answers keys meanwhile.

The heaviest run (core 1 → 1 as fast as possible, every latency taken) with and without the screen
in a real pseudo-terminal of 160 × 40, in turns; prints medians, their ratio and key latencies.
`NATSTUI_BENCH_SCALE=0.2` makes the runs shorter.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.viewer import drain, in_terminal
from natstui.jetstream.testbed.broker import Broker
from natstui.units import rate_text

ROUNDS = 3
RUN_S = 8 * float(os.environ.pop("NATSTUI_BENCH_SCALE", "1"))
KEYS_A_LINE = 12
BETWEEN_KEYS_S = 0.12
SCENARIO = """
title = "screen"
duration = "{run_s}s"
warmup = "1s"
[[role]]
name = "subscribers"
pattern = "subscribe"
[[role]]
name = "publishers"
pattern = "publish"
"""


def _until(fd: int, word: bytes, within_s: float = 30.0) -> None:
    """Read what is drawn until a word is."""
    got, give_up = b"", time.monotonic() + within_s
    while word not in got:
        if time.monotonic() > give_up:
            raise SystemExit(f"never drawn: {word!r}")
        got += drain(fd, 0.1)
    drain(fd, 0.5)


def _type(fd: int, text: str) -> None:
    """Type as a person does, if a quick one."""
    for letter in text:
        os.write(fd, letter.encode())
        drain(fd, 0.5 if letter == ":" else 0.02)


class Runs:
    """Runs the scenario, with the screen or without; both save their results."""

    def __init__(self, url: str, folder: Path) -> None:
        self._library = folder / "runs"
        config, self._scenario = folder / "config.toml", folder / "screen.toml"
        config.write_text(f'[benchmark]\nfolder = "{self._library}"\n', encoding="utf-8")
        self._scenario.write_text(SCENARIO.format(run_s=RUN_S), encoding="utf-8")
        self._natstui = [sys.executable, "-P", "-m", "natstui"]
        self._flags = ["--server", url, "--config", str(config)]
        self.keys_ms: list[float] = []

    def _newest(self, known: int) -> dict[str, Any] | None:
        """Return the newest result, once there are more than known before."""
        files = sorted(self._library.glob("*.json"), key=lambda file: file.stat().st_mtime)
        if len(files) <= known:
            return None
        newest: dict[str, Any] = json.loads(files[-1].read_bytes())
        return newest

    def _count(self) -> int:
        return len(list(self._library.glob("*.json")))

    def without(self) -> dict[str, Any]:
        """Run headless."""
        known = self._count()
        words = [*self._natstui, "bench", str(self._scenario), *self._flags]
        subprocess.run(words, check=True, capture_output=True)
        found = self._newest(known)
        assert found is not None
        return found

    def with_screen(self) -> dict[str, Any]:
        """Run from the screen, and press keys all the while."""
        known = self._count()
        pid, fd = in_terminal([*self._natstui, *self._flags])
        _until(fd, b"connected")
        _type(fd, f":bench {self._scenario}\r")
        _until(fd, b"steady")
        ends = time.monotonic() + RUN_S - 2.5
        while time.monotonic() < ends:
            self._type_a_line(fd)
        while (found := self._newest(known)) is None:
            drain(fd, 0.2)
        os.kill(pid, signal.SIGTERM)
        drain(fd, 1.0)
        os.waitpid(pid, 0)
        os.close(fd)
        return found

    def _type_a_line(self, fd: int) -> None:
        """Type into the command line and time each letter until it is drawn."""
        os.write(fd, b":")
        drain(fd, 0.3)
        for count in range(1, KEYS_A_LINE + 1):
            drain(fd, BETWEEN_KEYS_S)
            started, got = time.perf_counter(), b""
            os.write(fd, b"Z")
            while b"Z" * count not in got and time.perf_counter() - started < 2:
                if select.select([fd], [], [], 0.5)[0]:
                    with contextlib.suppress(OSError):
                        got += os.read(fd, 1 << 16)
            self.keys_ms.append((time.perf_counter() - started) * 1000)
        os.write(fd, b"\x1b")
        drain(fd, 0.3)


def _p95(times_ms: list[float]) -> float:
    return sorted(times_ms)[int(len(times_ms) * 0.95) - 1]


def main() -> None:
    """Measure in turns and print."""
    rates: dict[bool, list[float]] = {False: [], True: []}
    with Broker() as broker, tempfile.TemporaryDirectory() as folder:
        runs = Runs(broker.url, Path(folder))
        for number in range(2 * ROUNDS):
            # Each goes first as often: machines grow warm, and others come and go.
            screen = number % 4 in (1, 2)
            found = runs.with_screen() if screen else runs.without()
            assert found["results"][0]["verdict"] == "ok", found["results"][0]["notes"]
            rates[screen].append(found["metrics"]["receive_rate"])
            word = "with the screen" if screen else "without"
            keys = f", key → drawn {_p95(runs.keys_ms):.1f} ms p95 so far" if screen else ""
            print(f"{word:<18}{rate_text(rates[screen][-1]):>8} msgs/s{keys}", flush=True)
    without, with_it = (statistics.median(rates[screen]) for screen in (False, True))
    print(f"with / without    {with_it / without:8.3f}")
    print(
        f"key → drawn       {statistics.median(runs.keys_ms):8.1f} ms median,"
        f" {_p95(runs.keys_ms):.1f} ms p95 of {len(runs.keys_ms)} keys"
    )


if __name__ == "__main__":
    main()
