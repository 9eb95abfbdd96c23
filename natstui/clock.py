"""The clocks: one that is never set, for durations and order, and the wall clock, for labels.

Where they differ: the steady clock counts on while the machine sleeps, which Python's
`time.monotonic` does not, so that an hour of sleep is an hour without polls and not one second.
"""

from __future__ import annotations

import time

# On macOS this one counts while the machine sleeps; `time.monotonic` is another clock there.
_STEADY = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady_us() -> int:
    """Return microseconds on a clock that is never set, and that counts while asleep."""
    return time.clock_gettime_ns(_STEADY) // 1000


def steady_s() -> float:
    """Return seconds on a clock that is never set, and that counts while asleep."""
    return time.clock_gettime(_STEADY)


def wall_us() -> int:
    """Return UTC in microseconds since 1970."""
    return time.time_ns() // 1000
