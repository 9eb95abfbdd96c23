"""Answer: the analysed sessions, with their unreadable parts."""

from __future__ import annotations

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from natstui.analysis.gold.answer import RECORDING, Answer, counted, finding
from natstui.analysis.gold.availability import is_gap
from natstui.analysis.section import Section
from natstui.analysis.silver.findings import NOT_JUDGED
from natstui.analysis.silver.layer import Silver
from natstui.analysis.tables import SESSION, Table, columns

SESSION_SUMMARY = Table(
    "session",
    "What could be read of each session, and what could not.",
    columns(
        SESSION,
        ("start_at_us", "bigint", "First poll"),
        ("end_at_us", "bigint", "Last poll"),
        ("duration_s", "double", "Between the two"),
        ("polls_count", "bigint", "Polls"),
        ("gaps_count", "bigint", "Gaps between polls"),
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
        SESSION,
        ("at_us", "bigint", "When"),
        ("text", "string", "What was written"),
    ),
    key=("session", "at_us", "text"),
)

_FILES_NAMED = 5
"""Maximum of named damaged files; the others are counted."""


def session_summary(silver: Silver, stream_rate: DataFrame, consumer_rate: DataFrame) -> DataFrame:
    """Return `session`: one row per session, from its files, polls, rates and events."""
    unreadable = unreadable_lines()
    damage_text = F.when(F.col("corrupt"), F.concat("segment", F.lit(" is damaged")))
    left_out_text = F.when(
        unreadable > 0, F.concat("segment", F.lit(": "), counted(unreadable, "line"))
    )
    files = silver.segment.groupBy("session").agg(
        F.expr("count(1) AS segments_count"),
        F.expr("count_if(corrupt) AS corrupt_segments_count"),
        F.expr("sum(torn_lines_count) AS torn_lines_count"),
        F.expr("sum(unfinished_lines_count) AS unfinished_lines_count"),
        F.expr("sum(unknown_lines_count) AS unknown_lines_count"),
        F.expr("sum(size_bytes) AS size_bytes"),
        _joined_texts(
            F.sort_array(F.collect_list(F.concat_ws(", ", damage_text, left_out_text)))
        ).alias("damage"),
    )
    polls = silver.poll.groupBy("session").agg(
        F.expr("min(at_us) AS start_at_us"),
        F.expr("max(at_us) AS end_at_us"),
        F.expr("count(1) AS polls_count"),
        F.count_if(is_gap()).alias("gaps_count"),
    )
    streams = stream_rate.groupBy("session").agg(
        F.expr("count(DISTINCT series_id) AS streams_count")
    )
    consumers = consumer_rate.groupBy("session").agg(
        F.expr("count(DISTINCT series_id) AS consumers_count"),
        F.expr("sum(samples_count) AS consumer_samples_count"),
    )
    unjudged = silver.event.where(F.col("kind") == NOT_JUDGED).groupBy("session")
    unjudged = unjudged.agg(F.min("text").alias("not_judged"))
    rows = files
    for part in (polls, streams, consumers, unjudged):
        rows = rows.join(F.broadcast(part), "session", "left")
    counts = [c.name for c in SESSION_SUMMARY.columns if c.name.endswith("_count")]
    rows = rows.na.fill(0, counts)
    duration = F.expr("(end_at_us - start_at_us) / 1e6")
    return SESSION_SUMMARY.contract(rows.withColumn("duration_s", duration))


def unreadable_lines() -> Column:
    """Return the lines of a file or session that were left out, except unfinished ones."""
    return F.expr("torn_lines_count - unfinished_lines_count + unknown_lines_count")


def _joined_texts(texts: Column) -> Column:
    """Return the texts joined, without empty ones; those after `_FILES_NAMED` are counted."""
    texts = F.array_remove(texts, "")
    more_count = F.size(texts) - _FILES_NAMED
    rest = F.when(more_count > 0, F.concat(F.lit(" and "), counted(more_count, "other file")))
    joined = F.array_join(F.slice(texts, 1, _FILES_NAMED), "; ")
    return F.when(F.size(texts) > 0, F.concat(joined, F.coalesce(rest, F.lit(""))))


def damaged_recordings(sessions: DataFrame) -> DataFrame:
    """Return findings about recordings that could not be read completely."""
    segments, lines = F.col("corrupt_segments_count"), unreadable_lines()
    rows = sessions.where((segments > 0) | (lines > 0))
    are_damaged = F.when(segments == 1, " is damaged").otherwise(" are damaged")
    are_left_out = F.when(lines == 1, " could not be read and is left out").otherwise(
        " could not be read and are left out"
    )
    sentence = F.concat_ws(
        ", ",
        F.when(segments > 0, F.concat(counted(segments, "segment"), are_damaged)),
        F.when(lines > 0, F.concat(counted(lines, "line"), are_left_out)),
    )
    return finding(rows, RECORDING, F.col("session"), F.lit(50), (sentence, F.col("damage")))


def unknown_findings(sessions: DataFrame) -> DataFrame:
    """Return findings about recordings whose findings are unknown."""
    rows = sessions.where(F.col("not_judged").isNotNull())
    sentence = F.lit(
        "its findings are unknown: the recording has none, and they could not be computed"
    )
    texts = (sentence, F.col("not_judged"))
    return finding(rows, RECORDING, F.col("session"), F.lit(34), texts, F.lit(NOT_JUDGED))


PLACE = 10
ANSWERS = (
    Answer(
        SESSION_SUMMARY,
        lambda inputs: session_summary(
            inputs.silver, inputs.gold("stream_rate"), inputs.gold("consumer_rate")
        ),
        needs=("stream_rate", "consumer_rate"),
        findings=(damaged_recordings, unknown_findings),
        section=Section(
            "Sessions",
            ("session", "start_at_us", "duration_s", "polls_count", "gaps_count",
             "streams_count", "consumers_count", "consumer_samples_count",
             "corrupt_segments_count", "torn_lines_count", "size_bytes"),
            "No session.",
        ),
        sorted_by=("session",),
        # Whoever shows the result says which sessions are damaged, however many there are.
        least_rows_count=10_000,
    ),
    Answer(
        NOTE,
        lambda inputs: NOTE.contract(inputs.silver.event.where(F.col("kind") == "noted")),
        sorted_by=("session", "at_us"),
    ),
)  # fmt: skip
