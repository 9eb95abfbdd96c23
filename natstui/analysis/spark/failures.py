"""Turns errors of Spark into single sentences for users."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Iterator

from py4j.protocol import Py4JNetworkError

from natstui.analysis.conf import UserSparkConf
from natstui.clean import clean_line
from natstui.errors import AnalysisError, NatstuiError

_MAX_QUOTE_CHARS = 300
_MISSING_FILE_PATTERN = r"PATH_NOT_FOUND|FileNotFoundException"
_MISSING_FORMAT_PATTERN = r"DATA_SOURCE_NOT_FOUND|Failed to find (?:the )?data source"
_EVENT_LOG_PATTERN = r"EventLogFileWriter|EventLoggingListener"
_STACK_FRAME_PATTERN = re.compile(r"^\s*(?:at [\w.$/]+|\.\.\. \d+ more).*\n?", re.MULTILINE)
_PATTERNS_WITH_SENTENCES = (
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
        r"AccessControlException|Permission denied|AccessDenied|\(Permission",
        "no permission to read the sessions or to write the tables{where}",
    ),
    (
        # Java does not say why.
        r"Mkdirs failed",
        "a folder of the tables cannot be made{where}: no permission, or the disk is full",
    ),
    (
        r"OutOfMemoryError: (?:Java heap space|GC overhead)|SparkOutOfMemoryError",
        "Spark ran out of memory ({quote}): increase it with --memory 4g",
    ),
    (
        _MISSING_FORMAT_PATTERN,
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
        "Spark could not reach a host ({quote}): is the master, server or storage running?",
    ),
    (r"UNAUTHENTICATED", "the Spark Connect server refused the token"),
    (
        _MISSING_FILE_PATTERN,
        "a folder or file was removed while it was read",
    ),
    (
        r"Read-only file system",
        "the file system of the tables is read-only: choose another --out",
    ),
)
"""Pattern of a message of Spark → the sentence; `{quote}` is the line of the message."""


def is_missing_file(error: BaseException) -> bool:
    """Return whether an error says that a file was deleted before it was read."""
    return isinstance(error, FileNotFoundError) or bool(
        re.search(_MISSING_FILE_PATTERN, _messages(_chain_text(error)))
    )


def is_missing_format(error: BaseException) -> bool:
    """Return whether an error says that Spark does not know the format of a table."""
    return bool(re.search(_MISSING_FORMAT_PATTERN, _messages(_chain_text(error))))


def is_connection_lost(error: BaseException) -> bool:
    """Return whether an error says that the connection to the JVM of this process was lost."""
    return any(
        isinstance(chained_error, Py4JNetworkError | ConnectionError)
        for chained_error in _chained_errors(error)
    )


def to_user_error(error: BaseException) -> NatstuiError:
    """Return the error for users: a sentence that says what failed and what to do.

    A NatstuiError is returned unchanged.
    """
    if isinstance(error, NatstuiError):
        return error
    text = _chain_text(error)
    if re.search(_EVENT_LOG_PATTERN, text):
        return AnalysisError(
            f"Spark cannot write its event log{_path_clause(text)}: create that folder, or choose "
            "another with --conf spark.eventLog.dir=DIR"
        )
    if is_connection_lost(error):
        return AnalysisError("the connection to Spark's Java was lost: it ended, or was killed")
    messages = _messages(text)
    for pattern, sentence in _PATTERNS_WITH_SENTENCES:
        if match := re.search(rf"^.*(?:{pattern}).*$", messages, re.MULTILINE):
            quote = clean_line(match[0].removeprefix(": ").strip())[:_MAX_QUOTE_CHARS]
            return AnalysisError(sentence.format(where=_path_clause(text), quote=quote))
    return AnalysisError(f"Spark failed: {_innermost_cause(error)[:_MAX_QUOTE_CHARS]}")


def to_start_error(error: BaseException, conf: UserSparkConf, jvm_output: str) -> BaseException:
    """Return the error for users if the process of Spark did not start, otherwise `error` itself.

    `jvm_output` is the output of that process.
    """
    if "JAVA_GATEWAY_EXITED" not in _chain_text(error):
        return error
    names = [name for name in _START_VARIABLES if os.environ.get(name)]
    variables_text = f"; the environment sets {', '.join(names)}" if names else ""
    jvm_error_line = _jvm_error_line(jvm_output)
    packages_text = f"; --packages requests {', '.join(conf.packages)}" if conf.packages else ""
    if jvm_error_line:
        return AnalysisError(
            f"Spark does not start: {jvm_error_line}{packages_text}{variables_text}"
        )
    return AnalysisError(
        f"Spark does not start, and its process printed nothing{packages_text}{variables_text}; "
        "--log FILE stores what it prints"
    )


_START_VARIABLES = (
    "_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "JDK_JAVA_OPTIONS", "SPARK_HOME", "SPARK_CONF_DIR",
    "HADOOP_CONF_DIR", "SPARK_SUBMIT_OPTS", "PYSPARK_SUBMIT_ARGS", "PYSPARK_PYTHON",
)  # fmt: skip
"""Environment variables that may prevent the start of Spark."""
_IGNORED_LINE_PATTERN = re.compile(
    r"\s|Picked up |Error: A fatal exception|Error: Could not create the Java|::"
    r"|.* added as a dependency$"
)
_LOG_PREFIX_PATTERN = re.compile(r"^[\d/]+ [\d:]+ (?:ERROR|WARN) \w+: ")
"""Pattern of the prefix of a line in Spark's log: time, level and class."""
_ERROR_LINE_PATTERN = re.compile(
    r"error|exception|unrecognized|invalid|could not|cannot|unable|no such|not found|unresolved",
    re.IGNORECASE,
)


def _jvm_error_line(jvm_output: str) -> str:
    """Return the first line with an error of the JVM or Spark's launcher; empty without one."""
    lines = [
        line for line in jvm_output.splitlines() if line and not _IGNORED_LINE_PATTERN.match(line)
    ]
    for number, line in enumerate(lines):
        if _ERROR_LINE_PATTERN.search(line):
            next_lines = (
                lines[number + 1 : number + 2] if line.endswith("initialization of VM") else []
            )
            first_line = _LOG_PREFIX_PATTERN.sub("", line).strip()
            return clean_line(": ".join([first_line, *next_lines]))[:_MAX_QUOTE_CHARS]
    return ""


def jvm_exit_error(exit_code: int | None, jvm_output: str) -> AnalysisError | None:
    """Return the error for a JVM that ended during a run; None while it runs.

    `jvm_output` is the output of that process.
    """
    if exit_code is None:
        return None
    signal_number = -exit_code if exit_code < 0 else exit_code - 128
    if signal_number == signal.SIGKILL:
        return AnalysisError(
            "Spark's Java was killed: the machine ran out of memory, or somebody ended it; reduce "
            "--memory, or close other programs"
        )
    has_signal = signal_number in {*signal.Signals}
    end_text = signal.Signals(signal_number).name if has_signal else f"exit code {exit_code}"
    last_words = _last_jvm_words(jvm_output)
    return AnalysisError(
        f"Spark's Java ended during the analysis ({end_text})"
        + (f": {last_words}" if last_words else ", and printed nothing")
    )


_LOST_CONNECTION_REPORT = "ERROR:root:Exception while sending command."
"""What py4j, in this process, prints into the same file once the JVM has ended."""


def _last_jvm_words(jvm_output: str) -> str:
    """Return what the JVM printed last: the beginning of its crash report, or the last line."""
    own_output = jvm_output.partition(_LOST_CONNECTION_REPORT)[0]
    lines = [line for line in own_output.splitlines() if line.strip() and not line[0].isspace()]
    crash_report = [line.strip("# ") for line in lines if line[0] == "#" and line.strip("# ")]
    return clean_line(" ".join(crash_report[:2] or lines[-1:]))[:_MAX_QUOTE_CHARS]


def _chained_errors(error: BaseException) -> Iterator[BaseException]:
    chained_error: BaseException | None = error
    while chained_error is not None:
        yield chained_error
        chained_error = chained_error.__cause__ or chained_error.__context__


def _chain_text(error: BaseException) -> str:
    return "\n".join(map(str, _chained_errors(error)))


def _messages(text: str) -> str:
    """Return the text of an error without its stack traces, which name classes of any kind."""
    return _STACK_FRAME_PATTERN.sub("", text)


def _innermost_cause(error: BaseException) -> str:
    """Return the innermost cause in the text of an error, otherwise its type and first line."""
    text = str(error)
    causes = re.findall(r"^(?:: |Caused by: )(.+)$", text, re.MULTILINE)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    return causes[-1].strip() if causes else f"{type(error).__name__}: {first}"


def _path_clause(text: str) -> str:
    path = re.search(r"(?:file:)?(/[^\s:,;()'\"]{2,200})", text)
    return f" ({path[1]})" if path else ""
