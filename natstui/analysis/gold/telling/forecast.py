"""When a limit will be reached: told only of what was watched for long enough, and how surely.

A limit ahead is told where the level was watched for `FORECAST_LEAST_S`, and not further ahead
than `FORECAST_REACH` times as long. It is a finding only where the growth is certain, too: the
session is cut into parts, and how much the growth differs from part to part gives an interval in
which the true growth lies; all of it must be above zero. What is full already is no forecast.
"""

from __future__ import annotations

from pyspark.sql import Column
from pyspark.sql import functions as F

from natstui.analysis.gold.comparing.statistics import t_quantile
from natstui.model.findings.thresholds import FORECAST_LEAST_S, FORECAST_REACH

SURE = 0.95
"""Chance that the true growth is in the interval."""
LEAST_PARTS = 4
"""Of fewer parts there is no interval."""
_MOST_PARTS = 30
"""The quantile of more parts is hardly smaller."""


def full_in_s(limit: str, used: str, growth: str | Column) -> Column:
    """Return the time until a limit is reached, as `model.live.limits.time_to_full_s` does."""
    pace = F.col(growth) if isinstance(growth, str) else growth
    room = F.col(limit) - F.col(used)
    full = F.when(room <= 0, F.lit(0.0)).when(pace > 0, room / pace)
    return F.when(F.col(limit).isNotNull(), full)


def foreseen(left_s: Column, watched_s: Column) -> Column:
    """Return whether the time that is left may be told of what was watched for so long."""
    long_enough = (watched_s >= FORECAST_LEAST_S) & (left_s <= watched_s * FORECAST_REACH)
    return (left_s == 0) | long_enough


def told_s(left_s: Column, watched_s: Column) -> Column:
    """Return the time that is left; null where it must not be told."""
    return F.when(foreseen(left_s, watched_s), left_s)


def reach(spread: Column, parts_count: Column) -> Column:
    """Return how far the true growth may be from the mean of the parts; null of too few."""
    quantiles = F.array(
        *(F.lit(t_quantile((1 + SURE) / 2, n - 1)) for n in range(LEAST_PARTS, _MOST_PARTS + 1))
    )
    place = F.least(parts_count, F.lit(_MOST_PARTS)) - LEAST_PARTS
    known = parts_count >= LEAST_PARTS
    return F.when(known, F.get(quantiles, place.cast("int")) * spread / F.sqrt(parts_count))


def between(earliest: Column, latest: Column) -> Column:
    """Return the interval of a forecast as text."""
    sure = F.lit(f" ({SURE * 100:.0f} % sure)")
    return F.concat(F.lit("between "), earliest, F.lit(" and "), latest, sure)
