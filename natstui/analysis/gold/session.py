"""Tables of the analysed sessions, with their unreadable parts, and of the notes in them."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.gold.availability import is_gap
from natstui.analysis.gold.gold_table import RECORDING_KIND, GoldTable, build_findings, count_text
from natstui.analysis.section import Section
from natstui.analysis.silver.findings import NOT_JUDGED_KIND
from natstui.analysis.silver.layer import Silver
from natstui.analysis.tables import SESSION_COLUMN, Table, columns

SESSION_SUMMARY = Table(
    "session",
    "What could be read of each session, and what could not.",
    columns(
        SESSION_COLUMN,
        ("start_at_us", "bigint", "First poll"),
        ("end_at_us", "bigint", "Last poll"),
        ("duration_s", "double", "Between the two"),
        ("polls_count", "bigint", "Polls"),
        ("gaps_count", "bigint", "Gaps between polls"),
        ("gaps_s", "double", "Length of all gaps together"),
        ("streams_count", "bigint", "Streams seen; recreated ones count twice"),
        ("consumers_count", "bigint", "Consumers seen; recreated ones count twice"),
        ("consumer_samples_count", "bigint", "Consumer samples"),
        ("segments_count", "bigint", "Files"),
        ("corrupt_segments_count", "bigint", "Closed files that are cut off or damaged"),
        (
            "torn_lines_count",
            "bigint",
            "Lines ignored because they were incomplete or not readable",
        ),
        (
            "unfinished_lines_count",
            "bigint",
            "Of these ignored lines: incomplete last lines of open files",
        ),
        ("unknown_lines_count", "bigint", "Lines ignored because their kind is unknown"),
        ("size_bytes", "bigint", "Size on disk"),
        ("damage", "string", "Files not read completely, with the ignored lines of each"),
        ("not_judged", "string", "Why the findings of the session are unknown; null if known"),
    ),
    key=("session",),
)

NOTE = Table(
    "note",
    "Notes that people added during the recording.",
    columns(
        SESSION_COLUMN,
        ("at_us", "bigint", "When"),
        ("text", "string", "What was written"),
    ),
    key=("session", "at_us", "text"),
)

_MAX_NAMED_FILES = 5
"""Maximum number of damaged files that are named; the others are counted."""


def compute_session_summary(
    silver: Silver, stream_rate: DataFrame, consumer_rate: DataFrame
) -> DataFrame:
    """Return `session`: one row per session, from its files, polls, rates and events."""
    unreadable_count = unreadable_lines_count()
    damage_text = F.when(F.col("corrupt"), F.concat("segment", F.lit(" is damaged")))
    left_out_text = F.when(
        unreadable_count > 0,
        F.concat("segment", F.lit(": "), count_text(unreadable_count, "line")),
    )
    file_text = F.nullif(F.concat_ws(", ", damage_text, left_out_text), F.lit(""))
    order = Window.partitionBy("session").orderBy(F.asc_nulls_last("file_text"))
    files = silver.segment.withColumn("file_text", file_text)
    files = files.withColumn("file_number", F.row_number().over(order)).groupBy("session")
    files = files.agg(
        F.expr("count(1) AS segments_count"),
        F.expr("count_if(corrupt) AS corrupt_segments_count"),
        F.expr("sum(torn_lines_count) AS torn_lines_count"),
        F.expr("sum(unfinished_lines_count) AS unfinished_lines_count"),
        F.expr("sum(unknown_lines_count) AS unknown_lines_count"),
        F.expr("sum(size_bytes) AS size_bytes"),
        _damage_text().alias("damage"),
    )
    polls = silver.poll.groupBy("session").agg(
        F.expr("min(at_us) AS start_at_us"),
        F.expr("max(at_us) AS end_at_us"),
        F.expr("count(1) AS polls_count"),
        F.count_if(is_gap()).alias("gaps_count"),
        (F.sum(F.when(is_gap(), F.col("gap_before_us"))) / 1e6).alias("gaps_s"),
    )
    streams = stream_rate.groupBy("session").agg(
        F.expr("count(DISTINCT series_id) AS streams_count")
    )
    consumers = consumer_rate.groupBy("session").agg(
        F.expr("count(DISTINCT series_id) AS consumers_count"),
        F.expr("sum(samples_count) AS consumer_samples_count"),
    )
    sessions_with_failed_findings = silver.event.where(F.col("kind") == NOT_JUDGED_KIND).groupBy(
        "session"
    )
    sessions_with_failed_findings = sessions_with_failed_findings.agg(
        F.min("text").alias("not_judged")
    )
    rows = files
    for part in (polls, streams, consumers, sessions_with_failed_findings):
        rows = rows.unionByName(part, allowMissingColumns=True)
    # Each value is in one of the rows of a session.
    names = [c.name for c in SESSION_SUMMARY.columns if c.name not in ("session", "duration_s")]
    rows = rows.groupBy("session").agg(*(F.max(name).alias(name) for name in names))
    counts = [c.name for c in SESSION_SUMMARY.columns if c.name.endswith("_count")]
    rows = rows.na.fill(0, [*counts, "gaps_s"])
    duration = F.expr("(end_at_us - start_at_us) / 1e6")
    return SESSION_SUMMARY.conform(rows.withColumn("duration_s", duration))


def unreadable_lines_count() -> Column:
    """Return the number of lines left out, except incomplete last lines of open files."""
    return F.expr("torn_lines_count - unfinished_lines_count + unknown_lines_count")


def _damage_text() -> Column:
    """Return the first `file_text` of the damaged files of a session, and the number of others.

    Null without a damaged file. `file_number` is the position of a file in this order.
    """
    is_named = F.col("file_number") <= _MAX_NAMED_FILES
    named_texts = F.sort_array(F.collect_list(F.when(is_named, F.col("file_text"))))
    others_count = F.count("file_text") - _MAX_NAMED_FILES
    others_text = F.when(
        others_count > 0, F.concat(F.lit(" and "), count_text(others_count, "other file"))
    )
    text = F.concat(F.array_join(named_texts, "; "), F.coalesce(others_text, F.lit("")))
    return F.nullif(text, F.lit(""))


def find_damaged_recordings(sessions: DataFrame) -> DataFrame:
    """Return findings about recordings that could not be read completely."""
    segments_count, lines_count = F.col("corrupt_segments_count"), unreadable_lines_count()
    rows = sessions.where((segments_count > 0) | (lines_count > 0))
    damaged_text = F.when(segments_count == 1, " is damaged").otherwise(" are damaged")
    left_out_text = F.when(lines_count == 1, " could not be read and is left out").otherwise(
        " could not be read and are left out"
    )
    sentence = F.concat_ws(
        ", ",
        F.when(segments_count > 0, F.concat(count_text(segments_count, "segment"), damaged_text)),
        F.when(lines_count > 0, F.concat(count_text(lines_count, "line"), left_out_text)),
    )
    return build_findings(
        rows, RECORDING_KIND, F.col("session"), F.lit(50), (sentence, F.col("damage"))
    )


def find_unjudged_recordings(sessions: DataFrame) -> DataFrame:
    """Return findings about recordings without findings, if computing them failed."""
    rows = sessions.where(F.col("not_judged").isNotNull())
    sentence = F.lit(
        "its findings are unknown: the recording has none, and they could not be computed"
    )
    texts = (sentence, F.col("not_judged"))
    return build_findings(
        rows, RECORDING_KIND, F.col("session"), F.lit(34), texts, F.lit(NOT_JUDGED_KIND)
    )


REPORT_POSITION = 10
GOLD_TABLES = (
    GoldTable(
        SESSION_SUMMARY,
        lambda inputs: compute_session_summary(
            inputs.silver, inputs.gold("stream_rate"), inputs.gold("consumer_rate")
        ),
        input_names=("stream_rate", "consumer_rate"),
        findings=(find_damaged_recordings, find_unjudged_recordings),
        section=Section(
            "Sessions",
            ("session", "start_at_us", "duration_s", "polls_count", "gaps_count",
             "streams_count", "consumers_count", "consumer_samples_count",
             "corrupt_segments_count", "torn_lines_count", "size_bytes"),
            "No session.",
        ),
        sorted_by=("session",),
        # All damaged sessions are reported to the user, so all rows are in the result.
        min_rows_count=10_000,
    ),
    GoldTable(
        NOTE,
        lambda inputs: NOTE.conform(inputs.silver.event.where(F.col("kind") == "noted")),
        sorted_by=("session", "at_us"),
    ),
)  # fmt: skip
