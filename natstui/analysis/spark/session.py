"""A Spark session that listens on loopback only, prints nothing, and stays within its memory."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pyspark.find_spark_home import _find_spark_home
from pyspark.sql import SparkSession

from natstui.analysis.conf import JAVA_OPTIONS, NOTHING, Conf
from natstui.analysis.defaults import MASTER, MEMORY, PARTITIONS_COUNT
from natstui.analysis.spark.class_path import first_on_the_class_path
from natstui.analysis.spark.compilers import compiler_options
from natstui.analysis.spark.java import find_java
from natstui.analysis.spark.little import HELD, LITTLE
from natstui.analysis.spark.lookups import convert_quickly, remember_lookups

APP_NAME = "natstui-analysis"
_JVM = (
    "-XX:+UseParallelGC -XX:MaxDirectMemorySize=256m -XX:Tier4InvocationThreshold=100000 "
    "-XX:Tier4MinInvocationThreshold=20000 -XX:Tier4CompileThreshold=200000 "
    "-XX:MaxInlineLevel=9 -XX:InlineSmallCode=1500"
)
"""The collector with the least work in all, a bound for buffers outside the heap, the slow
compiler kept for loops, and little inlining: in a run of a minute it otherwise costs a quarter of
all CPU time."""
_JVM_SMALL = (
    "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:Tier3InvocationThreshold=1000 "
    "-XX:Tier3MinInvocationThreshold=500 -XX:Tier3CompileThreshold=5000 "
    "-XX:Tier3BackEdgeThreshold=100000 -XX:MetaspaceSize=256m "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote"
)
"""For little to read only the quick compiler, and only for what runs often; room for all classes
of Spark, for each growth of which the heap would be collected; and no proof that they are sound,
which takes as long as to load them."""
_JVM_ENVIRONMENT = {
    # glibc would keep an arena per thread for what zlib and zstd allocate: 1 GiB more.
    "MALLOC_ARENA_MAX": "2",
    # Another JVM puts the command line of Spark's together.
    "SPARK_LAUNCHER_OPTS": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}
"""What the JVM finds in its environment where the user has not set it."""
_SMALL = {
    # To compile a query takes longer than to run it as it is.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # There is nothing to be learnt from the size of what one task has written.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.shuffle.partitions": "1",
    # A part of a sum is the sum where all rows are in one place.
    "spark.sql.execution.bypassPartialAggregation": "true",
    # Looks for mistakes of the optimizer itself, after each of its steps.
    "spark.sql.lightweightPlanChangeValidation": "false",
}
_HERE = {
    # A job of its own looks for the files where there are more than 32 of them.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "100000",
}
"""What a session has whose files are on this machine: to look for one takes no time."""
LITTLE_SETTINGS = {
    LITTLE: "true",
    # One partition is joined where it lies; to hand the smaller side around is a job of its own.
    "spark.sql.optimizer.disableHints": "true",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}
"""What a session has beside that, in which each table is one piece."""


@dataclass(frozen=True, slots=True)
class SparkSettings:
    """How to run Spark."""

    scratch: Path
    """A folder for what Spark spills; it can become as large as the recordings."""
    master: str = MASTER
    remote: str | None = None
    """Address of a Spark Connect server, `sc://host:port`; it brings its own settings."""
    memory: str = MEMORY
    partitions_count: int = PARTITIONS_COUNT
    ui: bool = False
    here: bool = False
    """Spark, the recordings and the tables are on this machine."""
    small: bool = False
    """Start and plan for little to read: half the CPU time then, several times as much else."""
    little: bool = False
    """Each table is one piece, and the driver holds it; only where it is small."""
    short: bool = False
    """The tables of answers are so short that what is made of them alone is little."""
    held: bool = False
    """The driver holds the samples, too; only where there is little."""
    alone: bool = False
    """The process ends with this session: what it does not need any more may stay until then."""
    conf: Conf = NOTHING
    """What the user gives Spark: stronger than the settings here."""


def open_session(settings: SparkSettings) -> SparkSession:
    """Start Spark, or connect to a server that runs it.

    Raises AnalysisError where there is no Java to start it with.
    """
    builder = SparkSession.builder.appName(APP_NAME)
    if settings.remote:
        return _tuned(builder.remote(settings.remote).getOrCreate(), settings)
    environment = start_environment(settings.master, os.environ) | find_java().environment()
    if _is_on_loopback(settings.master):
        builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
        builder = builder.config("spark.driver.host", "127.0.0.1")
    builder = builder.master(settings.master)
    convert_quickly()
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
    convert_quickly()
    return _tuned(SparkSession.builder.appName(APP_NAME).getOrCreate(), settings)


def session_for_little(spark: SparkSession, settings: SparkSettings) -> SparkSession:
    """Return another session of the same Spark, which plans for tables of a few rows."""
    return _tuned(spark.newSession(), replace(settings, small=True, little=True, held=False))


def _start_settings(settings: SparkSettings) -> dict[str, str]:
    given = settings.conf.start_settings()
    # The heap as large at first as at last: to grow it, it is collected again and again.
    machine = f"{_JVM_SMALL if settings.small else _JVM} -Xms{settings.memory}"
    # The JVM prints that it was told: into the log, where nobody else reads what it prints.
    told = compiler_options(settings.scratch) if settings.alone and not settings.small else ""
    java = (machine, told, given.pop(JAVA_OPTIONS, ""))
    return {
        **first_on_the_class_path(),
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
        "spark.default.parallelism": "1" if settings.small else str(settings.partitions_count),
        # With checksums beside it, every file takes four runs of chmod instead of one.
        "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
        **given,
    }


def _tuned(spark: SparkSession, settings: SparkSettings) -> SparkSession:
    """Set what can be set on a running session too."""
    ours = {
        "spark.sql.session.timeZone": "UTC",
        # A number that nobody can have measured spoils what is computed of it, and no more.
        "spark.sql.ansi.enabled": "false",
        "spark.sql.shuffle.partitions": str(settings.partitions_count),
        # A session called 0012 must not become 12.
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        # Without it, writing by session sorts once more.
        "spark.sql.maxConcurrentOutputFileWriters": "64",
        # Each query is otherwise written out as text, in full, for a web page that is off.
        "spark.sql.ui.explainMode": "simple",
        "spark.sql.debug.maxToStringFields": "0",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.files.ignoreMissingFiles": "false",
        # Every session asked for is read, so there is nothing to prune; and a query without
        # adaptive execution fails when the values to prune by are not there in time.
        "spark.sql.optimizer.dynamicPartitionPruning.enabled": "false",
        **(_HERE if settings.here else {}),
        **(_SMALL if settings.small else {}),
        **(LITTLE_SETTINGS if settings.little else {}),
        HELD: str(settings.held).lower(),
    }
    given = dict(settings.conf.settings)
    # A session started here has the others already; a server gets them only now.
    late = given if settings.remote else {name: given[name] for name in given.keys() & ours.keys()}
    for name, value in {**ours, **late}.items():
        spark.conf.set(name, value)
    remember_lookups(keep_objects=settings.held and settings.alone)
    return spark
