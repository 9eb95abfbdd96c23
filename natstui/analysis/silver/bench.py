"""Benchmarks: counts and latencies of workers, and the recorded result."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from natstui.analysis.silver.index import of_kind
from natstui.analysis.silver.tables import BENCH_INTERVAL, BENCH_LATENCY, BENCH_RESULT
from natstui.model.bench.counts import LATENCY_FIELDS

_RUN = ["session", "run_id"]


def reports(lines: DataFrame) -> DataFrame:
    """Return the reports of all workers, with the phase of the run."""
    rows = of_kind(lines, "benchmark_report").select("session", "line.*")
    phases = of_kind(lines, "benchmark_phase").select("session", "line.*")
    phases = phases.groupBy(*_RUN).agg(F.collect_list(F.struct("at_us", "phase")).alias("phases"))
    rows = rows.join(F.broadcast(phases), _RUN, "left")
    so_far = F.filter("phases", lambda entered: entered["at_us"] <= F.col("at_us"))
    return rows.withColumn("phase", F.array_max(so_far)["phase"]).drop("phases")


def bench_intervals(reported: DataFrame) -> DataFrame:
    """Return `bench_interval`: one row per report of a worker."""
    return BENCH_INTERVAL.contract(reported.select("*", "counts.*"))


def bench_latencies(reported: DataFrame) -> DataFrame:
    """Return `bench_latency`: one row per report, kind of latency and filled bucket."""
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
    rows = reported.select("*", F.inline(histograms))
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
    return BENCH_LATENCY.contract(rows)


def bench_results(lines: DataFrame) -> DataFrame:
    """Return `bench_result`: one row per ended run."""
    rows = of_kind(lines, "benchmark_finished").select(
        "session",
        "line.at_us",
        "line.run_id",
        "line.result.*",
        "line.result.accounting.*",
    )
    return BENCH_RESULT.contract(rows)


def bucket_of(latency_ns: Column) -> Column:
    """Return the histogram bucket of a latency, as in `natstui.model.bench.latency`."""
    value = F.greatest(latency_ns, F.lit(0))
    shift = F.greatest(F.length(F.bin(value)) - 8, F.lit(0))
    return shift * 128 + F.floor(value / F.pow(F.lit(2.0), shift)).cast("bigint")


def bucket_middle_ns(bucket: Column) -> Column:
    """Return the latency in the middle of a bucket, as in `natstui.model.bench.latency`."""
    return F.floor((_low_ns(bucket) + _low_ns(bucket + 1) - 1) / 2).cast("bigint")


def _low_ns(bucket: Column) -> Column:
    octave = F.shiftright(bucket, 7) - 1
    power = F.pow(F.lit(2.0), octave).cast("bigint")
    return F.when(bucket < 256, bucket).otherwise((128 + bucket.bitwiseAND(127)) * power)
