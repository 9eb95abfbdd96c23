"""Tables of benchmarks: throughput, latency, message accounts, and latency by load."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.defaults import FIRST_STEADY_LOAD_LEVEL, MIN_LOAD_RATIO
from natstui.analysis.gold.gold_table import GoldTable, build_findings, count_text
from natstui.analysis.gold.rates import SECOND_US, bucket_start
from natstui.analysis.section import Section
from natstui.analysis.silver.layer import Silver
from natstui.analysis.silver.tables import BENCH_INTERVAL, BENCH_LATENCY
from natstui.analysis.tables import SESSION_COLUMN, Table, columns
from natstui.model.bench.latency import PERCENTILES, SHOWN_PERCENTILES
from natstui.model.bench.patterns import PatternTraits, patterns_with

MIN_STEADY_SHARE = 0.9
_MAX_RUN_US = 31 * 86_400 * SECOND_US
"""Maximum length of a run: a longer one has damaged times, and would have a row per second."""
COLUMN_BY_COUNTER = {
    "sent": "sent_msgs",
    "acked": "acked_msgs",
    "received": "received_msgs",
    "acks_sent": "acks_sent_msgs",
}

RUN_COLUMNS = columns(SESSION_COLUMN, ("run_id", "string", "The benchmark run"))
RUN_KEY_COLUMNS = ["session", "run_id"]

BENCH_STEADY = Table(
    "bench_steady",
    "The steady part of a run, for each role and counter.",
    RUN_COLUMNS
    + columns(
        ("role", "string", "Role of the workers"),
        ("counter", "string", "Counter: sent, acked, received or acks_sent"),
        ("start_at_us", "bigint", "When the steady part began, to the second"),
        ("end_at_us", "bigint", "When the steady part ended, to the second"),
        ("duration_s", "double", "Between the two"),
        ("dropped_s", "double", "Seconds before the steady part: warm-up and ramp"),
    ),
    key=(*RUN_KEY_COLUMNS, "role", "counter"),
)


def messages_per_second(silver: Silver) -> DataFrame:
    """Return the number of messages per run, role, worker, counter and second (`slot_at_us`).

    `is_summed`: the count of the role is part of the sum over all roles.
    """
    counts = F.array(
        *(
            F.struct(
                F.lit(name).alias("counter"),
                F.col(column).alias("msgs"),
                _is_summed(column).alias("is_summed"),
            )
            for name, column in COLUMN_BY_COUNTER.items()
        )
    )
    second = bucket_start("at_us", SECOND_US)
    rows = silver.bench_interval.select(
        *RUN_KEY_COLUMNS, "role", "worker_id", second.alias("slot_at_us"), F.inline(counts)
    )
    keys = [*RUN_KEY_COLUMNS, "role", "worker_id", "counter", "is_summed", "slot_at_us"]
    return rows.groupBy(*keys).agg(F.sum("msgs").alias("msgs"))


def _has_pattern(predicate: Callable[[PatternTraits], bool]) -> Column:
    """Return whether a role's pattern has traits that satisfy `predicate`; null if unknown."""
    return F.col("pattern").isin(*sorted(patterns_with(predicate)))


def _is_summed(counter: str) -> Column:
    """Return whether a count of a role is part of the sum over all roles.

    True for a role of unknown pattern, whose run did not end.
    """
    return F.coalesce(_has_pattern(lambda traits: traits.is_summed(counter)), F.lit(True))


def compute_bench_steady(bench_seconds: DataFrame) -> DataFrame:
    """Return `bench_steady`: the steady part of a run, one row per run, role and counter.

    `bench_seconds` is from `messages_per_second`.
    """
    keys = [*RUN_KEY_COLUMNS, "role", "counter"]
    totals = bench_seconds.groupBy(*keys, "slot_at_us").agg(F.sum("msgs").alias("msgs"))
    totals = totals.where(F.col("msgs") > 0)
    medians = totals.groupBy(*keys).agg(
        F.median("msgs").alias("usual"), F.min("slot_at_us").alias("first_at_us")
    )
    steady_slots = totals.join(F.broadcast(medians), keys).where(
        F.col("msgs") >= MIN_STEADY_SHARE * F.col("usual")
    )
    rows = steady_slots.groupBy(*keys).agg(
        F.min("slot_at_us").alias("start_at_us"),
        (F.max("slot_at_us") + 1_000_000).alias("end_at_us"),
        F.min("first_at_us").alias("first_at_us"),
    )
    rows = rows.where(F.col("end_at_us") - F.col("start_at_us") <= _MAX_RUN_US)
    return BENCH_STEADY.conform(
        rows.withColumns(
            {
                "duration_s": (F.col("end_at_us") - F.col("start_at_us")) / 1e6,
                "dropped_s": (F.col("start_at_us") - F.col("first_at_us")) / 1e6,
            }
        )
    )


BENCH_THROUGHPUT = Table(
    "bench_throughput",
    "Messages per second in the steady part, per worker and per role (worker_id is null).",
    RUN_COLUMNS
    + columns(
        ("role", "string", "Role of the workers"),
        ("worker_id", "bigint", "Number of the worker; null: all workers of the role"),
        ("counter", "string", "Counter: sent, acked, received or acks_sent"),
        ("seconds_count", "bigint", "Seconds in the steady part"),
        ("total_msgs", "bigint", "Messages in the steady part"),
        ("mean_per_s", "double", "Mean rate over the steady part"),
        ("p5_per_s", "double", "5th percentile of the rates of single seconds"),
        ("p50_per_s", "double", "Median second"),
        ("p95_per_s", "double", "95th percentile of the rates of single seconds"),
        ("max_per_s", "double", "Fastest second"),
        ("min_per_s", "double", "Slowest second"),
        (
            "fairness_ratio",
            "double",
            "How evenly workers share the load (Jain's index, 1: evenly); null for one worker",
        ),
    ),
    key=(*RUN_KEY_COLUMNS, "role", "worker_id", "counter"),
)


def compute_bench_throughput(bench_seconds: DataFrame, steady_rows: DataFrame) -> DataFrame:
    """Return `bench_throughput`: one row per run, role, counter and worker, or all workers.

    A second without a report counts as 0.
    """
    keys = [*RUN_KEY_COLUMNS, "role", "counter"]
    worker_seconds = _with_missing_seconds(bench_seconds, steady_rows, [*keys, "worker_id"])
    totals = worker_seconds.groupBy(*keys, "slot_at_us").agg(F.sum("msgs").alias("msgs"))
    totals = totals.withColumn("worker_id", F.lit(None).cast("bigint"))
    all_rows = worker_seconds.select(*keys, "worker_id", "slot_at_us", "msgs").unionByName(totals)
    rows = all_rows.groupBy(*keys, "worker_id").agg(
        F.count("*").alias("seconds_count"),
        F.sum("msgs").alias("total_msgs"),
        F.avg("msgs").alias("mean_per_s"),
        *(_percentile(percent).alias(f"p{percent}_per_s") for percent in (5, 50, 95)),
        F.max("msgs").alias("max_per_s"),
        F.min("msgs").alias("min_per_s"),
    )
    return BENCH_THROUGHPUT.conform(_with_fairness(rows, keys))


def _with_missing_seconds(
    bench_seconds: DataFrame, steady_rows: DataFrame, keys: list[str]
) -> DataFrame:
    """Return one row per worker and second of the steady part, with 0 for missing seconds."""
    seconds = F.sequence(
        F.col("start_at_us"), F.col("end_at_us") - 1_000_000, F.lit(1_000_000).cast("bigint")
    )
    workers = bench_seconds.select(*keys).distinct()
    worker_seconds = workers.join(
        F.broadcast(steady_rows), [key for key in keys if key != "worker_id"]
    )
    worker_seconds = worker_seconds.select(*keys, F.explode(seconds).alias("slot_at_us"))
    rows = worker_seconds.join(bench_seconds, [*keys, "slot_at_us"], "left")
    return rows.withColumn("msgs", F.coalesce("msgs", F.lit(0)))


def _percentile(percent: int) -> Column:
    return F.percentile("msgs", percent / 100)


def _with_fairness(rows: DataFrame, keys: list[str]) -> DataFrame:
    worker_msgs = F.col("total_msgs").cast("double")
    workers = rows.where(F.col("worker_id").isNotNull()).groupBy(*keys)
    fairness_rows = workers.agg(
        (
            F.pow(F.sum(worker_msgs), 2)
            / F.nullif(F.count("*") * F.sum(worker_msgs * worker_msgs), F.lit(0.0))
        ).alias("fairness")
    )
    rows = rows.join(F.broadcast(fairness_rows), keys, "left")
    is_total = F.col("worker_id").isNull()
    return rows.withColumn("fairness_ratio", F.when(is_total, F.col("fairness")))


LATENCY_COLUMNS = columns(
    ("metric", "string", "Kind of latency: ack, e2e, store, rtt, response or late"),
    (
        "corrected",
        "boolean",
        "Whether latency starts at the due time (true) or at sending (false)",
    ),
)

BENCH_LATENCY_SUMMARY = Table(
    "bench_latency_summary",
    "Latency percentiles of each run, all workers merged, start-up phases left out.",
    RUN_COLUMNS
    + LATENCY_COLUMNS
    + columns(
        ("latencies_count", "bigint", "Latencies measured"),
        ("mean_us", "double", "Mean"),
        *((f"{name}_us", "double", f"{percent:g} % are not above") for name, percent
          in PERCENTILES.items()),
        ("max_us", "double", "Largest"),
    ),
    key=(*RUN_KEY_COLUMNS, "metric", "corrected"),
)  # fmt: skip

PHASES_BEFORE_MEASURING = ("starting", "warmup", "ramp")


def compute_bench_latency_summary(silver: Silver) -> DataFrame:
    """Return `bench_latency_summary`: one row per run and kind of latency."""
    keys = [*RUN_KEY_COLUMNS, "metric", "corrected"]
    is_before_measuring = F.coalesce(F.col("phase").isin(*PHASES_BEFORE_MEASURING), F.lit(False))
    return BENCH_LATENCY_SUMMARY.conform(
        merge_histograms(silver.bench_latency.where(~is_before_measuring), keys)
    )


def merge_histograms(rows: DataFrame, keys: list[str]) -> DataFrame:
    """Return count, mean, max and percentiles (µs) of the latency buckets in `rows` by `keys`."""
    buckets = rows.groupBy(*keys, "latency_ns").agg(F.sum("latencies_count").alias("n"))
    total = F.sum("n").over(Window.partitionBy(*keys))
    latency_order = Window.partitionBy(*keys).orderBy("latency_ns")
    buckets_so_far = latency_order.rowsBetween(Window.unboundedPreceding, Window.currentRow)
    cumulative_buckets = buckets.withColumns(
        {"total": total, "seen": F.sum("n").over(buckets_so_far)}
    )
    latency_us = F.col("latency_ns") / 1e3
    return cumulative_buckets.groupBy(*keys).agg(
        F.sum("n").alias("latencies_count"),
        (F.sum(latency_us * F.col("n")) / F.sum("n")).alias("mean_us"),
        *(
            F.min(F.when(F.col("seen") >= _rank_of_percentile(percent), latency_us)).alias(
                f"{name}_us"
            )
            for name, percent in PERCENTILES.items()
        ),
        F.max(latency_us).alias("max_us"),
    )


def _rank_of_percentile(percent: float) -> Column:
    # Rounded first: 0.99 × 200 must be 198 and not 198.00000000000003.
    return F.greatest(F.ceil(F.round(F.col("total") * (percent / 100), 6)), F.lit(1))


BENCH_ACCOUNT = Table(
    "bench_account",
    "The message account of each run, summed from the workers' reports.",
    RUN_COLUMNS
    + columns(
        ("title", "string", "Title of the scenario"),
        ("verdict", "string", "Verdict of the benchmark; null if it did not end"),
        ("sent_msgs", "bigint", "Sent"),
        ("acked_msgs", "bigint", "Messages that the server acknowledged as newly stored"),
        ("duplicate_acked_msgs", "bigint", "Acknowledged as duplicates"),
        ("refused_msgs", "bigint", "Messages that the server refused: publish acks with an error"),
        ("unanswered_msgs", "bigint", "Messages that were not acknowledged in time"),
        ("missed_msgs", "bigint", "Messages due by the schedule but never sent"),
        ("received_msgs", "bigint", "Received"),
        ("redelivered_msgs", "bigint", "Messages received with a delivery count above 1"),
        ("duplicate_msgs", "bigint", "Messages received again by the same worker"),
        ("lost_msgs", "bigint", "Messages expected but never received, as the benchmark reported"),
        (
            "unaccounted_msgs",
            "bigint",
            "Messages to store with an unknown outcome, in no other sum of the sender; null if "
            "none are stored, or if the run did not end",
        ),
        ("closes", "boolean", "Whether these sums match the benchmark's own report"),
    ),
    key=("session", "run_id"),
)


def compute_bench_account(silver: Silver) -> DataFrame:
    """Return `bench_account`: one row per run, from the reports of its workers and its result.

    Sent and received are summed as in the account of the benchmark itself: replies do not
    count as sent, and count as received only if no role receives other messages.
    """
    names = [
        "sent_msgs", "acked_msgs", "duplicate_acked_msgs", "refused_msgs", "unanswered_msgs",
        "missed_msgs", "received_msgs", "redelivered_msgs", "duplicate_msgs",
    ]  # fmt: skip
    received_msgs = F.col("received_msgs")
    sum_by_name = {name: F.sum(name) for name in names} | {
        "sent_msgs": F.sum(F.when(_is_summed("sent_msgs"), F.col("sent_msgs"))),
        "received_msgs": F.coalesce(
            F.sum(F.when(_has_pattern(lambda traits: traits.receives), received_msgs)),
            F.sum(F.when(_has_pattern(lambda traits: traits.receives_replies), received_msgs)),
            F.sum(F.when(F.col("pattern").isNull(), received_msgs)),
        ),
    }
    outcome_counts = [F.col(name) for name in names[1:5]]
    unaccounted_msgs = (
        F.col("sent_msgs")
        - outcome_counts[0]
        - outcome_counts[1]
        - outcome_counts[2]
        - outcome_counts[3]
    )
    is_stored = _has_pattern(lambda traits: traits.is_stored)
    worker_sums = silver.bench_interval.groupBy(*RUN_KEY_COLUMNS).agg(
        *(F.coalesce(value, F.lit(0)).alias(name) for name, value in sum_by_name.items()),
        F.sum(F.when(is_stored, unaccounted_msgs)).alias("unaccounted_msgs"),
        F.min(F.least(*names)).alias("least_msgs"),
    )
    results = silver.bench_result.select(
        *RUN_KEY_COLUMNS,
        "title",
        "verdict",
        "lost_msgs",
        *(F.col(name).alias(f"reported_{name}") for name in ("sent_msgs", "acked_msgs",
                                                         "received_msgs")),
    )  # fmt: skip
    rows = worker_sums.join(F.broadcast(results), RUN_KEY_COLUMNS, "left")
    agreement_conditions = [
        F.col(n) == F.col(f"reported_{n}") for n in ("sent_msgs", "acked_msgs", "received_msgs")
    ]
    is_valid = F.col("least_msgs") >= 0
    # No worker counts less than 0: such a report is damaged.
    adds_up = (
        agreement_conditions[0] & agreement_conditions[1] & agreement_conditions[2] & is_valid
    )
    return BENCH_ACCOUNT.conform(rows.withColumn("closes", adds_up))


LOAD_LEVELS_COUNT = 10
"""Number of load levels into which the seconds of a run are sorted to find its knee."""


MAX_P99_TO_LOWEST_P99_RATIO = 3.0
"""Maximum ratio of the p99 at the knee to the lowest p99 of a run."""


BENCH_KNEE = Table(
    "bench_knee",
    "Latency by load, and the load above which latency rises sharply.",
    RUN_COLUMNS
    + columns(
        (
            "metric",
            "string",
            "Kind of latency: ack, e2e, store, rtt, response or late, from the due time",
        ),
        ("level", "bigint", "Number of the load level; 1 is the lowest load"),
        ("load_per_s", "double", "Messages sent per second at this level"),
        ("p99_us", "double", "99th percentile of the latencies at this level"),
        (
            "knee",
            "boolean",
            "Whether this is the knee: the highest load before latency rises sharply",
        ),
    ),
    key=(*RUN_KEY_COLUMNS, "metric", "level"),
)


def compute_bench_knee(silver: Silver, bench_seconds: DataFrame) -> DataFrame:
    """Return `bench_knee`: one row per run, metric and load level (messages sent per second).

    The knee is the highest load at which the p99 is still low.
    """
    sent_slots = bench_seconds.where((F.col("counter") == "sent") & F.col("is_summed"))
    sent_slots = sent_slots.groupBy(*RUN_KEY_COLUMNS, "slot_at_us")
    slot_loads = sent_slots.agg(F.sum("msgs").alias("load")).where(F.col("load") > 0)
    order = Window.partitionBy(*RUN_KEY_COLUMNS).orderBy("load", "slot_at_us")
    slot_loads = slot_loads.withColumn("level", F.ntile(LOAD_LEVELS_COUNT).over(order))
    second = bucket_start("at_us", SECOND_US)
    rows = silver.bench_latency.where("corrected").withColumn("slot_at_us", second)
    rows = rows.join(F.broadcast(slot_loads), [*RUN_KEY_COLUMNS, "slot_at_us"])
    keys = [*RUN_KEY_COLUMNS, "metric", "level"]
    p99_rows = merge_histograms(rows, keys).select(*keys, "p99_us")
    mean_loads = slot_loads.groupBy(*RUN_KEY_COLUMNS, "level").agg(
        F.avg("load").alias("load_per_s")
    )
    p99_rows = p99_rows.join(F.broadcast(mean_loads), [*RUN_KEY_COLUMNS, "level"])
    lowest_p99 = F.min("p99_us").over(Window.partitionBy(*RUN_KEY_COLUMNS, "metric"))
    return BENCH_KNEE.conform(
        p99_rows.withColumn("least", lowest_p99).withColumn("knee", _is_knee())
    )


def _is_knee() -> Column:
    """Return whether a level is the last one with a low p99, and higher levels exist."""
    metric_window = Window.partitionBy(*RUN_KEY_COLUMNS, "metric")
    low_latency_level = F.when(
        F.col("p99_us") <= MAX_P99_TO_LOWEST_P99_RATIO * F.col("least"), F.col("level")
    )
    knee_level = F.max(low_latency_level).over(metric_window)
    has_higher_level = F.max("level").over(metric_window) > knee_level
    steady_load = F.when(F.col("level") >= FIRST_STEADY_LOAD_LEVEL, F.col("load_per_s"))
    lowest_load, highest_load = (
        F.min(steady_load).over(metric_window),
        F.max(steady_load).over(metric_window),
    )
    has_load_levels = highest_load >= MIN_LOAD_RATIO * lowest_load
    return F.coalesce(
        (F.col("level") == knee_level) & has_higher_level & has_load_levels, F.lit(False)
    )


CONTRADICTION_CAUSE = "does not add up"
"""Cause of a finding about a run whose sums contradict each other, without lost messages."""


def find_incomplete_accounts(accounts: DataFrame) -> DataFrame:
    """Return findings about benchmarks that lost messages, or whose sums contradict each other."""
    lost_msgs, unaccounted_msgs = (
        F.coalesce("lost_msgs", F.lit(0)),
        F.coalesce("unaccounted_msgs", F.lit(0)),
    )
    is_contradictory = F.col("closes") == F.lit(False)
    rows = accounts.where((lost_msgs > 0) | (unaccounted_msgs != 0) | is_contradictory)
    has_losses = (lost_msgs > 0) | (unaccounted_msgs > 0)
    weight = F.when(lost_msgs > 0, 74).otherwise(58)
    sentence = F.concat_ws(
        ", ",
        F.when(lost_msgs > 0, F.concat(count_text(lost_msgs, "message"), F.lit(" lost"))),
        F.when(
            unaccounted_msgs > 0,
            F.concat(count_text(unaccounted_msgs, "message"), F.lit(" not accounted for")),
        ),
        F.when(
            unaccounted_msgs < 0,
            F.concat(
                count_text(-unaccounted_msgs, "message"), F.lit(" acknowledged, but never sent")
            ),
        ),
        F.when(is_contradictory, F.lit("its workers' reports do not add up to its result")),
    )
    evidence = F.format_string(
        "%d sent, %d acknowledged, %d received", "sent_msgs", "acked_msgs", "received_msgs"
    )
    cause = F.when(has_losses, "benchmark").otherwise(CONTRADICTION_CAUSE)
    title = F.coalesce("title", "run_id")
    return build_findings(rows, "benchmark", title, weight, (sentence, evidence), cause)


def _bench_section(title: str, *names: str) -> Section:
    return Section(title, ("session", "run_id", *names), "No benchmark was recorded.", True)


REPORT_POSITION = 160
GOLD_TABLES = (
    GoldTable(
        BENCH_STEADY,
        lambda inputs: compute_bench_steady(messages_per_second(inputs.silver)),
        sorted_by=("session", "role", "counter"),
        source_tables=(BENCH_INTERVAL,),
    ),
    GoldTable(
        BENCH_THROUGHPUT,
        lambda inputs: compute_bench_throughput(
            messages_per_second(inputs.silver), inputs.gold("bench_steady")
        ),
        input_names=("bench_steady",),
        section=_bench_section(
            "Benchmark throughput", "role", "worker_id", "counter", "mean_per_s", "p5_per_s",
            "p50_per_s", "p95_per_s", "fairness_ratio",
        ),
        sorted_by=("session", "run_id", "role", "counter", "worker_id"),
        source_tables=(BENCH_INTERVAL,),
    ),
    GoldTable(
        BENCH_LATENCY_SUMMARY,
        lambda inputs: compute_bench_latency_summary(inputs.silver),
        section=_bench_section(
            "Benchmark latency", "metric", "corrected", "latencies_count",
            *(f"{name}_us" for name in SHOWN_PERCENTILES), "max_us",
        ),
        sorted_by=("session", "run_id", "metric", "corrected"),
        source_tables=(BENCH_LATENCY,),
    ),
    GoldTable(
        BENCH_ACCOUNT,
        lambda inputs: compute_bench_account(inputs.silver),
        findings=(find_incomplete_accounts,),
        section=_bench_section(
            "Benchmark account", "title", "verdict", "sent_msgs", "acked_msgs", "received_msgs",
            "lost_msgs", "duplicate_msgs", "unaccounted_msgs", "closes",
        ),
        sorted_by=("session",),
        source_tables=(BENCH_INTERVAL,),
    ),
    GoldTable(
        BENCH_KNEE,
        lambda inputs: compute_bench_knee(inputs.silver, messages_per_second(inputs.silver)),
        section=_bench_section(
            "Load at which latency rises sharply",
            "metric",
            "level",
            "load_per_s",
            "p99_us",
            "knee",
        ),
        sorted_by=("session", "run_id", "metric", "level"),
        source_tables=(BENCH_LATENCY,),
    ),
)  # fmt: skip
