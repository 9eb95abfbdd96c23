"""Forecasts of the time at which a limit is reached, with their interval.

A forecast requires that the level was recorded for `MIN_FORECAST_S`, and reaches at most
`FORECAST_REACH` times the recorded time ahead. The session is cut into parts. The growth of the
newest third of them is extrapolated: with acceleration, if it differs from the growth of the third
before by more than chance. The level must grow with certainty, in that third and in total. The
interval follows from the variation of the growth between parts and from their autocorrelation. A
limit that is already reached is no forecast.
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from natstui.analysis.gold.comparison.statistics import t_quantile
from natstui.analysis.gold.shared.harm import FULL_SOON, NEAR
from natstui.model.findings.thresholds import FORECAST_REACH, MIN_FORECAST_S, NEAR_SHARE

CERTAINTY = 0.95
"""Probability that the limit is reached in the interval."""
MIN_PARTS_COUNT = 4
"""Minimum number of parts for an interval."""
_MAX_PARTS_COUNT = 30
"""Maximum number of parts with its own quantile: quantiles of more parts are nearly equal."""
_MAX_AUTOCORRELATION = 0.9


def full_in_s(limit: str, used: str, growth: str | Column) -> Column:
    """Return the time (s) until column `used` reaches column `limit`; null for never.

    The rule is that of `model.live.limits`.
    """
    pace = F.col(growth) if isinstance(growth, str) else growth
    free_amount = F.col(limit) - F.col(used)
    time_to_full_s = F.when(free_amount <= 0, F.lit(0.0)).when(pace > 0, free_amount / pace)
    return F.when(F.col(limit).isNotNull(), time_to_full_s)


def is_reportable(left_s: Column, watched_s: Column) -> Column:
    """Return whether a forecast of `left_s` may be reported after `watched_s` of recording."""
    is_long_enough = (watched_s >= MIN_FORECAST_S) & (left_s <= watched_s * FORECAST_REACH)
    return (left_s == 0) | is_long_enough


def reportable_s(left_s: Column, watched_s: Column) -> Column:
    """Return `left_s`; null if `is_reportable` is false."""
    return F.when(is_reportable(left_s, watched_s), left_s)


def number_parts(
    rows: DataFrame, group_columns: list[str], order: str, paces: list[str]
) -> DataFrame:
    """Add to each part of a series, per pace, its third (1: the newest) and the previous value.

    `paces` are columns with the growth per second in a part; null if too little was recorded.
    `order` is the column by which the parts are sorted.
    """
    series = f"PARTITION BY {', '.join(group_columns)}"
    newest_first = f"{series} ORDER BY {order} DESC ROWS UNBOUNDED PRECEDING"
    added_columns = []
    for pace in paces:
        third = f"greatest(ceil(count({pace}) OVER ({series}) / 3), {MIN_PARTS_COUNT})"
        number = f"ceil(count({pace}) OVER ({newest_first}) / {third})"
        added_columns += [
            f"lag({pace}) OVER ({series} ORDER BY {order}) AS {pace}_before",
            f"IF({pace} IS NULL, NULL, {number}) AS {pace}_third",
        ]
    return rows.selectExpr("*", *added_columns)


def growth_aggregates(pace: str) -> list[Column]:
    """Return the aggregates of the parts of a series that `with_growth` requires."""

    def span_aggregates(name: str, condition: str) -> list[Column]:
        inside, before = (f"IF({condition}, {value}, NULL)" for value in (pace, f"{pace}_before"))
        return [
            F.expr(f"avg({inside}) AS {pace}_{name}"),
            F.expr(f"count({inside}) AS {pace}_{name}_count"),
            F.expr(f"stddev_samp({inside}) AS {pace}_{name}_spread"),
            F.expr(f"corr({inside}, {before}) AS {pace}_{name}_r"),
        ]

    return [
        *span_aggregates("recent", f"{pace}_third = 1"),
        *span_aggregates("earlier", f"{pace}_third = 2"),
        *span_aggregates("total", f"{pace} IS NOT NULL"),
    ]


_SPAN_NAMES = ("recent", "earlier", "total")
_SIGN_BY_END = {"": 0, "_most": 1, "_least": -1}


def with_growth(rows: DataFrame, paces: list[str], part_s: float | Column) -> DataFrame:
    """Add the columns that `is_certain` and `time_until_used_s` read, for each of the paces.

    `rows` are one per series, `part_s` is the length of a part. The columns are added in steps: a
    single expression would repeat each of them many times.
    """
    sums = [f"{pace}_{name}" for pace in paces for name in _SPAN_NAMES]
    rows = rows.withColumns({f"{name}_r": _autocorrelation(name) for name in sums})
    rows = rows.withColumns(
        {f"{name}_inflation": _inflation(f"{name}_r") for name in sums}
        | {f"{name}_t": t_quantile_of_mean(F.col(f"{name}_count")) for name in sums}
    )
    errors = (f"{name}_spread * sqrt({name}_inflation / {name}_count)" for name in sums)
    rows = rows.selectExpr("*", *map("{} AS {}_error".format, errors, sums))
    for step in (_certain_growth, partial(_accelerations, part_s=part_s)):
        rows = rows.withColumns(
            {name: column for pace in paces for name, column in step(pace).items()}
        )
    return rows


def _certain_growth(pace: str) -> dict[str, Column]:
    """Return column → value: whether the growth is certain, its change, and the change's margin.

    The change (per s) is that of the newest third to the third before, the margin its part that
    may be chance.
    """
    recent, earlier, total = (f"{pace}_{name}" for name in _SPAN_NAMES)
    are_growing = " AND ".join(f"{name} > {name}_t * {name}_error" for name in (recent, total))
    return {
        f"{pace}_certain": F.expr(f"coalesce({are_growing}, false)"),
        f"{pace}_change": F.expr(f"{recent} - {earlier}"),
        f"{pace}_margin": F.expr(f"{earlier}_t * hypot({recent}_error, {earlier}_error)"),
    }


def _accelerations(pace: str, part_s: float | Column) -> dict[str, Column]:
    """Return column → value: the acceleration of the growth (per s²), and its likely bounds.

    All are 0 if the change of the growth is within its margin of chance. `part_s` is the length of
    a part in s.
    """
    change, margin = F.col(f"{pace}_change"), F.col(f"{pace}_margin")
    has_acceleration = F.coalesce(F.abs(change) > margin, F.lit(False))
    distance_s = F.col(f"{pace}_recent_count") * part_s
    return {
        f"{pace}_acceleration{end}": F.when(
            has_acceleration, (change + sign * margin) / distance_s
        ).otherwise(0)
        for end, sign in _SIGN_BY_END.items()
    }


def _autocorrelation(name: str) -> Column:
    """Return the unbiased autocorrelation of a span, from 0 to `_MAX_AUTOCORRELATION`."""
    r = f"coalesce(nanvl({name}_r, 0D), 0D)"
    # The estimate from few values is too low, on average by this amount (Kendall).
    unbiased = f"{r} + (1 + 3 * {r}) / {name}_count"
    return F.expr(f"least(greatest({unbiased}, 0D), {_MAX_AUTOCORRELATION}D)")


def _inflation(r: str) -> Column:
    """Return the number of correlated parts that count as one independent part."""
    return F.expr(f"(1 + {r}) / (1 - {r})")


def has_enough_parts(pace: str) -> Column:
    """Return whether the newest third has enough parts for an interval."""
    return F.col(f"{pace}_recent_count") >= MIN_PARTS_COUNT


def is_certain(pace: str) -> Column:
    """Return whether the level certainly grows, in the newest third and in total."""
    return F.col(f"{pace}_certain")


def time_until_used_s(
    pace: str, free_amount: Column, part_s: float | Column, end: str = ""
) -> Column:
    """Return the time (s) until `free_amount` is used; null for never.

    `end` is `_most` or `_least` for the bounds of the likely growth, empty for the likely growth.
    """
    recent, count = F.col(f"{pace}_recent"), F.col(f"{pace}_recent_count")
    acceleration = F.col(f"{pace}_acceleration{end}")
    # The mean of the newest third was the growth in its middle.
    pace_now = recent + acceleration * count * part_s / 2
    if end:
        parts_ahead = F.greatest(free_amount / (recent * part_s), F.lit(1.0))
        inflation = F.col(f"{pace}_recent_inflation") * (1 / count + 1 / parts_ahead)
        margin = F.col(f"{pace}_recent_t") * F.col(f"{pace}_recent_spread") * F.sqrt(inflation)
        pace_now = pace_now + _SIGN_BY_END[end] * margin
    root = pace_now * pace_now + 2 * acceleration * free_amount
    time_s = F.when((pace_now > 0) & (root >= 0), 2 * free_amount / (pace_now + F.sqrt(root)))
    return F.when(free_amount <= 0, F.lit(0.0)).otherwise(time_s)


def t_quantile_of_mean(parts_count: Column) -> Column:
    """Return the quantile of Student's t for the interval of the mean of `parts_count` parts.

    It is null for less than `MIN_PARTS_COUNT` parts.
    """
    # One text: a call into the JVM for each number would take longer than the query.
    numbers = (
        t_quantile((1 + CERTAINTY) / 2, n - 1)
        for n in range(MIN_PARTS_COUNT, _MAX_PARTS_COUNT + 1)
    )
    quantiles = F.expr(f"array({', '.join(f'{number}D' for number in numbers)})")
    index = F.least(parts_count, F.lit(_MAX_PARTS_COUNT)) - MIN_PARTS_COUNT
    return F.when(parts_count >= MIN_PARTS_COUNT, F.get(quantiles, index.cast("int")))


def limit_cause(used_share: Column) -> Column:
    """Return the cause of a finding about a limit: `NEAR` from `NEAR_SHARE`, else `FULL_SOON`."""
    return F.when(used_share >= NEAR_SHARE, NEAR).otherwise(FULL_SOON)


def interval_text(earliest: Column, latest: Column) -> Column:
    """Return the interval of a forecast as text; null if an end is null."""
    certainty_text = F.lit(f" ({CERTAINTY * 100:.0f} % sure)")
    return F.concat(F.lit("between "), earliest, F.lit(" and "), latest, certainty_text)
