"""Welch's test for the difference of two groups of values, in plain Python.

Neighbouring values of a recording are correlated, so they count as fewer independent ones. Their
number is the smaller of two estimates: n (1 - r) / (1 + r), with r the correlation of a value with
the previous one, and the same for the means of a few stretches, which include slow changes below
the noise. A series that only drifts, as a growing backlog, would have hardly any independent value
by both: it is treated as the sum of its independent steps instead.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

SIGNIFICANCE = 0.002
"""Probability of a false difference of equal sessions, over all metrics of a comparison."""
LEAST_CHANGE = 0.02
"""Minimum relative change that is reported."""
LEAST_VALUES = 5
NOISE = 1e-9
"""Relative difference below which values are equal except for rounding."""
MOST_STRETCHES = 24
"""Maximum of stretches of equal length into which a series is cut; the rest is left out."""


@dataclass(frozen=True, slots=True)
class Series:
    """The statistics of values in order of time."""

    n: int
    mean: float
    variance: float
    neighbours: float | None = None
    """Correlation of a value with the previous one; None if undefined."""
    stretches_variance: float = 0.0
    """Variance of the means of the stretches."""
    stretches_neighbours: float | None = None
    steps_variance: float = 0.0
    """Variance of the differences between the mean of a stretch and the previous one."""
    steps_neighbours: float | None = None


@dataclass(frozen=True, slots=True)
class Group:
    """A group of values, with its number of independent values."""

    n: float
    """Number of independent values."""
    mean: float
    variance: float


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of the mean of a second group to that of a first."""

    gap: float
    error: float
    """Standard error of the gap."""
    freedom: float
    p_value: float

    def interval(self, significance: float) -> tuple[float, float]:
        """Return the interval of the true gap at a level of significance."""
        if self.error == 0:
            return self.gap, self.gap
        reach = t_quantile(1 - significance / 2, self.freedom) * self.error
        return self.gap - reach, self.gap + reach


def stretch_length(n: int) -> int:
    """Return the number of values of a stretch in a series of n values."""
    return -(-n // MOST_STRETCHES)


def group(series: Series) -> Group:
    """Return the number of independent values of a series, with mean and variance."""
    if series.variance <= (NOISE * series.mean) ** 2:
        return Group(series.n, series.mean, 0.0)
    count = series.n // stretch_length(series.n)
    n = series.n * _share(series.neighbours)
    if series.stretches_variance:
        share = _share(series.stretches_neighbours)
        n = min(n, count * share * series.variance / series.stretches_variance)
    if n >= LEAST_VALUES:
        return Group(n, series.mean, series.variance)
    # The mean of a sum of independent steps has a third of the variance of its last value, and
    # the means of stretches differ by two thirds of what the sum itself moves between them.
    share = _share(series.steps_neighbours)
    n = (count - 1) * share
    return Group(n, series.mean, series.steps_variance / share * count / 2 * n)


def _share(neighbours: float | None) -> float:
    """Return the number of independent values per value with this correlation."""
    correlation = min(max(neighbours or 0.0, 0.0), 0.99)
    return (1 - correlation) / (1 + correlation)


def difference(first: Group, second: Group) -> Difference | None:
    """Return the difference of the second group to the first; None with too few values."""
    if min(first.n, second.n) < LEAST_VALUES:
        return None
    parts = (first.variance / first.n, second.variance / second.n)
    error, gap = math.sqrt(sum(parts)), second.mean - first.mean
    if error == 0:
        is_equal = abs(gap) <= NOISE * abs(first.mean)
        return Difference(gap, 0.0, math.inf, 1.0 if is_equal else 0.0)
    denominator = parts[0] ** 2 / (first.n - 1) + parts[1] ** 2 / (second.n - 1)
    freedom = sum(parts) ** 2 / denominator
    return Difference(gap, error, freedom, two_sided_p(gap / error, freedom))


def two_sided_p(t: float, freedom: float) -> float:
    """Return the two-sided p-value of a value of Student's t."""
    return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


@lru_cache(maxsize=4096)
def t_quantile(probability: float, freedom: float) -> float:
    """Return the quantile of Student's t for a probability above 0.5."""
    low, high = 0.0, 1e6
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        if 1 - two_sided_p(middle, freedom) / 2 < probability:
            low = middle
        else:
            high = middle
    return high


def incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularised incomplete beta function I_x(a, b), by a continued fraction."""
    if x <= 0 or x >= 1:
        return 0.0 if x <= 0 else 1.0
    if x > (a + 1) / (a + b + 2):
        return 1 - incomplete_beta(b, a, 1 - x)
    log_front = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    front = math.exp(log_front + a * math.log(x) + b * math.log1p(-x)) / a
    return front * _fraction(a, b, x)


def _fraction(a: float, b: float, x: float) -> float:
    """Return the value of the continued fraction by Lentz's method."""
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
    """Return p-values corrected for multiple tests by Holm's method."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    corrected = [1.0] * len(p_values)
    largest = 0.0
    for rank, index in enumerate(order):
        largest = max(largest, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected[index] = largest
    return corrected
