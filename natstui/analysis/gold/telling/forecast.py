"""Forecasts of the time at which a limit is reached, with their interval.

A forecast requires that the level was watched for `FORECAST_LEAST_S`, and reaches at most
`FORECAST_REACH` times the watched time ahead. The session is cut into parts, and the growth of the
newest third of them is extrapolated: with acceleration, if it differs from that of the third
before by more than chance. The level must grow with certainty, in that third and in total. The
interval follows from the variation of the growth between parts and from their autocorrelation. A
limit that is already reached is no forecast.
"""

from __future__ import annotations

from functools import partial

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from natstui.analysis.gold.comparing.statistics import t_quantile
from natstui.analysis.gold.telling.harm import FULL_SOON, NEAR
from natstui.model.findings.thresholds import FORECAST_LEAST_S, FORECAST_REACH, NEAR_SHARE

SURE = 0.95
"""Probability that the limit is reached in the interval."""
LEAST_PARTS = 4
"""Minimum of parts for an interval."""
_MOST_PARTS = 30
"""Maximum of parts with an own quantile: those of more parts are nearly equal."""
_MOST_AUTOCORRELATION = 0.9


def full_in_s(limit: str, used: str, growth: str | Column) -> Column:
    """Return the time until a limit is reached, by the rule of `model.live.limits`."""
    pace = F.col(growth) if isinstance(growth, str) else growth
    room = F.col(limit) - F.col(used)
    full = F.when(room <= 0, F.lit(0.0)).when(pace > 0, room / pace)
    return F.when(F.col(limit).isNotNull(), full)


def is_reportable(left_s: Column, watched_s: Column) -> Column:
    """Return whether `left_s` may be reported after watching for `watched_s`."""
    is_long_enough = (watched_s >= FORECAST_LEAST_S) & (left_s <= watched_s * FORECAST_REACH)
    return (left_s == 0) | is_long_enough


def reportable_s(left_s: Column, watched_s: Column) -> Column:
    """Return `left_s`; null if it may not be reported after watching for `watched_s`."""
    return F.when(is_reportable(left_s, watched_s), left_s)


def numbered_parts(
    rows: DataFrame, group_columns: list[str], order: str, paces: list[str]
) -> DataFrame:
    """Add the number of the third, from the newest, and the previous pace to parts of a series.

    `paces` are columns with the growth per second in a part, null if too little was watched.
    """
    series = f"PARTITION BY {', '.join(group_columns)}"
    newest_first = f"{series} ORDER BY {order} DESC ROWS UNBOUNDED PRECEDING"
    added = []
    for pace in paces:
        third = f"greatest(ceil(count({pace}) OVER ({series}) / 3), {LEAST_PARTS})"
        number = f"ceil(count({pace}) OVER ({newest_first}) / {third})"
        added += [
            f"lag({pace}) OVER ({series} ORDER BY {order}) AS {pace}_before",
            f"IF({pace} IS NULL, NULL, {number}) AS {pace}_third",
        ]
    return rows.selectExpr("*", *added)


def growth_sums(pace: str) -> list[Column]:
    """Return the aggregated columns of the parts of a series that `with_growth` needs."""

    def sums_of(name: str, condition: str) -> list[Column]:
        inside, before = (f"IF({condition}, {value}, NULL)" for value in (pace, f"{pace}_before"))
        return [
            F.expr(f"avg({inside}) AS {pace}_{name}"),
            F.expr(f"count({inside}) AS {pace}_{name}_count"),
            F.expr(f"stddev_samp({inside}) AS {pace}_{name}_spread"),
            F.expr(f"corr({inside}, {before}) AS {pace}_{name}_r"),
        ]

    return [
        *sums_of("recent", f"{pace}_third = 1"),
        *sums_of("earlier", f"{pace}_third = 2"),
        *sums_of("whole", f"{pace} IS NOT NULL"),
    ]


_NAMES = ("recent", "earlier", "whole")
_SIGNS = {"": 0, "_most": 1, "_least": -1}


def with_growth(rows: DataFrame, paces: list[str], part_s: float | Column) -> DataFrame:
    """Add the columns for `is_certain` and `left_s` to series, for each of the paces.

    They are added step by step: a single expression would repeat each of them many times.
    """
    sums = [f"{pace}_{name}" for pace in paces for name in _NAMES]
    rows = rows.withColumns({f"{name}_r": _autocorrelation(name) for name in sums})
    rows = rows.withColumns(
        {f"{name}_inflation": _inflation(f"{name}_r") for name in sums}
        | {f"{name}_t": quantile(F.col(f"{name}_count")) for name in sums}
    )
    errors = (f"{name}_spread * sqrt({name}_inflation / {name}_count)" for name in sums)
    rows = rows.selectExpr("*", *map("{} AS {}_error".format, errors, sums))
    for step in (_growth, partial(_accelerations, part_s=part_s)):
        rows = rows.withColumns(
            {name: column for pace in paces for name, column in step(pace).items()}
        )
    return rows


def _growth(pace: str) -> dict[str, Column]:
    """Return whether a pace is certain to grow, and its change with the margin of chance."""
    recent, earlier, whole = (f"{pace}_{name}" for name in _NAMES)
    are_growing = " AND ".join(f"{name} > {name}_t * {name}_error" for name in (recent, whole))
    return {
        f"{pace}_certain": F.expr(f"coalesce({are_growing}, false)"),
        f"{pace}_change": F.expr(f"{recent} - {earlier}"),
        f"{pace}_margin": F.expr(f"{earlier}_t * hypot({recent}_error, {earlier}_error)"),
    }


def _accelerations(pace: str, part_s: float | Column) -> dict[str, Column]:
    """Return the acceleration of a pace, and its limits; 0 if it may be chance."""
    change, margin = F.col(f"{pace}_change"), F.col(f"{pace}_margin")
    has_acceleration = F.coalesce(F.abs(change) > margin, F.lit(False))
    distance_s = F.col(f"{pace}_recent_count") * part_s
    return {
        f"{pace}_acceleration{end}": F.when(
            has_acceleration, (change + sign * margin) / distance_s
        ).otherwise(0)
        for end, sign in _SIGNS.items()
    }


def _autocorrelation(name: str) -> Column:
    """Return the autocorrelation of neighbours, 0 to `_MOST_AUTOCORRELATION`, without bias."""
    r = f"coalesce(nanvl({name}_r, 0D), 0D)"
    # Of few values it is estimated too low, on average by so much (Kendall).
    unbiased = f"{r} + (1 + 3 * {r}) / {name}_count"
    return F.expr(f"least(greatest({unbiased}, 0D), {_MOST_AUTOCORRELATION}D)")


def _inflation(r: str) -> Column:
    """Return the number of correlated parts that count as one independent part."""
    return F.expr(f"(1 + {r}) / (1 - {r})")


def is_known(pace: str) -> Column:
    """Return whether there are enough parts for an interval."""
    return F.col(f"{pace}_recent_count") >= LEAST_PARTS


def is_certain(pace: str) -> Column:
    """Return whether the level certainly grows, in the newest third and in total."""
    return F.col(f"{pace}_certain")


def left_s(pace: str, room: Column, part_s: float | Column, end: str = "") -> Column:
    """Return the time until `room` is used; null for never.

    `end` is `_most` or `_least` for the limits of the likely growth until then.
    """
    recent, count = F.col(f"{pace}_recent"), F.col(f"{pace}_recent_count")
    acceleration = F.col(f"{pace}_acceleration{end}")
    # The mean of the newest third was the growth in its middle.
    pace_now = recent + acceleration * count * part_s / 2
    if end:
        parts_ahead = F.greatest(room / (recent * part_s), F.lit(1.0))
        inflation = F.col(f"{pace}_recent_inflation") * (1 / count + 1 / parts_ahead)
        margin = F.col(f"{pace}_recent_t") * F.col(f"{pace}_recent_spread") * F.sqrt(inflation)
        pace_now = pace_now + _SIGNS[end] * margin
    root = pace_now * pace_now + 2 * acceleration * room
    time_s = F.when((pace_now > 0) & (root >= 0), 2 * room / (pace_now + F.sqrt(root)))
    return F.when(room <= 0, F.lit(0.0)).otherwise(time_s)


def quantile(parts_count: Column) -> Column:
    """Return the quantile of Student's t for the interval of a mean of `parts_count` parts."""
    # As one text: a call into the JVM for each of them would take longer than the query.
    numbers = (t_quantile((1 + SURE) / 2, n - 1) for n in range(LEAST_PARTS, _MOST_PARTS + 1))
    quantiles = F.expr(f"array({', '.join(f'{number}D' for number in numbers)})")
    index = F.least(parts_count, F.lit(_MOST_PARTS)) - LEAST_PARTS
    return F.when(parts_count >= LEAST_PARTS, F.get(quantiles, index.cast("int")))


def near_or_soon(used_share: Column) -> Column:
    """Return the cause of a finding about a limit: near from `NEAR_SHARE`, else full soon."""
    return F.when(used_share >= NEAR_SHARE, NEAR).otherwise(FULL_SOON)


def between(earliest: Column, latest: Column) -> Column:
    """Return the interval of a forecast as text."""
    certainty_text = F.lit(f" ({SURE * 100:.0f} % sure)")
    return F.concat(F.lit("between "), earliest, F.lit(" and "), latest, certainty_text)
