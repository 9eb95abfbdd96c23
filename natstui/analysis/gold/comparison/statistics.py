"""Welch's test for the difference of two groups of values, in plain Python.

Neighbouring values of a recording are correlated, so they count as fewer independent ones. Their
number is the smaller of two estimates: n (1 - r) / (1 + r), with r the correlation of a value with
the previous one, and the same for the means of a few batches, which show slow changes below the
noise. A series that only drifts, such as a growing backlog, would have hardly any independent
value by both estimates: it is treated as the sum of its independent steps instead.
"""

from __future__ import annotations

import math
from functools import lru_cache

from msgspec import Struct

SIGNIFICANCE = 0.002
"""Probability that equal sessions differ by chance, over all metrics of a comparison."""
MIN_CHANGE_SHARE = 0.02
"""Minimum relative change that is reported."""
MIN_VALUES_COUNT = 5
MAX_RELATIVE_NOISE = 1e-9
"""Maximum relative difference of values that are equal except for rounding."""
MAX_BATCHES_COUNT = 24
"""Maximum number of batches of equal length in a series; values after the last are left out."""


class SeriesStatistics(Struct, frozen=True):
    """The statistics of a series of values in order of time."""

    n: int
    mean: float
    variance: float
    autocorrelation: float | None = None
    """Correlation of a value with the previous one; None if undefined."""
    batch_means_variance: float = 0.0
    """Variance of the means of the batches."""
    batch_means_autocorrelation: float | None = None
    """Correlation of the mean of a batch with the previous one; None if undefined."""
    steps_variance: float = 0.0
    """Variance of the differences between the mean of a batch and the previous one."""
    steps_autocorrelation: float | None = None
    """Correlation of such a difference with the previous one; None if undefined."""


class ValueGroup(Struct, frozen=True):
    """The mean and variance of a group of values, with its number of independent values."""

    n: float
    """Number of independent values."""
    mean: float
    variance: float


class MeanDifference(Struct, frozen=True):
    """The mean of a second group minus that of a first, with its error and its p-value."""

    mean_difference: float
    standard_error: float
    """Standard error of the difference."""
    degrees_of_freedom: float
    p_value: float

    def interval(self, significance: float) -> tuple[float, float]:
        """Return the ends of the confidence interval of the difference at a significance level."""
        if self.standard_error == 0:
            return self.mean_difference, self.mean_difference
        half_width = (
            t_quantile(1 - significance / 2, self.degrees_of_freedom) * self.standard_error
        )
        return self.mean_difference - half_width, self.mean_difference + half_width


def batch_length(n: int) -> int:
    """Return the number of values in a batch of a series of n values."""
    return -(-n // MAX_BATCHES_COUNT)


def to_group(series: SeriesStatistics) -> ValueGroup:
    """Return a series as a group, with its number of independent values."""
    if series.variance <= (MAX_RELATIVE_NOISE * series.mean) ** 2:
        return ValueGroup(series.n, series.mean, 0.0)
    batches_count = series.n // batch_length(series.n)
    independent_count = series.n * _independent_share(series.autocorrelation)
    if series.batch_means_variance:
        share = _independent_share(series.batch_means_autocorrelation)
        independent_count = min(
            independent_count,
            batches_count * share * series.variance / series.batch_means_variance,
        )
    if independent_count >= MIN_VALUES_COUNT:
        return ValueGroup(independent_count, series.mean, series.variance)
    # The mean of a sum of independent steps has a third of the variance of its last value, and
    # the means of two batches differ by two thirds of the change of the sum between them.
    share = _independent_share(series.steps_autocorrelation)
    independent_count = (batches_count - 1) * share
    return ValueGroup(
        independent_count,
        series.mean,
        series.steps_variance / share * batches_count / 2 * independent_count,
    )


def _independent_share(autocorrelation: float | None) -> float:
    """Return the number of independent values per value, by the correlation of neighbours."""
    correlation = min(max(autocorrelation or 0.0, 0.0), 0.99)
    return (1 - correlation) / (1 + correlation)


def compare_groups(first: ValueGroup, second: ValueGroup) -> MeanDifference | None:
    """Return the difference of the second group to the first; None if one has too few values."""
    if min(first.n, second.n) < MIN_VALUES_COUNT:
        return None
    variances_of_means = (first.variance / first.n, second.variance / second.n)
    standard_error, mean_difference = math.sqrt(sum(variances_of_means)), second.mean - first.mean
    if standard_error == 0:
        is_equal = abs(mean_difference) <= MAX_RELATIVE_NOISE * abs(first.mean)
        return MeanDifference(mean_difference, 0.0, math.inf, 1.0 if is_equal else 0.0)
    denominator = variances_of_means[0] ** 2 / (first.n - 1) + variances_of_means[1] ** 2 / (
        second.n - 1
    )
    freedom = sum(variances_of_means) ** 2 / denominator
    return MeanDifference(
        mean_difference,
        standard_error,
        freedom,
        two_sided_p(mean_difference / standard_error, freedom),
    )


def two_sided_p(t: float, freedom: float) -> float:
    """Return the two-sided p-value of `t` in Student's distribution.

    `freedom` is its number of degrees of freedom.
    """
    return incomplete_beta(freedom / 2, 0.5, freedom / (freedom + t * t))


@lru_cache(maxsize=4096)
def t_quantile(probability: float, freedom: float) -> float:
    """Return the quantile of Student's t for a probability above 0.5.

    `freedom` is its number of degrees of freedom.
    """
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
    return front * _continued_fraction(a, b, x)


def _continued_fraction(a: float, b: float, x: float) -> float:
    """Return the continued fraction of the incomplete beta function, by Lentz's method."""
    tiny = 1e-300
    c, d = 1.0, 1 / _avoid_zero(1 - (a + b) * x / (a + 1), tiny)
    value = d
    for m in range(1, 300):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for step in (even, odd):
            d = 1 / _avoid_zero(1 + step * d, tiny)
            c = _avoid_zero(1 + step / c, tiny)
            value *= c * d
        if abs(c * d - 1) < 1e-14:
            break
    return value


def _avoid_zero(value: float, tiny: float) -> float:
    return value if abs(value) > tiny else tiny


def correct_p_values(p_values: list[float]) -> list[float]:
    """Return the p-values, corrected for multiple tests by Holm's method, in the same order."""
    order = sorted(range(len(p_values)), key=lambda index: p_values[index])
    corrected_p_values = [1.0] * len(p_values)
    largest_p_value = 0.0
    for rank, index in enumerate(order):
        largest_p_value = max(largest_p_value, min(1.0, (len(p_values) - rank) * p_values[index]))
        corrected_p_values[index] = largest_p_value
    return corrected_p_values
