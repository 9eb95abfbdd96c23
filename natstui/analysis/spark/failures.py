"""What went wrong inside Spark, as one sentence."""

from __future__ import annotations

import re

from natstui.analysis.conf import Conf
from natstui.errors import AnalysisError, NatstuiError

ERROR_MARK = "natstui-analysis:"
"""Stands before a sentence of ours inside an error message of Spark."""

_GONE = r"PATH_NOT_FOUND|FileNotFoundException"
_KNOWN = (
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
        r"No FileSystem for scheme|ClassNotFoundException: Class org\.apache\.hadoop\.fs\.s3a",
        "this Spark cannot read that kind of address: add the file system's jars with "
        "--packages, for s3a org.apache.hadoop:hadoop-aws:VERSION",
    ),
    (
        r"UnknownHostException|Connection refused|UNAVAILABLE",
        "Spark could not reach a host it needs: is the master, server or storage running?",
    ),
    (r"UNAUTHENTICATED", "the Spark Connect server refused the token"),
    (
        _GONE,
        "a folder or file went away while it was read",
    ),
    (
        r"Read-only file system",
        "the file system of the tables is read-only: choose another --out",
    ),
)


def is_gone(error: BaseException) -> bool:
    """Tell whether a file was not there any more when it was to be read."""
    return bool(re.search(_GONE, _whole_text(error)))


def explain(error: BaseException) -> NatstuiError:
    """Return the error a user can act on."""
    if isinstance(error, NatstuiError):
        return error
    text = _whole_text(error)
    own = re.search(re.escape(ERROR_MARK) + r"([^\n\"]*(?:\"[^\n\"]*\"[^\n\"]*)*)", text)
    if own:
        sentence = re.split(r" SQLSTATE|\. SQLSTATE|\n", own[1])[0].strip()
        return AnalysisError(f"{sentence}: it was not recorded by this version of natstui")
    for pattern, sentence in _KNOWN:
        if re.search(pattern, text):
            return AnalysisError(sentence.format(where=_where(text)))
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "")
    return AnalysisError(f"Spark failed: {type(error).__name__}: {first[:300]}")


def not_started(error: BaseException, conf: Conf) -> BaseException:
    """Return what to say when Spark's own process has ended at once, otherwise the error."""
    if "JAVA_GATEWAY_EXITED" not in _whole_text(error):
        return error
    packages = ", ".join(conf.packages)
    reasons = [
        *([f"{packages} cannot be fetched from Maven here"] if packages else []),
        *(["a setting of --conf is wrong"] if conf.settings else []),
        "--memory is more than there is, or nothing that Java can read",
    ]
    return AnalysisError(
        f"Spark does not start: {', or '.join(reasons)}; --log FILE keeps what it says"
    )


def is_bad_line(error: BaseException) -> bool:
    """Tell whether a recorded line that cannot be read ended the job, and nothing of Spark."""
    return ERROR_MARK in _whole_text(error)


def _whole_text(error: BaseException) -> str:
    parts = []
    link: BaseException | None = error
    while link is not None:
        parts.append(str(link))
        link = link.__cause__ or link.__context__
    return "\n".join(parts)


def _where(text: str) -> str:
    path = re.search(r"(?:file:)?(/[^\s:,;()'\"]{2,200})", text)
    return f" ({path[1]})" if path else ""
