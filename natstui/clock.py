"""The clocks: one that is never set, for durations and order, and the wall clock, for labels.

The steady clock also counts while the machine sleeps, unlike Python's `time.monotonic`: after an
hour of sleep, an hour has passed without polls, not one second.
"""

from __future__ import annotations

import time

# On macOS this one counts while the machine sleeps; `time.monotonic` is another clock there.
_STEADY_CLOCK_ID = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def steady_us() -> int:
    """Return microseconds on a clock that is never set, and that counts while asleep."""
    return time.clock_gettime_ns(_STEADY_CLOCK_ID) // 1000


def steady_s() -> float:
    """Return seconds on a clock that is never set, and that counts while asleep."""
    return time.clock_gettime(_STEADY_CLOCK_ID)


def wall_us() -> int:
    """Return UTC in microseconds since 1970."""
    return time.time_ns() // 1000
