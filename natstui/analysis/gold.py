"""Gold: every answer, in the order in which one needs another."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from natstui.analysis import (
    gold_availability,
    gold_bench,
    gold_bench_latency,
    gold_capacity,
    gold_compare,
    gold_lag,
    gold_rates,
    gold_redelivery,
    gold_session,
    gold_stuck,
    gold_verdict,
    silver_tables,
)
from natstui.analysis.silver_layer import Silver, Thresholds
from natstui.analysis.store import Store
from natstui.analysis.tables import Table

TABLES: tuple[Table, ...] = (
    gold_verdict.VERDICT,
    gold_session.SESSION_SUMMARY,
    gold_rates.STREAM_RATE,
    gold_rates.CONSUMER_RATE,
    gold_lag.LAG,
    gold_lag.LAG_PERIOD,
    gold_stuck.STUCK,
    gold_redelivery.REDELIVERY,
    gold_redelivery.HOT_SPOT,
    gold_redelivery.POISON,
    gold_availability.AVAILABILITY,
    gold_capacity.CAPACITY,
    gold_capacity.ACCOUNT_CAPACITY,
    gold_capacity.BUSIEST,
    gold_bench.BENCH_STEADY,
    gold_bench.BENCH_THROUGHPUT,
    gold_bench_latency.BENCH_LATENCY_SUMMARY,
    gold_bench_latency.BENCH_ACCOUNT,
    gold_bench_latency.BENCH_KNEE,
    gold_compare.COMPARISON,
)

Step = Callable[[str], None]


def silver_layer(store: Store, sessions: list[str]) -> Silver:
    """Return the silver rows of the sessions."""
    return Silver(**{table.name: store.silver(table, sessions) for table in silver_tables.TABLES})


def build_gold(
    spark: SparkSession, store: Store, silver: Silver, thresholds: Thresholds, step: Step
) -> None:
    """Compute and write every answer."""

    def write(table: Table, rows: DataFrame) -> DataFrame:
        step(table.name.replace("_", " "))
        store.write_gold(table, rows)
        return store.gold(table)

    streams = write(gold_rates.STREAM_RATE, gold_rates.stream_rate(silver, thresholds))
    consumers = write(gold_rates.CONSUMER_RATE, gold_rates.consumer_rate(silver, thresholds))
    write(gold_session.SESSION_SUMMARY, gold_session.session_summary(silver, streams, consumers))
    _lag_and_stuck(write, silver, streams, consumers, thresholds)
    write(gold_availability.AVAILABILITY, gold_availability.availability(silver, thresholds))
    write(gold_capacity.CAPACITY, gold_capacity.capacity(silver, streams))
    write(gold_capacity.ACCOUNT_CAPACITY, gold_capacity.account_capacity(silver))
    write(gold_capacity.BUSIEST, gold_capacity.busiest(streams, consumers))
    slotted = gold_bench.slots(silver)
    _benchmarks(write, silver, slotted)
    step("comparison")
    values = gold_compare.block_values(silver, streams, consumers, slotted)
    reduced = gold_compare.reduce(values)
    write(gold_compare.COMPARISON, gold_compare.comparison(spark, reduced, thresholds.baseline))
    by_name = {table.name: table for table in TABLES}
    rows = gold_verdict.verdict(lambda name: store.gold(by_name[name]))
    write(gold_verdict.VERDICT, rows)


Write = Callable[[Table, DataFrame], DataFrame]


def _lag_and_stuck(
    write: Write, silver: Silver, streams: DataFrame, consumers: DataFrame, thresholds: Thresholds
) -> None:
    write(gold_lag.LAG, gold_lag.lag(consumers, streams, thresholds))
    write(gold_lag.LAG_PERIOD, gold_lag.lag_period(silver, consumers, thresholds))
    write(gold_stuck.STUCK, gold_stuck.stuck(silver, consumers, thresholds))
    write(gold_redelivery.REDELIVERY, gold_redelivery.redelivery(silver, consumers))
    write(gold_redelivery.HOT_SPOT, gold_redelivery.hot_spot(silver, consumers, thresholds))
    write(gold_redelivery.POISON, gold_redelivery.poison(silver))


def _benchmarks(write: Write, silver: Silver, slotted: DataFrame) -> None:
    steady = write(gold_bench.BENCH_STEADY, gold_bench.bench_steady(slotted))
    write(gold_bench.BENCH_THROUGHPUT, gold_bench.bench_throughput(slotted, steady))
    write(
        gold_bench_latency.BENCH_LATENCY_SUMMARY, gold_bench_latency.bench_latency_summary(silver)
    )
    write(gold_bench_latency.BENCH_ACCOUNT, gold_bench_latency.bench_account(silver))
    write(gold_bench_latency.BENCH_KNEE, gold_bench_latency.bench_knee(silver, slotted))
