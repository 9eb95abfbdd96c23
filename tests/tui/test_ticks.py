"""Axes have round numbers that fit, with the units people read."""

import itertools
from datetime import UTC

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natstui.tui.kit.chart.ticks import Unit, age_ticks, clock_ticks, value_axis


def labels(ticks: tuple[tuple[float, str], ...]) -> list[str]:
    return [label for _, label in ticks]


@pytest.mark.parametrize(
    ("low", "high", "unit", "expected"),
    [
        (0, 1900, "msgs/s", ["0", "1000", "2000"]),
        (0, 2, "msgs", ["0", "1", "2"]),
        (0, 1.7 * 2**30, "bytes", ["0 B", "1.00 GiB"]),
        (0, 200, "s", ["0s", "2m00s"]),
        (0, 97, "%", ["0%", "50%", "100%"]),
        (1_000_000, 1_000_010, "msgs", ["1,000,000", "1,000,005", "1,000,010"]),
        (0, 0, "msgs", ["0", "1"]),
    ],
)
def test_value_axes_are_round(low: float, high: float, unit: Unit, expected: list[str]) -> None:
    assert labels(value_axis(low, high, 8, unit).ticks) == expected


@given(
    st.floats(0, 1e15),
    st.floats(0, 1e15),
    st.integers(1, 60),
    st.sampled_from(["msgs", "s", "bytes", "%"]),
)
def test_value_axes_enclose_the_values_with_even_ticks(
    one: float, other: float, height: int, unit: Unit
) -> None:
    low, high = sorted((one, other))
    axis = value_axis(low, high, height, unit)
    assert axis.low <= low * (1 + 1e-6) + 1e-6
    assert axis.high >= high * (1 - 1e-6) - 1e-6
    values = [at for at, _ in axis.ticks]
    assert values[0] == axis.low and values[-1] <= axis.high
    assert 1 <= len(values) <= max(2, height // 2 + 1)
    steps = [b - a for a, b in itertools.pairwise(values)]
    assert all(step == pytest.approx(steps[0], rel=1e-6) and step > 0 for step in steps)


def test_age_axes_end_now() -> None:
    assert labels(age_ticks(900, 60)) == ["-15m", "-10m", "-5m", "now"]
    assert labels(age_ticks(900, 30)) == ["-15m", "-10m", "-5m", "now"]
    assert labels(age_ticks(60, 20)) == ["-1m", "-30s", "now"]
    assert labels(age_ticks(3600, 20)) == ["-1h", "-30m", "now"]
    assert labels(age_ticks(700, 20)) == ["-10m", "now"]


def test_clock_axes_are_at_round_times() -> None:
    noon = 1_790_000_000 // 86_400 * 86_400 + 43_200 + 130
    assert labels(clock_ticks(noon, 900, 60, UTC)) == ["11:50", "11:55", "12:00"]
