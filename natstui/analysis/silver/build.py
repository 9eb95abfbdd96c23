"""Writes the silver tables of new or changed sessions; keeps those of other sessions."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from natstui.analysis.bronze.build import build_bronze
from natstui.analysis.bronze.files import is_current_fingerprint, segment_files
from natstui.analysis.bronze.parts import CompleteSession, SessionPlan, plan_sessions
from natstui.analysis.bronze.sources import SessionSource
from natstui.analysis.folders import uncompressed_bytes
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
    SERVER_SAMPLE,
    STREAM_SAMPLE,
    TABLES,
)
from natstui.analysis.spark.session import set_partitions_count
from natstui.analysis.spark.store import TableStore
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

ReportStep = Callable[[str], None]

_EVENT_TABLES = (
    (ADVISORY, ("advisory", "advisories_counted"), silver_events.advisories),
    (ACK_SAMPLE, ("ack_sample",), silver_events.ack_samples),
    (ACK_TIME, ("ack_sample", "acks_counted"), silver_events.ack_times),
    (EVENT, tuple(map(kind_of, silver_events.EVENT_CLASSES)), silver_events.events),
    (SERVER_SAMPLE, ("servers_read",), silver_events.server_samples),
)
"""Triples: a table, the kinds of lines from which its rows come, and the function for the rows."""


def build_silver(
    spark: SparkSession, store: TableStore, sources: list[SessionSource], report_step: ReportStep
) -> int:
    """Update bronze and silver for `sources`; return the number of sessions that were read.

    `report_step` is called with a text at the start of each step.
    """
    files = segment_files(spark, sources)
    set_partitions_count(
        spark, sum(uncompressed_bytes(file.segment, file.size_bytes) for file in files)
    )
    report_step("checking the segments")
    plan = plan_sessions(files, complete_sessions(store), store.shared_part_name)
    store.set_parts(plan.part_by_session, plan.fingerprint_by_session_to_read.keys())
    sources_to_read = [
        source for source in sources if source.session in plan.fingerprint_by_session_to_read
    ]
    if not sources_to_read:
        return 0
    _drop_old_rows(store, plan)
    files_to_read = [file for file in files if file.session in plan.fingerprint_by_session_to_read]
    lines, segment_rows, kinds = build_bronze(store, sources_to_read, files_to_read, report_step)
    _write_tables(store, sources_to_read, lines, segment_rows, kinds, report_step)
    rows = [
        (
            s.session,
            plan.fingerprint_by_session_to_read[s.session],
            s.folder,
            plan.part_by_session[s.session],
        )
        for s in sources_to_read
    ]
    store.write_silver(MANIFEST, store.create_rows(MANIFEST, rows))
    return len(sources_to_read)


def _drop_old_rows(store: TableStore, plan: SessionPlan) -> None:
    """Delete from the silver tables the parts that the plan does not keep, the manifest first.

    A new part replaces an old one only in tables for which its sessions still have rows.
    """
    for table in (MANIFEST, *TABLES):
        store.drop_silver(table, plan.kept_parts)


def _write_tables(
    store: TableStore,
    sources: list[SessionSource],
    lines: DataFrame,
    segment_rows: DataFrame,
    kinds: set[str],
    report_step: ReportStep,
) -> None:
    with ExitStack() as persisted_tables:

        def persist(rows: DataFrame) -> DataFrame:
            persisted_tables.callback(rows.unpersist)
            return rows.persist()

        segments = persist(silver_index.segments(lines, segment_rows))
        store.write_silver(SEGMENT, segments)
        has_all_lines = not _count_excluded_lines(segments)
        if not has_all_lines:
            lines = silver_index.exclude_records(
                lines, persist(silver_index.left_out_records(lines))
            )
        records = silver_index.records_except_polls(lines)
        clock_steps = None
        if "clock_stepped" in kinds:
            clock_steps = silver_index.clock_steps(records)
            records = silver_index.with_clock_offsets(records)
        if "gap" in kinds:
            lines = silver_index.with_clock_shift(
                lines, persist(silver_index.clock_restarts(lines))
            )
        poll = persist(silver_index.polls(lines, clock_steps, has_all_lines=has_all_lines))
        report_step("polls")
        store.write_silver(POLL, poll)
        epochs = persist(silver_index.epochs(poll))
        report_step("samples and events")
        store.write_silver(STREAM_SAMPLE, silver_samples.stream_samples(lines, epochs))
        store.write_silver(CONSUMER_SAMPLE, silver_samples.consumer_samples(lines, epochs))
        keyframes = persist(silver_events.keyframes(records))
        # Many tables read the records, but only few of the keyframes.
        records = persist(records.where(F.col("kind") != "keyframe").drop("keyframe"))
        _write_event_tables(store, sources, records, keyframes, kinds, report_step)


def _write_event_tables(
    store: TableStore,
    sources: list[SessionSource],
    records: DataFrame,
    keyframes: DataFrame,
    kinds: set[str],
    report_step: ReportStep,
) -> None:
    """Write the tables of all records except polls; a write replaces the parts of its sessions."""
    finding_table, failed_findings_rows = _collect_findings(
        store, records, keyframes, kinds, sources, report_step
    )
    if finding_table is not None:
        store.write_silver(FINDING, finding_table)
    for table, rows in _tables_with_lines(records, keyframes, kinds):
        if table == EVENT and failed_findings_rows:
            rows = rows.unionAll(store.create_rows(EVENT, failed_findings_rows))
        store.write_silver(table, rows)
    if failed_findings_rows and kinds.isdisjoint(map(kind_of, silver_events.EVENT_CLASSES)):
        store.write_silver(EVENT, store.create_rows(EVENT, failed_findings_rows))


def _collect_findings(
    store: TableStore,
    records: DataFrame,
    keyframes: DataFrame,
    kinds: set[str],
    sources: list[SessionSource],
    report_step: ReportStep,
) -> tuple[DataFrame | None, list[tuple[Any, ...]]]:
    """Return the table `finding`, and a row of `event` for each session with unknown findings.

    Findings are computed for sessions that have none recorded; unknown if that fails.
    """
    recorded_findings = None
    if not kinds.isdisjoint(silver_findings.FINDING_LINE_KINDS):
        recorded_findings = silver_findings.findings(records, keyframes)
        sources = silver_findings.sources_without_findings(keyframes, sources)
    computed_rows_count = 0
    failed_findings_rows: list[tuple[Any, ...]] = []
    for number, source in enumerate(sources):
        try:
            computed_rows_count += silver_findings.write_finding_rows(store, source, str(number))
        except SessionError as error:
            # Only the findings are unknown: Spark could read the session.
            report_step(f"{source.session} cannot be judged: {error}")
            failed_findings_rows.append(
                (source.session, None, silver_findings.NOT_JUDGED_KIND, None, str(error))
            )
    if not computed_rows_count:
        return recorded_findings, failed_findings_rows
    rows = silver_findings.read_finding_rows(store)
    all_rows = rows if recorded_findings is None else recorded_findings.unionAll(rows)
    return all_rows, failed_findings_rows


def _count_excluded_lines(segments: DataFrame) -> int:
    """Return the number of lines of all segments that are left out."""
    row = segments.agg(F.sum("torn_lines_count").alias("torn")).first()
    assert row is not None
    return row["torn"] or 0


def _tables_with_lines(
    lines: DataFrame, keyframes: DataFrame, kinds: set[str]
) -> Iterator[tuple[Table, DataFrame]]:
    """Yield the tables of events, configurations and benchmarks that have lines, with their rows.

    `kinds` are the kinds of lines that were read.
    """
    for table, line_kinds, rows in _EVENT_TABLES:
        if kinds.intersection(line_kinds):
            yield table, rows(lines)
    if not kinds.isdisjoint(("configured", "keyframe")):
        yield CONFIGURATION, silver_events.configurations(lines, keyframes)
    if "benchmark_report" in kinds:
        worker_reports = silver_bench.worker_reports(lines)
        yield BENCH_INTERVAL, silver_bench.bench_intervals(worker_reports)
        yield BENCH_LATENCY, silver_bench.bench_latencies(worker_reports)
    if "benchmark_finished" in kinds:
        yield BENCH_RESULT, silver_bench.bench_results(lines)


def complete_sessions(store: TableStore) -> dict[str, CompleteSession]:
    """Return session → fingerprint and part, for sessions with complete, current silver tables."""
    if not store.has_silver(MANIFEST):
        return {}
    rows = store.silver(MANIFEST, None).select("session", "fingerprint", "lies_in").collect()
    return {
        row[0]: CompleteSession(row[1], row[2]) for row in rows if is_current_fingerprint(row[1])
    }


def read_session_fingerprints(store: TableStore, sessions: list[str]) -> dict[str, str]:
    """Return session → fingerprint, for the sessions whose silver tables are complete."""
    rows = store.silver(MANIFEST, sessions).select("session", "fingerprint")
    return {row["session"]: row["fingerprint"] for row in rows.collect()}
