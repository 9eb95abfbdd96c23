"""Answer 8: is a session slower or faster than another, and how sure is that?

Spark has reduced each metric of each session to a handful of numbers (`block_values`); the test
itself needs only those.
"""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from natstui.analysis.gold import statistics
from natstui.analysis.gold.answer import Answer, Given, finding
from natstui.analysis.gold.bench import BEFORE_MEASURING, slots
from natstui.analysis.section import Section
from natstui.analysis.silver.layer import Silver
from natstui.analysis.spark.local_rows import local_rows
from natstui.analysis.tables import Table, columns

SAME = "no significant change"

COMPARISON = Table(
    "comparison",
    "Every metric of a session, or group of sessions, against the baseline.",
    columns(
        ("baseline", "string", "Session, or sessions, compared with"),
        ("compared", "string", "Session, or sessions, compared"),
        ("metric", "string", "What was compared"),
        ("baseline_mean", "double", "Mean of the baseline, in the metric's unit"),
        ("compared_mean", "double", "Mean of the compared, in the metric's unit"),
        ("mean_change", "double", "Relative difference of the two"),
        ("low_change", "double", "The true difference is above this (99.8 % sure)"),
        ("high_change", "double", "The true difference is below this (99.8 % sure)"),
        ("p_value", "double", "Chance of such a difference between equals, Holm-corrected"),
        ("verdict", "string", "slower, faster, more, less, no significant change or unknown"),
    ),
)

BETTER = {
    "api round trip (µs)": "low",
    "published (msg/s)": "",
    "delivered (msg/s)": "",
    "pending (messages)": "low",
}
"""Which way is better; of benchmark metrics, the name decides."""


def comparison(
    spark: SparkSession, reduced: list[Reduced], baseline: tuple[str, ...]
) -> DataFrame:
    """Return the table `comparison`; without rows when there is nothing to compare with."""
    return local_rows(spark, COMPARISON, compare(reduced, baseline))


Row = tuple[str, str, str, float, float, float | None, float | None, float | None, float | None,
            str]  # fmt: skip


def compare(reduced: list[Reduced], baseline: tuple[str, ...]) -> list[Row]:
    """Compare the sessions that are not the baseline with it.

    With a baseline, all others together are one group; without, the earliest session is the
    baseline and each other one is compared by itself.
    """
    sessions = sorted({one.session for one in reduced})
    if len(sessions) < 2:
        return []
    if baseline:
        others = tuple(name for name in sessions if name not in baseline)
        return _rows(reduced, baseline, others) if others else []
    first, *rest = sessions
    return [row for name in rest for row in _rows(reduced, (first,), (name,))]


def _rows(reduced: list[Reduced], first: tuple[str, ...], second: tuple[str, ...]) -> list[Row]:
    metrics = sorted({one.metric for one in reduced})
    pairs = []
    for metric in metrics:
        groups = [_group(reduced, names, metric) for names in (first, second)]
        if groups[0] is not None and groups[1] is not None:
            found = statistics.difference(groups[0], groups[1], statistics.SIGNIFICANCE)
            pairs.append((metric, groups[0], groups[1], found))
    corrected = iter(statistics.holm([found.p_value for *_, found in pairs if found]))
    names = (", ".join(first), ", ".join(second))
    rows: list[Row] = []
    for metric, before, after, found in pairs:
        head = (*names, metric, before.mean, after.mean)
        if found is None:
            rows.append((*head, None, None, None, None, "unknown"))
            continue
        p_value = next(corrected)
        verdict = _verdict(metric, found.change, p_value)
        rows.append((*head, found.change, found.low, found.high, p_value, verdict))
    return rows


def _group(reduced: list[Reduced], names: tuple[str, ...], metric: str) -> statistics.Group | None:
    """Pool the sessions of a group; from three on, each session counts as one value."""
    members = [one for one in reduced if one.session in names and one.metric == metric]
    total = sum(one.n for one in members)
    if not total:
        return None
    mean = sum(one.n * one.mean for one in members) / total
    if len(members) >= statistics.LEAST_VALUES:
        means = [one.mean for one in members]
        mean = sum(means) / len(means)
        variance = sum((value - mean) ** 2 for value in means) / (len(means) - 1)
        return statistics.Group(len(means), mean, variance)
    within = sum(one.n * (one.variance + (one.mean - mean) ** 2) for one in members) / total
    n = sum(statistics.independent_count(one.n, one.neighbours) for one in members)
    return statistics.Group(n, mean, within)


def _verdict(metric: str, change: float, p_value: float) -> str:
    if p_value >= statistics.SIGNIFICANCE or abs(change) < statistics.LEAST_CHANGE:
        return SAME
    default = "low" if "latency" in metric else "high"
    better = BETTER.get(metric, default)
    if not better:
        return "more" if change > 0 else "less"
    return "slower" if (change > 0) == (better == "low") else "faster"


def changed(comparisons: DataFrame) -> DataFrame:
    """Return findings about metrics that became slower or faster."""
    rows = comparisons.where(F.col("verdict").isin("slower", "faster"))
    rows = rows.withColumnRenamed("compared", "session")
    worse = F.col("verdict") == "slower"
    weight = F.when(worse, 65).otherwise(30) + F.least(F.abs("mean_change") * 50, F.lit(25.0))
    sentence = F.format_string(
        "%s than %s: %+.1f %%", F.col("verdict"), F.col("baseline"), F.col("mean_change") * 100
    )
    evidence = F.format_string(
        "between %+.1f and %+.1f %%", F.col("low_change") * 100, F.col("high_change") * 100
    )
    return finding(rows, "comparison", F.col("metric"), weight, (sentence, evidence))


def _rows_of_run(given: Given) -> DataFrame:
    values = block_values(given.silver, given.gold("load"), slots(given.silver))
    return comparison(given.spark, reduce(values), given.thresholds.baseline)


ANSWERS = (
    Answer(
        COMPARISON,
        _rows_of_run,
        needs=("load",),
        findings=(changed,),
        section=Section(
            "Comparison",
            ("compared", "baseline", "metric", "baseline_mean", "compared_mean", "mean_change",
             "low_change", "high_change", "verdict"),
            "One session alone: nothing to compare with.",
        ),
        sorted_by=("metric",),
    ),
)  # fmt: skip


BLOCK_US = 10_000_000
_MOST_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Reduced:
    """One metric of one session."""

    session: str
    metric: str
    n: int
    mean: float
    variance: float
    neighbours: float | None


def block_values(silver: Silver, loads: DataFrame, slotted: DataFrame) -> DataFrame:
    """Return one value per session, metric and block of time."""
    block = F.col("at_us") - F.pmod("at_us", F.lit(BLOCK_US))
    polls = silver.poll.where(F.col("api_rtt_us").isNotNull())
    rtt = polls.groupBy("session", block.alias("at_us")).agg(F.avg("api_rtt_us").alias("value"))
    values = rtt.select("session", F.lit("api round trip (µs)").alias("metric"), "at_us", "value")
    pairs = {
        "published (msg/s)": "published_per_s",
        "delivered (msg/s)": "delivered_per_s",
        "pending (messages)": "pending_mean_msgs",
    }
    metrics = [F.struct(F.lit(m).alias("metric"), F.col(c).alias("value")) for m, c in
               pairs.items()]  # fmt: skip
    spread = loads.select("session", F.col("bucket_at_us").alias("at_us"),
                          F.inline(F.array(*metrics)))  # fmt: skip
    values = values.unionByName(spread)
    return values.unionByName(_bench_throughput(slotted)).unionByName(_bench_latency(silver))


def _bench_throughput(slotted: DataFrame) -> DataFrame:
    metric = F.concat(F.lit("bench "), "counter", F.lit(" (msg/s)")).alias("metric")
    rows = slotted.groupBy("session", metric, F.col("slot_at_us").alias("at_us"))
    sums = rows.agg(F.sum("msgs").cast("double").alias("value")).where(F.col("value") > 0)
    # Warm-up and drain are no seconds of the load; half of the median separates them.
    usual = F.median("value").over(Window.partitionBy("session", "metric"))
    return (
        sums.withColumn("usual", usual).where(F.col("value") >= F.col("usual") / 2).drop("usual")
    )


def _bench_latency(silver: Silver) -> DataFrame:
    early = F.coalesce(F.col("phase").isin(*BEFORE_MEASURING), F.lit(False))
    rows = silver.bench_latency.where(F.col("corrected") & ~early)
    metric = F.concat(F.lit("bench "), "metric", F.lit(" latency (µs)")).alias("metric")
    second = (F.col("at_us") - F.pmod("at_us", F.lit(1_000_000))).alias("at_us")
    weight = F.col("latencies_count")
    mean = F.sum(F.col("latency_ns") / 1e3 * weight) / F.sum(weight)
    return rows.groupBy("session", metric, second).agg(mean.alias("value"))


def reduce(values: DataFrame) -> list[Reduced]:
    """Reduce the values of each session and metric to what the test needs."""
    order = Window.partitionBy("session", "metric").orderBy("at_us")
    rows = values.where(F.col("value").isNotNull())
    rows = rows.withColumn("before", F.lag("value").over(order))
    sums = rows.groupBy("session", "metric").agg(
        F.count("*").alias("n"),
        F.avg("value").alias("mean"),
        F.coalesce(F.var_samp("value"), F.lit(0.0)).alias("variance"),
        F.corr("value", "before").alias("neighbours"),
    )
    # The correlation of a constant is NaN in Spark.
    names = ["session", "metric", "n", "mean", "variance", "neighbours"]
    sums = sums.withColumn("neighbours", F.nanvl("neighbours", F.lit(None))).select(*names)
    return [Reduced(*row) for row in sums.orderBy("session", "metric").take(_MOST_ROWS)]
