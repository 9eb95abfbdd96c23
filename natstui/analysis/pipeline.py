"""The pipeline from recorded sessions to the gold tables, with Spark."""

from __future__ import annotations

import argparse
import math
import os
import uuid
from pathlib import Path
from typing import Any

from msgspec import Struct, to_builtins
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from natstui.analysis.bronze.sources import find_sources
from natstui.analysis.conf import check_conf_has_effect, read_conf
from natstui.analysis.defaults import MASTER, Thresholds
from natstui.analysis.folders import check_connect_server, lock_folder, recorded_bytes
from natstui.analysis.gold.build import GOLD_TABLES, TABLES, build_gold
from natstui.analysis.gold.gold_table import GoldTable
from natstui.analysis.launch import STARTING_SPARK
from natstui.analysis.progress import LineSender, Progress
from natstui.analysis.result_cache import (
    delete_cached_result,
    gold_fingerprint,
    read_cached_result,
    write_cached_result,
)
from natstui.analysis.silver import build as silver
from natstui.analysis.spark.failures import (
    is_connection_lost,
    is_missing_file,
    jvm_exit_error,
    to_start_error,
    to_user_error,
)
from natstui.analysis.spark.session import (
    JobCanceller,
    SparkSettings,
    end_starting_jvm,
    jvm_exit_code,
    kill_jvm,
    open_session,
    submitted_session,
)
from natstui.analysis.spark.store import TableStore
from natstui.errors import AnalysisError

_SILVER_STEPS_COUNT = 4
_MAX_OUTPUT_CHARS = 100_000
_MAX_TRIES_COUNT = 3
"""Maximum tries: a running recording at times seals a segment, which renames the file."""
_JVM_TIMEOUT_S = 2.0
"""Maximum wait after an error for the end of the JVM: it fails queries while it shuts down."""
_LOST_JVM_TIMEOUT_S = 10.0
"""Maximum wait for the end of a JVM without a connection, which may write a crash report."""
RESULT_FORMAT_VERSION = 1


def run_pipeline(
    options: argparse.Namespace,
    sessions: list[str],
    fingerprint: str | None,
    scratch: Path,
    log: Path,
    send: LineSender,
) -> dict[str, Any]:
    """Start Spark, analyse, cache the result with its fingerprint, and return it.

    `scratch` is a folder for temporary data, `log` the file with the output of Spark's process,
    and `send` gets each line of progress. Raises NatstuiError for a run that fails.
    """
    progress = Progress(send, 2 + _SILVER_STEPS_COUNT + len(TABLES))
    out: str = options.out
    settings = _spark_settings(options, sessions, scratch)
    # spark-submit starts the JVM itself, and sets its port in the environment.
    is_submitted_run = is_submitted(options)
    check_conf_has_effect(
        settings.conf, is_remote=bool(options.remote), is_submitted=is_submitted_run
    )
    try:
        if options.remote:
            check_connect_server(options.remote)
        with lock_folder(out, progress.send_waiting) as is_locked:
            # Another run, which had the lock, may have computed the same result.
            if (
                fingerprint is not None
                and (result := read_cached_result(out, fingerprint)) is not None
            ):
                return result
            progress.start_step(STARTING_SPARK)
            try:
                spark = submitted_session(settings) if is_submitted_run else open_session(settings)
            except KeyboardInterrupt:
                end_starting_jvm()
                raise
            delete_cached_result(out)
            result = _run_analysis(
                spark, options, sessions, _TablesFolder(out, is_locked), progress
            )
            if fingerprint is not None:
                write_cached_result(out, fingerprint, result)
            return result
    except (PySparkException, Py4JError, OSError, ImportError) as error:
        is_lost = is_connection_lost(error)
        exit_code = jvm_exit_code(_LOST_JVM_TIMEOUT_S if is_lost else _JVM_TIMEOUT_S)
        jvm_error = jvm_exit_error(exit_code, _read_log_end(log))
        raise to_user_error(
            jvm_error or to_start_error(error, settings.conf, _read_log_end(log))
        ) from error
    finally:
        progress.stop()


def _read_log_end(log: Path) -> str:
    """Return the last characters of the output of Spark's process; empty without output."""
    try:
        return log.read_text("utf-8", "replace")[-_MAX_OUTPUT_CHARS:]
    except OSError:
        return ""


def _spark_settings(
    options: argparse.Namespace, sessions: list[str], scratch: Path
) -> SparkSettings:
    return SparkSettings(
        scratch,
        options.master or MASTER,
        options.remote,
        options.memory,
        options.ui,
        recorded_bytes(sessions) if _runs_locally(options) else None,
        conf=read_conf(options.conf, options.packages, options.jars),
    )


def is_submitted(options: argparse.Namespace) -> bool:
    """Return whether spark-submit has started this program."""
    return "PYSPARK_GATEWAY_PORT" in os.environ and not options.remote


def _runs_locally(options: argparse.Namespace) -> bool:
    if options.remote or is_submitted(options):
        return False
    return (options.master or MASTER).startswith("local")


class _TablesFolder(Struct, frozen=True):
    """The folder or URL of the tables, and whether this run has locked it."""

    out: str
    is_locked: bool


def _run_analysis(
    spark: SparkSession,
    options: argparse.Namespace,
    sessions: list[str],
    output: _TablesFolder,
    progress: Progress,
) -> dict[str, Any]:
    canceller = JobCanceller(spark)
    progress.start_task_counts(spark, canceller.check)
    tries_count = 0
    try:
        while True:
            store = TableStore(spark, output.out, uuid.uuid4().hex[:8])
            try:
                if output.is_locked:
                    store.delete_leftovers()
                else:
                    store.check_own_gold()
                return analyse(
                    spark, store, sessions, _read_thresholds(options), progress, options.rows
                )
            except (PySparkException, Py4JError, FileNotFoundError) as error:
                canceller.check()
                tries_count += 1
                if tries_count == _MAX_TRIES_COUNT or not is_missing_file(error):
                    raise
                progress.start_step(
                    "starting again: the recording completed another file meanwhile"
                )
            finally:
                store.delete_run_folders()
    finally:
        canceller.end()
        progress.stop()
        spark.stop()
        if canceller.is_cancelled:
            kill_jvm()


def analyse(
    spark: SparkSession,
    store: TableStore,
    patterns: list[str],
    thresholds: Thresholds,
    progress: Progress,
    rows_count: int,
) -> dict[str, Any]:
    """Update the silver tables, compute and publish the gold tables, and return their first rows.

    Raises AnalysisError if no session matches, or the baseline is not among the sessions.
    """
    # Before minutes of work, not after them.
    store.check_format()
    sources = find_sources(spark, patterns)
    session_names = [source.session for source in sources]
    store.servers = {source.session: source.server for source in sources}
    unknown_sessions = set(thresholds.baseline) - set(session_names)
    if unknown_sessions:
        raise AnalysisError(
            f"the baseline {', '.join(sorted(unknown_sessions))} is not among the sessions"
        )
    read_sessions_count = silver.build_silver(spark, store, sources, progress.start_step)
    fingerprint = gold_fingerprint(
        silver.read_session_fingerprints(store, session_names), thresholds
    )
    is_gold_current = not read_sessions_count and store.use_published_gold(TABLES, fingerprint)
    if not is_gold_current:
        store.check_no_other_files(TABLES)
        build_gold(store, sources, thresholds, progress.start_step)
    progress.start_step("collecting the results")
    collected_tables = collect_tables(store, rows_count)
    if not is_gold_current:
        store.check_no_other_files(TABLES)
        store.publish(TABLES, fingerprint)
    return {
        "out": store.root,
        "tables_format": store.format,
        "sessions": session_names,
        "headers": {source.session: source.header for source in sources},
        "read_sessions_count": read_sessions_count,
        **collected_tables,
    }


def _read_thresholds(options: argparse.Namespace) -> Thresholds:
    return Thresholds(
        bucket_s=options.bucket,
        stuck_after_s=options.stuck_after,
        baseline=tuple(options.baseline),
    )


def collect_tables(store: TableStore, rows_count: int) -> dict[str, Any]:
    """Return the gold tables of this run as JSON values, with at most `rows_count` rows of each.

    Some tables have a lower or higher limit of their own.
    """
    tables = {
        gold_table.table.name: _collect_table(store, gold_table, rows_count)
        for gold_table in GOLD_TABLES
    }
    return {"format_version": RESULT_FORMAT_VERSION, "tables": tables}


def _collect_table(store: TableStore, gold_table: GoldTable, rows_count: int) -> dict[str, Any]:
    table = gold_table.table
    limit = max(
        min(rows_count, gold_table.max_rows_count or rows_count), gold_table.min_rows_count
    )
    rows = first_rows(store, gold_table, limit + 1)
    return {
        "meaning": table.meaning,
        "section": gold_table.section and to_builtins(gold_table.section),
        "columns": [
            {"name": c.name, "type": c.type, "unit": c.unit, "meaning": c.meaning}
            for c in table.columns
        ],
        "rows": [[_replace_non_finite(value) for value in row] for row in rows[:limit]],
        "cut": len(rows) > limit,
    }


def first_rows(store: TableStore, gold_table: GoldTable, count: int) -> list[Row]:
    """Return the first `count` rows of a gold table, sorted by its `sorted_by`."""
    if store.is_empty(gold_table.table):
        return []
    rows: list[Row] = sort_rows(store.gold(gold_table.table), gold_table.sorted_by).take(count)
    return rows


def sort_rows(rows: DataFrame, names: tuple[str, ...]) -> DataFrame:
    """Return the rows sorted by columns; `-` before a name sorts in descending order."""
    return rows.orderBy(*(F.desc(n[1:]) if n.startswith("-") else F.asc(n) for n in names))


def _replace_non_finite(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
