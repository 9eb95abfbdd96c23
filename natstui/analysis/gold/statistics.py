"""Is one group of values larger than another? Welch's test, in plain Python.

Neighbouring values of a recording resemble each other, so they count for fewer than they are:
n (1 - r) / (1 + r), with r the correlation of a value with the one before it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SIGNIFICANCE = 0.002
"""Chance of calling equal sessions different, over all metrics of one comparison."""
LEAST_CHANGE = 0.02
"""A smaller change is not reported, however certain it is."""
LEAST_VALUES = 5


@dataclass(frozen=True, slots=True)
class Group:
    """What is known of one group of values."""

    n: float
    """Independent values it is worth."""
    mean: float
    variance: float


@dataclass(frozen=True, slots=True)
class Difference:
    """How much a second group differs from a first, relative to the first."""

    change: float
    low: float
    high: float
    p_value: float


def independent_count(n: int, neighbours: float | None) -> float:
    """Return how many independent values n values with this correlation are worth."""
    correlation = min(max(neighbours or 0.0, 0.0), 0.99)
    return n * (1 - correlation) / (1 + correlation)


def difference(first: Group, second: Group, significance: float) -> Difference | None:
    """Return the relative change with its interval; None with too few values."""
    if min(first.n, second.n) < LEAST_VALUES or first.mean <= 0:
        return None
    parts = (first.variance / first.n, second.variance / second.n)
    error = math.sqrt(sum(parts))
    gap = second.mean - first.mean
    if error == 0:
        change = gap / first.mean
        return Difference(change, change, change, 1.0 if gap == 0 else 0.0)
    below = parts[0] ** 2 / (first.n - 1) + parts[1] ** 2 / (second.n - 1)
    freedom = sum(parts) ** 2 / below
    p_value = two_sided_p(gap / error, freedom)
    reach = t_quantile(1 - significance / 2, freedom) * error
    mean = first.mean
    return Difference(gap / mean, (gap - reach) / mean, (gap + reach) / mean, p_value)


def two_sided_p(t: float, freedom: float) -> float:
    """Return the chance of a value of Student's t at least this far from zero."""
    return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


def t_quantile(probability: float, freedom: float) -> float:
    """Return the value of Student's t that is not exceeded with this probability (> 0.5)."""
    low, high = 0.0, 1e6
    for _ in range(200):
        middle = (low + high) / 2
        if 1 - two_sided_p(middle, freedom) / 2 < probability:
            low = middle
        else:
            high = middle
    return high


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), by its continued fraction."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(log_front + a * math.log(x) + b * math.log1p(-x)) / a
    return front * _fraction(a, b, x)


def _fraction(a: float, b: float, x: float) -> float:
    """Evaluate the fraction from the front (Lentz's method)."""
    tiny = 1e-300
    c, d = 1.0, 1 / _safe(1 - (a + b) * x / (a + 1), tiny)
    value = d
    for m in range(1, 300):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for step in (even, odd):
            d = 1 / _safe(1 + step * d, tiny)
            c = _safe(1 + step / c, tiny)
            value *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return value


def _safe(value: float, tiny: float) -> float:
    return value if abs(value) > tiny else tiny


def holm(p_values: list[float]) -> list[float]:
    """Return p-values corrected for having asked several questions at once."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    corrected = [1.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected
