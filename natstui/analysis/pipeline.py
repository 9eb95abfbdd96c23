"""The pipeline from recorded sessions to answers, with Spark."""

from __future__ import annotations

import argparse
import math
import os
import uuid
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from natstui.analysis.bronze.sources import find_sources
from natstui.analysis.conf import check_applicable, read_conf
from natstui.analysis.defaults import MASTER, Thresholds
from natstui.analysis.folders import check_remote, lock_folder, recorded_bytes
from natstui.analysis.gold.answer import Answer
from natstui.analysis.gold.build import ANSWERS, TABLES, build_gold
from natstui.analysis.known import (
    answers_fingerprint,
    forget_result,
    keep_result,
    kept_result,
)
from natstui.analysis.launch import STARTING
from natstui.analysis.progress import Progress, Send
from natstui.analysis.silver import build as silver
from natstui.analysis.spark.failures import explain, is_gone, jvm_was_killed, not_started
from natstui.analysis.spark.session import (
    Cancel,
    SparkSettings,
    end_jvm,
    end_starting,
    jvm_exit_code,
    open_session,
    submitted_session,
)
from natstui.analysis.spark.store import Store
from natstui.errors import AnalysisError

_SILVER_STEPS = 4
_MOST_PRINTED = 100_000
_MOST_TRIES = 3
"""Maximum tries of an analysis: a running recording seals, and so renames, a segment at times."""
FORMAT_VERSION = 1


def run(
    options: argparse.Namespace,
    sessions: list[str],
    state: str | None,
    scratch: Path,
    log: Path,
    send: Send,
) -> dict[str, Any]:
    """Start Spark, analyse, keep the result for this state, and return it; raises NatstuiError.

    `log` is the file with the output of Spark's process.
    """
    progress = Progress(send, 2 + _SILVER_STEPS + len(TABLES))
    out: str = options.out
    settings = _settings(options, sessions, scratch)
    # spark-submit starts the JVM itself and leaves the port of it here.
    is_submitted_run = is_submitted(options)
    check_applicable(settings.conf, remote=bool(options.remote), submitted=is_submitted_run)
    try:
        if options.remote:
            check_remote(options.remote)
        with lock_folder(out, progress.wait) as is_locked:
            # The run that was waited for may have computed the same.
            if state is not None and (result := kept_result(out, state)) is not None:
                return result
            progress.step(STARTING)
            try:
                spark = submitted_session(settings) if is_submitted_run else open_session(settings)
            except KeyboardInterrupt:
                end_starting()
                raise
            forget_result(out)
            result = _run_analysis(spark, options, sessions, _Output(out, is_locked), progress)
            if state is not None:
                keep_result(out, state, result)
            return result
    except (PySparkException, Py4JError, OSError, ImportError) as error:
        kill_error = jvm_was_killed(jvm_exit_code())
        raise explain(kill_error or not_started(error, settings.conf, _output_end(log))) from error
    finally:
        progress.end()


def _output_end(log: Path) -> str:
    """Return the end of the output of Spark's process."""
    try:
        return log.read_text("utf-8", "replace")[-_MOST_PRINTED:]
    except OSError:
        return ""


def _settings(options: argparse.Namespace, sessions: list[str], scratch: Path) -> SparkSettings:
    return SparkSettings(
        scratch,
        options.master or MASTER,
        options.remote,
        options.memory,
        options.ui,
        recorded_bytes(sessions) if _runs_here(options) else None,
        conf=read_conf(options.conf, options.packages, options.jars),
    )


def is_submitted(options: argparse.Namespace) -> bool:
    """Return whether spark-submit has started this program."""
    return "PYSPARK_GATEWAY_PORT" in os.environ and not options.remote


def _runs_here(options: argparse.Namespace) -> bool:
    if options.remote or is_submitted(options):
        return False
    return (options.master or MASTER).startswith("local")


@dataclass(frozen=True, slots=True)
class _Output:
    """The folder or URL of the tables, and whether it is locked by this run."""

    out: str
    is_locked: bool


def _run_analysis(
    spark: SparkSession,
    options: argparse.Namespace,
    sessions: list[str],
    output: _Output,
    progress: Progress,
) -> dict[str, Any]:
    cancel = Cancel(spark)
    progress.watch(spark, cancel.check)
    tries_count = 0
    try:
        while True:
            store = Store(spark, output.out, uuid.uuid4().hex[:8])
            try:
                if output.is_locked:
                    store.tidy()
                else:
                    store.check_own()
                return analyse(
                    spark, store, sessions, _thresholds(options), progress, options.rows
                )
            except (PySparkException, Py4JError, FileNotFoundError) as error:
                cancel.check()
                tries_count += 1
                if tries_count == _MOST_TRIES or not is_gone(error):
                    raise
                progress.step("starting again: the recording completed another file meanwhile")
            finally:
                store.discard()
    finally:
        cancel.end()
        progress.end()
        spark.stop()
        if cancel.is_cancelled:
            end_jvm()


def analyse(
    spark: SparkSession,
    store: Store,
    patterns: list[str],
    thresholds: Thresholds,
    progress: Progress,
    rows_count: int,
) -> dict[str, Any]:
    """Bring silver up to date, compute and publish gold, and return its first rows."""
    sources = find_sources(spark, patterns)
    names = [source.session for source in sources]
    store.servers = {source.session: source.server for source in sources}
    unknown_baseline = set(thresholds.baseline) - set(names)
    if unknown_baseline:
        raise AnalysisError(
            f"the baseline {', '.join(sorted(unknown_baseline))} is not among the sessions"
        )
    read_count = silver.build_silver(spark, store, sources, progress.step)
    mark = answers_fingerprint(silver.marks_of(store, names), thresholds)
    is_kept = not read_count and store.keep_gold(TABLES, mark)
    if not is_kept:
        store.check_others(TABLES)
        build_gold(store, sources, thresholds, progress.step)
    progress.step("collecting the results")
    collected = collect(store, rows_count)
    if not is_kept:
        store.check_others(TABLES)
        store.publish(TABLES, mark)
    return {
        "out": store.root,
        "tables_format": store.format,
        "sessions": names,
        "headers": {source.session: source.header for source in sources},
        "read_sessions_count": read_count,
        **collected,
    }


def _thresholds(options: argparse.Namespace) -> Thresholds:
    return Thresholds(
        bucket_s=options.bucket,
        stuck_after_s=options.stuck_after,
        baseline=tuple(options.baseline),
    )


def collect(store: Store, rows_count: int) -> dict[str, Any]:
    """Return the tables of this run for the result, with at most `rows_count` rows of each."""
    tables = {answer.table.name: _collect_table(store, answer, rows_count) for answer in ANSWERS}
    return {"format_version": FORMAT_VERSION, "tables": tables}


def _collect_table(store: Store, answer: Answer, rows_count: int) -> dict[str, Any]:
    table = answer.table
    limit = max(min(rows_count, answer.most_rows_count or rows_count), answer.least_rows_count)
    rows = first_rows(store, answer, limit + 1)
    return {
        "meaning": table.meaning,
        "section": answer.section and asdict(answer.section),
        "columns": [
            {"name": c.name, "type": c.type, "unit": c.unit, "meaning": c.meaning}
            for c in table.columns
        ],
        "rows": [[_plain(value) for value in row] for row in rows[:limit]],
        "cut": len(rows) > limit,
    }


def first_rows(store: Store, answer: Answer, count: int) -> list[Row]:
    """Return the first rows of an answer's table, in its order."""
    if store.is_empty(answer.table):
        return []
    rows: list[Row] = in_order(store.gold(answer.table), answer.sorted_by).take(count)
    return rows


def in_order(rows: DataFrame, names: tuple[str, ...]) -> DataFrame:
    """Return rows sorted by columns; `-` before a name sorts the largest first."""
    return rows.orderBy(*(F.desc(n[1:]) if n.startswith("-") else F.asc(n) for n in names))


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
