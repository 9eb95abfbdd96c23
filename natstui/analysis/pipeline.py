"""From recorded sessions to answers, with Spark."""

from __future__ import annotations

import argparse
import os
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from natstui.analysis.conf import check_place, read_conf
from natstui.analysis.defaults import MASTER, Thresholds
from natstui.analysis.folders import check_remote, locked, recorded_bytes
from natstui.analysis.gold.build import TABLES, build_gold
from natstui.analysis.known import (
    answers_fingerprint,
    forget_result,
    keep_result,
    known_result,
)
from natstui.analysis.launch import STARTING
from natstui.analysis.progress import Progress, Send
from natstui.analysis.report import result
from natstui.analysis.silver import build as silver
from natstui.analysis.silver.sources import find_sources
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
        words.partitions,
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
            except (PySparkException, Py4JError) as error:
                cancel.check()
                tries_count += 1
                if tries_count == _MOST_TRIES or not is_gone(error):
                    raise
                progress.step("beginning again, because a segment was completed meanwhile")
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
        build_gold(store, names, thresholds, progress.step)
    progress.step("collecting the results")
    collected = result.collect(store, rows_count)
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
