"""The metrics of a session per block of time, which Spark summarizes to a few numbers."""

from __future__ import annotations

from typing import Any

from msgspec import Struct
from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.gold.bench import PHASES_BEFORE_MEASURING
from natstui.analysis.gold.comparison import statistics
from natstui.analysis.gold.comparison.verdicts import (
    ACK_TIME,
    LAG,
    PENDING,
    PUBLISHED,
    REPEATED,
    THROUGHPUT,
    UPSTREAM_LAG,
    MetricSummary,
)
from natstui.analysis.gold.rates import SECOND_US, bucket_start, redelivered_msgs
from natstui.analysis.silver.layer import Silver
from natstui.values import replace

BLOCK_US = 10_000_000
MAX_SERIES_COUNT = 100_000
"""Maximum number of series that are compared, in all sessions; of more, a sample."""
SAMPLE_HASH_SEED = 1
_HASH_BUCKETS_COUNT = 1_000_000


class SeriesSample(Struct, frozen=True):
    """The sample of streams and consumers that is compared if there are too many series."""

    sampled_share: float
    series_count: int
    """Number of series: metrics of streams and consumers in a session."""
    seed: int = SAMPLE_HASH_SEED


def block_values(silver: Silver, loads: DataFrame, bench_seconds: DataFrame) -> DataFrame:
    """Return one value per block of time and metric of a session, stream or consumer."""
    polls = silver.poll.where(F.col("api_rtt_us").isNotNull())
    rtt_values = polls.groupBy("session", _block_start()).agg(F.avg("api_rtt_us").alias("value"))
    values = rtt_values.select(
        "session", F.lit("api round trip (µs)").alias("metric"), "at_us", "value"
    )
    metrics = {
        PUBLISHED: F.col("published_per_s"),
        "delivered (msg/s)": F.col("delivered_per_s"),
        PENDING: F.col("pending_mean_msgs"),
    }
    total_values = loads.select(
        "session", F.col("bucket_at_us").alias("at_us"), _values_by_metric(metrics)
    )
    values = values.unionByName(total_values)
    values = values.unionByName(_bench_throughput_values(bench_seconds)).unionByName(
        _bench_latency_values(silver)
    )
    for part in (_consumer_values(silver), _stream_values(silver), _ack_time_values(silver)):
        values = values.unionByName(part, allowMissingColumns=True)
    return values


def _block_start() -> Column:
    return bucket_start("at_us", BLOCK_US).alias("at_us")


def _consumer_values(silver: Silver) -> DataFrame:
    names = ("session", "stream", "consumer")
    blocks = silver.consumer_sample.groupBy(*names, _block_start()).agg(
        (F.sum("elapsed_us") / 1e6).alias("covered_s"),
        F.sum("delivered_msgs").alias("delivered"),
        F.sum(redelivered_msgs()).alias("repeated"),
        F.avg("pending_msgs").alias("pending"),
        F.min("pending_msgs").alias("pending_min"),
        F.avg((F.col("at_us") - F.col("next_at_us")) / 1e6).alias("lag"),
    )
    acked_per_s = (F.col("delivered") - F.col("repeated")) / F.nullif("covered_s", F.lit(0.0))
    metrics = {
        THROUGHPUT: acked_per_s,
        PENDING: F.col("pending"),
        LAG: F.col("lag"),
        REPEATED: F.col("repeated") / F.nullif("delivered", F.lit(0)),
    }
    has_waiting_messages = F.col("pending_min") > F.coalesce(acked_per_s, F.lit(0.0))
    return blocks.select(
        *names, "at_us", has_waiting_messages.alias("waiting"), _values_by_metric(metrics)
    )


def _values_by_metric(metrics: dict[str, Column]) -> Column:
    metric_values = [
        F.struct(F.lit(metric).alias("metric"), value.cast("double").alias("value"))
        for metric, value in metrics.items()
    ]
    return F.inline(F.array(*metric_values))


def _stream_values(silver: Silver) -> DataFrame:
    names = ("session", "stream")
    blocks = silver.stream_sample.groupBy(*names, _block_start()).agg(
        (F.sum("published_msgs") / F.nullif(F.sum("elapsed_us") / 1e6, F.lit(0.0))).alias("per_s"),
        F.avg("upstream_lag_msgs").alias("lag"),
    )
    metrics = {PUBLISHED: F.col("per_s"), UPSTREAM_LAG: F.col("lag")}
    return blocks.select(*names, "at_us", _values_by_metric(metrics))


def _ack_time_values(silver: Silver) -> DataFrame:
    names, weight = ("session", "stream", "consumer"), F.col("latencies_count")
    rows = silver.ack_time.where(weight > 0).groupBy(*names, _block_start())
    mean_us = F.sum(F.col("latency_ns") / 1e3 * weight) / F.sum(weight)
    return rows.agg(F.lit(ACK_TIME).alias("metric"), mean_us.alias("value"))


def _bench_throughput_values(bench_seconds: DataFrame) -> DataFrame:
    metric = F.concat(F.lit("bench "), "counter", F.lit(" (msg/s)")).alias("metric")
    rows = bench_seconds.where("is_summed")
    rows = rows.groupBy("session", metric, F.col("slot_at_us").alias("at_us"))
    values_per_second = rows.agg(F.sum("msgs").cast("double").alias("value")).where(
        F.col("value") > 0
    )
    # Seconds of warm-up and drain, below half of the median, are left out.
    median = F.median("value").over(Window.partitionBy("session", "metric"))
    return (
        values_per_second.withColumn("usual", median)
        .where(F.col("value") >= F.col("usual") / 2)
        .drop("usual")
    )


def _bench_latency_values(silver: Silver) -> DataFrame:
    is_before_measuring = F.coalesce(F.col("phase").isin(*PHASES_BEFORE_MEASURING), F.lit(False))
    rows = silver.bench_latency.where(F.col("corrected") & ~is_before_measuring)
    metric = F.concat(F.lit("bench "), "metric", F.lit(" latency (µs)")).alias("metric")
    second = bucket_start("at_us", SECOND_US).alias("at_us")
    weight = F.col("latencies_count")
    mean_us = F.sum(F.col("latency_ns") / 1e3 * weight) / F.sum(weight)
    return rows.groupBy("session", metric, second).agg(mean_us.alias("value"))


def summarize_metrics(
    values: DataFrame, max_series_count: int = MAX_SERIES_COUNT
) -> tuple[list[MetricSummary], SeriesSample | None]:
    """Return the statistics of the values of each metric, and the sample if not all are returned.

    Of more than `max_series_count` series a sample is returned: the same streams and consumers in
    every session, selected by a hash of their names. Totals are always included.
    """
    series_columns = ["session", "metric", "stream", "consumer"]
    order = Window.partitionBy(*series_columns).orderBy("at_us")
    rows = values.where(F.col("value").isNotNull())
    n = F.count("*").over(Window.partitionBy(*series_columns))
    position_in_series = F.row_number().over(order) - 1
    rows = rows.withColumns(
        {"before": F.lag("value").over(order), "n": n, "position": position_in_series}
    )
    batch_length = F.ceil(F.col("n") / statistics.MAX_BATCHES_COUNT)
    batch_number = F.floor(F.col("position") / batch_length)
    is_in_complete_batch = batch_number < F.floor(F.col("n") / batch_length)
    rows = rows.withColumn("batch", F.when(is_in_complete_batch, batch_number))
    mean = F.avg("value").over(Window.partitionBy(*series_columns, "batch"))
    rows = rows.withColumn("batch_mean", mean)
    is_batch_start = is_in_complete_batch & (F.col("position") % batch_length == 0)
    rows = rows.withColumns(
        {"begins": is_batch_start, "mean_before": F.lag("batch_mean").over(order)}
    )
    batch_mean = F.when(F.col("begins"), F.col("batch_mean"))
    previous_batch_mean = F.when(F.col("begins"), F.col("mean_before"))
    rows = rows.withColumns({"batch_value": batch_mean, "batch_before": previous_batch_mean})
    # The previous step is a complete batch before: in the last row that begins a batch.
    batch_step = F.col("batch_value") - F.col("batch_before")
    previous_rows = order.rowsBetween(Window.unboundedPreceding, -1)
    rows = rows.withColumn("step", batch_step)
    rows = rows.withColumn("step_before", F.last("step", ignorenulls=True).over(previous_rows))
    statistics_rows = rows.groupBy(*series_columns).agg(
        F.min("at_us"),
        F.avg(F.col("waiting").cast("int")),
        F.count("*").cast("int"),
        F.avg("value"),
        _zero_if_null(F.var_samp("value")),
        _null_if_nan(F.corr("value", "before")),
        _zero_if_null(F.var_samp("batch_value")),
        _null_if_nan(F.corr("batch_value", "batch_before")),
        _zero_if_null(F.var_samp("step")),
        _null_if_nan(F.corr("step", "step_before")),
    )
    is_total = F.col("stream").isNull()
    rows = statistics_rows.orderBy(~is_total, *series_columns).take(max_series_count + 1)
    if len(rows) <= max_series_count:
        return [_to_summary(*row) for row in rows], None
    asset_series = (
        values.where(~is_total & F.col("value").isNotNull()).select(*series_columns).distinct()
    )
    sample = SeriesSample(0.0, asset_series.count())
    sample = replace(sample, sampled_share=min(1.0, max_series_count / sample.series_count))
    hash_bucket = F.pmod(
        F.xxhash64("stream", "consumer", F.lit(SAMPLE_HASH_SEED)), F.lit(_HASH_BUCKETS_COUNT)
    )
    is_selected = is_total | (hash_bucket < round(sample.sampled_share * _HASH_BUCKETS_COUNT))
    # A hash selects about that share of the series, so the list is bounded.
    rows = statistics_rows.where(is_selected).orderBy(~is_total, *series_columns).collect()
    return [_to_summary(*row) for row in rows], sample


def _to_summary(
    session: str,
    metric: str,
    stream: str | None,
    consumer: str | None,
    first_at_us: int,
    waiting_share: float | None,
    *statistics_values: Any,
) -> MetricSummary:
    series = statistics.SeriesStatistics(*statistics_values)
    return MetricSummary(session, metric, stream, consumer, first_at_us, waiting_share, series)


def _zero_if_null(variance: Column) -> Column:
    return F.coalesce(variance, F.lit(0.0))


def _null_if_nan(correlation: Column) -> Column:
    """Return a correlation with NaN, which Spark returns for a constant, replaced by null."""
    return F.nanvl(correlation, F.lit(None))
