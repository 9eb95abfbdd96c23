"""Silver: read new or changed sessions into tables; the tables of the others stay."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from natstui.analysis.silver import bench as silver_bench
from natstui.analysis.silver import events as silver_events
from natstui.analysis.silver import findings as silver_findings
from natstui.analysis.silver import index as silver_index
from natstui.analysis.silver import samples as silver_samples
from natstui.analysis.silver.bronze import read_lines
from natstui.analysis.silver.files import (
    SEGMENT_FILE,
    doubled_segments,
    is_of_now,
    segment_files,
)
from natstui.analysis.silver.parts import Kept, Plan, planned
from natstui.analysis.silver.sources import Source
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
from natstui.analysis.spark.failures import is_bad_line
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
    """Bring the silver tables up to date; return how many sessions were read."""
    files = segment_files(spark, sources)
    step("checking the segments")
    plan = planned(files, kept_of(store), store.part_of_many if store.can_gather else None)
    store.know_parts(plan.parts, plan.new.keys())
    new = [source for source in sources if source.session in plan.new]
    if not new:
        return 0
    files = [file for file in files if file.session in plan.new]
    lines = read_lines(spark, [source.folder for source in new], doubled_segments(files))
    segments = store.known_rows(SEGMENT_FILE, files)
    if not _written_quickly(store, plan, new, lines, segments, step):
        # To know which lines are bad costs as much as reading them: only where there are any.
        _begin(store, plan)
        step("reading again, because some lines cannot be read")
        _write_tables(store, new, lines, segments, step, leave_out=True)
    rows = [(s.session, plan.new[s.session], s.folder, plan.parts[s.session]) for s in new]
    store.write_silver(MANIFEST, store.known_rows(MANIFEST, rows))
    return len(new)


def _written_quickly(
    store: Store,
    plan: Plan,
    new: list[Source],
    lines: DataFrame,
    files: DataFrame,
    step: Step,
) -> bool:
    """Write the tables as if every line could be read; tell whether that is so."""
    _begin(store, plan)
    try:
        return _write_tables(store, new, lines, files, step, leave_out=False)
    except (PySparkException, Py4JError) as error:
        if not is_bad_line(error):
            raise
        return False


def _begin(store: Store, plan: Plan) -> None:
    """Remove what there is of the sessions; the mark that they are complete goes first.

    A table for which they have no rows any more would keep its old ones.
    """
    for table in (MANIFEST, *TABLES):
        store.drop_silver(table, plan.stay, [*plan.new])


def _write_tables(
    store: Store,
    sources: list[Source],
    lines: DataFrame,
    files: DataFrame,
    step: Step,
    *,
    leave_out: bool,
) -> bool:
    """Write the tables; False when there are bad lines, unless these are to be left out."""
    with ExitStack() as stack:

        def kept(rows: DataFrame) -> DataFrame:
            stack.callback(rows.unpersist)
            return rows.persist()

        index = kept(silver_index.index_lines(lines, every_column=leave_out))
        step("reading the lines")
        kinds = silver_index.kinds(index)
        segments = kept(silver_index.segments(index, files, kinds))
        store.write_silver(SEGMENT, segments)
        torn_count, bad_count = _torn(segments)
        if bad_count and not leave_out:
            return False
        if torn_count:
            records = kept(silver_index.left_out(index, kinds))
            index, lines = (silver_index.without(rows, records) for rows in (index, lines))
        poll = kept(silver_index.polls(index, kinds, all_read=not torn_count))
        if "clock_stepped" in kinds:
            index = silver_index.unset(index)
        step("polls")
        store.write_silver(POLL, poll)
        gap_ends = kept(silver_index.gap_ends(poll))
        _write_rows(store, sources, index, lines, gap_ends, kinds, step)
    return True


def _write_rows(
    store: Store,
    sources: list[Source],
    index: DataFrame,
    lines: DataFrame,
    gap_ends: DataFrame,
    kinds: set[str],
    step: Step,
) -> None:
    """Write the tables of what can be read; each is written once, because that replaces parts."""
    step("samples and events")
    store.write_silver(STREAM_SAMPLE, silver_samples.stream_samples(lines, gap_ends))
    store.write_silver(CONSUMER_SAMPLE, silver_samples.consumer_samples(lines, gap_ends))
    found, not_judged = _findings(store, index, kinds, sources, step)
    if found is not None:
        store.write_silver(FINDING, found)
    for table, rows in _of_kinds(index, kinds):
        if table == EVENT and not_judged:
            rows = rows.unionAll(store.known_rows(EVENT, not_judged))
        store.write_silver(table, rows)
    if not_judged and kinds.isdisjoint(map(kind_of, silver_events.EVENTS)):
        store.write_silver(EVENT, store.known_rows(EVENT, not_judged))


def _findings(
    store: Store, index: DataFrame, kinds: set[str], sources: list[Source], step: Step
) -> tuple[DataFrame | None, list[tuple[Any, ...]]]:
    """Return the table `finding`, and rows of `event` for sessions that cannot be judged.

    It is what the sessions hold, and what others are judged to have.
    """
    held = None if kinds.isdisjoint(silver_findings.MADE_OF) else silver_findings.findings(index)
    judged: list[tuple[Any, ...]] = []
    not_judged: list[tuple[Any, ...]] = []
    if held is not None:
        sources = silver_findings.without_findings(index, sources)
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


def _torn(segments: DataFrame) -> tuple[int, int]:
    """Return how many lines are left out, and how many of them ought to be readable."""
    torn, unfinished = F.sum("torn_lines_count"), F.sum("unfinished_lines_count")
    row = segments.agg(torn.alias("torn"), (torn - unfinished).alias("bad")).first()
    assert row is not None
    return row["torn"] or 0, row["bad"] or 0


def _of_kinds(index: DataFrame, kinds: set[str]) -> Iterator[tuple[Table, DataFrame]]:
    """Yield the small tables for which there are lines."""
    for table, needed, rows in _EVENTS:
        if kinds.intersection(needed):
            yield table, rows(index)
    if "benchmark_report" in kinds:
        reports = silver_bench.reports(index)
        yield BENCH_INTERVAL, silver_bench.bench_intervals(reports)
        yield BENCH_LATENCY, silver_bench.bench_latencies(reports)
    if "benchmark_finished" in kinds:
        yield BENCH_RESULT, silver_bench.bench_results(index)


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
