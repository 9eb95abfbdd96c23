"""Damaged recordings: what is torn is counted; what is missing in a poll is never read as a null.

Reading raises an error for it, which makes the pipeline read again: see `test_left_out.py`.
"""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks._fleet import START_AT_US, Plan
from benchmarks._sessions import write_session
from natstui.analysis.silver import events as silver_events
from natstui.analysis.silver import index as silver_index
from natstui.analysis.silver.bronze import read_lines
from natstui.analysis.spark.failures import explain
from natstui.model.records.record import AckSample, Advisory
from tests.analysis.damaged import (
    NAME,
    consumer_rows,
    content_polls,
    rewritten,
    segments,
    small,
)

pytestmark = pytest.mark.spark

SEALED, OPEN = "records-000001.jsonl.gz", "records-000005.jsonl"


def test_a_whole_session_has_no_damage(spark: SparkSession, sessions: Path) -> None:
    folder = small(sessions)
    rows = segments(spark, folder)
    assert len(rows) == 5
    assert not any(row["corrupt"] or row["torn_lines_count"] for row in rows.values())
    assert not any(row["unknown_lines_count"] for row in rows.values())
    assert consumer_rows(spark, folder) == 40 * 6


def test_a_torn_last_line_is_dropped_and_counted(spark: SparkSession, sessions: Path) -> None:
    folder = small(sessions)
    path = folder / OPEN
    path.write_bytes(path.read_bytes() + b'{"kind":"snapshot","taken_mono_us":12,"taken_at')
    assert segments(spark, folder)[OPEN]["torn_lines_count"] == 1
    assert consumer_rows(spark, folder) == 40 * 6


def test_sealed_segments_that_are_cut_off_or_no_gzip_are_told(
    spark: SparkSession, sessions: Path
) -> None:
    folder = small(sessions)
    paths = sorted(folder.glob("*.gz"))
    polls = sum(content_polls(path) for path in paths[:3])
    for path, share in zip(paths, (0.2, 0.6, 0.97), strict=False):
        content = path.read_bytes()
        path.write_bytes(content[: int(len(content) * share)])
    lost = content_polls(paths[3])
    paths[3].write_bytes(b"this is no gzip file at all, but long enough to be one")
    rows = segments(spark, folder)
    assert [rows[path.name]["corrupt"] for path in paths] == [True] * 4
    assert rows[OPEN]["corrupt"] is False
    whole = 40 - polls - lost
    assert whole * 6 <= consumer_rows(spark, folder) < (40 - lost) * 6


def test_noise_and_kinds_of_tomorrow_are_counted(spark: SparkSession, sessions: Path) -> None:
    folder = small(sessions)
    path = folder / OPEN
    noise = b'{"kind":"snapshot","taken_mono_us":[}\n{"kind":"of_tomorrow","at_us":1}\nnoise\n'
    path.write_bytes(path.read_bytes() + noise)
    row = segments(spark, folder)[OPEN]
    assert (row["torn_lines_count"], row["unknown_lines_count"]) == (2, 1)


def test_a_segment_that_is_there_twice_is_read_once(spark: SparkSession, sessions: Path) -> None:
    folder = small(sessions)
    plain = gzip.decompress((folder / SEALED).read_bytes())
    (folder / SEALED.removesuffix(".gz")).write_bytes(plain)
    assert consumer_rows(spark, folder) == 40 * 6


@pytest.mark.parametrize(
    ("before", "after", "told"),
    [
        (b'"pending_msgs":', b'"pending_messages":', "pending_msgs"),
        (
            b'"ack_floor_stream_behind_seq":[',
            b'"ack_floor_stream_behind_seq":[7,',
            "ack_floor_stream_seq",
        ),
        (b'"acked_near_us":', b'"acked":', "acked_at_us"),
    ],
)
def test_a_column_that_is_renamed_or_has_another_length_is_an_error(
    spark: SparkSession, sessions: Path, before: bytes, after: bytes, told: str
) -> None:
    folder = small(sessions)
    rewritten(folder / OPEN, before, after)
    with pytest.raises(PySparkException) as caught:
        consumer_rows(spark, folder)
    sentence = str(explain(caught.value))
    assert f": {told} in session" in sentence
    assert "20260921T141320Z-small" in sentence
    assert "\n" not in sentence


def test_a_null_in_a_required_column_is_an_error(spark: SparkSession, sessions: Path) -> None:
    folder = small(sessions)
    path = folder / OPEN
    text = re.sub(rb'"ack_pending_msgs":\[\d+', b'"ack_pending_msgs":[null', path.read_bytes())
    path.write_bytes(text)
    with pytest.raises(PySparkException) as caught:
        consumer_rows(spark, folder)
    assert "is null: ack_pending_msgs in session" in str(explain(caught.value))


def test_a_null_in_an_optional_column_is_not(spark: SparkSession, sessions: Path) -> None:
    folder = small(sessions)
    path = folder / OPEN
    text = re.sub(rb'"acked_near_us":\[-?\d+', b'"acked_near_us":[null', path.read_bytes())
    path.write_bytes(text)
    assert consumer_rows(spark, folder) == 40 * 6


def test_a_sequence_beyond_64_bits_is_read_as_the_largest(
    spark: SparkSession, sessions: Path
) -> None:
    folder = small(sessions)
    path = folder / OPEN
    huge = b'"delivered_stream_seq":["18446744073709551615"'
    path.write_bytes(re.sub(rb'"delivered_stream_seq":\[\d+', huge, path.read_bytes()))
    assert consumer_rows(spark, folder) == 40 * 6
    assert segments(spark, folder)[OPEN]["torn_lines_count"] == 0


def test_an_interval_that_nobody_can_have_measured_fails_no_table(
    spark: SparkSession, sessions: Path
) -> None:
    folder = small(sessions)
    path = folder / OPEN
    text = path.read_bytes()
    path.write_bytes(re.sub(rb'"interval_us":\d+', b'"interval_us":9223372036854775807', text))
    lines = read_lines(spark, [str(folder)], [])
    rows = silver_index.polls(silver_index.index_lines(lines)).collect()
    assert len(rows) == 40
    assert max(row["interval_us"] for row in rows) == 2**63 - 1
    assert {row["gap_before_us"] for row in rows} == {None}


def test_a_sum_or_a_cast_beyond_64_bits_fails_nothing(spark: SparkSession) -> None:
    most = F.lit(2**63 - 1) + F.col("id") + 1
    (row,) = spark.range(1).select(most, F.lit("many").cast("bigint")).collect()
    assert row[1] is None


def test_an_absurd_number_is_unknown_and_fails_nothing(
    spark: SparkSession, sessions: Path
) -> None:
    bodies = (f'{{"deliveries":{10**30}}}', '{"deliveries":"many"}', '{"deliveries":3}', "no json")
    forged = [
        Advisory(START_AT_US + n, "max_deliver", "S", "C", "said", body)
        for n, body in enumerate(bodies)
    ]
    samples = [AckSample(START_AT_US, "S", "C", 1, 1, n, 5) for n in (10**30, 2**63, 2)]
    plan = Plan(4, 6, 20, extra=(*forged, *samples))
    folder = write_session(sessions / NAME, plan, records_per_segment=10_000)
    index = silver_index.index_lines(read_lines(spark, [str(folder)], []))
    rows = silver_events.advisories(index).where("text = 'said'").orderBy("at_us").collect()
    assert [row["deliveries_count"] for row in rows] == [None, None, 3, None]
    samples_read = silver_events.ack_samples(index).where("stream = 'S'").collect()
    assert 2 in [row["deliveries_count"] for row in samples_read]
    assert all(0 < row["deliveries_count"] < 2**63 for row in samples_read)
