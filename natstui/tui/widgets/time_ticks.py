"""Round times for the time axis of a chart: ages up to now, or the clock. Pure."""

from __future__ import annotations

import math
from datetime import UTC, datetime, tzinfo

from natstui.units import duration_text

Tick = tuple[float, str]

_TIME_STEPS_S = (
    1,
    2,
    5,
    10,
    15,
    30,
    60,
    120,
    300,
    600,
    900,
    1800,
    3600,
    7200,
    21600,
    43200,
    86400,
)


def time_step_s(rough_s: float) -> float:
    """Return the next usual distance on a clock; whole days beyond one day."""
    usual = next((step for step in _TIME_STEPS_S if step >= rough_s * 0.999), None)
    return usual if usual is not None else math.ceil(rough_s / 86_400) * 86_400


def age_ticks(window_s: float, width: int) -> tuple[Tick, ...]:
    """Return ticks of an axis that ends now: -10m, -5m, now; x is seconds from now."""
    rough_s = window_s / max(1, min(8, width // 10))
    even = (step for step in _TIME_STEPS_S if step >= rough_s * 0.999 and window_s % step == 0)
    step = next(even, time_step_s(rough_s))
    count = math.floor(window_s / step + 1e-9)
    ages = [(-index * step, "-" + _short(index * step)) for index in range(count, 0, -1)]
    return (*ages, (0.0, "now"))


def clock_ticks(
    end_s: float, window_s: float, width: int, zone: tzinfo | None = None
) -> tuple[Tick, ...]:
    """Return ticks at round clock times; x is seconds from `end_s` (Unix time), local time."""
    step = time_step_s(window_s / max(1, min(8, width // 14)))
    offset = datetime.fromtimestamp(end_s, UTC).astimezone(zone).utcoffset()
    shift_s = offset.total_seconds() if offset else 0.0
    first = math.ceil((end_s - window_s + shift_s) / step) * step - shift_s
    form = "%H:%M:%S" if step < 60 else "%H:%M" if step < 86_400 else "%d %b"
    times = [first + index * step for index in range(int((end_s - first) // step) + 1)]
    return tuple(
        (at - end_s, datetime.fromtimestamp(at, UTC).astimezone(zone).strftime(form))
        for at in times
    )


def _short(duration_s: float) -> str:
    """Return a round duration without its zero part: 5m instead of 5m00s."""
    text = duration_text(duration_s)
    for zero in ("00s", "00m", "0h"):
        if text.endswith(zero) and text[: -len(zero)][-1:].isalpha():
            return text[: -len(zero)]
    return text
