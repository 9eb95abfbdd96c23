"""Answer 7, continued: where the messages of a benchmark are."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from natstui.analysis.gold_bench_steady import RUN, RUN_NAMES
from natstui.analysis.silver_layer import Silver
from natstui.analysis.tables import Table, columns

BENCH_ACCOUNT = Table(
    "bench_account",
    "Where the messages of each run are: summed from the workers' reports.",
    RUN
    + columns(
        ("title", "string", "Title of the scenario"),
        ("verdict", "string", "What the benchmark said; null when it did not end"),
        ("sent_msgs", "bigint", "Sent"),
        ("acked_msgs", "bigint", "Acknowledged as stored for the first time"),
        ("duplicate_acked_msgs", "bigint", "Acknowledged as duplicates"),
        ("refused_msgs", "bigint", "Acknowledged with an error"),
        ("unanswered_msgs", "bigint", "Not acknowledged in time"),
        ("missed_msgs", "bigint", "Owed by the schedule and never sent"),
        ("received_msgs", "bigint", "Received"),
        ("redelivered_msgs", "bigint", "Received with a delivery count above 1"),
        ("duplicate_msgs", "bigint", "Received again by the same worker"),
        ("lost_msgs", "bigint", "Expected and never received, as the benchmark found"),
        ("unaccounted_msgs", "bigint", "Sent, and in none of the other sums of the sender"),
        ("closes", "boolean", "These sums equal those of the benchmark"),
    ),
)


def bench_account(silver: Silver) -> DataFrame:
    """Return the table `bench_account`; `closes` holds the sums to the benchmark's own."""
    names = [
        "sent_msgs", "acked_msgs", "duplicate_acked_msgs", "refused_msgs", "unanswered_msgs",
        "missed_msgs", "received_msgs", "redelivered_msgs", "duplicate_msgs",
    ]  # fmt: skip
    sums = silver.bench_interval.groupBy(*RUN_NAMES).agg(*(F.sum(n).alias(n) for n in names))
    told = silver.bench_result.select(
        *RUN_NAMES,
        "title",
        "verdict",
        "lost_msgs",
        *(F.col(name).alias(f"told_{name}") for name in ("sent_msgs", "acked_msgs",
                                                         "received_msgs")),
    )  # fmt: skip
    rows = sums.join(F.broadcast(told), RUN_NAMES, "left")
    answered = [F.col(name) for name in names[1:5]]
    acknowledged = answered[0] + answered[1] + answered[2] + answered[3]
    left = F.when(acknowledged > 0, F.col("sent_msgs") - acknowledged)
    agree = [F.col(n) == F.col(f"told_{n}") for n in ("sent_msgs", "acked_msgs", "received_msgs")]
    return BENCH_ACCOUNT.contract(
        rows.withColumns({"unaccounted_msgs": left, "closes": agree[0] & agree[1] & agree[2]})
    )
