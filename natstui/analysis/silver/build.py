"""Silver: make tables of new or changed sessions; the tables of the others stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from natstui.analysis.bronze.build import build_bronze
from natstui.analysis.bronze.files import is_of_now, segment_files
from natstui.analysis.bronze.parts import Kept, Plan, planned
from natstui.analysis.bronze.sources import Source
from natstui.analysis.silver import bench as silver_bench
from natstui.analysis.silver import events as silver_events
from natstui.analysis.silver import findings as silver_findings
from natstui.analysis.silver import index as silver_index
from natstui.analysis.silver import samples as silver_samples
from natstui.analysis.silver.tables import (
    ACK_SAMPLE,
    ACK_TIME,
    ADVISORY,
    BENCH_INTERVAL,
    BENCH_LATENCY,
    BENCH_RESULT,
    CONFIGURATION,
    CONSUMER_SAMPLE,
    EVENT,
    FINDING,
    POLL,
    SEGMENT,
    STREAM_SAMPLE,
    TABLES,
)
from natstui.analysis.spark.store import Store
from natstui.analysis.tables import Table, columns
from natstui.errors import SessionError
from natstui.model.records.record import kind_of

MANIFEST = Table(
    "session",
    "Sessions whose silver tables are complete; written last.",
    columns(
        ("session", "string", "Folder name of the recording"),
        ("fingerprint", "string", "Version of the analysis, and hash of the segments' sizes"),
        ("folder", "string", "Where it was read from"),
        ("lies_in", "string", "Partition of each table that has the rows of the session"),
    ),
    key=("session",),
)

Step = Callable[[str], None]

_EVENTS = (
    (ADVISORY, ("advisory", "advisories_counted"), silver_events.advisories),
    (ACK_SAMPLE, ("ack_sample",), silver_events.ack_samples),
    (ACK_TIME, ("ack_sample", "acks_counted"), silver_events.ack_times),
    (EVENT, tuple(map(kind_of, silver_events.EVENTS)), silver_events.events),
    (CONFIGURATION, ("configured", "keyframe"), silver_events.configurations),
)
"""Table, the kinds of lines it is made of, and how."""


def build_silver(spark: SparkSession, store: Store, sources: list[Source], step: Step) -> int:
    """Bring bronze and silver up to date; return how many sessions were read."""
    files = segment_files(spark, sources)
    step("checking the segments")
    plan = planned(files, kept_of(store), store.part_of_many)
    store.know_parts(plan.parts, plan.new.keys())
    new = [source for source in sources if source.session in plan.new]
    if not new:
        return 0
    _begin(store, plan)
    of_new = [file for file in files if file.session in plan.new]
    lines, segment_rows = build_bronze(store, new, of_new, step)
    _write_tables(store, new, lines, segment_rows, step)
    rows = [(s.session, plan.new[s.session], s.folder, plan.parts[s.session]) for s in new]
    store.write_silver(MANIFEST, store.known_rows(MANIFEST, rows))
    return len(new)


def _begin(store: Store, plan: Plan) -> None:
    """Remove what there is of the sessions; the mark that they are complete goes first.

    A table for which they have no rows any more would keep its old ones.
    """
    for table in (MANIFEST, *TABLES):
        store.drop_silver(table, plan.stay)


def _write_tables(
    store: Store, sources: list[Source], lines: DataFrame, segment_rows: DataFrame, step: Step
) -> None:
    with ExitStack() as stack:

        def kept(rows: DataFrame) -> DataFrame:
            stack.callback(rows.unpersist)
            return rows.persist()

        kinds = silver_index.kinds(lines)
        segments = kept(silver_index.segments(lines, segment_rows))
        store.write_silver(SEGMENT, segments)
        all_read = not _torn_count(segments)
        if not all_read:
            lines = silver_index.without(lines, kept(silver_index.left_out(lines)))
        if "gap" in kinds:
            lines = silver_index.on_one_clock(lines)
        poll = kept(silver_index.polls(lines, kinds, all_read=all_read))
        step("polls")
        store.write_silver(POLL, poll)
        gap_ends = kept(silver_index.gap_ends(poll))
        _write_rows(store, sources, lines, gap_ends, kinds, step)


def _write_rows(
    store: Store,
    sources: list[Source],
    lines: DataFrame,
    gap_ends: DataFrame,
    kinds: set[str],
    step: Step,
) -> None:
    """Write the tables of what can be read; each is written once, because that replaces parts."""
    step("samples and events")
    store.write_silver(STREAM_SAMPLE, silver_samples.stream_samples(lines, gap_ends))
    store.write_silver(CONSUMER_SAMPLE, silver_samples.consumer_samples(lines, gap_ends))
    if "clock_stepped" in kinds:
        lines = silver_index.unset(lines)
    found, not_judged = _findings(store, lines, kinds, sources, step)
    if found is not None:
        store.write_silver(FINDING, found)
    for table, rows in _of_kinds(lines, kinds):
        if table == EVENT and not_judged:
            rows = rows.unionAll(store.known_rows(EVENT, not_judged))
        store.write_silver(table, rows)
    if not_judged and kinds.isdisjoint(map(kind_of, silver_events.EVENTS)):
        store.write_silver(EVENT, store.known_rows(EVENT, not_judged))


def _findings(
    store: Store, lines: DataFrame, kinds: set[str], sources: list[Source], step: Step
) -> tuple[DataFrame | None, list[tuple[Any, ...]]]:
    """Return the table `finding`, and rows of `event` for sessions that cannot be judged.

    It is what the sessions hold, and what others are judged to have.
    """
    held = None if kinds.isdisjoint(silver_findings.MADE_OF) else silver_findings.findings(lines)
    judged: list[tuple[Any, ...]] = []
    not_judged: list[tuple[Any, ...]] = []
    if held is not None:
        sources = silver_findings.without_findings(lines, sources)
    for source in sources:
        try:
            judged += silver_findings.judged_rows(source)
        except SessionError as error:
            # Spark has read it: a recording of another tool, or damaged, is analysed all the same.
            step(f"{source.session} cannot be judged: {error}")
            not_judged.append((source.session, None, silver_findings.NOT_JUDGED, None, str(error)))
    if not judged:
        return held, not_judged
    rows = store.known_rows(FINDING, judged)
    return rows if held is None else held.unionAll(rows), not_judged


def _torn_count(segments: DataFrame) -> int:
    """Return how many lines are left out."""
    row = segments.agg(F.sum("torn_lines_count").alias("torn")).first()
    assert row is not None
    return row["torn"] or 0


def _of_kinds(lines: DataFrame, kinds: set[str]) -> Iterator[tuple[Table, DataFrame]]:
    """Yield the small tables for which there are lines."""
    for table, needed, rows in _EVENTS:
        if kinds.intersection(needed):
            yield table, rows(lines)
    if "benchmark_report" in kinds:
        reports = silver_bench.reports(lines)
        yield BENCH_INTERVAL, silver_bench.bench_intervals(reports)
        yield BENCH_LATENCY, silver_bench.bench_latencies(reports)
    if "benchmark_finished" in kinds:
        yield BENCH_RESULT, silver_bench.bench_results(lines)


def kept_of(store: Store) -> dict[str, Kept]:
    """Return the sessions whose silver tables are complete."""
    if not store.has_silver(MANIFEST):
        return {}
    rows = store.silver(MANIFEST, None).select("session", "fingerprint", "lies_in").collect()
    return {row[0]: Kept(row[1], row[2]) for row in rows if is_of_now(row[1])}


def marks_of(store: Store, sessions: list[str]) -> dict[str, str]:
    """Return the fingerprints of those of the sessions whose silver tables are complete."""
    rows = store.silver(MANIFEST, sessions).select("session", "fingerprint")
    return {row["session"]: row["fingerprint"] for row in rows.collect()}
