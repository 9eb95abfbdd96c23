"""Answer 8: is a session slower or faster than another, and how sure is that?

Spark has reduced each metric of each session to a handful of numbers (`block_values`); the test
itself needs only those.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from natstui.analysis.gold import statistics
from natstui.analysis.gold.answer import Answer, Given, finding
from natstui.analysis.gold.bench import slots
from natstui.analysis.gold.blocks import Reduced, block_values, reduce
from natstui.analysis.section import Section
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
    return spark.createDataFrame(compare(reduced, baseline), COMPARISON.ddl())


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
