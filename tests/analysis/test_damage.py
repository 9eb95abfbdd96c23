"""Damaged recordings: what is torn is counted, and nothing that is missing is read as a null.

Which lines are left out is in `test_left_out.py`.
"""

from __future__ import annotations

from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from natstui.analysis.gold.session import compute_session_summary
from natstui.analysis.silver.tables import SEGMENT
from natstui.values import replace
from tests.analysis.damaged import (
    ABSURD,
    LAST,
    WAYS,
    WHOLE,
    absurd_interval,
    content_polls,
    huge_sequence,
    last_line_torn,
    noise_added,
    null_in_optional,
    sealed_cut_off,
    segment_twice,
)
from tests.analysis.locally import Answers, AnswersOfSome

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def damaged(answers: Answers) -> AnswersOfSome:
    return answers.of(WHOLE, ABSURD, *(way.__name__ for way in WAYS))


@pytest.fixture(scope="module")
def consumer_rows(damaged: AnswersOfSome) -> dict[str, int]:
    """How many consumer samples each session has."""
    counts = damaged.silver.consumer_sample.groupBy("session").count().collect()
    return {row["session"]: row["count"] for row in counts}


@pytest.fixture(scope="module")
def segments(damaged: AnswersOfSome) -> dict[str, dict[str, Any]]:
    """The rows of the table `segment` by session and file."""
    found: dict[str, dict[str, Any]] = {}
    for row in damaged.silver.segment.collect():
        found.setdefault(row["session"], {})[row["segment"]] = row
    return found


def test_a_whole_session_has_no_damage(
    segments: dict[str, dict[str, Any]], consumer_rows: dict[str, int]
) -> None:
    rows = segments[WHOLE]
    assert len(rows) == 5
    assert not any(row["corrupt"] or row["torn_lines_count"] for row in rows.values())
    assert not any(row["unknown_lines_count"] for row in rows.values())
    assert consumer_rows[WHOLE] == 40 * 6


def test_a_torn_last_line_is_dropped_and_counted(
    segments: dict[str, dict[str, Any]], consumer_rows: dict[str, int]
) -> None:
    session = last_line_torn.__name__
    assert segments[session][LAST]["torn_lines_count"] == 1
    assert consumer_rows[session] == 40 * 6


def test_sealed_segments_that_are_cut_off_or_no_gzip_are_told(
    answers: Answers, segments: dict[str, dict[str, Any]], consumer_rows: dict[str, int]
) -> None:
    session = sealed_cut_off.__name__
    polls = [content_polls(path) for path in sorted(answers.folder(WHOLE).glob("*.gz"))]
    corrupt = {name: row["corrupt"] for name, row in segments[session].items()}
    assert corrupt == dict.fromkeys(corrupt, True) | {LAST: False} and len(corrupt) == 5
    whole = 40 - sum(polls)
    assert whole * 6 <= consumer_rows[session] < (40 - polls[3]) * 6


def test_noise_and_kinds_of_tomorrow_are_counted(segments: dict[str, dict[str, Any]]) -> None:
    row = segments[noise_added.__name__][LAST]
    assert (row["torn_lines_count"], row["unknown_lines_count"]) == (2, 1)


def test_a_segment_that_is_there_twice_is_read_once(consumer_rows: dict[str, int]) -> None:
    assert consumer_rows[segment_twice.__name__] == 40 * 6


def test_a_null_in_an_optional_column_is_not(consumer_rows: dict[str, int]) -> None:
    assert consumer_rows[null_in_optional.__name__] == 40 * 6


def test_a_sequence_beyond_64_bits_is_read_as_the_largest(
    damaged: AnswersOfSome, segments: dict[str, dict[str, Any]]
) -> None:
    session = huge_sequence.__name__
    samples = damaged.silver.consumer_sample.where(F.col("session") == session)
    seqs = [row["delivered_consumer_seq"] for row in samples.collect()]
    assert len(seqs) == 40 * 6 and max(seqs) == 2**63 - 1
    assert segments[session][LAST]["torn_lines_count"] == 0


def test_an_interval_that_nobody_can_have_measured_fails_no_table(damaged: AnswersOfSome) -> None:
    of_session = F.col("session") == absurd_interval.__name__
    rows = damaged.silver.poll.where(of_session).collect()
    assert len(rows) == 40
    assert max(row["interval_us"] for row in rows) == 2**63 - 1
    assert {row["gap_before_us"] for row in rows} == {None}


def test_a_sum_or_a_cast_beyond_64_bits_fails_nothing(spark: SparkSession) -> None:
    most = F.lit(2**63 - 1) + F.col("id") + 1
    (row,) = spark.range(1).select(most, F.lit("many").cast("bigint")).collect()
    assert row[1] is None


def test_an_absurd_number_is_unknown_and_fails_nothing(damaged: AnswersOfSome) -> None:
    of_session, silver = F.col("session") == ABSURD, damaged.silver
    rows = silver.advisory.where(of_session & (F.col("text") == "said")).orderBy("at_us").collect()
    assert [row["deliveries_count"] for row in rows] == [None, None, 3, None]
    samples_read = silver.ack_sample.where(of_session & (F.col("stream") == "S")).collect()
    assert 2 in [row["deliveries_count"] for row in samples_read]
    assert all(0 < row["deliveries_count"] < 2**63 for row in samples_read)


def test_of_many_damaged_files_some_are_named_and_the_others_counted(answers: Answers) -> None:
    unknown = {column.name: None for column in SEGMENT.columns}
    counts = {"torn_lines_count": 0, "unfinished_lines_count": 0, "unknown_lines_count": 0}
    rows = [
        {**unknown, **counts, "session": session, "segment": f"{number}", "corrupt": corrupt,
         "torn_lines_count": number}
        for session, corrupt, count in (("many", True, 8), ("few", False, 3), ("whole", False, 1))
        for number in range(count)
    ]  # fmt: skip
    segments = answers.store.create_rows(SEGMENT, [tuple(row.values()) for row in rows])
    nothing = (answers.frame(name).limit(0) for name in ("stream_rate", "consumer_rate"))
    silver = replace(answers.silver, segment=segments)
    summaries = compute_session_summary(silver, *nothing).collect()
    damage = {row["session"]: row["damage"] for row in summaries}
    assert {name: damage[name] for name in ("many", "few", "whole")} == {
        "many": "0 is damaged; 1 is damaged, 1: 1 line; 2 is damaged, 2: 2 lines; 3 is damaged, "
                "3: 3 lines; 4 is damaged, 4: 4 lines and 3 other files",
        "few": "1: 1 line; 2: 2 lines",
        "whole": None,
    }  # fmt: skip
