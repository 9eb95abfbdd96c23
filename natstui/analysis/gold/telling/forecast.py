"""When a limit will be reached: told only of what was watched for long enough, and how surely.

A limit ahead is told where the level was watched for `FORECAST_LEAST_S`, and not further ahead
than `FORECAST_REACH` times as long. The session is cut into parts, and the growth of the newest
third of them is carried on: with its acceleration, where it differs from the third before by more
than chance. It is told only where it is certain that the level grows, in that third and as a
whole. How much the growth differs from part to part, and how much neighbours resemble each other,
gives the interval. What is full already is no forecast.
"""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.gold.comparing.statistics import t_quantile
from natstui.analysis.gold.telling.harm import FULL_SOON, NEAR
from natstui.model.findings.thresholds import FORECAST_LEAST_S, FORECAST_REACH, NEAR_SHARE

SURE = 0.95
"""Chance that the limit is reached in the interval."""
LEAST_PARTS = 4
"""Of fewer parts there is no interval."""
_MOST_PARTS = 30
"""The quantile of more parts is hardly smaller."""
_MOST_AUTOCORRELATION = 0.9


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


def foreseen_s(left_s: Column, watched_s: Column) -> Column:
    """Return the time that is left; null where it is not foreseen."""
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
        rank = F.count(pace).over(
            newest_first.rowsBetween(Window.unboundedPreceding, Window.currentRow)
        )
        rows = rows.withColumns(
            {
                f"{pace}_before": F.lag(pace).over(by_time),
                f"{pace}_third": F.when(known, F.ceil(rank / third)),
            }
        )
    return rows


def growth_sums(pace: str) -> list[Column]:
    """Return what `with_growth` needs of the parts of a series, as columns of an aggregation."""
    third, value, before = F.col(f"{pace}_third"), F.col(pace), F.col(f"{pace}_before")

    def of(name: str, condition: Column) -> list[Column]:
        inside = F.when(condition, value)
        return [
            F.avg(inside).alias(f"{pace}_{name}"),
            F.count(inside).alias(f"{pace}_{name}_count"),
            F.stddev_samp(inside).alias(f"{pace}_{name}_spread"),
            F.corr(inside, F.when(condition, before)).alias(f"{pace}_{name}_r"),
        ]

    return [*of("recent", third == 1), *of("earlier", third == 2), *of("whole", value.isNotNull())]


_NAMES = ("recent", "earlier", "whole")
_SIGNS = {"": 0, "_most": 1, "_least": -1}


def with_growth(rows: DataFrame, pace: str, part_s: float | Column) -> DataFrame:
    """Add what is certain of the growth of series: see `is_certain` and `left_s`.

    Column by column: as one expression, each would be written out many times.
    """
    of = {name: F.col(f"{pace}_{name}") for name in _NAMES}
    count = {name: F.col(f"{pace}_{name}_count") for name in _NAMES}
    error = {name: F.col(f"{pace}_{name}_error") for name in _NAMES}
    t = {name: F.col(f"{pace}_{name}_t") for name in _NAMES}
    rows = rows.withColumns(
        {f"{pace}_{name}_r": _corrected(f"{pace}_{name}_r", count[name]) for name in _NAMES}
    )
    rows = rows.withColumns(
        {f"{pace}_{name}_inflation": _inflation(F.col(f"{pace}_{name}_r")) for name in _NAMES}
        | {f"{pace}_{name}_t": quantile(count[name]) for name in _NAMES}
    )
    rows = rows.withColumns(
        {
            f"{pace}_{name}_error": F.col(f"{pace}_{name}_spread")
            * F.sqrt(F.col(f"{pace}_{name}_inflation") / count[name])
            for name in _NAMES
        }
    )
    grows = [of[name] > t[name] * error[name] for name in ("recent", "whole")]
    rows = rows.withColumns(
        {
            f"{pace}_certain": F.coalesce(grows[0] & grows[1], F.lit(False)),
            f"{pace}_change": of["recent"] - of["earlier"],
            f"{pace}_margin": t["earlier"] * F.hypot(error["recent"], error["earlier"]),
        }
    )
    change, margin = F.col(f"{pace}_change"), F.col(f"{pace}_margin")
    sure = F.coalesce(F.abs(change) > margin, F.lit(False))
    apart_s = count["recent"] * part_s
    return rows.withColumns(
        {
            f"{pace}_acceleration{end}": F.when(
                sure, (change + sign * margin) / apart_s
            ).otherwise(0)
            for end, sign in _SIGNS.items()
        }
    )


def _corrected(name: str, count: Column) -> Column:
    """Return how much neighbours resemble each other, 0 to `_MOST_AUTOCORRELATION`."""
    r = F.coalesce(F.nanvl(F.col(name), F.lit(0.0)), F.lit(0.0))
    # Of few values it is estimated too low, on average by so much (Kendall).
    r += (1 + 3 * r) / count
    return F.least(F.greatest(r, F.lit(0.0)), F.lit(_MOST_AUTOCORRELATION))


def _inflation(autocorrelation: Column) -> Column:
    """Return how many parts say as much as one independent part."""
    return (1 + autocorrelation) / (1 - autocorrelation)


def is_known(pace: str) -> Column:
    """Return whether there are enough parts for an interval."""
    return F.col(f"{pace}_recent_count") >= LEAST_PARTS


def is_certain(pace: str) -> Column:
    """Return whether the level grows, in the newest third and as a whole."""
    return F.col(f"{pace}_certain")


def left_s(pace: str, room: Column, part_s: float | Column, end: str = "") -> Column:
    """Return the time until so much room is used up; null is never.

    `end`: at the `_most` or the `_least` growth that is likely until then.
    """
    recent, count = F.col(f"{pace}_recent"), F.col(f"{pace}_recent_count")
    acceleration = F.col(f"{pace}_acceleration{end}")
    # The mean of the newest third was the growth in its middle.
    now = recent + acceleration * count * part_s / 2
    if end:
        ahead = F.greatest(room / (recent * part_s), F.lit(1.0))
        inflation = F.col(f"{pace}_recent_inflation") * (1 / count + 1 / ahead)
        margin = F.col(f"{pace}_recent_t") * F.col(f"{pace}_recent_spread") * F.sqrt(inflation)
        now = now + _SIGNS[end] * margin
    root = now * now + 2 * acceleration * room
    found = F.when((now > 0) & (root >= 0), 2 * room / (now + F.sqrt(root)))
    return F.when(room <= 0, F.lit(0.0)).otherwise(found)


def quantile(parts_count: Column) -> Column:
    """Return how many errors the true value may be from the mean of so many parts."""
    quantiles = F.array(
        *(F.lit(t_quantile((1 + SURE) / 2, n - 1)) for n in range(LEAST_PARTS, _MOST_PARTS + 1))
    )
    index = F.least(parts_count, F.lit(_MOST_PARTS)) - LEAST_PARTS
    return F.when(parts_count >= LEAST_PARTS, F.get(quantiles, index.cast("int")))


def near_or_soon(used_share: Column) -> Column:
    """Return the cause of a finding about a limit ahead: only what is near it is called near."""
    return F.when(used_share >= NEAR_SHARE, NEAR).otherwise(FULL_SOON)


def between(earliest: Column, latest: Column) -> Column:
    """Return the interval of a forecast as text."""
    sure = F.lit(f" ({SURE * 100:.0f} % sure)")
    return F.concat(F.lit("between "), earliest, F.lit(" and "), latest, sure)
