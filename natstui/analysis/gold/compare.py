"""Table of the metrics that are significantly better or worse than in another session.

Totals are compared, and each stream and consumer. Spark reduces each metric of each session to a
few numbers (`comparison/blocks.py`), from which the test is computed (`comparison/verdicts.py`).
"""

from __future__ import annotations

from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from natstui.analysis.gold.bench import messages_per_second
from natstui.analysis.gold.comparison.blocks import SeriesSample, block_values, summarize_metrics
from natstui.analysis.gold.comparison.verdicts import UNKNOWN, ComparisonRow, compare
from natstui.analysis.gold.gold_table import (
    RECORDING_KIND,
    GoldInputs,
    GoldTable,
    build_findings,
    consumer_text,
)
from natstui.analysis.section import Section
from natstui.analysis.tables import Table, columns

SAMPLE_METRIC = "sample"
"""Value of `metric` in the row that says that only a sample was compared."""
COMPARISON = Table(
    "comparison",
    "Metrics of one or several sessions, compared with the baseline; of single streams and "
    "consumers only the metrics that changed.",
    columns(
        (
            "baseline",
            "string",
            "The baseline: a session or several; default: the earliest of "
            "the same server and account",
        ),
        ("compared", "string", "The session or sessions that are compared with the baseline"),
        ("metric", "string", "What was compared"),
        ("stream", "string", "Name of the stream; null: all streams together"),
        ("consumer", "string", "Of which consumer"),
        ("baseline_mean", "double", "Mean of the baseline, in the metric's unit"),
        ("compared_mean", "double", "Mean of the compared sessions, in the metric's unit"),
        (
            "mean_change",
            "double",
            "Relative difference of the two means; null if the baseline is 0",
        ),
        ("low_change", "double", "Lower bound of the true difference (99.8 % sure)"),
        ("high_change", "double", "Upper bound of the true difference (99.8 % sure)"),
        (
            "p_value",
            "double",
            "Probability of such a difference by chance (p-value, Holm-corrected)",
        ),
        ("words", "string", "The difference in words"),
        ("interval", "string", "The interval of the true difference, in words"),
        ("verdict", "string", "slower, faster, more, less, no significant change or unknown"),
        (
            "sample",
            "string",
            "If only a sample was compared: its share, the number of series, and the seed; null "
            "if all were compared",
        ),
    ),
    key=("baseline", "compared", "metric", "stream", "consumer"),
)


def find_changed_metrics(comparisons: DataFrame) -> DataFrame:
    """Return a finding for each session, stream or consumer that is slower or faster."""
    rows = comparisons.where(F.col("verdict").isin("slower", "faster"))
    rows = rows.withColumnRenamed("compared", "session")
    subject = F.coalesce(F.nullif(consumer_text(), F.lit("")), "metric").alias("subject")
    change_weight = F.least(F.coalesce(F.abs("mean_change") * 50, F.lit(25.0)), F.lit(25.0))
    difference = F.struct((-change_weight).alias("order"), "metric", "words", "interval")
    rows = rows.groupBy("session", "baseline", "verdict", subject).agg(
        F.sort_array(F.collect_list(difference)).alias("differences"),
        F.max(change_weight).alias("size"),
    )
    weight = F.when(F.col("verdict") == "slower", 65).otherwise(30) + F.col("size")
    texts = F.array_join("differences.words", "; ")
    sentence = F.concat("verdict", F.lit(" than "), "baseline", F.lit(": "), texts)
    evidence = F.array_join("differences.interval", "; ")
    texts = (sentence, evidence)
    return build_findings(rows, "comparison", F.col("subject"), weight, texts, F.col("verdict"))


def _compute_comparison(inputs: GoldInputs) -> DataFrame:
    """Return `comparison`: one row per pair of compared sessions and metric.

    Metrics are of all streams together, and of each stream and consumer.
    """
    if len(inputs.systems) < 2:
        return inputs.create_rows(COMPARISON, [])
    values = block_values(inputs.silver, inputs.gold("load"), messages_per_second(inputs.silver))
    summaries, sample = summarize_metrics(values)
    return inputs.create_rows(
        COMPARISON,
        with_sample_column(compare(summaries, inputs.thresholds.baseline, inputs.systems), sample),
    )


def with_sample_column(
    rows: list[ComparisonRow], sample: SeriesSample | None
) -> list[tuple[Any, ...]]:
    """Return the rows with the column `sample`, and a row about the sample if there is one."""
    if sample is None or not rows:
        return [(*row, None) for row in rows]
    text = (
        f"of {sample.series_count} series of single streams and consumers a sample of "
        f"{sample.sampled_share * 100:.2g} % was compared, seed {sample.seed}"
    )
    return [(*row, text if row[3] is not None else None) for row in rows] + [
        (*rows[0][:2], SAMPLE_METRIC, *(None,) * 10, UNKNOWN, text)
    ]


def find_sampled_comparisons(comparisons: DataFrame) -> DataFrame:
    """Return a finding if only a sample of the streams and consumers was compared."""
    rows = comparisons.where(F.col("metric") == SAMPLE_METRIC)
    rows = rows.withColumnRenamed("compared", "session")
    sentence = F.lit("not every stream and consumer was compared")
    texts = (sentence, F.col("sample"))
    return build_findings(
        rows, RECORDING_KIND, F.col("session"), F.lit(33), texts, F.lit("sampled")
    )


REPORT_POSITION = 40
GOLD_TABLES = (
    GoldTable(
        COMPARISON,
        _compute_comparison,
        input_names=("load",),
        findings=(find_changed_metrics, find_sampled_comparisons),
        section=Section(
            "Comparison",
            ("compared", "baseline", "stream", "consumer", "metric", "baseline_mean",
             "compared_mean", "mean_change", "low_change", "high_change", "verdict", "sample"),
            "No two sessions of the same server and account: nothing to compare.",
        ),
        sorted_by=("compared", "stream", "consumer", "metric"),
    ),
)  # fmt: skip
