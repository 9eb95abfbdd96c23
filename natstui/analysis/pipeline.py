"""From recorded sessions to answers, with Spark."""

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
from natstui.analysis.conf import check_place, read_conf
from natstui.analysis.defaults import MASTER, Thresholds
from natstui.analysis.folders import check_remote, locked, recorded_bytes
from natstui.analysis.gold.answer import Answer
from natstui.analysis.gold.build import ANSWERS, TABLES, build_gold
from natstui.analysis.known import (
    answers_fingerprint,
    forget_result,
    keep_result,
    known_result,
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
"""A recording that goes on completes a segment now and then, and gives it another name."""
FORMAT_VERSION = 1


def run(
    words: argparse.Namespace,
    sessions: list[str],
    state: str | None,
    scratch: Path,
    log: Path,
    send: Send,
) -> dict[str, Any]:
    """Start Spark, analyse, keep the result for this state, and return it; raises NatstuiError.

    `log` is where Spark's process prints to.
    """
    progress = Progress(send, 2 + _SILVER_STEPS + len(TABLES))
    out: str = words.out
    settings = _settings(words, sessions, scratch)
    # spark-submit starts the JVM itself and leaves the port of it here.
    submitted = is_submitted(words)
    check_place(settings.conf, remote=bool(words.remote), submitted=submitted)
    try:
        if words.remote:
            check_remote(words.remote)
        with locked(out, progress.wait) as alone:
            # The run that was waited for may have computed the same.
            if state is not None and (known := known_result(out, state)) is not None:
                return known
            progress.step(STARTING)
            try:
                spark = submitted_session(settings) if submitted else open_session(settings)
            except KeyboardInterrupt:
                end_starting()
                raise
            forget_result(out)
            found = _analysed(spark, words, sessions, _Output(out, alone), progress)
            if state is not None:
                keep_result(out, state, found)
            return found
    except (PySparkException, Py4JError, OSError, ImportError) as error:
        killed = jvm_was_killed(jvm_exit_code())
        raise explain(killed or not_started(error, settings.conf, _printed(log))) from error
    finally:
        progress.end()


def _printed(log: Path) -> str:
    """Return the end of what Spark's process printed."""
    try:
        return log.read_text("utf-8", "replace")[-_MOST_PRINTED:]
    except OSError:
        return ""


def _settings(words: argparse.Namespace, sessions: list[str], scratch: Path) -> SparkSettings:
    return SparkSettings(
        scratch,
        words.master or MASTER,
        words.remote,
        words.memory,
        words.ui,
        recorded_bytes(sessions) if _runs_here(words) else None,
        conf=read_conf(words.conf, words.packages, words.jars),
    )


def is_submitted(words: argparse.Namespace) -> bool:
    """Tell whether spark-submit has started this program."""
    return "PYSPARK_GATEWAY_PORT" in os.environ and not words.remote


def _runs_here(words: argparse.Namespace) -> bool:
    if words.remote or is_submitted(words):
        return False
    return (words.master or MASTER).startswith("local")


@dataclass(frozen=True, slots=True)
class _Output:
    """Where the tables go, and whether no other run can write there."""

    out: str
    alone: bool


def _analysed(
    spark: SparkSession,
    words: argparse.Namespace,
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
                if output.alone:
                    store.tidy()
                else:
                    store.check_own()
                return analyse(spark, store, sessions, _thresholds(words), progress, words.rows)
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
        if cancel.asked:
            end_jvm()


def analyse(
    spark: SparkSession,
    store: Store,
    patterns: list[str],
    thresholds: Thresholds,
    progress: Progress,
    rows_count: int,
) -> dict[str, Any]:
    """Bring silver up to date, compute gold, put it in place, and return its first rows."""
    sources = find_sources(spark, patterns)
    names = [source.session for source in sources]
    store.servers = {source.session: source.server for source in sources}
    unknown = set(thresholds.baseline) - set(names)
    if unknown:
        raise AnalysisError(f"the baseline {', '.join(sorted(unknown))} is not among the sessions")
    read_count = silver.build_silver(spark, store, sources, progress.step)
    mark = answers_fingerprint(silver.marks_of(store, names), thresholds)
    kept = not read_count and store.keep_gold(TABLES, mark)
    if not kept:
        build_gold(store, sources, thresholds, progress.step)
    progress.step("collecting the results")
    collected = collect(store, rows_count)
    if not kept:
        store.publish(TABLES, mark)
    return {
        "out": store.root,
        "tables_format": store.format,
        "sessions": names,
        "headers": {source.session: source.header for source in sources},
        "read_sessions_count": read_count,
        **collected,
    }


def _thresholds(words: argparse.Namespace) -> Thresholds:
    return Thresholds(
        bucket_s=words.bucket, stuck_after_s=words.stuck_after, baseline=tuple(words.baseline)
    )


def collect(store: Store, rows_count: int) -> dict[str, Any]:
    """Return the tables of this run, at most `rows_count` rows of each."""
    tables = {answer.table.name: _collected(store, answer, rows_count) for answer in ANSWERS}
    return {"format_version": FORMAT_VERSION, "tables": tables}


def _collected(store: Store, answer: Answer, rows_count: int) -> dict[str, Any]:
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
    """Return the first rows of a table, in the order of its answer."""
    if store.is_empty(answer.table):
        return []
    found: list[Row] = in_order(store.gold(answer.table), answer.sorted_by).take(count)
    return found


def in_order(rows: DataFrame, names: tuple[str, ...]) -> DataFrame:
    """Return rows sorted as a result tells them; `-` sorts the largest first."""
    keys = [
        F.col(n[1:]).desc_nulls_last() if n.startswith("-") else F.col(n).asc_nulls_first()
        for n in names
    ]
    return rows.orderBy(*keys)


def _plain(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
