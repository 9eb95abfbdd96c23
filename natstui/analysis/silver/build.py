"""Silver: read new or changed sessions into tables; the tables of the others stay."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from natstui.analysis.silver import bench as silver_bench
from natstui.analysis.silver import events as silver_events
from natstui.analysis.silver import index as silver_index
from natstui.analysis.silver import samples as silver_samples
from natstui.analysis.silver import schema
from natstui.analysis.silver.bronze import read_lines, read_segments
from natstui.analysis.silver.sources import Source, doubled_segments, fingerprints
from natstui.analysis.silver.tables import (
    ACK_SAMPLE,
    ADVISORY,
    BENCH_INTERVAL,
    BENCH_LATENCY,
    BENCH_RESULT,
    CONFIGURATION,
    CONSUMER_SAMPLE,
    EVENT,
    POLL,
    SEGMENT,
    STREAM_SAMPLE,
)
from natstui.analysis.spark.parallel import in_parallel
from natstui.analysis.spark.store import Store
from natstui.analysis.tables import Table, columns

MANIFEST = Table(
    "session",
    "Sessions whose silver tables are complete; written last.",
    columns(
        ("session", "string", "Folder name of the recording"),
        ("fingerprint", "string", "Version of the pipeline and hash of the segments' sizes"),
        ("folder", "string", "Where it was read from"),
    ),
)

Step = Callable[[str], None]
_Part = tuple[Table, Callable[[], DataFrame]]

_EVENTS = (
    (ADVISORY, ("advisory",), silver_events.advisories),
    (ACK_SAMPLE, ("ack_sample",), silver_events.ack_samples),
    (EVENT, tuple(schema.EVENTS), silver_events.events),
    (CONFIGURATION, ("configured", "keyframe"), silver_events.configurations),
)
"""Table, the kinds of lines it is made of, and how."""


def build_silver(spark: SparkSession, store: Store, sources: list[Source], step: Step) -> int:
    """Bring the silver tables up to date; return how many sessions were read."""
    files = read_segments(spark, [source.folder for source in sources])
    step("looking at the segments")
    marks = fingerprints(files)
    sources = [s for s in sources if s.session in marks]
    done = marks_of(store, [source.session for source in sources])
    new = [source for source in sources if done.get(source.session) != marks[source.session]]
    if not new:
        return 0
    folders = [source.folder for source in new]
    files = read_segments(spark, folders)
    lines = read_lines(spark, folders, doubled_segments(files))
    _write_tables(store, lines, files, step)
    rows = [(s.session, marks[s.session], s.folder) for s in new]
    store.write_silver(MANIFEST, spark.createDataFrame(rows, MANIFEST.ddl()))
    return len(new)


def _write_tables(store: Store, lines: DataFrame, files: DataFrame, step: Step) -> None:
    def write(part: _Part) -> None:
        store.write_silver(part[0], part[1]())

    index = silver_index.index_lines(lines).persist()
    try:
        step("reading the lines")
        store.write_silver(SEGMENT, silver_index.segments(index, files))
        poll = silver_index.polls(index)
        step("polls")
        write((POLL, lambda: poll))
        gap_ends = silver_index.gap_ends(poll)
        parts: list[_Part] = [
            (STREAM_SAMPLE, lambda: silver_samples.stream_samples(lines, gap_ends))
        ]
        step("stream samples and events")
        in_parallel(write, parts + _of_kinds(index, silver_index.kinds(index)))
        step("consumer samples")
        write((CONSUMER_SAMPLE, lambda: silver_samples.consumer_samples(lines, gap_ends)))
    finally:
        index.unpersist()


def _of_kinds(index: DataFrame, kinds: set[str]) -> list[_Part]:
    """Return the small tables for which there are lines."""
    parts: list[_Part] = [
        (table, partial(rows, index)) for table, needed, rows in _EVENTS
        if kinds.intersection(needed)
    ]  # fmt: skip
    if "benchmark_report" in kinds:
        reports = silver_bench.reports(index)
        parts.append((BENCH_INTERVAL, lambda: silver_bench.bench_intervals(reports)))
        parts.append((BENCH_LATENCY, lambda: silver_bench.bench_latencies(reports)))
    if "benchmark_finished" in kinds:
        parts.append((BENCH_RESULT, lambda: silver_bench.bench_results(index)))
    return parts


def marks_of(store: Store, sessions: list[str]) -> dict[str, str]:
    """Return the fingerprints of the sessions whose silver tables are complete."""
    if not store.has_silver(MANIFEST):
        return {}
    rows = store.silver(MANIFEST, sessions).select("session", "fingerprint")
    return {row["session"]: row["fingerprint"] for row in rows.where(F.lit(True)).collect()}
