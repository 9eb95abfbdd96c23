"""What went wrong inside Spark, as one sentence."""

from __future__ import annotations

import os
import re
import signal

from natstui.analysis.conf import Conf
from natstui.clean import clean_line
from natstui.errors import AnalysisError, NatstuiError

_GONE = r"PATH_NOT_FOUND|FileNotFoundException"
_KNOWN = (
    (
        r"EventLogFileWriter|EventLoggingListener",
        "Spark cannot write its event log{where}: make that folder, or choose another with "
        "--conf spark.eventLog.dir=DIR",
    ),
    (
        r"No space left on device|Disk quota exceeded",
        "the disk is full: free some space, or choose other folders with --out and --scratch",
    ),
    (
        r"File too large|File size limit exceeded",
        "a file grew larger than this process may write: raise the limit (ulimit -f), or choose "
        "other folders with --out and --scratch",
    ),
    (
        r"AccessControlException|Permission denied|AccessDenied|\(Permission|Mkdirs failed",
        "no permission to read the sessions or to write the tables{where}",
    ),
    (
        r"OutOfMemoryError|GC overhead",
        "Spark ran out of memory: give it more with --memory 4g",
    ),
    (
        r"DATA_SOURCE_NOT_FOUND|Failed to find (?:the )?data source",
        "Spark does not know the table format of spark.sql.sources.default: add its package with "
        "--packages",
    ),
    (
        r"No FileSystem for scheme|ClassNotFoundException: Class org\.apache\.hadoop\.fs\.s3a",
        "this Spark cannot read that kind of address: add the file system's jars with "
        "--packages (s3a: org.apache.hadoop:hadoop-aws:VERSION)",
    ),
    (
        r"UnknownHostException|Connection refused|UNAVAILABLE",
        "Spark could not reach a host it needs: is the master, server or storage running?",
    ),
    (r"UNAUTHENTICATED", "the Spark Connect server refused the token"),
    (
        _GONE,
        "a folder or file was removed while it was read",
    ),
    (
        r"Read-only file system",
        "the file system of the tables is read-only: choose another --out",
    ),
)


def is_gone(error: BaseException) -> bool:
    """Tell whether a file was not there any more when it was to be read."""
    return isinstance(error, FileNotFoundError) or bool(re.search(_GONE, _whole_text(error)))


def explain(error: BaseException) -> NatstuiError:
    """Return the error a user can act on."""
    if isinstance(error, NatstuiError):
        return error
    text = _whole_text(error)
    for pattern, sentence in _KNOWN:
        if re.search(pattern, text):
            return AnalysisError(sentence.format(where=_where(text)))
    return AnalysisError(f"Spark failed: {_reason(error)[:300]}")


def not_started(error: BaseException, conf: Conf, printed: str) -> BaseException:
    """Return what to report when Spark's own process has ended at once, otherwise the error.

    `printed` is what that process wrote before its end.
    """
    if "JAVA_GATEWAY_EXITED" not in _whole_text(error):
        return error
    names = [name for name in _VARIABLES if os.environ.get(name)]
    variables = f"; the environment sets {', '.join(names)}" if names else ""
    said = _said_by_jvm(printed)
    packages = f"; --packages asks for {', '.join(conf.packages)}" if conf.packages else ""
    if said:
        return AnalysisError(f"Spark does not start: {said}{packages}{variables}")
    return AnalysisError(
        f"Spark does not start, and its process printed nothing{packages}{variables}; --log FILE "
        "keeps what it prints"
    )


_VARIABLES = (
    "_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_HOME", "SPARK_CONF_DIR",
    "HADOOP_CONF_DIR", "SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS", "PYSPARK_PYTHON",
)  # fmt: skip
"""Variables of the environment with which Spark may not start."""
_NEVER_SAYS = re.compile(
    r"\s|Picked up |Error: A fatal exception|Error: Could not create the Java|::"
    r"|.* added as a dependency$"
)
_LOGGED = re.compile(r"^[\d/]+ [\d:]+ (?:ERROR|WARN) \w+: ")
"""What Spark's log puts before a sentence."""
_SAYS = re.compile(
    r"error|exception|unrecognized|invalid|could not|cannot|unable|no such|not found|unresolved",
    re.IGNORECASE,
)


def _said_by_jvm(printed: str) -> str:
    """Return the line that says why a JVM or Spark's launcher ended; empty where none does."""
    lines = [line for line in printed.splitlines() if line and not _NEVER_SAYS.match(line)]
    for number, line in enumerate(lines):
        if _SAYS.search(line):
            more = lines[number + 1 : number + 2] if line.endswith("initialization of VM") else []
            return clean_line(": ".join([_LOGGED.sub("", line).strip(), *more]))[:300]
    return ""


def jvm_was_killed(exit_code: int | None) -> AnalysisError | None:
    """Return what to report when Spark's process ended under way; None while it lives."""
    if exit_code is None or exit_code == 0:
        return None
    signal_number = -exit_code if exit_code < 0 else exit_code - 128
    if signal_number == signal.SIGKILL:
        return AnalysisError(
            "Spark's Java was killed: the machine ran out of memory, or somebody ended it; give "
            "it less with --memory, or close other programs"
        )
    return AnalysisError(f"Spark's Java process ended unexpectedly (exit code {exit_code})")


def _whole_text(error: BaseException) -> str:
    parts = []
    link: BaseException | None = error
    while link is not None:
        parts.append(str(link))
        link = link.__cause__ or link.__context__
    return "\n".join(parts)


def _reason(error: BaseException) -> str:
    """Return the innermost reason of an error: of one of the JVM, what it says itself."""
    text = str(error)
    causes = re.findall(r"^(?:: |Caused by: )(.+)$", text, re.MULTILINE)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return causes[-1].strip() if causes else f"{type(error).__name__}: {first}"


def _where(text: str) -> str:
    path = re.search(r"(?:file:)?(/[^\s:,;()'\"]{2,200})", text)
    return f" ({path[1]})" if path else ""
