"""Computes the ticks of a chart's axes: round numbers and round times, with labels."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Literal, NamedTuple

from msgspec import Struct

from natstui.units import bytes_text, count_text, duration_text, rate_text
from natstui.values import replace


class Tick(NamedTuple):
    """A tick: its position on the axis, in the unit of the axis, and its label."""

    position: float
    label: str


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


def time_step_s(min_step_s: float) -> float:
    """Return the next round time from `min_step_s` up, in seconds; full days above one day."""
    listed_step_s = next((step for step in _TIME_STEPS_S if step >= min_step_s * 0.999), None)
    return listed_step_s if listed_step_s is not None else math.ceil(min_step_s / 86_400) * 86_400


def age_ticks(window_s: float, width: int) -> tuple[Tick, ...]:
    """Return the ticks of a time axis that ends now (-10m, -5m, now), in seconds from now.

    `width` is the width of the axis in cells.
    """
    min_step_s = window_s / max(1, min(8, width // 10))
    even_steps_s = (
        step for step in _TIME_STEPS_S if step >= min_step_s * 0.999 and window_s % step == 0
    )
    step = next(even_steps_s, time_step_s(min_step_s))
    count = math.floor(window_s / step + 1e-9)
    ages = [
        Tick(-index * step, "-" + _short_duration(index * step)) for index in range(count, 0, -1)
    ]
    return (*ages, Tick(0.0, "now"))


def clock_ticks(
    end_s: float, window_s: float, width: int, zone: tzinfo | None = None
) -> tuple[Tick, ...]:
    """Return ticks at round local clock times, in seconds from `end_s` (Unix time).

    `width` is the width of the axis in cells.
    """
    step_s = time_step_s(window_s / max(1, min(8, width // 14)))
    offset = datetime.fromtimestamp(end_s, UTC).astimezone(zone).utcoffset()
    utc_offset_s = offset.total_seconds() if offset else 0.0
    first_at_s = math.ceil((end_s - window_s + utc_offset_s) / step_s) * step_s - utc_offset_s
    time_format = "%H:%M:%S" if step_s < 60 else "%H:%M" if step_s < 86_400 else "%d %b"
    ticks_at_s = [
        first_at_s + index * step_s for index in range(int((end_s - first_at_s) // step_s) + 1)
    ]
    return tuple(
        Tick(
            at_s - end_s, datetime.fromtimestamp(at_s, UTC).astimezone(zone).strftime(time_format)
        )
        for at_s in ticks_at_s
    )


def _short_duration(duration_s: float) -> str:
    """Return a round duration as text without its zero part: 5m instead of 5m00s."""
    text = duration_text(duration_s)
    for zero_part in ("00s", "00m", "0h"):
        if text.endswith(zero_part) and text[: -len(zero_part)][-1:].isalpha():
            return text[: -len(zero_part)]
    return text


Unit = Literal["msgs", "msgs/s", "bytes", "bytes/s", "s", "%", ""]

_MIN_VALUE_DIFFERENCE = 1e-6
"""Difference below which the lowest and highest value count as equal."""


def value_text(value: float, unit: Unit) -> str:
    """Return a value as text with its unit's prefix, for an axis or a legend."""
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


class ValueAxis(Struct, frozen=True):
    """The ticks of a value axis, evenly spaced, and the values at its ends."""

    ticks: tuple[Tick, ...]
    low: float
    """The value in the middle of the lowest line."""
    high: float
    """The value in the middle of the highest line."""


def _round_tick_step(min_step: float, unit: Unit) -> float:
    """Return the smallest round step between two ticks from about `min_step` up, in `unit`."""
    if unit == "s" and min_step > 1:
        return time_step_s(min_step)
    if unit in ("bytes", "bytes/s"):
        return float(2 ** max(0, math.ceil(math.log2(min_step) - 0.01)))
    power = 10.0 ** math.floor(math.log10(min_step))
    step = (
        next(factor for factor in (1, 2, 2.5, 5, 10) if factor * power >= min_step * 0.999) * power
    )
    return max(1.0, float(math.ceil(step))) if unit == "msgs" else step


_LINES_BETWEEN_TICKS = (2, 3, 4, 5, 6)


def _possible_tick_distances(height: int) -> Sequence[int]:
    """Return the possible distances of two ticks, in lines, on an axis of `height` lines."""
    return [distance for distance in _LINES_BETWEEN_TICKS if distance < height] or [1]


def _choose_axis(
    height: int, choose_first_tick_and_step: Callable[[int], tuple[int, float]]
) -> ValueAxis:
    """Return the axis that leaves the fewest of `height` lines unused.

    `choose_first_tick_and_step` returns, for a distance of ticks in lines, the first tick as a
    multiple of the step, and the step.
    """
    best_cost_and_choice: tuple[float, int, int, float] | None = None
    for distance in _possible_tick_distances(height):
        first_multiple, step = choose_first_tick_and_step(distance)
        # An axis beyond the values costs height; ticks close together cost readability.
        span = step * (height - 1) / distance
        axis_cost = span * (1.0 if distance > 2 else 1.25)
        if best_cost_and_choice is None or axis_cost < best_cost_and_choice[0]:
            best_cost_and_choice = (axis_cost, distance, first_multiple, step)
    assert best_cost_and_choice is not None
    _, distance, first_multiple, step = best_cost_and_choice
    count = (height - 1) // distance + 1
    ticks = tuple(Tick((first_multiple + index) * step, "") for index in range(count))
    return ValueAxis(
        ticks, first_multiple * step, (first_multiple + (height - 1) / distance) * step
    )


def value_axis(lowest: float, highest: float, height: int, unit: Unit) -> ValueAxis:
    """Return an axis of `height` lines that includes `lowest` and `highest`, with round ticks."""
    if (
        highest - lowest <= max(abs(lowest), abs(highest)) * 1e-9
        or highest - lowest < _MIN_VALUE_DIFFERENCE
    ):
        # A level line is drawn in the middle, unless it is zero.
        margin = max(abs(lowest) * 0.05, 0.5)
        lowest, highest = (lowest - margin, lowest + margin) if lowest else (0.0, 1.0)
    height = max(2, height)

    def choose_first_tick_and_step(distance: int) -> tuple[int, float]:
        interval_count = (height - 1) / distance
        step = _round_tick_step((highest - lowest) / interval_count, unit)
        first_multiple = math.floor(lowest / step + 1e-9)
        while (first_multiple + interval_count) * step < highest - step * 1e-9:
            step = _round_tick_step(step * 1.01, unit)
            first_multiple = math.floor(lowest / step + 1e-9)
        return first_multiple, step

    axis = _choose_axis(height, choose_first_tick_and_step)
    values = [value for value, _ in axis.ticks]
    step = values[1] - values[0] if len(values) > 1 else 1.0
    labels = [value_text(value, unit) for value in values]
    if len(set(labels)) < len(labels):
        labels = [f"{value:,.6g}" if step < 1 else f"{value:,.0f}" for value in values]
    if all(value == round(value) for value in values):
        labels = [label.removesuffix(".0") for label in labels]
    return replace(axis, ticks=tuple(map(Tick, values, labels)))


def log_axis(lowest: float, highest: float, height: int, unit: Unit) -> ValueAxis:
    """Return a logarithmic axis with ticks at powers of ten, for bytes of two; the positions are
    decimal logarithms.
    """
    if lowest <= 0:
        lowest, highest = 1.0, max(10.0, highest)
    height = max(2, height)
    base = 2.0 if unit in ("bytes", "bytes/s") else 10.0
    first_power = math.floor(math.log(lowest, base) + 1e-9)
    last_power = max(first_power + 1, math.ceil(math.log(highest, base) - 1e-9))

    def choose_first_tick_and_step(distance: int) -> tuple[int, float]:
        step = max(1, math.ceil((last_power - first_power) / ((height - 1) / distance) - 1e-9))
        # The first tick is at 0 here: the axis is shifted to the first power below.
        return 0, float(step)

    axis = _choose_axis(height, choose_first_tick_and_step)
    log10_of_base = math.log10(base)
    ticks = tuple(
        Tick(
            (first_power + power) * log10_of_base, value_text(base ** (first_power + power), unit)
        )
        for power, _ in axis.ticks
    )
    return ValueAxis(ticks, first_power * log10_of_base, (first_power + axis.high) * log10_of_base)


def label_width(ticks: Sequence[Tick]) -> int:
    """Return the width of the longest label, in cells."""
    return max((len(label) for _, label in ticks), default=0)
