"""Answer 7: what benchmarks reached, measured again from what their workers reported.

The steady part is found, not believed: it runs from the first to the last second in which the
role did at least nine tenths of its median second. Percentiles of throughput are over seconds,
percentiles of latency are read from merged histograms, never averaged.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from natstui.analysis.silver_layer import Silver
from natstui.analysis.tables import SESSION, Table, columns

STEADY_SHARE = 0.9
COUNTERS = {
    "sent": "sent_msgs",
    "acked": "acked_msgs",
    "received": "received_msgs",
    "acks_sent": "acks_sent_msgs",
}

RUN = columns(SESSION, ("run_id", "string", "The benchmark run"))
RUN_NAMES = ["session", "run_id"]

BENCH_STEADY = Table(
    "bench_steady",
    "The steady part found for each role and counter of a run.",
    RUN
    + columns(
        ("role", "string", "Role of the workers"),
        ("counter", "string", "sent, acked, received or acks_sent"),
        ("start_at_us", "bigint", "Start of its first second"),
        ("end_at_us", "bigint", "End of its last second"),
        ("duration_s", "double", "Between the two"),
        ("dropped_s", "double", "Seconds before it: warm-up and ramp"),
    ),
)


def slots(silver: Silver) -> DataFrame:
    """Return counter, slot (second) and messages per run, role and worker, long and thin."""
    pairs = F.array(
        *(
            F.struct(F.lit(name).alias("counter"), F.col(column).alias("msgs"))
            for name, column in COUNTERS.items()
        )
    )
    second = F.col("at_us") - F.pmod("at_us", F.lit(1_000_000))
    rows = silver.bench_interval.select(
        *RUN_NAMES, "role", "worker_id", second.alias("slot_at_us"), F.inline(pairs)
    )
    keys = [*RUN_NAMES, "role", "worker_id", "counter", "slot_at_us"]
    return rows.groupBy(*keys).agg(F.sum("msgs").alias("msgs"))


def bench_steady(slotted: DataFrame) -> DataFrame:
    """Return the table `bench_steady`."""
    keys = [*RUN_NAMES, "role", "counter"]
    together = slotted.groupBy(*keys, "slot_at_us").agg(F.sum("msgs").alias("msgs"))
    together = together.where(F.col("msgs") > 0)
    usual = together.groupBy(*keys).agg(
        F.median("msgs").alias("usual"), F.min("slot_at_us").alias("first_at_us")
    )
    full = together.join(F.broadcast(usual), keys).where(
        F.col("msgs") >= STEADY_SHARE * F.col("usual")
    )
    rows = full.groupBy(*keys).agg(
        F.min("slot_at_us").alias("start_at_us"),
        (F.max("slot_at_us") + 1_000_000).alias("end_at_us"),
        F.min("first_at_us").alias("first_at_us"),
    )
    return BENCH_STEADY.contract(
        rows.withColumns(
            {
                "duration_s": (F.col("end_at_us") - F.col("start_at_us")) / 1e6,
                "dropped_s": (F.col("start_at_us") - F.col("first_at_us")) / 1e6,
            }
        )
    )
