"""Tables of benchmarks from rows: the knee, where latency breaks away, and damaged values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from natstui.analysis.gold.bench import (
    compute_bench_account,
    compute_bench_knee,
    compute_bench_steady,
    compute_bench_throughput,
    find_incomplete_accounts,
    messages_per_second,
)
from natstui.analysis.silver.layer import Silver
from natstui.analysis.silver.tables import BENCH_INTERVAL, BENCH_LATENCY, BENCH_RESULT
from natstui.analysis.tables import Table

pytestmark = pytest.mark.spark


def frame(spark: SparkSession, table: Table, rows: list[dict[str, object]]) -> DataFrame:
    """Return rows of a table; columns not given are null."""
    names = [column.name for column in table.columns]
    values = [tuple(row.get(name) for name in names) for row in rows]
    return spark.createDataFrame(values, table.ddl())


def levels(spark: SparkSession, run: Callable[[int], tuple[int, int]]) -> list[Any]:
    """Return the levels of a run of 100 s; `run` has what a second sent, and its latency."""
    intervals, latencies = [], []
    for second in range(100):
        sent, latency_ns = run(second)
        head = {"session": "s", "run_id": "r", "at_us": second * 1_000_000, "role": "pub",
                "worker_id": 0, "phase": "steady"}  # fmt: skip
        counts = {"sent_msgs": sent, "acked_msgs": 0, "received_msgs": 0}
        intervals.append({**head, **counts, "acks_sent_msgs": 0})
        told = {"metric": "ack", "corrected": True, "latency_ns": latency_ns}
        latencies.append({**head, **told, "latencies_count": 100})
    made = {
        "bench_interval": frame(spark, BENCH_INTERVAL, intervals),
        "bench_latency": frame(spark, BENCH_LATENCY, latencies),
    }
    empty = frame(spark, BENCH_RESULT, [])
    silver = Silver(**{f: made.get(f, empty) for f in Silver.__struct_fields__})
    return compute_bench_knee(silver, messages_per_second(silver)).collect()


def test_the_knee_is_the_last_load_before_the_p99_breaks_away(spark: SparkSession) -> None:
    def ramp(second: int) -> tuple[int, int]:
        return 1000 * (second // 10 + 1), 1_000_000 if second < 70 else 9_000_000

    rows = levels(spark, ramp)
    assert [(r["level"], round(r["load_per_s"], -3)) for r in rows if r["knee"]] == [(7, 7000.0)]


def test_a_run_of_constant_load_has_no_knee_however_its_latency_leaps(spark: SparkSession) -> None:
    def steady(second: int) -> tuple[int, int]:
        sent = 400 if second in (0, 99) else 800 + second % 7 - 3
        return sent, 9_000_000 if second % 7 == 6 else 1_000_000

    assert [r["load_per_s"] for r in levels(spark, steady) if r["knee"]] == []


def test_damaged_times_make_no_row_for_each_second_between_them(spark: SparkSession) -> None:
    century_us = 100 * 365 * 86_400 * 1_000_000
    rows = [
        ("s", run, "pub", 0, "sent", at_us, 10)
        for run, last_us in (("right", 1_000_000), ("wrong", century_us))
        for at_us in (0, last_us)
    ]
    ddl = (
        "session string, run_id string, role string, worker_id bigint, counter string, "
        "slot_at_us bigint, msgs bigint"
    )
    slotted = spark.createDataFrame(rows, ddl)
    found = compute_bench_throughput(slotted, compute_bench_steady(slotted)).collect()
    assert {(row["run_id"], row["seconds_count"]) for row in found} == {("right", 2)}


REPLIED = {
    # Pattern: what a worker sent, acked, received, and did not get a reply to.
    "serve": (500, 0, 500, 0), "request": (500, 0, 499, 1),
    "js-publish-sync": (400, 398, 0, 2), "js-consume": (0, 0, 398, 0),
    "js-request": (300, 300, 290, 0), "js-respond": (290, 0, 300, 0),
    "publish": (200, 0, 0, 0), "subscribe": (0, 0, 200, 0), "kv-get": (0, 0, 50, 0),
}  # fmt: skip
RUNS = {
    "core": (("serve", "request", "js-publish-sync", "js-consume"), (900, 398, 398), 0),
    "requests": (("serve", "request"), (500, 0, 499), None),
    "responses": (("js-request", "js-respond"), (300, 300, 300), 0),
    "beside": (("publish", "subscribe", "js-publish-sync"), (600, 398, 200), 0),
    "reads": (("js-publish-sync", "kv-get"), (400, 398, 50), 0),
}
"""Runs: their patterns, what was sent, acked and received in them, and what is unaccounted for."""


def ended_runs(spark: SparkSession) -> Silver:
    """Return the tables of the runs, of which each pattern is a role of one worker."""
    intervals, results = [], []
    others = ("duplicate_acked_msgs", "refused_msgs", "missed_msgs", "redelivered_msgs",
              "duplicate_msgs", "acks_sent_msgs")  # fmt: skip
    for run_id, (patterns, sums, _) in RUNS.items():
        head = {"session": "s", "run_id": run_id, "at_us": 1_000_000, "worker_id": 0}
        for pattern in patterns:
            names = ("sent_msgs", "acked_msgs", "received_msgs", "unanswered_msgs")
            counts = dict(zip(names, REPLIED[pattern], strict=True)) | dict.fromkeys(others, 0)
            intervals.append({**head, **counts, "role": f"the {pattern}", "pattern": pattern})
        reported = dict(zip(("sent_msgs", "acked_msgs", "received_msgs"), sums, strict=True))
        results.append({**head, **reported, "verdict": "ok"})
    made = {
        "bench_interval": frame(spark, BENCH_INTERVAL, intervals),
        "bench_result": frame(spark, BENCH_RESULT, results),
    }
    empty = frame(spark, BENCH_LATENCY, [])
    return Silver(**{f: made.get(f, empty) for f in Silver.__struct_fields__})


def test_an_account_sums_the_roles_that_the_benchmark_sums(spark: SparkSession) -> None:
    accounts = compute_bench_account(ended_runs(spark))
    names = ("sent_msgs", "acked_msgs", "received_msgs", "unaccounted_msgs")
    found = {row["run_id"]: tuple(row[name] for name in names) for row in accounts.collect()}
    assert found == {run_id: (*sums, left) for run_id, (_, sums, left) in RUNS.items()}
    assert {row["closes"] for row in accounts.collect()} == {True}
    assert find_incomplete_accounts(accounts).collect() == []


def test_a_service_is_no_load_of_its_run(spark: SparkSession) -> None:
    seconds = messages_per_second(ended_runs(spark)).where("is_summed").collect()
    sent: dict[str, int] = dict.fromkeys(RUNS, 0)
    for row in seconds:
        sent[row["run_id"]] += row["msgs"] if row["counter"] == "sent" else 0
    assert sent == {run_id: sums[0] for run_id, (_, sums, _) in RUNS.items()}


def test_an_account_with_a_negative_count_does_not_close(spark: SparkSession) -> None:
    names = ("acked_msgs", "duplicate_acked_msgs", "refused_msgs", "unanswered_msgs",
             "missed_msgs", "received_msgs", "redelivered_msgs", "duplicate_msgs")  # fmt: skip
    head = {"session": "s", **dict.fromkeys(names, 0)}
    intervals = [
        {**head, "run_id": run_id, "at_us": second, "sent_msgs": sent_msgs}
        for run_id, reported_msgs in (("right", (3, 4)), ("forged", (8, -1)))
        for second, sent_msgs in enumerate(reported_msgs)
    ]
    results = [{**head, "run_id": run_id, "sent_msgs": 7} for run_id in ("right", "forged")]
    tables = {
        "bench_interval": frame(spark, BENCH_INTERVAL, intervals),
        "bench_result": frame(spark, BENCH_RESULT, results),
    }
    empty = frame(spark, BENCH_LATENCY, [])
    silver = Silver(**{f: tables.get(f, empty) for f in Silver.__struct_fields__})
    rows = compute_bench_account(silver).collect()
    assert {row["run_id"]: row["closes"] for row in rows} == {"right": True, "forged": False}
