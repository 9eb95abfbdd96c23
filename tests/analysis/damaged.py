"""Small sessions, and ways to damage them."""

from __future__ import annotations

import gzip
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from benchmarks._fleet import Plan
from benchmarks._sessions import write_session
from natstui.analysis.bronze.build import read_lines
from natstui.analysis.bronze.files import (
    SEGMENT_FILE,
    current_segments,
    segment_files,
    with_promised_bytes,
)
from natstui.analysis.bronze.sources import find_sources
from natstui.analysis.silver import index as silver_index
from natstui.analysis.silver import samples as silver_samples
from natstui.session.files.segment import read_content

NO_CUTS = (
    "session string, gap_ends array<bigint>, steps array<struct<mono_us:bigint,set_us:bigint>>"
)
"""What `silver.index.gap_ends` returns."""
NAME = "20260921T141320Z-small"


def small(folder: Path, name: str = NAME, ticks: int = 40) -> Path:
    """Write a session of four streams and six consumers."""
    return write_session(folder / name, Plan(4, 6, ticks), records_per_segment=20)


def lines_of(spark: SparkSession, *folders: Path) -> DataFrame:
    """Return the lines of sessions, as bronze has them."""
    sources = find_sources(spark, [str(folder) for folder in folders])
    of_name = {source.session: source.folder for source in sources}
    files = current_segments(segment_files(spark, sources))
    return read_lines(spark, [f"{of_name[file.session]}/{file.segment}" for file in files])


def segments(spark: SparkSession, folder: Path) -> dict[str, dict[str, object]]:
    """Return the rows of the table `segment` by file."""
    sources = find_sources(spark, [str(folder)])
    files = segment_files(spark, sources)
    by_name = {source.session: source for source in sources}
    known = spark.createDataFrame(with_promised_bytes(spark, files, by_name), SEGMENT_FILE.ddl())
    rows = silver_index.segments(lines_of(spark, folder), known).collect()
    return {row["segment"]: row.asDict() for row in rows}


def consumer_rows(spark: SparkSession, folder: Path) -> int:
    """Return how many consumer samples are read."""
    lines = lines_of(spark, folder)
    nothing = spark.createDataFrame([], NO_CUTS)
    # Not count(): it would read no column but the one it needs.
    return len(silver_samples.consumer_samples(lines, nothing).collect())


def rewritten(path: Path, before: bytes, after: bytes, *, once: bool = False) -> None:
    """Replace bytes inside a segment, sealed or open."""
    sealed = path.suffix == ".gz"
    text = gzip.decompress(path.read_bytes()) if sealed else path.read_bytes()
    assert before in text
    text = text.replace(before, after, 1 if once else -1)
    path.write_bytes(gzip.compress(text) if sealed else text)


def content_polls(path: Path) -> int:
    """Return how many polls the recorder's own reader finds in a segment."""
    return sum(entry.is_poll for entry in read_content(path, sealed=True).entries)
