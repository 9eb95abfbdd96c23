"""When a limit will be reached: told only of what was watched for long enough, and how surely.

A limit ahead is told where the level was watched for `FORECAST_LEAST_S`, and not further ahead
than `FORECAST_REACH` times as long. The session is cut into parts, and the growth of the newest
third of them is carried on: with its acceleration, where it differs from the third before by more
than chance. It is told only where it is certain that the level grows, in that third and as a
whole. How much the growth differs from part to part, and how much neighbours resemble each other,
gives the interval. What is full already is no forecast.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.gold.comparing.statistics import t_quantile
from natstui.model.findings.thresholds import FORECAST_LEAST_S, FORECAST_REACH

SURE = 0.95
"""Chance that the limit is reached in the interval."""
LEAST_PARTS = 4
"""Of fewer parts there is no interval."""
_MOST_PARTS = 30
"""The quantile of more parts is hardly smaller."""
_MOST_ALIKE = 0.9


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


def numbered_parts(rows: DataFrame, of: list[str], order: str, paces: list[str]) -> DataFrame:
    """Add to the parts of each series in which third they are, and the pace of the part before.

    `paces` are columns: the growth per second in a part, null where too little of it was watched.
    """
    by_time = Window.partitionBy(*of).orderBy(order)
    newest_first = Window.partitionBy(*of).orderBy(F.col(order).desc())
    for pace in paces:
        known, count = F.col(pace).isNotNull(), F.count(pace).over(Window.partitionBy(*of))
        third = F.greatest(F.ceil(count / 3), F.lit(LEAST_PARTS))
        place = F.count(pace).over(
            newest_first.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        )
        rows = rows.withColumns(
            {
                f"{pace}_before": F.lag(pace).over(by_time),
                f"{pace}_third": F.when(known, F.ceil(place / third)),
            }
        )
    return rows


def growth_sums(pace: str) -> list[Column]:
    """Return what `Growth` needs of the parts of a series, as columns of an aggregation."""
    third, value, before = F.col(f"{pace}_third"), F.col(pace), F.col(f"{pace}_before")

    def of(name: str, condition: Column) -> list[Column]:
        inside = F.when(condition, value)
        return [
            F.avg(inside).alias(f"{pace}_{name}"),
            F.count(inside).alias(f"{pace}_{name}_count"),
            F.stddev_samp(inside).alias(f"{pace}_{name}_spread"),
            F.corr(inside, F.when(condition, before)).alias(f"{pace}_{name}_alike"),
        ]

    return [*of("recent", third == 1), *of("earlier", third == 2), *of("whole", value.isNotNull())]


@dataclass(frozen=True, slots=True)
class Growth:
    """The growth of a level, from the columns of `growth_sums`, and when it meets a limit."""

    pace: str
    part_s: float | Column
    """Length of a part."""

    def _mean(self, name: str) -> Column:
        return F.col(f"{self.pace}_{name}")

    def _count(self, name: str) -> Column:
        return F.col(f"{self.pace}_{name}_count")

    def _worth(self, name: str) -> Column:
        """Return how many parts are worth one independent part."""
        r = F.coalesce(F.nanvl(self._mean(f"{name}_alike"), F.lit(0.0)), F.lit(0.0))
        # Of few values it is estimated too low, on average by so much (Kendall).
        r += (1 + 3 * r) / self._count(name)
        r = F.least(F.greatest(r, F.lit(0.0)), F.lit(_MOST_ALIKE))
        return (1 + r) / (1 - r)

    def _error(self, name: str) -> Column:
        spread = self._mean(f"{name}_spread")
        return spread * F.sqrt(self._worth(name) / self._count(name))

    def is_known(self) -> Column:
        """Return whether there are enough parts for an interval."""
        return self._count("recent") >= LEAST_PARTS

    def is_certain(self) -> Column:
        """Return whether the level grows, in the newest third and as a whole."""
        parts = (
            self._mean(name) > quantile(self._count(name)) * self._error(name)
            for name in ("recent", "whole")
        )
        recent, whole = parts
        return F.coalesce(recent & whole, F.lit(False))

    def _change_error(self) -> Column:
        return F.sqrt(F.pow(self._error("recent"), 2) + F.pow(self._error("earlier"), 2))

    def acceleration(self, sign: int = 0) -> Column:
        """Return the change of the growth per second; 0 where it may be chance.

        `sign`: at the most (1) or the least (-1) that it may be.
        """
        change, far = self._mean("recent") - self._mean("earlier"), self._change_error()
        far = quantile(self._count("earlier")) * far
        sure = (F.abs(change) > far) & (self._count("earlier") >= LEAST_PARTS)
        apart_s = self._count("recent") * self.part_s
        return F.when(F.coalesce(sure, F.lit(False)), (change + sign * far) / apart_s).otherwise(
            0.0
        )

    def left_s(self, room: Column, sign: int = 0) -> Column:
        """Return the time until so much room is used up; null is never.

        `sign`: at the most (1) or the least (-1) growth that is likely until then.
        """
        third_s = self._count("recent") * self.part_s
        acceleration = self.acceleration(sign)
        # The mean of the newest third was the growth in its middle.
        pace = self._mean("recent") + acceleration * third_s / 2
        if sign:
            ahead = F.greatest(room / (self._mean("recent") * self.part_s), F.lit(1.0))
            both = 1 / self._count("recent") + 1 / ahead
            spread = self._mean("recent_spread") * F.sqrt(self._worth("recent") * both)
            pace = pace + sign * quantile(self._count("recent")) * spread
        root = pace * pace + 2 * acceleration * room
        left_s = F.when((pace > 0) & (root >= 0), 2 * room / (pace + F.sqrt(root)))
        return F.when(room <= 0, F.lit(0.0)).otherwise(left_s)


def quantile(parts_count: Column) -> Column:
    """Return how many errors the true value may be from the mean of so many parts."""
    quantiles = F.array(
        *(F.lit(t_quantile((1 + SURE) / 2, n - 1)) for n in range(LEAST_PARTS, _MOST_PARTS + 1))
    )
    place = F.least(parts_count, F.lit(_MOST_PARTS)) - LEAST_PARTS
    return F.when(parts_count >= LEAST_PARTS, F.get(quantiles, place.cast("int")))


def between(earliest: Column, latest: Column) -> Column:
    """Return the interval of a forecast as text."""
    sure = F.lit(f" ({SURE * 100:.0f} % sure)")
    return F.concat(F.lit("between "), earliest, F.lit(" and "), latest, sure)
