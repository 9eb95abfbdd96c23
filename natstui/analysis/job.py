"""The whole pipeline as a program: for spark-submit, and for the process natstui starts.

    spark-submit --py-files natstui.zip natstui/analysis/job.py SESSION… --out DIR

With `--pipe` it writes lines of JSON to stdout, `progress` … then one `result` or `failed`, and
ends when its stdin ends. What Spark prints goes to the log.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from natstui.analysis import defaults
from natstui.analysis.defaults import Thresholds
from natstui.analysis.fingerprint import answers_fingerprint
from natstui.analysis.folders import check_remote, check_sessions, locked, prepare_out
from natstui.analysis.gold.answers import TABLES
from natstui.analysis.gold.build import build_gold
from natstui.analysis.launch import FROM_ENVIRONMENT, REMOTE_VARIABLE
from natstui.analysis.progress import Progress, Send, open_pipe, send_text
from natstui.analysis.report import result
from natstui.analysis.silver import build as silver
from natstui.analysis.silver.layer import read_silver
from natstui.analysis.silver.sources import find_sources
from natstui.analysis.spark.cancel import Cancel, end_jvm, end_starting
from natstui.analysis.spark.failures import explain
from natstui.analysis.spark.java import check_java
from natstui.analysis.spark.session import SparkSettings, open_session, submitted_session
from natstui.analysis.spark.store import Store
from natstui.errors import AnalysisError, NatstuiError
from natstui.model.findings.thresholds import STUCK_AFTER_S

CANCELLED = 130
_SILVER_STEPS = 5


def main(arguments: list[str] | None = None) -> int:
    """Run; return the exit code."""
    words = _parser().parse_args(arguments)
    if words.remote == FROM_ENVIRONMENT:
        # Taken out: nothing that this process starts needs it.
        words.remote = os.environ.pop(REMOTE_VARIABLE, None)
    with tempfile.TemporaryDirectory(prefix="natstui-analysis-", dir=words.scratch) as scratch:
        send = open_pipe(Path(words.log or f"{scratch}/spark.log")) if words.pipe else send_text
        try:
            send({"kind": "result", **run(words, Path(scratch), send)})
        except NatstuiError as error:
            send({"kind": "failed", "text": str(error), "exit_code": error.exit_code})
            return error.exit_code
        except KeyboardInterrupt:
            send({"kind": "failed", "text": "cancelled", "exit_code": CANCELLED})
            return CANCELLED
    return 0


def run(words: argparse.Namespace, scratch: Path, send: Send) -> dict[str, Any]:
    """Start Spark, analyse, and return the result; raises NatstuiError."""
    progress = Progress(send, 2 + _SILVER_STEPS + len(TABLES))
    sessions = check_sessions(words.sessions)
    out = prepare_out(words.out)
    settings = SparkSettings(
        scratch,
        words.master or defaults.MASTER,
        words.remote,
        words.memory,
        words.partitions,
        words.ui,
        words.classes,
    )
    # spark-submit starts the JVM itself and leaves the port of it here.
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ and not words.remote
    try:
        if words.remote:
            check_remote(words.remote)
        elif not submitted:
            check_java()
        with locked(out, progress.wait) as alone:
            progress.step("starting Spark")
            try:
                spark = submitted_session(settings) if submitted else open_session(settings)
            except KeyboardInterrupt:
                end_starting()
                raise
            return _analysed(spark, words, sessions, _Output(out, alone), progress)
    except (PySparkException, Py4JError, OSError, ImportError) as error:
        raise explain(error) from error
    finally:
        progress.end()


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
    store = Store(spark, output.out, uuid.uuid4().hex[:8])
    try:
        if output.alone:
            store.tidy()
        return analyse(spark, store, sessions, _thresholds(words), progress, words.rows)
    except (PySparkException, Py4JError):
        cancel.check()
        raise
    finally:
        cancel.end()
        progress.end()
        store.discard()
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
    unknown = set(thresholds.baseline) - set(names)
    if unknown:
        raise AnalysisError(f"the baseline {', '.join(sorted(unknown))} is not among the sessions")
    read_count = silver.build_silver(spark, store, sources, progress.step)
    mark = answers_fingerprint(silver.marks_of(store, names), thresholds)
    kept = not read_count and store.keep_gold(TABLES, mark)
    if not kept:
        layer = read_silver(store, names)
        build_gold(spark, store, layer, thresholds, progress.step)
    progress.step("collecting the results")
    collected = result.collect(store, rows_count)
    if not kept:
        store.publish(TABLES, mark)
    return {"out": store.root, "sessions": names, "read_sessions_count": read_count, **collected}


def _thresholds(words: argparse.Namespace) -> Thresholds:
    return Thresholds(
        bucket_s=words.bucket, stuck_after_s=words.stuck_after, baseline=tuple(words.baseline)
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="natstui-analysis", description=__doc__)
    add = parser.add_argument
    add("sessions", nargs="+", metavar="SESSION", help="folder, glob or URL of a session")
    add("--out", required=True, help="folder or URL of the tables")
    add("--master", help=f"Spark master; {defaults.MASTER} unless submitted")
    add("--remote", help="Spark Connect server, sc://host:port")
    add("--memory", default=defaults.MEMORY, help="heap of driver and executors")
    add(
        "--partitions",
        type=int,
        default=defaults.PARTITIONS_COUNT,
        help="parts a sort is cut into",
    )
    add("--scratch", default=None, help="folder for what Spark spills")
    add("--ui", action="store_true", help="open Spark's own web page")
    add("--bucket", type=int, default=defaults.BUCKET_S, help="seconds per bucket")
    add("--stuck-after", type=float, default=STUCK_AFTER_S, help="seconds until a floor is stuck")
    add("--baseline", action="append", default=[], help="session to compare the others with")
    add("--classes", type=Path, help="folder that keeps Spark's classes for the next start")
    add("--rows", type=int, default=defaults.ROWS_COUNT, help="rows of each table in the result")
    add("--pipe", action="store_true", help="write lines of JSON")
    add("--log", help="file for what Spark prints")
    return parser


if __name__ == "__main__":
    sys.exit(main())
