"""Tables of the growth of streams and account, the time until limits, and busiest intervals."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold.gold_table import GoldTable, build_findings, count_text, duration_text
from natstui.analysis.gold.picture import with_series_count
from natstui.analysis.gold.rates import UNSEEN_MEANING, increase_since_last_poll, with_unseen_s
from natstui.analysis.gold.session import SESSION_SUMMARY
from natstui.analysis.gold.shared.forecast import (
    NO_FORECAST_MEANING,
    growth_aggregates,
    interval_text,
    is_growth_certain,
    limit_cause,
    number_parts,
    reportable_s,
    time_until_used_s,
    with_growth,
)
from natstui.analysis.section import Section
from natstui.analysis.silver.events import latest_configuration
from natstui.analysis.silver.layer import Silver
from natstui.analysis.tables import SESSION_COLUMN, STREAM_IDENTITY, STREAM_KEY, Table, columns
from natstui.model.findings.thresholds import MAX_BYTES_REACHED_SHARE, STALE_ROWS_AFTER_S

_NEVER_MEANING = "null: never, or unknown"

CAPACITY = Table(
    "capacity",
    "Growth of each stream and the time until it reaches each limit.",
    STREAM_IDENTITY
    + columns(
        ("stored_msgs", "bigint", "Messages at the end of the recording"),
        ("stored_bytes", "bigint", "Bytes at the end of the recording"),
        (
            "message_bytes",
            "double",
            "Mean bytes stored per message, overhead of the store included",
        ),
        ("unseen_s", "double", f"{UNSEEN_MEANING}; its sizes are from that sample"),
        ("growth_msgs_per_s", "double", "Growth of the stored messages, over the recorded time"),
        ("growth_bytes_per_s", "double", "Growth of the stored bytes, over the recorded time"),
        ("watched_s", "double", "Time over which the growth was measured"),
        ("max_msgs", "bigint", "Limit; null: unlimited"),
        ("max_bytes", "bigint", "Limit; null: unlimited"),
        (
            "msgs_full_in_s",
            "double",
            f"Time until the message limit is reached at this growth; {NO_FORECAST_MEANING}",
        ),
        (
            "bytes_full_in_s",
            "double",
            f"Time until the byte limit is reached at this growth; {NO_FORECAST_MEANING}",
        ),
        (
            "earliest_s",
            "double",
            f"Earliest time until the first limit is reached (95 % sure); {_NEVER_MEANING}",
        ),
        (
            "latest_s",
            "double",
            f"Latest time until the first limit is reached (95 % sure); {_NEVER_MEANING}",
        ),
        ("discard", "string", "What a full stream discards: old or new messages"),
        (
            "resets_count",
            "bigint",
            "How often the last sequence decreased: the stream was restored",
        ),
    ),
    key=STREAM_KEY,
)

ACCOUNT_CAPACITY = Table(
    "account_capacity",
    "Growth of the account's storage, and API errors.",
    columns(
        SESSION_COLUMN,
        ("storage_bytes", "bigint", "Storage used at the end"),
        ("growth_bytes_per_s", "double", "Growth during the recording, bytes per second"),
        ("max_storage_bytes", "bigint", "Limit; null: unlimited"),
        ("api_errors_count", "bigint", "API errors during the recording"),
    ),
    key=("session",),
)


_LIMIT_UNITS = ("msgs", "bytes")


def compute_capacity(silver: Silver, stream_rate: DataFrame, thresholds: Thresholds) -> DataFrame:
    """Return `capacity`: one row per stream, from its rates and its configuration."""
    rows = _sum_growth(stream_rate, thresholds)
    streams = latest_configuration(silver.configuration, F.col("consumer").isNull())
    stream_limits = streams.select(
        *STREAM_KEY, "max_msgs", "max_bytes", "max_age_ns", "max_msgs_per_subject", "discard"
    )
    rows = rows.join(stream_limits, [*STREAM_KEY], "left")
    rows = rows.join(_stable_subject_counts(silver.stream_sample), "series_id", "left")
    rows = with_unseen_s(rows, stream_rate, stream_rate)
    rows = with_growth(rows, [f"{unit}_pace" for unit in _LIMIT_UNITS], thresholds.bucket_s)
    rows = rows.withColumns(
        {f"{unit}_left_s": _time_to_limit_s(unit, thresholds) for unit in _LIMIT_UNITS}
    )
    rows = rows.withColumns(
        {f"{unit}_left_s": _time_to_limit_before_expiry_s(unit) for unit in _LIMIT_UNITS}
    )
    rows = rows.withColumns(
        {f"{unit}_left_s": _time_to_limit_before_full_subjects_s(unit) for unit in _LIMIT_UNITS}
    )
    is_full = F.coalesce(is_at_byte_limit(), F.lit(False))
    bytes_left_s = F.when(is_full, F.lit(0.0)).otherwise(F.col("bytes_left_s"))
    rows = rows.withColumns(
        {
            "message_bytes": F.col("stored_bytes") / F.nullif("stored_msgs", F.lit(0)),
            "msgs_full_in_s": reportable_s(F.col("msgs_left_s"), F.col("watched_s")),
            "bytes_full_in_s": reportable_s(bytes_left_s, F.col("watched_s")),
        }
    )
    bound_by_column = {"earliest_s": "_most", "latest_s": "_least"}
    return CAPACITY.conform(
        rows.withColumns(
            {name: _first_limit_s(thresholds, end) for name, end in bound_by_column.items()}
        )
    )


def _sum_growth(stream_rate: DataFrame, thresholds: Thresholds) -> DataFrame:
    """Return one row per stream: stored amounts, their growth, and the growth's variation."""
    # A bucket of which less than half was recorded says little about the growth.
    is_mostly_watched = F.col("covered_s") >= thresholds.bucket_s / 2
    growth_by_column = {
        f"{unit}_pace": F.when(is_mostly_watched, F.col(f"grown_{unit}") / F.col("covered_s"))
        for unit in _LIMIT_UNITS
    }
    rows = number_parts(
        stream_rate.withColumns(growth_by_column),
        ["series_id"],
        "bucket_at_us",
        [*growth_by_column],
    )
    watched_s = F.nullif(F.sum("covered_s"), F.lit(0.0))
    return rows.groupBy("series_id", *STREAM_KEY).agg(
        F.max_by("stored_msgs", "bucket_at_us").alias("stored_msgs"),
        F.max_by("stored_bytes", "bucket_at_us").alias("stored_bytes"),
        F.max_by("first_at_us", "bucket_at_us").alias("first_at_us"),
        F.max("last_at_us").alias("last_at_us"),
        (F.sum("published_msgs") > F.sum("grown_msgs")).alias("losing"),
        F.sum("resets_count").alias("resets_count"),
        F.sum("covered_s").alias("watched_s"),
        *(
            (F.sum(f"grown_{unit}") / watched_s).alias(f"growth_{unit}_per_s")
            for unit in _LIMIT_UNITS
        ),
        *(
            column
            for growth_column in growth_by_column
            for column in growth_aggregates(growth_column, "bucket_at_us")
        ),
    )


def _time_to_limit_s(unit: str, thresholds: Thresholds) -> Column:
    """Return the time (s) until a limit is reached at the latest growth; null if uncertain."""
    growth_column, free_amount = f"{unit}_pace", F.col(f"max_{unit}") - F.col(f"stored_{unit}")
    return F.when(
        (free_amount <= 0) | is_growth_certain(growth_column),
        time_until_used_s(growth_column, free_amount, thresholds.bucket_s),
    )


def _time_to_limit_before_expiry_s(unit: str) -> Column:
    """Return the time (s) until the stream reaches its limit of `unit`: `msgs` or `bytes`.

    Null if messages reach their max age earlier, which ends the growth.
    """
    time_to_expiry_s = (
        F.col("max_age_ns") / 1e3 + F.col("first_at_us") - F.col("last_at_us")
    ) / 1e6
    time_to_limit_s = F.col(f"{unit}_left_s")
    return F.when(
        time_to_expiry_s.isNull() | (time_to_limit_s <= 0) | (time_to_limit_s <= time_to_expiry_s),
        time_to_limit_s,
    )


def _stable_subject_counts(samples: DataFrame) -> DataFrame:
    """Return the number of subjects of each stream whose number did not increase."""
    rows = samples.groupBy("series_id").agg(
        F.min_by("subjects_count", "mono_us").alias("first_count"),
        F.max_by("subjects_count", "mono_us").alias("subjects_count"),
    )
    return rows.where(F.col("subjects_count") <= F.col("first_count")).drop("first_count")


def _time_to_limit_before_full_subjects_s(unit: str) -> Column:
    """Return the time (s) until the stream reaches its limit of `unit`: `msgs` or `bytes`.

    Null if all subjects together reach max messages per subject earlier, which ends the growth.
    """
    subjects_limit = F.col("max_msgs_per_subject") * F.col("subjects_count")
    if unit == "bytes":
        subjects_limit = subjects_limit * F.col("stored_bytes") / F.nullif("stored_msgs", F.lit(0))
    time_to_limit_s = F.col(f"{unit}_left_s")
    return F.when(
        subjects_limit.isNull()
        | (time_to_limit_s <= 0)
        | (subjects_limit >= F.col(f"max_{unit}")),
        time_to_limit_s,
    )


def _first_limit_s(thresholds: Thresholds, end: str) -> Column:
    """Return the time (s) until the stream reaches its first limit of messages or bytes.

    `end` is `_most` or `_least`: the bound of the likely growth. Null if no limit is reached.
    """
    times_to_limits_s = []
    for unit in _LIMIT_UNITS:
        growth_column, time_to_full_s = f"{unit}_pace", F.col(f"{unit}_full_in_s")
        free_amount = F.col(f"max_{unit}") - F.col(f"stored_{unit}")
        time_to_limit_s = time_until_used_s(growth_column, free_amount, thresholds.bucket_s, end)
        times_to_limits_s.append(
            F.when(time_to_full_s == 0, F.lit(0.0)).when(time_to_full_s > 0, time_to_limit_s)
        )
    return F.least(*times_to_limits_s)


def compute_account_capacity(silver: Silver) -> DataFrame:
    """Return `account_capacity`: one row per session, from its polls."""
    polls = silver.poll.where(F.col("storage_bytes").isNotNull())
    # UTC without the steps of the clock: the monotonic clock of older recorders stops while the
    # machine sleeps.
    used_bytes, at_s = F.col("storage_bytes"), F.col("at_us").cast("double") / 1e6
    polls = polls.withColumn("more_errors_count", increase_since_last_poll("api_errors_count"))
    rows = polls.groupBy("session").agg(
        F.max_by("storage_bytes", "at_us").alias("storage_bytes"),
        F.max_by("max_storage_bytes", "at_us").alias("max_storage_bytes"),
        F.sum("more_errors_count").alias("api_errors_count"),
        (
            (F.max_by(used_bytes, "at_us") - F.min_by(used_bytes, "at_us"))
            / F.nullif(F.max(at_s) - F.min(at_s), F.lit(0.0))
        ).alias("growth_bytes_per_s"),
    )
    return ACCOUNT_CAPACITY.conform(rows)


def is_at_byte_limit() -> Column:
    """Return whether a stream has reached its byte limit, by the rule of `model.live.limits`."""
    limit_bytes, stored_bytes = F.col("max_bytes"), F.col("stored_bytes")
    is_kept_at_limit = F.col("losing") & (stored_bytes >= MAX_BYTES_REACHED_SHARE * limit_bytes)
    return is_kept_at_limit | (
        limit_bytes - stored_bytes < stored_bytes / F.nullif("stored_msgs", F.lit(0))
    )


BUSIEST_COUNT = 10
_MAX_REPORTED_TIME_TO_FULL_S = 7 * 86_400
"""Maximum time until a limit of which a finding is reported."""


LOAD = Table(
    "load",
    "Totals of all streams and consumers, per interval of time.",
    columns(
        SESSION_COLUMN,
        ("bucket_at_us", "bigint", "Start of the interval"),
        ("published_per_s", "double", "Messages stored, all streams together"),
        ("grown_bytes_per_s", "double", "Growth of the stored bytes, all streams together"),
        ("delivered_per_s", "double", "Deliveries, all consumers together"),
        (
            "settled_per_s",
            "double",
            "Deliveries acked, terminated or dropped, all consumers together",
        ),
        ("pending_mean_msgs", "double", "Mean of unprocessed messages, all consumers together"),
    ),
    key=("session", "bucket_at_us"),
)


BUSIEST = Table(
    "busiest",
    "The ten busiest intervals of each session.",
    columns(
        SESSION_COLUMN,
        ("bucket_at_us", "bigint", "Start of the interval"),
        ("published_per_s", "double", "Messages stored, all streams together"),
        ("grown_bytes_per_s", "double", "Growth of the stored bytes, all streams together"),
        ("delivered_per_s", "double", "Deliveries, all consumers together"),
        ("pending_mean_msgs", "double", "Mean of unprocessed messages, all consumers together"),
        ("rank", "bigint", "1 for the busiest"),
    ),
    key=("session", "rank"),
)


def compute_load(
    sessions: DataFrame, stream_rate: DataFrame, consumer_rate: DataFrame, thresholds: Thresholds
) -> DataFrame:
    """Return `load`: one row per session and interval, with the rates of all series together.

    A rate is the mean rate of the recorded series, times the number of series that existed.
    """
    keys = ["session", "bucket_at_us"]
    bucket = {"rank": F.lit(0), "width_s": F.lit(thresholds.bucket_s)}

    def sum_per_bucket(rates: DataFrame, *values: Column) -> DataFrame:
        rows = rates.groupBy(*keys).agg(F.sum("covered_s").alias("covered_s"), *values)
        return with_series_count(rows.withColumns(bucket), rates, sessions)

    def sum_per_s(name: str) -> Column:
        return F.col("members") * F.col(name) / F.nullif("covered_s", F.lit(0.0))

    pending_msgs = F.sum(F.col("pending_mean_msgs") * F.col("samples_count")) / F.sum(
        "samples_count"
    )
    streams = sum_per_bucket(
        stream_rate, *(F.sum(name).alias(name) for name in ("published_msgs", "grown_bytes"))
    )
    consumers = sum_per_bucket(
        consumer_rate,
        *(F.sum(name).alias(name) for name in ("delivered_msgs", "settled_msgs")),
        pending_msgs.alias("pending_mean_msgs"),
    )
    rows = streams.select(
        *keys,
        sum_per_s("published_msgs").alias("published_per_s"),
        sum_per_s("grown_bytes").alias("grown_bytes_per_s"),
    ).join(
        consumers.select(
            *keys,
            sum_per_s("delivered_msgs").alias("delivered_per_s"),
            sum_per_s("settled_msgs").alias("settled_per_s"),
            (F.col("members") * F.col("pending_mean_msgs")).alias("pending_mean_msgs"),
        ),
        keys,
        "full",
    )
    return LOAD.conform(rows)


def compute_busiest(loads: DataFrame) -> DataFrame:
    """Return `busiest`: the ten rows of `load` with the highest load per session."""
    order = Window.partitionBy("session").orderBy(
        F.col("published_per_s").desc_nulls_last(), "bucket_at_us"
    )
    rows = loads.withColumn("rank", F.row_number().over(order))
    return BUSIEST.conform(rows.where(F.col("rank") <= BUSIEST_COUNT))


def find_full_streams(streams: DataFrame) -> DataFrame:
    """Return findings about streams that are full or will soon be, and then reject publishes."""
    first_limit_s = F.least("msgs_full_in_s", "bytes_full_in_s")
    rows = streams.withColumn("soonest", first_limit_s)
    is_full = F.col("soonest") == 0
    is_certain_finding = is_full | (
        (F.col("soonest") < _MAX_REPORTED_TIME_TO_FULL_S) & F.col("latest_s").isNotNull()
    )
    # A stream that discards old messages is meant to be full.
    rows = rows.where(
        is_certain_finding & (F.col("discard") == "new") & (F.col("unseen_s") < STALE_ROWS_AFTER_S)
    )
    weight = (
        F.when(is_full, 76)
        .when(F.col("soonest") < 3600, 72)
        .when(F.col("soonest") < 86_400, 55)
        .otherwise(36)
    )
    forecast_sentence = F.concat(
        F.lit("at this growth full in "),
        duration_text("soonest"),
        F.lit(": it then rejects publishes"),
    )
    sentence = F.when(is_full, "full: it rejects publishes").otherwise(forecast_sentence)
    growth_text = F.format_string(
        "grows by %.1f messages and %.0f bytes a second", "growth_msgs_per_s", "growth_bytes_per_s"
    )
    forecast_interval = interval_text(duration_text("earliest_s"), duration_text("latest_s"))
    stored_text = F.concat(
        F.lit("keeps "), count_text(F.col("stored_msgs"), "message"),
        F.format_string(" and %d bytes", "stored_bytes"),
    )  # fmt: skip
    evidence = F.when(is_full, stored_text).otherwise(
        F.concat_ws(", ", growth_text, forecast_interval)
    )
    used_shares = (
        F.col(f"stored_{unit}") / F.nullif(f"max_{unit}", F.lit(0)) for unit in _LIMIT_UNITS
    )
    cause = F.when(is_full, "full").otherwise(limit_cause(F.greatest(*used_shares)))
    return build_findings(rows, "capacity", F.col("stream"), weight, (sentence, evidence), cause)


def find_restarted_streams(streams: DataFrame) -> DataFrame:
    """Return findings about streams whose last sequence decreased, which lost their messages."""
    rows, resets_count = streams.where(F.col("resets_count") > 0), F.col("resets_count")
    sentence = F.concat(
        F.lit("restarted its sequence "),
        count_text(resets_count, "time"),
        F.lit(": the messages it had stored are lost"),
    )
    evidence = F.lit("its last sequence decreased, although its creation time is the same")
    texts = (sentence, evidence)
    return build_findings(
        rows, "identity", F.col("stream"), F.lit(78), texts, F.lit("sequence restarted")
    )


def find_recreated_streams(streams: DataFrame) -> DataFrame:
    """Return findings about streams that were deleted and recreated."""
    counts = streams.groupBy("session", "stream").agg(F.count("*").alias("made"))
    rows = counts.where(F.col("made") > 1)
    sentence = F.concat(F.lit("deleted and recreated "), count_text(F.col("made") - 1, "time"))
    evidence = F.lit("its creation time changed during the recording")
    return build_findings(rows, "identity", F.col("stream"), F.lit(48), (sentence, evidence))


REPORT_POSITION = 130
GOLD_TABLES = (
    GoldTable(
        CAPACITY,
        lambda inputs: compute_capacity(
            inputs.silver, inputs.gold("stream_rate"), inputs.thresholds
        ),
        input_names=("stream_rate",),
        findings=(find_full_streams, find_restarted_streams, find_recreated_streams),
        section=Section(
            "Capacity",
            ("session", "stream", "stored_msgs", "stored_bytes", "unseen_s", "message_bytes",
             "growth_bytes_per_s", "msgs_full_in_s", "bytes_full_in_s", "earliest_s", "latest_s",
             "discard"),
            "No streams.",
        ),
        sorted_by=("session", "stream"),
    ),
    GoldTable(
        ACCOUNT_CAPACITY,
        lambda inputs: compute_account_capacity(inputs.silver),
        section=Section(
            "Account",
            ("session", "storage_bytes", "growth_bytes_per_s", "max_storage_bytes",
             "api_errors_count"),
            "The storage use of the account was not recorded.",
        ),
        sorted_by=("session",),
    ),
    GoldTable(
        LOAD,
        lambda inputs: compute_load(
            inputs.gold(SESSION_SUMMARY.name),
            inputs.gold("stream_rate"),
            inputs.gold("consumer_rate"),
            inputs.thresholds,
        ),
        input_names=("stream_rate", "consumer_rate", SESSION_SUMMARY.name),
        sorted_by=("session", "bucket_at_us"),
        # It is drawn as a chart, which would be wrong if rows were left out.
        min_rows_count=5_000,
    ),
    GoldTable(
        BUSIEST,
        lambda inputs: compute_busiest(inputs.gold("load")),
        input_names=("load",),
        section=Section(
            "Busiest moments",
            ("session", "rank", "bucket_at_us", "published_per_s", "delivered_per_s",
             "pending_mean_msgs"),
            "Nothing was measured.",
        ),
        sorted_by=("session", "rank"),
    ),
)  # fmt: skip
