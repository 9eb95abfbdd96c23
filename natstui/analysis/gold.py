"""Gold: every answer, in the order in which one needs another."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from natstui.analysis import (
    block_values,
    gold_availability,
    gold_bench_account,
    gold_bench_knee,
    gold_bench_latency,
    gold_bench_steady,
    gold_bench_throughput,
    gold_capacity,
    gold_compare,
    gold_consumer_rate,
    gold_lag,
    gold_lag_period,
    gold_load,
    gold_poison,
    gold_redelivery,
    gold_session,
    gold_stream_rate,
    gold_stuck,
    gold_verdict,
    silver_tables,
)
from natstui.analysis.side_by_side import side_by_side
from natstui.analysis.silver_layer import Silver, Thresholds
from natstui.analysis.store import Store
from natstui.analysis.tables import Table

TABLES: tuple[Table, ...] = (
    gold_verdict.VERDICT,
    gold_session.SESSION_SUMMARY,
    gold_stream_rate.STREAM_RATE,
    gold_consumer_rate.CONSUMER_RATE,
    gold_lag.LAG,
    gold_lag_period.LAG_PERIOD,
    gold_stuck.STUCK,
    gold_redelivery.REDELIVERY,
    gold_redelivery.HOT_SPOT,
    gold_poison.POISON,
    gold_availability.AVAILABILITY,
    gold_capacity.CAPACITY,
    gold_capacity.ACCOUNT_CAPACITY,
    gold_load.LOAD,
    gold_load.BUSIEST,
    gold_bench_steady.BENCH_STEADY,
    gold_bench_throughput.BENCH_THROUGHPUT,
    gold_bench_latency.BENCH_LATENCY_SUMMARY,
    gold_bench_account.BENCH_ACCOUNT,
    gold_bench_knee.BENCH_KNEE,
    gold_compare.COMPARISON,
)

Step = Callable[[str], None]


def silver_layer(store: Store, sessions: list[str]) -> Silver:
    """Return the silver rows of the sessions."""
    return Silver(**{table.name: store.silver(table, sessions) for table in silver_tables.TABLES})


Answer = tuple[Table, Callable[[], DataFrame]]


def build_gold(
    spark: SparkSession, store: Store, silver: Silver, thresholds: Thresholds, step: Step
) -> None:
    """Compute and write every answer; those that do not need each other side by side."""

    def write(answer: Answer) -> DataFrame:
        step(answer[0].name.replace("_", " "))
        store.write_gold(answer[0], answer[1]())
        return store.gold(answer[0])

    streams, consumers = side_by_side(write, _rates(silver, thresholds))
    slotted = gold_bench_steady.slots(silver)
    loads, steady = side_by_side(
        write,
        [
            (gold_load.LOAD, lambda: gold_load.load(streams, consumers)),
            (gold_bench_steady.BENCH_STEADY, lambda: gold_bench_steady.bench_steady(slotted)),
        ],
    )
    values = block_values.block_values(silver, loads, slotted)
    answers = _of_consumers(silver, streams, consumers, thresholds)
    answers += _of_streams(silver, streams, consumers, loads, thresholds)
    answers += _of_benchmarks(silver, slotted, steady)
    answers.append((gold_compare.COMPARISON, lambda: gold_compare.comparison(
        spark, block_values.reduce(values), thresholds.baseline)))  # fmt: skip
    side_by_side(write, answers)
    write((gold_verdict.VERDICT, lambda: gold_verdict.verdict(lambda n: store.gold(_named(n)))))


def _named(name: str) -> Table:
    return next(table for table in TABLES if table.name == name)


def _rates(silver: Silver, thresholds: Thresholds) -> list[Answer]:
    return [
        (
            gold_stream_rate.STREAM_RATE,
            lambda: gold_stream_rate.stream_rate(silver, thresholds),
        ),
        (
            gold_consumer_rate.CONSUMER_RATE,
            lambda: gold_consumer_rate.consumer_rate(silver, thresholds),
        ),
    ]


def _of_consumers(
    silver: Silver, streams: DataFrame, consumers: DataFrame, thresholds: Thresholds
) -> list[Answer]:
    return [
        (gold_stuck.STUCK, lambda: gold_stuck.stuck(silver, consumers, thresholds)),
        (
            gold_lag_period.LAG_PERIOD,
            lambda: gold_lag_period.lag_period(silver, consumers, thresholds),
        ),
        (gold_lag.LAG, lambda: gold_lag.lag(consumers, streams, thresholds)),
        (gold_redelivery.REDELIVERY, lambda: gold_redelivery.redelivery(silver, consumers)),
        (
            gold_redelivery.HOT_SPOT,
            lambda: gold_redelivery.hot_spot(silver, consumers, thresholds),
        ),
        (gold_poison.POISON, lambda: gold_poison.poison(silver)),
    ]


def _of_streams(
    silver: Silver,
    streams: DataFrame,
    consumers: DataFrame,
    loads: DataFrame,
    thresholds: Thresholds,
) -> list[Answer]:
    return [
        (
            gold_availability.AVAILABILITY,
            lambda: gold_availability.availability(silver, thresholds),
        ),
        (
            gold_session.SESSION_SUMMARY,
            lambda: gold_session.session_summary(silver, streams, consumers),
        ),
        (gold_capacity.CAPACITY, lambda: gold_capacity.capacity(silver, streams)),
        (gold_capacity.ACCOUNT_CAPACITY, lambda: gold_capacity.account_capacity(silver)),
        (gold_load.BUSIEST, lambda: gold_load.busiest(loads)),
    ]


def _of_benchmarks(silver: Silver, slotted: DataFrame, steady: DataFrame) -> list[Answer]:
    latency = gold_bench_latency
    return [
        (
            gold_bench_throughput.BENCH_THROUGHPUT,
            lambda: gold_bench_throughput.bench_throughput(slotted, steady),
        ),
        (latency.BENCH_LATENCY_SUMMARY, lambda: latency.bench_latency_summary(silver)),
        (gold_bench_account.BENCH_ACCOUNT, lambda: gold_bench_account.bench_account(silver)),
        (gold_bench_knee.BENCH_KNEE, lambda: gold_bench_knee.bench_knee(silver, slotted)),
    ]
