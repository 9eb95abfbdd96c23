"""Forecasts of the time at which a limit is reached, with their interval.

A forecast requires that the level was recorded for `MIN_FORECAST_RECORDING_S`, and reaches at most
`MAX_FORECAST_MULTIPLE` times the recorded time ahead. The session is cut into parts. The growth of
the newest third of them is extrapolated: with acceleration, if it differs from the growth of the
third before by more than chance. The level must grow with certainty, in that third and in total.
The interval follows from the variation of the growth between parts and from their autocorrelation.
Its start also allows for an acceleration that cannot be distinguished from chance. Without enough
parts for an interval there is no forecast. A limit that is already reached is no forecast.
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from natstui.analysis.gold.comparison.statistics import t_quantile
from natstui.analysis.gold.shared.harm import FULL_SOON_CAUSE, NEAR_CAUSE
from natstui.model.findings.thresholds import (
    MAX_FORECAST_MULTIPLE,
    MIN_FORECAST_RECORDING_S,
    NEAR_LIMIT_SHARE,
)

NO_FORECAST_MEANING = "null: never, or the growth is uncertain or was recorded too briefly"
CERTAINTY = 0.95
"""Probability that the limit is reached in the interval."""
MIN_PARTS_COUNT = 4
"""Minimum number of parts for an interval."""
_MAX_PARTS_COUNT = 30
"""Maximum number of parts with its own quantile: quantiles of more parts are nearly equal."""
_MAX_AUTOCORRELATION = 0.9


def is_reportable(left_s: Column, watched_s: Column) -> Column:
    """Return whether a forecast of `left_s` may be reported after `watched_s` of recording."""
    is_long_enough = (watched_s >= MIN_FORECAST_RECORDING_S) & (
        left_s <= watched_s * MAX_FORECAST_MULTIPLE
    )
    return (left_s == 0) | is_long_enough


def reportable_s(left_s: Column, watched_s: Column) -> Column:
    """Return `left_s`; null if `is_reportable` is false."""
    return F.when(is_reportable(left_s, watched_s), left_s)


def number_parts(
    rows: DataFrame, group_columns: list[str], order: str, growth_columns: list[str]
) -> DataFrame:
    """Add to each part of a series, per growth column, its third (1: newest) and previous value.

    `growth_columns` have the growth per second in a part; null if too little was recorded.
    `order` is the column by which the parts are sorted.
    """
    series_window = f"PARTITION BY {', '.join(group_columns)}"
    newest_first_window = f"{series_window} ORDER BY {order} DESC ROWS UNBOUNDED PRECEDING"
    added_columns = []
    for growth_column in growth_columns:
        third_parts_count = (
            f"greatest(ceil(count({growth_column}) OVER ({series_window}) / 3), {MIN_PARTS_COUNT})"
        )
        third_number = (
            f"ceil(count({growth_column}) OVER ({newest_first_window}) / {third_parts_count})"
        )
        added_columns += [
            f"lag({growth_column}) OVER ({series_window} ORDER BY {order})"
            f" AS {growth_column}_before",
            f"IF({growth_column} IS NULL, NULL, {third_number}) AS {growth_column}_third",
        ]
    return rows.selectExpr("*", *added_columns)


def growth_aggregates(growth_column: str, order: str) -> list[Column]:
    """Return the aggregates of the parts of a series that `with_growth` requires.

    `order` is the column by which the parts are sorted.
    """

    def span_aggregates(name: str, condition: str) -> list[Column]:
        span_values, previous_values = (
            f"IF({condition}, {value}, NULL)"
            for value in (growth_column, f"{growth_column}_before")
        )
        return [
            F.expr(f"avg({span_values}) AS {growth_column}_{name}"),
            F.expr(f"count({span_values}) AS {growth_column}_{name}_count"),
            F.expr(f"stddev_samp({span_values}) AS {growth_column}_{name}_spread"),
            F.expr(f"corr({span_values}, {previous_values}) AS {growth_column}_{name}_r"),
            F.expr(f"corr({span_values}, {order}) AS {growth_column}_{name}_trend"),
        ]

    return [
        *span_aggregates("recent", f"{growth_column}_third = 1"),
        *span_aggregates("earlier", f"{growth_column}_third = 2"),
        *span_aggregates("total", f"{growth_column} IS NOT NULL"),
    ]


_SPAN_NAMES = ("recent", "earlier", "total")
_SIGN_BY_BOUND = {"": 0, "_most": 1, "_least": -1}


def with_growth(rows: DataFrame, growth_columns: list[str], part_s: float | Column) -> DataFrame:
    """Add the columns that `is_growth_certain` and `time_until_used_s` read, per growth column.

    `rows` are one per series, `part_s` is the length of a part. The columns are added in steps: a
    single expression would repeat each of them many times.
    """
    span_prefixes = [
        f"{growth_column}_{name}" for growth_column in growth_columns for name in _SPAN_NAMES
    ]
    rows = rows.withColumns({f"{name}_r": _autocorrelation(name) for name in span_prefixes})
    rows = rows.withColumns(
        {f"{name}_recent_r": _larger_autocorrelation(name) for name in growth_columns}
    )
    rows = rows.withColumns(
        {f"{name}_inflation": _inflation(f"{name}_r") for name in span_prefixes}
        | {f"{name}_t": _t_quantile_of_mean(F.col(f"{name}_count")) for name in span_prefixes}
    )
    error_sqls = (
        f"{name}_spread * sqrt({name}_inflation / {name}_count)" for name in span_prefixes
    )
    rows = rows.selectExpr("*", *map("{} AS {}_error".format, error_sqls, span_prefixes))
    for step in (_certain_growth, partial(_accelerations, part_s=part_s)):
        rows = rows.withColumns(
            {
                name: column
                for growth_column in growth_columns
                for name, column in step(growth_column).items()
            }
        )
    return rows


def _certain_growth(growth_column: str) -> dict[str, Column]:
    """Return column → value: whether the growth is certain, its change, and the change's margin.

    The change (per s) is that of the newest third to the third before, the margin its part that
    may be chance. A trend within the thirds is no chance.
    """
    recent, earlier, total = (f"{growth_column}_{name}" for name in _SPAN_NAMES)
    are_growing = " AND ".join(f"{name} > {name}_t * {name}_error" for name in (recent, total))
    return {
        f"{growth_column}_certain": F.expr(f"coalesce({are_growing}, false)"),
        f"{growth_column}_change": F.expr(f"{recent} - {earlier}"),
        f"{growth_column}_margin": F.expr(
            f"{earlier}_t * hypot({_error_around_trend(recent)}, {_error_around_trend(earlier)})"
        ),
    }


def _error_around_trend(name: str) -> str:
    """Return the standard error of a span's mean without the variation that its trend explains.

    `name` is the prefix of the span's columns. The text is an expression of Spark.
    """
    trend_sql = f"coalesce(nanvl({name}_trend, 0D), 0D)"
    unexplained_sql = f"greatest(1 - {trend_sql} * {trend_sql}, 0D)"
    return f"{name}_error * sqrt({unexplained_sql} * ({name}_count - 1) / ({name}_count - 2))"


def _accelerations(growth_column: str, part_s: float | Column) -> dict[str, Column]:
    """Return column → value: the acceleration of the growth (per s²), and its likely bounds.

    It is 0 if the change of the growth is within its margin of chance. So is the lower bound: with
    every deceleration that is possible no forecast would have an end. `part_s` is the length of a
    part in s.
    """
    growth_change, margin = F.col(f"{growth_column}_change"), F.col(f"{growth_column}_margin")
    has_acceleration = F.abs(growth_change) > margin
    condition_by_bound = {"": has_acceleration, "_most": F.lit(True), "_least": has_acceleration}
    time_between_thirds_s = F.col(f"{growth_column}_recent_count") * part_s
    return {
        f"{growth_column}_acceleration{bound}": F.coalesce(
            F.when(
                condition_by_bound[bound], (growth_change + sign * margin) / time_between_thirds_s
            ),
            F.lit(0.0),
        )
        for bound, sign in _SIGN_BY_BOUND.items()
    }


def _autocorrelation(name: str) -> Column:
    """Return the unbiased autocorrelation of a span, from 0 to `_MAX_AUTOCORRELATION`.

    `name` is the prefix of the span's columns.
    """
    correlation_sql = f"coalesce(nanvl({name}_r, 0D), 0D)"
    # The estimate from few values is too low, on average by this amount (Kendall).
    unbiased_correlation_sql = f"{correlation_sql} + (1 + 3 * {correlation_sql}) / {name}_count"
    return F.expr(f"least(greatest({unbiased_correlation_sql}, 0D), {_MAX_AUTOCORRELATION}D)")


def _larger_autocorrelation(growth_column: str) -> Column:
    """Return the autocorrelation of the newest third, or of the third before if that is larger.

    The estimate from the few parts of a third is often too low by chance.
    """
    has_enough_earlier_parts = F.col(f"{growth_column}_earlier_count") >= MIN_PARTS_COUNT
    earlier_r = F.when(has_enough_earlier_parts, F.col(f"{growth_column}_earlier_r"))
    return F.greatest(F.col(f"{growth_column}_recent_r"), earlier_r)


def _inflation(autocorrelation_column: str) -> Column:
    """Return the number of correlated parts that count as one independent part."""
    return F.expr(f"(1 + {autocorrelation_column}) / (1 - {autocorrelation_column})")


def is_growth_certain(growth_column: str) -> Column:
    """Return whether the interval of the mean growth is above 0, in the newest third and in total.

    `growth_column` has the growth per second in a part; `with_growth` has computed its interval.
    """
    return F.col(f"{growth_column}_certain")


def growth_margin(growth_column: str) -> Column:
    """Return the largest likely distance of the total mean growth from the true one; null if
    unknown. `with_growth` has computed it.
    """
    return F.col(f"{growth_column}_total_t") * F.col(f"{growth_column}_total_error")


def time_until_used_s(
    growth_column: str, free_amount: Column, part_s: float | Column, end: str = ""
) -> Column:
    """Return the time (s) until `free_amount` is used; null for never.

    `end` is `_most` or `_least` for the bounds of the likely growth, empty for the likely growth.
    The bounds are also null with too few parts for an interval.
    """
    recent_growth_per_s, recent_count = (
        F.col(f"{growth_column}_recent"),
        F.col(f"{growth_column}_recent_count"),
    )
    acceleration = F.col(f"{growth_column}_acceleration{end}")
    # The mean of the newest third was the growth in its middle.
    growth_now_per_s = recent_growth_per_s + acceleration * recent_count * part_s / 2
    if end:
        parts_ahead = F.greatest(free_amount / (recent_growth_per_s * part_s), F.lit(1.0))
        inflation = F.col(f"{growth_column}_recent_inflation") * (
            1 / recent_count + 1 / parts_ahead
        )
        margin = (
            F.col(f"{growth_column}_recent_t")
            * F.col(f"{growth_column}_recent_spread")
            * F.sqrt(inflation)
        )
        growth_now_per_s = growth_now_per_s + _SIGN_BY_BOUND[end] * margin
    discriminant = growth_now_per_s * growth_now_per_s + 2 * acceleration * free_amount
    time_s = F.when(
        (growth_now_per_s > 0) & (discriminant >= 0),
        2 * free_amount / (growth_now_per_s + F.sqrt(discriminant)),
    )
    return F.when(free_amount <= 0, F.lit(0.0)).otherwise(time_s)


def _t_quantile_of_mean(parts_count: Column) -> Column:
    """Return the quantile of Student's t for the interval of the mean of `parts_count` parts.

    It is null for less than `MIN_PARTS_COUNT` parts.
    """
    # One text: a call into the JVM for each number would take longer than the query.
    quantile_values = (
        t_quantile((1 + CERTAINTY) / 2, n - 1)
        for n in range(MIN_PARTS_COUNT, _MAX_PARTS_COUNT + 1)
    )
    quantiles = F.expr(f"array({', '.join(f'{value}D' for value in quantile_values)})")
    index = F.least(parts_count, F.lit(_MAX_PARTS_COUNT)) - MIN_PARTS_COUNT
    return F.when(parts_count >= MIN_PARTS_COUNT, F.get(quantiles, index.cast("int")))


def limit_cause(used_share: Column) -> Column:
    """Return the cause of a finding: near the limit from `NEAR_LIMIT_SHARE` on, else full soon."""
    return F.when(used_share >= NEAR_LIMIT_SHARE, NEAR_CAUSE).otherwise(FULL_SOON_CAUSE)


def interval_text(earliest: Column, latest: Column) -> Column:
    """Return the interval of a forecast as text; null if an end is null."""
    certainty_text = F.lit(f" ({CERTAINTY * 100:.0f} % sure)")
    return F.concat(F.lit("between "), earliest, F.lit(" and "), latest, certainty_text)
