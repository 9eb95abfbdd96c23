"""Damaged recordings: what is torn is counted, and nothing that is missing is read as a null.

Which lines are left out is in `test_left_out.py`.
"""

from __future__ import annotations

import gzip
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from benchmarks._fleet import START_AT_US, Plan
from benchmarks._sessions import write_session
from natstui.analysis.silver import events as silver_events
from natstui.analysis.silver import index as silver_index
from natstui.model.records.record import AckSample, Advisory
from tests.analysis.damaged import (
    NAME,
    consumer_rows,
    content_polls,
    lines_of,
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
    rows = silver_index.polls(lines_of(spark, folder)).collect()
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
    lines = lines_of(spark, folder)
    rows = silver_events.advisories(lines).where("text = 'said'").orderBy("at_us").collect()
    assert [row["deliveries_count"] for row in rows] == [None, None, 3, None]
    samples_read = silver_events.ack_samples(lines).where("stream = 'S'").collect()
    assert 2 in [row["deliveries_count"] for row in samples_read]
    assert all(0 < row["deliveries_count"] < 2**63 for row in samples_read)
