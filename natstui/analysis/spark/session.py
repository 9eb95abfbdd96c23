"""A Spark session: on loopback only, silent, within its memory; and how its jobs are cancelled."""

from __future__ import annotations

import math
import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import pyspark
from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from natstui.analysis.conf import JAVA_OPTIONS, NOTHING, Conf
from natstui.analysis.defaults import MASTER, MEMORY, PARTITION_BYTES, SMALL_BYTES
from natstui.analysis.spark.java import find_java
from natstui.errors import AnalysisError

APP_NAME = "natstui-analysis"
_JVM_MEMORY = "-Xms{memory} -XX:MaxDirectMemorySize=256m -XX:MetaspaceSize=256m"
"""The heap as large at first as at last, a bound for buffers outside it, and room for all classes
of Spark: for each growth of heap or classes, the heap would be collected."""
_JVM = "-XX:+UseParallelGC"
"""The collector with the least work in all."""
_JVM_SMALL = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1"
"""For little to read: one thread collects, and only the quick compiler (C1) runs."""
_JVM_ENVIRONMENT = {
    # glibc would keep an arena per thread for what zlib and zstd allocate: 1 GiB more.
    "MALLOC_ARENA_MAX": "2",
    # Another JVM puts the command line of Spark's together.
    "SPARK_LAUNCHER_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}
"""What the JVM finds in its environment where the user has not set it."""


_ALONE = {
    "spark.eventLog.enabled": "false",
    "spark.hadoop.fs.defaultFS": "file:///",
}
"""What a cluster's configuration says of its own machines means nothing to a run on this one."""
_PARTITIONS = "spark.sql.shuffle.partitions"
_CANCEL_EVERY_S = 0.2


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How to run Spark."""

    scratch: Path
    """A folder for what Spark spills; it can become as large as the recordings."""
    master: str = MASTER
    remote: str | None = None
    """Address of a Spark Connect server, `sc://host:port`; it brings its own settings."""
    memory: str = MEMORY
    ui: bool = False
    size_bytes: int | None = None
    """About how much text is read; None where that is not known here."""
    conf: Conf = NOTHING
    """What the user gives Spark: stronger than the settings here."""

    @property
    def small(self) -> bool:
        """Return whether there is so little to read that to plan is most of a run."""
        return self.size_bytes is not None and self.size_bytes <= SMALL_BYTES


def settings_for_size(settings: SparkSettings) -> dict[str, str]:
    """Return the settings of Spark that depend on how much is read: nothing else does."""
    if settings.size_bytes is None:
        # A cluster has a number of its own, and Spark puts small partitions together.
        return {}
    if not settings.small:
        return {_PARTITIONS: str(math.ceil(settings.size_bytes / PARTITION_BYTES))}
    return {
        # One task sorts, groups and joins what is there in milliseconds.
        _PARTITIONS: "1",
        # There is nothing to be learnt from the size of what one task has written.
        "spark.sql.adaptive.enabled": "false",
        # To compile a query takes longer than to run it as it is.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        # Looks for mistakes of the optimizer itself, after each of its steps.
        "spark.sql.lightweightPlanChangeValidation": "false",
        # To hand the smaller side of a join around is a job of its own.
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.optimizer.disableHints": "true",
    }


def open_session(settings: SparkSettings) -> SparkSession:
    """Start Spark, or connect to a server that runs it.

    Raises AnalysisError where there is no Java, or the environment asks for another Spark.
    """
    builder = SparkSession.builder.appName(APP_NAME)
    if settings.remote:
        return _tuned(builder.remote(settings.remote).getOrCreate(), settings)
    _check_environment(os.environ)
    environment = start_environment(settings.master, os.environ) | find_java().environment()
    if _is_on_loopback(settings.master):
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
        builder = builder.config("spark.driver.host", "127.0.0.1")
    builder = builder.master(settings.master)
    for name, value in _start_settings(settings).items():
        builder = builder.config(name, value)
    with _in_environment(environment):
        spark = builder.getOrCreate()
    return _tuned(spark, settings)


def start_environment(master: str, users: Mapping[str, str]) -> dict[str, str]:
    """Return the variables that Spark is started with; `users` are those that are set already."""
    # Spark starts Python with -m, which otherwise looks for modules in the current folder first.
    # Where Spark is, its own script would start a Python to find out.
    environment = {"PYTHONSAFEPATH": "1", "SPARK_HOME": _find_spark_home()}
    if _is_on_loopback(master):
        # In the environment, because Spark picks its address before it reads its settings.
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    if master.startswith("local"):
        # Otherwise the workers run the `python3` of the PATH, which may be of another version. On
        # a cluster this path may not exist.
        environment["PYSPARK_PYTHON"] = users.get("PYSPARK_PYTHON") or sys.executable
    for name, words in _JVM_ENVIRONMENT.items():
        environment[name] = users.get(name, words)
    return environment


def _is_on_loopback(master: str) -> bool:
    return master.startswith("local") or "127.0.0.1" in master


def _check_environment(users: Mapping[str, str]) -> None:
    """Raise AnalysisError when the environment asks for another Spark than that of pyspark."""
    if users.get("SPARK_REMOTE"):
        raise AnalysisError(
            "SPARK_REMOTE is set: unset it, or give the address of the server with --remote"
        )
    home, unset = _find_spark_home(), "unset it to use that of pyspark"
    named = f"SPARK_HOME={users.get('SPARK_HOME')}"
    if not Path(home, "bin", "spark-submit").is_file():
        raise AnalysisError(f"{named} has no bin/spark-submit: {unset}")
    core = next((jar.name for jar in Path(home, "jars").glob("spark-core_*.jar")), "no jars")
    if pyspark.__version__ not in core:
        raise AnalysisError(
            f"{named} is another version than pyspark {pyspark.__version__} ({core}): {unset}"
        )


@contextmanager
def _in_environment(words: Mapping[str, str]) -> Iterator[None]:
    """Set variables for what is started meanwhile; what this process starts later is not Spark."""
    before = {name: os.environ.get(name) for name in words}
    os.environ.update(words)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def submitted_session(settings: SparkSettings) -> SparkSession:
    """Return the session `spark-submit` configured: its master, memory and addresses stay."""
    return _tuned(SparkSession.builder.appName(APP_NAME).getOrCreate(), settings)


def _start_settings(settings: SparkSettings) -> dict[str, str]:
    given = settings.conf.start_settings()
    memory = _JVM_MEMORY.format(memory=settings.memory)
    java = (memory, _JVM_SMALL if settings.small else _JVM, given.pop(JAVA_OPTIONS, ""))
    ours = {
        **(_ALONE if settings.master.startswith("local") else {}),
        "spark.driver.memory": settings.memory,
        "spark.executor.memory": settings.memory,
        JAVA_OPTIONS: " ".join(java),
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        "spark.ui.enabled": "true" if settings.ui else "false",
        "spark.ui.showConsoleProgress": "false",
        # Otherwise every expression sends the JVM the line of Python it comes from.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.local.dir": str(settings.scratch),
        "spark.sql.warehouse.dir": str(settings.scratch / "warehouse"),
    }
    if partitions := settings_for_size(settings).get(_PARTITIONS):
        ours["spark.default.parallelism"] = partitions
    return {**ours, **given}


def _tuned(spark: SparkSession, settings: SparkSettings) -> SparkSession:
    """Set what can be set on a running session too."""
    ours = {
        "spark.sql.session.timeZone": "UTC",
        # A number that nobody can have measured spoils what is computed of it, and no more.
        "spark.sql.ansi.enabled": "false",
        # A session called 0012 must not become 12.
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        # Without it, writing by session sorts once more.
        "spark.sql.maxConcurrentOutputFileWriters": "64",
        # Each query is otherwise written out as text, in full, for a web page that is off.
        "spark.sql.ui.explainMode": "simple",
        "spark.sql.debug.maxToStringFields": "0",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.files.ignoreMissingFiles": "false",
        # Segments are small: a task reads many of them.
        "spark.sql.files.openCostInBytes": "65536",
        # Otherwise as many files as there are are listed by a task each.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
        # A row of bronze is a poll with all its columns: thousands of them do not fit in memory.
        "spark.sql.parquet.columnarReaderBatchSize": "512",
        # Every session asked for is read, so there is nothing to prune; and a query without
        # adaptive execution fails when the values to prune by are not there in time.
        "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
        **settings_for_size(settings),
    }
    given = dict(settings.conf.settings)
    # A session started here has the others already; a server gets them only now.
    late = given if settings.remote else {name: given[name] for name in given.keys() & ours.keys()}
    for name, value in {**ours, **late}.items():
        spark.conf.set(name, value)
    return spark


class Cancel:
    """Cancels Spark's jobs on SIGINT.

    It does not raise from inside the handler: the main thread may be in the middle of a call
    into the JVM, and its connection could not be used afterwards. The job that is running fails
    instead, and those that would come next fail as well.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._asked = threading.Event()
        self._ended = threading.Event()
        signal.signal(signal.SIGINT, self._interrupted)

    @property
    def asked(self) -> bool:
        """Tell whether the run was cancelled."""
        return self._asked.is_set()

    def check(self) -> None:
        """Raise KeyboardInterrupt when the run was cancelled."""
        if self.asked:
            raise KeyboardInterrupt

    def end(self) -> None:
        """Stop cancelling: no job is left."""
        self._ended.set()

    def _interrupted(self, number: int, frame: FrameType | None) -> None:
        if not self._asked.is_set():
            self._asked.set()
            threading.Thread(target=self._keep_cancelling, daemon=True).start()

    def _keep_cancelling(self) -> None:
        while not self._ended.is_set():
            if getattr(self._spark, "_jsc", None):
                self._spark.sparkContext.cancelAllJobs()
            else:
                self._spark.interruptAll()
            self._ended.wait(_CANCEL_EVERY_S)


def end_jvm() -> None:
    """Kill the JVM that we started: its own shutdown is not needed after a cancelled run."""
    jvm = getattr(SparkContext._gateway, "proc", None)
    if jvm is not None:
        jvm.kill()


def end_starting() -> None:
    """End a JVM that is still starting: nothing else would end it.

    It shares our process group, which is ours alone when natstui started us.
    """
    if os.getpgrp() == os.getpid():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(os.getpgrp(), signal.SIGTERM)


def jvm_exit_code() -> int | None:
    """Return how the JVM that we started ended; None while it runs, or where we started none."""
    jvm = getattr(SparkContext._gateway, "proc", None)
    return None if jvm is None else jvm.poll()
