"""The demo: how soon it is ready, how soon it is gone, and what it costs while it runs."""

from __future__ import annotations

import resource
import subprocess
import sys
import time
from statistics import median

_RUN_S = 30


def main() -> None:
    """Print the medians of five starts, and the CPU share over half a minute."""
    ready_s, gone_s = zip(*(_start_and_stop(0) for _ in range(5)), strict=True)
    print(f"ready after {median(ready_s):.2f} s (wanted: 2), gone after {median(gone_s):.2f} s")
    before_s = _cpu_s()
    _start_and_stop(0)
    start_s, before_s = _cpu_s() - before_s, _cpu_s()
    _start_and_stop(_RUN_S)
    share = (_cpu_s() - before_s - start_s) / _RUN_S
    print(f"three servers and traffic: {share:.1%} of a core (wanted: 15%)")


def _start_and_stop(run_s: float) -> tuple[float, float]:
    """Return the seconds from start to URL, and from the request to stop to the end."""
    began_s = time.monotonic()
    command = [sys.executable, "-m", "natstui", "demo", "--headless"]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as demo:
        assert demo.stdout is not None
        demo.stdout.readline()
        ready_s = time.monotonic() - began_s
        time.sleep(0.5 + run_s)
        asked_s = time.monotonic()
        demo.terminate()
    return ready_s, time.monotonic() - asked_s


def _cpu_s() -> float:
    """Return the CPU time of every process that has ended below this one."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime
