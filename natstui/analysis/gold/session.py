"""What was analysed: one row per session, with what was left out."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from natstui.analysis.gold.answer import Answer, finding
from natstui.analysis.section import Section
from natstui.analysis.silver.layer import Silver
from natstui.analysis.tables import SESSION, Table, columns

SESSION_SUMMARY = Table(
    "session",
    "What was read of each session, and what could not be.",
    columns(
        SESSION,
        ("start_at_us", "bigint", "First poll"),
        ("end_at_us", "bigint", "Last poll"),
        ("duration_s", "double", "Between the two"),
        ("polls_count", "bigint", "Polls"),
        ("gaps_count", "bigint", "Gaps between polls"),
        ("streams_count", "bigint", "Streams seen, made again counted twice"),
        ("consumers_count", "bigint", "Consumers seen, made again counted twice"),
        ("consumer_samples_count", "bigint", "Consumer samples"),
        ("segments_count", "bigint", "Files"),
        ("corrupt_segments_count", "bigint", "Sealed files that are cut off or damaged"),
        ("torn_lines_count", "bigint", "Lines left out because they were cut off or not readable"),
        ("unknown_lines_count", "bigint", "Lines left out because their kind is not known"),
        ("size_bytes", "bigint", "Size on disk"),
    ),
)


def session_summary(silver: Silver, stream_rate: DataFrame, consumer_rate: DataFrame) -> DataFrame:
    """Return the table `session`."""
    files = silver.segment.groupBy("session").agg(
        F.count("*").alias("segments_count"),
        F.count_if("corrupt").alias("corrupt_segments_count"),
        F.sum("torn_lines_count").alias("torn_lines_count"),
        F.sum("unknown_lines_count").alias("unknown_lines_count"),
        F.sum("size_bytes").alias("size_bytes"),
    )
    polls = silver.poll.groupBy("session").agg(
        F.min("at_us").alias("start_at_us"),
        F.max("at_us").alias("end_at_us"),
        F.count("*").alias("polls_count"),
        F.count("gap_before_us").alias("gaps_count"),
    )
    streams = stream_rate.groupBy("session").agg(
        F.count_distinct("series_id").alias("streams_count")
    )
    consumers = consumer_rate.groupBy("session").agg(
        F.count_distinct("series_id").alias("consumers_count"),
        F.sum("samples_count").alias("consumer_samples_count"),
    )
    rows = files
    for part in (polls, streams, consumers):
        rows = rows.join(F.broadcast(part), "session", "left")
    counts = [c.name for c in SESSION_SUMMARY.columns if c.name.endswith("_count")]
    rows = rows.na.fill(0, counts)
    duration = (F.col("end_at_us") - F.col("start_at_us")) / 1e6
    return SESSION_SUMMARY.contract(rows.withColumn("duration_s", duration))


def damaged(sessions: DataFrame) -> DataFrame:
    """Return findings about recordings that could not be read whole."""
    rows = sessions.where(F.col("corrupt_segments_count") > 0)
    sentence = F.format_string("%d segments are damaged", "corrupt_segments_count")
    evidence = F.format_string("%d lines could not be read", "torn_lines_count")
    return finding(rows, "recording", F.col("session"), F.lit(50), (sentence, evidence))


ANSWERS = (
    Answer(
        SESSION_SUMMARY,
        lambda given: session_summary(
            given.silver, given.gold("stream_rate"), given.gold("consumer_rate")
        ),
        needs=("stream_rate", "consumer_rate"),
        findings=(damaged,),
        section=Section(
            "Sessions",
            ("session", "start_at_us", "duration_s", "polls_count", "gaps_count",
             "streams_count", "consumers_count", "consumer_samples_count",
             "corrupt_segments_count", "torn_lines_count", "size_bytes"),
            "No session.",
        ),
        sorted_by=("session",),
    ),
)  # fmt: skip
