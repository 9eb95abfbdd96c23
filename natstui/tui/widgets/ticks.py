"""Round numbers for the value axis of a chart, and what is written at them. Pure."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

from natstui.tui.widgets.time_ticks import Tick, time_step_s
from natstui.units import bytes_text, count_text, duration_text, rate_text

Unit = Literal["msgs", "msgs/s", "bytes", "bytes/s", "s", "%", ""]

_FLAT = 1e-6
"""Values closer together than this are one value."""


def value_text(value: float, unit: Unit) -> str:
    """Return a value as it stands at an axis or in a legend."""
    match unit:
        case "bytes" | "bytes/s":
            return bytes_text(value)
        case "msgs/s" | "":
            return rate_text(value)
        case "s":
            return duration_text(value)
        case "%":
            return f"{value:.3g}%"
        case "msgs":
            return count_text(value)


def _step(span: float, count: int, unit: Unit) -> float:
    """Return a round distance between ticks so that about `count` of them cover `span`."""
    rough = span / max(1, count)
    if unit == "s" and rough > 1:
        return time_step_s(rough)
    if unit in ("bytes", "bytes/s"):
        return float(2 ** max(0, math.ceil(math.log2(rough) - 0.01)))
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(nice for nice in (1, 2, 5, 10) if nice * power >= rough * 0.999) * power
    return max(1.0, step) if unit == "msgs" else step


def value_ticks(low: float, high: float, height: int, unit: Unit) -> tuple[Tick, ...]:
    """Return ticks from at or below `low` to at or above `high`, fit for `height` lines."""
    if high - low <= max(abs(low), abs(high)) * 1e-9 or high - low < _FLAT:
        high = low + max(abs(low) * 0.1, 1)
    step = _step(high - low, max(2, height // 4), unit)
    first = math.floor(low / step + 1e-9)
    last = max(first + 1, math.ceil(high / step - 1e-9))
    values = [index * step for index in range(first, last + 1)]
    labels = [value_text(value, unit) for value in values]
    if len(set(labels)) < len(labels):
        labels = [f"{value:,.6g}" if step < 1 else f"{value:,.0f}" for value in values]
    return tuple(zip(values, labels, strict=True))


def label_width(ticks: Sequence[Tick]) -> int:
    """Return the cells the longest label takes."""
    return max((len(label) for _, label in ticks), default=0)
