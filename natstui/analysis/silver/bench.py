"""Tables of benchmarks: counts and latencies of workers, and the recorded results."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from natstui.analysis.silver.index import lines_of_kind, spans, with_span_values
from natstui.analysis.silver.tables import BENCH_INTERVAL, BENCH_LATENCY, BENCH_RESULT
from natstui.model.bench.counts import LATENCY_FIELDS

_RUN_KEY = ("session", "run_id")


def worker_reports(lines: DataFrame) -> DataFrame:
    """Return one row per report of a benchmark worker, with its pattern.

    `phase` is the phase of the run at that time. The pattern is in the result of the run; null
    without one.
    """
    phases = lines_of_kind(lines, "benchmark_phase").select(
        "session", "line.run_id", F.col("line.at_us").alias("from_position"), "line.phase"
    )
    results = lines_of_kind(lines, "benchmark_finished").select(
        "session", "line.run_id", "line.result.workers"
    )
    results = results.groupBy(*_RUN_KEY).agg(F.first("workers", ignorenulls=True).alias("workers"))
    rows = lines_of_kind(lines, "benchmark_report").select("session", "line.*")
    rows = with_span_values(rows, spans(phases, *_RUN_KEY), F.col("at_us"), *_RUN_KEY)
    rows = rows.join(F.broadcast(results), [*_RUN_KEY], "left")
    role_workers = F.filter("workers", lambda worker: worker["role"] == F.col("role"))
    pattern = F.get(role_workers, F.lit(0))["pattern"]
    return rows.withColumn("pattern", pattern).drop("workers")


def bench_intervals(worker_reports: DataFrame) -> DataFrame:
    """Return `bench_interval`: one row per report of a worker."""
    return BENCH_INTERVAL.conform(worker_reports.select("*", "counts.*"))


def bench_latencies(worker_reports: DataFrame) -> DataFrame:
    """Return `bench_latency`: one row per report, kind of latency and bucket that is not empty."""
    histograms = F.array(
        *(
            F.struct(
                F.lit(name.removesuffix("_uncorrected")).alias("metric"),
                F.lit(not name.endswith("_uncorrected")).alias("corrected"),
                F.col(f"latencies.{name}").alias("histogram"),
            )
            for name in LATENCY_FIELDS
        )
    )
    rows = worker_reports.select("*", F.inline(histograms))
    rows = rows.select(
        "*",
        F.posexplode("histogram.buckets").alias("position", "bucket_id"),
    )
    rows = rows.withColumns(
        {
            "latency_ns": bucket_middle_ns(F.col("bucket_id")),
            "latencies_count": F.get("histogram.counts", F.col("position")),
        }
    )
    return BENCH_LATENCY.conform(rows)


def bench_results(lines: DataFrame) -> DataFrame:
    """Return `bench_result`: one row per ended run."""
    rows = lines_of_kind(lines, "benchmark_finished").select(
        "session",
        "line.at_us",
        "line.run_id",
        "line.result.*",
        "line.result.accounting.*",
    )
    return BENCH_RESULT.conform(rows)


def bucket_of(latency_ns: Column) -> Column:
    """Return the number of the histogram bucket of a latency, as `natstui.model.bench.latency`."""
    bounded_ns = F.greatest(latency_ns, F.lit(0))
    mantissa_shift = F.greatest(F.length(F.bin(bounded_ns)) - 8, F.lit(0))
    return mantissa_shift * 128 + F.floor(bounded_ns / F.pow(F.lit(2.0), mantissa_shift)).cast(
        "bigint"
    )


def bucket_middle_ns(bucket: Column) -> Column:
    """Return the latency (ns) in the middle of a bucket, as `natstui.model.bench.latency`."""
    return F.floor((_bucket_start_ns(bucket) + _bucket_start_ns(bucket + 1) - 1) / 2).cast(
        "bigint"
    )


def _bucket_start_ns(bucket: Column) -> Column:
    octave = F.shiftright(bucket, 7) - 1
    power_of_two = F.pow(F.lit(2.0), octave).cast("bigint")
    return F.when(bucket < 256, bucket).otherwise((128 + bucket.bitwiseAND(127)) * power_of_two)
