"""Writes the silver tables of new or changed sessions; those of the others are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from natstui.analysis.bronze.build import build_bronze
from natstui.analysis.bronze.files import is_current, segment_files
from natstui.analysis.bronze.parts import CompleteSession, Plan, plan_sessions
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
)
"""Table, the kinds of lines from which it is made, and the function that makes it."""


def build_silver(spark: SparkSession, store: Store, sources: list[Source], step: Step) -> int:
    """Bring bronze and silver up to date; returns the number of sessions read."""
    files = segment_files(spark, sources)
    step("checking the segments")
    plan = plan_sessions(files, complete_sessions(store), store.part_of_many)
    store.set_parts(plan.parts, plan.new.keys())
    new = [source for source in sources if source.session in plan.new]
    if not new:
        return 0
    _drop_old_rows(store, plan)
    new_files = [file for file in files if file.session in plan.new]
    lines, segment_rows, kinds = build_bronze(store, new, new_files, step)
    _write_tables(store, new, lines, segment_rows, kinds, step)
    rows = [(s.session, plan.new[s.session], s.folder, plan.parts[s.session]) for s in new]
    store.write_silver(MANIFEST, store.known_rows(MANIFEST, rows))
    return len(new)


def _drop_old_rows(store: Store, plan: Plan) -> None:
    """Remove the old rows of the sessions to read; first the mark that they are complete.

    Otherwise a table for which they have no rows any more would keep the old ones.
    """
    for table in (MANIFEST, *TABLES):
        store.drop_silver(table, plan.stay)


def _write_tables(
    store: Store,
    sources: list[Source],
    lines: DataFrame,
    segment_rows: DataFrame,
    kinds: set[str],
    step: Step,
) -> None:
    with ExitStack() as stack:

        def persisted(rows: DataFrame) -> DataFrame:
            stack.callback(rows.unpersist)
            return rows.persist()

        segments = persisted(silver_index.segments(lines, segment_rows))
        store.write_silver(SEGMENT, segments)
        all_read = not _torn_count(segments)
        if not all_read:
            lines = silver_index.exclude_records(
                lines, persisted(silver_index.left_out_records(lines))
            )
        records = silver_index.other_records(lines)
        steps = None
        if "clock_stepped" in kinds:
            steps = silver_index.clock_steps(records)
            records = silver_index.with_clock_offsets(records)
        if "gap" in kinds:
            lines = silver_index.with_clock_shift(
                lines, persisted(silver_index.clock_restarts(lines))
            )
        poll = persisted(silver_index.polls(lines, steps, all_read=all_read))
        step("polls")
        store.write_silver(POLL, poll)
        gap_ends = persisted(silver_index.gap_ends(poll))
        step("samples and events")
        store.write_silver(STREAM_SAMPLE, silver_samples.stream_samples(lines, gap_ends))
        store.write_silver(CONSUMER_SAMPLE, silver_samples.consumer_samples(lines, gap_ends))
        first_keyframes = persisted(silver_events.first_keyframes(records))
        # Many tables are made of the records, and of their keyframes only the first ones.
        records = persisted(records.where(F.col("kind") != "keyframe").drop("keyframe"))
        _write_rows(store, sources, records, first_keyframes, kinds, step)


def _write_rows(
    store: Store,
    sources: list[Source],
    records: DataFrame,
    first_keyframes: DataFrame,
    kinds: set[str],
    step: Step,
) -> None:
    """Write the tables of records other than polls, each once, because a write replaces parts."""
    finding_rows, unjudged_rows = _findings(store, records, first_keyframes, kinds, sources, step)
    if finding_rows is not None:
        store.write_silver(FINDING, finding_rows)
    for table, rows in _small_tables(records, first_keyframes, kinds):
        if table == EVENT and unjudged_rows:
            rows = rows.unionAll(store.known_rows(EVENT, unjudged_rows))
        store.write_silver(table, rows)
    if unjudged_rows and kinds.isdisjoint(map(kind_of, silver_events.EVENTS)):
        store.write_silver(EVENT, store.known_rows(EVENT, unjudged_rows))


def _findings(
    store: Store,
    records: DataFrame,
    first_keyframes: DataFrame,
    kinds: set[str],
    sources: list[Source],
    step: Step,
) -> tuple[DataFrame | None, list[tuple[Any, ...]]]:
    """Return the table `finding`, and rows of `event` for sessions without known findings.

    Findings are the recorded ones, or computed for sessions that have none recorded.
    """
    recorded = None
    if not kinds.isdisjoint(silver_findings.MADE_OF):
        recorded = silver_findings.findings(records, first_keyframes)
    computed_rows: list[tuple[Any, ...]] = []
    unjudged_rows: list[tuple[Any, ...]] = []
    if recorded is not None:
        sources = silver_findings.without_findings(first_keyframes, sources)
    for source in sources:
        try:
            computed_rows += silver_findings.computed_rows(source)
        except SessionError as error:
            # Spark has read it: a recording of another tool, or damaged, is analysed all the same.
            step(f"{source.session} cannot be judged: {error}")
            unjudged_rows.append(
                (source.session, None, silver_findings.NOT_JUDGED, None, str(error))
            )
    if not computed_rows:
        return recorded, unjudged_rows
    rows = store.known_rows(FINDING, computed_rows)
    return rows if recorded is None else recorded.unionAll(rows), unjudged_rows


def _torn_count(segments: DataFrame) -> int:
    """Return the number of lines that are left out."""
    row = segments.agg(F.sum("torn_lines_count").alias("torn")).first()
    assert row is not None
    return row["torn"] or 0


def _small_tables(
    lines: DataFrame, first_keyframes: DataFrame, kinds: set[str]
) -> Iterator[tuple[Table, DataFrame]]:
    """Yield the small tables that have lines, each with its rows."""
    for table, needed, rows in _EVENTS:
        if kinds.intersection(needed):
            yield table, rows(lines)
    if not kinds.isdisjoint(("configured", "keyframe")):
        yield CONFIGURATION, silver_events.configurations(lines, first_keyframes)
    if "benchmark_report" in kinds:
        reports = silver_bench.reports(lines)
        yield BENCH_INTERVAL, silver_bench.bench_intervals(reports)
        yield BENCH_LATENCY, silver_bench.bench_latencies(reports)
    if "benchmark_finished" in kinds:
        yield BENCH_RESULT, silver_bench.bench_results(lines)


def complete_sessions(store: Store) -> dict[str, CompleteSession]:
    """Return session → part and fingerprint, for sessions whose silver tables are complete."""
    if not store.has_silver(MANIFEST):
        return {}
    rows = store.silver(MANIFEST, None).select("session", "fingerprint", "lies_in").collect()
    return {row[0]: CompleteSession(row[1], row[2]) for row in rows if is_current(row[1])}


def marks_of(store: Store, sessions: list[str]) -> dict[str, str]:
    """Return session → fingerprint, for the sessions whose silver tables are complete."""
    rows = store.silver(MANIFEST, sessions).select("session", "fingerprint")
    return {row["session"]: row["fingerprint"] for row in rows.collect()}
