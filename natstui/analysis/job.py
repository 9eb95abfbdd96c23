"""The whole pipeline as a program: for spark-submit, and for the process natstui starts.

    spark-submit --py-files natstui.zip natstui/analysis/job.py SESSION… --out DIR

With `--pipe` it speaks lines of JSON on stdout, `progress` … then one `result` or `failed`, and
ends when its stdin ends. Everything Spark prints goes to the log.
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

from natstui.analysis import gold, result, silver
from natstui.analysis.cancel import Cancel, end_jvm, end_starting
from natstui.analysis.explain import explain
from natstui.analysis.java import check_java
from natstui.analysis.made_of import made_of
from natstui.analysis.pipe import Tell, open_pipe, tell_people
from natstui.analysis.places import check_remote, check_sessions, held, prepare_out
from natstui.analysis.progress import Progress
from natstui.analysis.silver_layer import Thresholds
from natstui.analysis.sources import find_sources
from natstui.analysis.spark_session import SparkSettings, open_session, submitted_session
from natstui.analysis.store import Store
from natstui.errors import AnalysisError, NatstuiError

CANCELLED = 130
_SILVER_STEPS = 5


def main(arguments: list[str] | None = None) -> int:
    """Run; return the exit code."""
    words = _parser().parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="natstui-analysis-", dir=words.scratch) as scratch:
        tell = open_pipe(Path(words.log or f"{scratch}/spark.log")) if words.pipe else tell_people
        try:
            tell({"kind": "result", **run(words, Path(scratch), tell)})
        except NatstuiError as error:
            tell({"kind": "failed", "text": str(error), "exit_code": error.exit_code})
            return error.exit_code
        except KeyboardInterrupt:
            tell({"kind": "failed", "text": "cancelled", "exit_code": CANCELLED})
            return CANCELLED
    return 0


def run(words: argparse.Namespace, scratch: Path, tell: Tell) -> dict[str, Any]:
    """Start Spark, analyse, and return the result; raises NatstuiError."""
    progress = Progress(tell, 2 + _SILVER_STEPS + len(gold.TABLES))
    sessions = check_sessions(words.sessions)
    out = prepare_out(words.out)
    settings = SparkSettings(
        scratch,
        words.master or "local[*]",
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
        with held(out, progress.wait) as alone:
            progress.step("starting Spark")
            try:
                spark = submitted_session(settings) if submitted else open_session(settings)
            except KeyboardInterrupt:
                end_starting()
                raise
            return _analysed(spark, words, sessions, _Place(out, alone), progress)
    except (PySparkException, Py4JError, OSError, ImportError) as error:
        raise explain(error) from error
    finally:
        progress.end()


@dataclass(frozen=True, slots=True)
class _Place:
    """Where the tables go, and whether no other run can write there."""

    out: str
    alone: bool


def _analysed(
    spark: SparkSession,
    words: argparse.Namespace,
    sessions: list[str],
    place: _Place,
    progress: Progress,
) -> dict[str, Any]:
    cancel = Cancel(spark)
    progress.watch(spark, cancel.check)
    store = Store(spark, place.out, uuid.uuid4().hex[:8])
    try:
        if place.alone:
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
    mark = made_of(silver.marks_of(store, names), thresholds)
    kept = not read_count and store.keep_gold(gold.TABLES, mark)
    if not kept:
        layer = gold.silver_layer(store, names)
        gold.build_gold(spark, store, layer, thresholds, progress.step)
    progress.step("collecting the results")
    collected = result.collect(store, rows_count)
    if not kept:
        store.publish(gold.TABLES, mark)
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
    add("--master", help="Spark master; local[*] unless submitted")
    add("--remote", help="Spark Connect server, sc://host:port")
    add("--memory", default="1g", help="heap of driver and executors")
    add("--partitions", type=int, default=4, help="parts a sort is cut into")
    add("--scratch", default=None, help="folder for what Spark spills")
    add("--ui", action="store_true", help="open Spark's own web page")
    add("--bucket", type=int, default=60, help="seconds per bucket")
    add("--stuck-after", type=float, default=30.0, help="seconds until a floor is stuck")
    add("--baseline", action="append", default=[], help="session to compare the others with")
    add("--classes", type=Path, help="folder that keeps Spark's classes for the next start")
    add("--rows", type=int, default=200, help="rows of each table in the result")
    add("--pipe", action="store_true", help="speak lines of JSON")
    add("--log", help="file for what Spark prints")
    return parser


if __name__ == "__main__":
    sys.exit(main())
