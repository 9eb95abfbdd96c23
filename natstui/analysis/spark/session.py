"""Starts a Spark session with bounded memory, on loopback if it is local, and cancels its jobs."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import pyspark
from msgspec import Struct
from pyspark import SparkContext
from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from natstui.analysis.conf import JAVA_OPTIONS, NO_CONF, UserSparkConf
from natstui.analysis.defaults import MASTER, MAX_SMALL_DATA_BYTES, MEMORY, PARTITION_BYTES
from natstui.analysis.spark.java import find_java
from natstui.errors import AnalysisError

APP_NAME = "natstui-analysis"
_JVM_OPTIONS = (
    # A heap of constant size: each growth would cause a garbage collection.
    "-Xms{memory}",
    # Buffers outside the heap are bounded.
    "-XX:MaxDirectMemorySize=256m",
    # Space for Spark's classes from the start: each growth would cause a garbage collection.
    "-XX:MetaspaceSize=256m",
)
"""Options of the JVM for data of any size."""
_JVM_ENVIRONMENT = {
    # glibc would keep an arena per thread for what zlib and zstd allocate: 1 GiB more.
    "MALLOC_ARENA_MAX": "2",
    # Another JVM puts the command line of Spark's together.
    "SPARK_LAUNCHER_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}
"""Environment variables of the JVM that the user may override."""


_LOCAL_SETTINGS = {
    "spark.eventLog.enabled": "false",
    "spark.hadoop.fs.defaultFS": "file:///",
}
"""Settings of a local run that replace those in the configuration of a cluster."""
PARTITIONS_SETTING = "spark.sql.shuffle.partitions"
_CANCEL_INTERVAL_S = 0.2


class SparkSettings(Struct, frozen=True):
    """The settings with which an analysis starts Spark."""

    scratch: Path
    """Folder for temporary data of Spark; it can become as large as the recordings."""
    master: str = MASTER
    remote: str | None = None
    """Address of a Spark Connect server, `sc://host:port`, which has its own settings."""
    memory: str = MEMORY
    ui: bool = False
    size_bytes: int | None = None
    """Estimated size of the text to read; None if unknown."""
    conf: UserSparkConf = NO_CONF
    """Settings of the user, which override all others."""


class SizeSettings(Struct, frozen=True):
    """The settings that depend on the size of the data."""

    java_options: tuple[str, ...]
    start_settings: Mapping[str, str]
    """Settings of Spark that cannot be changed while it runs."""
    session_settings: Mapping[str, str]
    """Settings of a session of Spark."""


_SMALL_DATA_SETTINGS = SizeSettings(
    java_options=(
        # A collector with one thread.
        "-XX:+UseSerialGC",
        # Only the fast compiler (C1).
        "-XX:TieredStopAtLevel=1",
        # As large as with both compilers: in a smaller cache compiled code is discarded.
        "-XX:ReservedCodeCacheSize=240m",
    ),
    start_settings={"spark.default.parallelism": "1"},
    session_settings={
        # One task sorts, groups and joins all rows in milliseconds.
        PARTITIONS_SETTING: "1",
        # The size of the output of a single task decides nothing.
        "spark.sql.adaptive.enabled": "false",
        # To compile a query takes longer than to run it as it is.
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        # Checks the optimizer itself after each of its steps.
        "spark.sql.lightweightPlanChangeValidation": "false",
        # To broadcast the smaller side of a join is a separate job.
        "spark.sql.autoBroadcastJoinThreshold": "-1",
        "spark.sql.optimizer.disableHints": "true",
    },
)
"""Settings for data so small that planning queries takes most of a run."""


def settings_for_size(settings: SparkSettings) -> SizeSettings:
    """Return all settings of the JVM and of Spark that depend on the size of the data."""
    if settings.size_bytes is not None and settings.size_bytes <= MAX_SMALL_DATA_BYTES:
        return _SMALL_DATA_SETTINGS
    # The collector with the least total work.
    java_options = ("-XX:+UseParallelGC",)
    if settings.size_bytes is None:
        return SizeSettings(java_options, {}, {})
    partitions_count = _partitions_count(settings.size_bytes)
    return SizeSettings(
        java_options,
        {"spark.default.parallelism": partitions_count},
        {
            PARTITIONS_SETTING: partitions_count,
            # Each task generates and compiles the code of its steps, which takes longer than to
            # read a segment.
            "spark.sql.files.minPartitionNum": str(2 * _cores_count(settings.master)),
        },
    )


def set_partitions_count(spark: SparkSession, size_bytes: int) -> None:
    """Set the partitions of a shuffle by the size of the text, unless their number is set.

    On a cluster the size is known only when Spark has listed the files.
    """
    if PARTITIONS_SETTING not in spark.conf.getAll:
        spark.conf.set(PARTITIONS_SETTING, _partitions_count(size_bytes))


def _partitions_count(size_bytes: int) -> str:
    return str(max(math.ceil(size_bytes / PARTITION_BYTES), 1))


def _cores_count(master: str) -> int:
    """Return the number of cores that `local`, `local[2]` or `local[*]` uses."""
    number = re.match(r"local\[(\d+)", master)
    if number:
        return int(number[1])
    return (os.cpu_count() or 1) if "*" in master else 1


def open_session(settings: SparkSettings) -> SparkSession:
    """Start Spark, or connect to a server that runs it.

    Raises AnalysisError if there is no Java, or the environment requires another Spark.
    """
    builder = SparkSession.builder.appName(APP_NAME)
    if settings.remote:
        return _configure_session(builder.remote(settings.remote).getOrCreate(), settings)
    _check_environment(os.environ)
    environment = start_environment(settings.master, os.environ) | find_java().environment()
    if _is_on_loopback(settings.master):
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
        builder = builder.config("spark.driver.host", "127.0.0.1")
    builder = builder.master(settings.master)
    for name, value in _start_settings(settings).items():
        builder = builder.config(name, value)
    with _set_environment(environment):
        spark = builder.getOrCreate()
    return _configure_session(spark, settings)


def start_environment(master: str, user_variables: Mapping[str, str]) -> dict[str, str]:
    """Return the environment variables for the start of Spark.

    `user_variables` are the variables that are already set; some of them have precedence.
    """
    # Spark starts Python with -m, which otherwise imports modules from the current folder first.
    # Without SPARK_HOME, Spark's script would start a Python to find it.
    environment = {"PYTHONSAFEPATH": "1", "SPARK_HOME": _find_spark_home()}
    if _is_on_loopback(master):
        # In the environment, because Spark picks its address before it reads its settings.
        environment["SPARK_LOCAL_IP"] = "127.0.0.1"
    if master.startswith("local"):
        # Otherwise the workers run the `python3` of the PATH, which may be of another version. On
        # a cluster this path may not exist.
        environment["PYSPARK_PYTHON"] = user_variables.get("PYSPARK_PYTHON") or sys.executable
    for name, default in _JVM_ENVIRONMENT.items():
        environment[name] = user_variables.get(name, default)
    return environment


def _is_on_loopback(master: str) -> bool:
    return master.startswith("local") or "127.0.0.1" in master


def _check_environment(user_variables: Mapping[str, str]) -> None:
    """Raise AnalysisError if SPARK_HOME or SPARK_REMOTE require another Spark than pyspark's."""
    if user_variables.get("SPARK_REMOTE"):
        raise AnalysisError(
            "SPARK_REMOTE is set: unset it, or set the address of the server with --remote"
        )
    spark_home, advice = _find_spark_home(), "unset it to use that of pyspark"
    setting_text = f"SPARK_HOME={user_variables.get('SPARK_HOME')}"
    if not Path(spark_home, "bin", "spark-submit").is_file():
        raise AnalysisError(f"{setting_text} has no bin/spark-submit: {advice}")
    core_jar = next(
        (jar.name for jar in Path(spark_home, "jars").glob("spark-core_*.jar")), "no jars"
    )
    if pyspark.__version__ not in core_jar:
        raise AnalysisError(
            f"{setting_text} is another version than pyspark {pyspark.__version__} ({core_jar}): "
            f"{advice}"
        )


@contextmanager
def _set_environment(variables: Mapping[str, str]) -> Iterator[None]:
    """Set environment variables for the processes of Spark, until the end of the `with` block."""
    previous = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in previous.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def submitted_session(settings: SparkSettings) -> SparkSession:
    """Return the session of `spark-submit`, which keeps its master, memory and addresses."""
    return _configure_session(SparkSession.builder.appName(APP_NAME).getOrCreate(), settings)


def _start_settings(settings: SparkSettings) -> dict[str, str]:
    user_settings = settings.conf.start_settings()
    of_size = settings_for_size(settings)
    java_options = (
        *(option.format(memory=settings.memory) for option in _JVM_OPTIONS),
        *of_size.java_options,
        user_settings.pop(JAVA_OPTIONS, ""),
    )
    spark_settings = {
        **(_LOCAL_SETTINGS if settings.master.startswith("local") else {}),
        "spark.driver.memory": settings.memory,
        "spark.executor.memory": settings.memory,
        JAVA_OPTIONS: " ".join(java_options),
        "spark.executorEnv.PYTHONSAFEPATH": "1",
        "spark.ui.enabled": "true" if settings.ui else "false",
        "spark.ui.showConsoleProgress": "false",
        # Otherwise every expression sends the JVM the line of Python it comes from.
        "spark.python.sql.dataFrameDebugging.enabled": "false",
        "spark.local.dir": str(settings.scratch),
        "spark.sql.warehouse.dir": str(settings.scratch / "warehouse"),
        **of_size.start_settings,
    }
    return {**spark_settings, **user_settings}


def _configure_session(spark: SparkSession, settings: SparkSettings) -> SparkSession:
    """Set the options that can be changed while Spark runs; return the session."""
    spark_settings = {
        "spark.sql.session.timeZone": "UTC",
        # An impossible number makes only the results that depend on it null.
        "spark.sql.ansi.enabled": "false",
        # A session called 0012 must not become 12.
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        # Otherwise each write by session sorts the rows again.
        "spark.sql.maxConcurrentOutputFileWriters": "64",
        # Each query is otherwise written out as text, in full, for a web page that is off.
        "spark.sql.ui.explainMode": "simple",
        "spark.sql.debug.maxToStringFields": "0",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.files.ignoreMissingFiles": "false",
        # Segments are small: a task reads many of them.
        "spark.sql.files.openCostInBytes": "65536",
        # Otherwise each file is listed by a separate task.
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "16",
        # A row of bronze is a poll with all its columns: thousands of them do not fit in memory.
        "spark.sql.parquet.columnarReaderBatchSize": "512",
        # All requested sessions are read, so nothing can be pruned; and a query without adaptive
        # execution fails if the values for pruning are late.
        "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
        **settings_for_size(settings).session_settings,
    }
    user_settings = dict(settings.conf.settings)
    # A session of this process already has the other settings; a server gets them only now.
    changed_settings = (
        user_settings
        if settings.remote
        else {name: user_settings[name] for name in user_settings.keys() & spark_settings.keys()}
    )
    for name, value in {**spark_settings, **changed_settings}.items():
        spark.conf.set(name, value)
    return spark


class JobCanceller:
    """Cancels the running job and all later jobs of Spark after SIGINT.

    The handler does not raise: the main thread may be in a call into the JVM, and its connection
    could not be used afterwards.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._cancel_event = threading.Event()
        self._end_event = threading.Event()
        signal.signal(signal.SIGINT, self._on_sigint)

    @property
    def is_cancelled(self) -> bool:
        """Return whether the run was cancelled."""
        return self._cancel_event.is_set()

    def check(self) -> None:
        """Raise KeyboardInterrupt if the run was cancelled."""
        if self.is_cancelled:
            raise KeyboardInterrupt

    def end(self) -> None:
        """Stop cancelling jobs; called after the last job."""
        self._end_event.set()

    def _on_sigint(self, number: int, frame: FrameType | None) -> None:
        if not self._cancel_event.is_set():
            self._cancel_event.set()
            threading.Thread(target=self._cancel_repeatedly, daemon=True).start()

    def _cancel_repeatedly(self) -> None:
        while not self._end_event.is_set():
            if getattr(self._spark, "_jsc", None):
                self._spark.sparkContext.cancelAllJobs()
            else:
                self._spark.interruptAll()
            self._end_event.wait(_CANCEL_INTERVAL_S)


def kill_jvm() -> None:
    """Kill the JVM of this process; called after a cancelled run."""
    jvm = getattr(SparkContext._gateway, "proc", None)
    if jvm is not None:
        jvm.kill()


def end_starting_jvm() -> None:
    """Send SIGTERM to the process group of this process, to end a JVM that is still starting.

    Does nothing if this process does not lead the group: then the group may have other programs.
    """
    if os.getpgrp() == os.getpid():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        os.killpg(os.getpgrp(), signal.SIGTERM)


def jvm_exit_code(timeout_s: float) -> int | None:
    """Return the exit code of the JVM of this process, which may still be ending.

    None if it runs after `timeout_s`, or there is no JVM.
    """
    jvm = getattr(SparkContext._gateway, "proc", None)
    if jvm is None:
        return None
    try:
        exit_code: int = jvm.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return None
    return exit_code
