"""Finds the sessions of a run by path, glob or URL, and checks their headers."""

from __future__ import annotations

import glob
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from msgspec import Struct, field
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from natstui.analysis.bronze.schema import SCHEMA_VERSIONS
from natstui.analysis.folders import escape_glob, unescape_glob
from natstui.errors import AnalysisError

REPORTED_HEADER_FIELDS = (
    "cluster", "target", "account", "server_name", "server_version", "natstui_version",
    "interval_s", "payloads", "redacted", "dropped",
)  # fmt: skip
"""Fields of session.json that a report shows."""
_LOCAL_URL_PATTERN = re.compile(r"file:(?://)?(/.*)", re.DOTALL)
_GENERATED_SERVER_NAME_PATTERN = re.compile(r"N[A-Z2-7]{55}")
"""Pattern of a generated server name, which differs after each start."""


class SessionSource(Struct, frozen=True):
    """One recorded session."""

    session: str
    """Name of its folder, the key in every table."""
    folder: str
    """URL of its folder, glob characters escaped."""
    server: str
    """Name of the recorded cluster, or of a server without one; empty if unknown."""
    header: dict[str, Any] = field(default_factory=dict)
    """The fields `REPORTED_HEADER_FIELDS` that its session.json has."""

    @property
    def system(self) -> tuple[str, str]:
        """Return cluster or server, and account; only sessions of one system are compared."""
        server_name = "" if _GENERATED_SERVER_NAME_PATTERN.fullmatch(self.server) else self.server
        return server_name or str(self.header.get("target", "")), str(
            self.header.get("account", "")
        )

    @property
    def path(self) -> Path | None:
        """Return the local path of the session's folder; None for a remote folder."""
        match = _LOCAL_URL_PATTERN.fullmatch(self.folder)
        return Path(unescape_glob(match[1])) if match else None


def find_sources(spark: SparkSession, patterns: list[str]) -> list[SessionSource]:
    """Return the sessions that match patterns, sorted by folder.

    A pattern is a session folder or a glob of folders, as a path or as a URL for Hadoop. Raises
    AnalysisError if nothing matches, two folders have the same name, or a header is invalid.
    """
    headers = (
        header for pattern in patterns for header in _read_headers(spark, pattern.rstrip("/"))
    )
    source_by_folder = {folder: _parse_source(folder, text) for folder, text in headers}
    if not source_by_folder:
        raise AnalysisError(f"no recorded session matches {', '.join(patterns)}")
    source_by_name: dict[str, SessionSource] = {}
    for _, source in sorted(source_by_folder.items()):
        if source.session in source_by_name:
            raise AnalysisError(
                f"two sessions are called {source.session}: rename one of them or analyse them "
                f"apart ({source_by_name[source.session].folder} and {source.folder})"
            )
        source_by_name[source.session] = source
    return list(source_by_name.values())


def _read_headers(spark: SparkSession, pattern: str) -> Iterator[tuple[str, str]]:
    """Yield the URLs of matching folders, each with the text of its header."""
    if pattern.startswith("/") and can_read_local_files(spark):
        # Faster than a query of Spark.
        for path in map(Path, glob.glob(f"{_to_python_glob(pattern)}/session.json")):
            yield f"file:{path.parent}", path.read_text("utf-8", "replace")
        return
    try:
        text = spark.read.text(f"{pattern}/session.json", wholetext=True)
        rows = text.select("value", F.col("_metadata.file_path").alias("path")).collect()
    except AnalysisException as error:
        if "PATH_NOT_FOUND" not in str(error):
            raise
        return
    for row in rows:
        yield unquote(row["path"]).rpartition("/")[0], row["value"]


def can_read_local_files(spark: SparkSession) -> bool:
    """Return whether Spark can read files of this machine; False over Spark Connect."""
    return getattr(spark, "_jsc", None) is not None


def _to_python_glob(pattern: str) -> str:
    """Return a Hadoop glob as a Python glob, which has no alternatives in braces."""
    return re.sub(r"\\(.)", lambda match: glob.escape(match[1]), pattern)


def _parse_source(folder: str, header_text: str) -> SessionSource:
    session = folder.rpartition("/")[2]
    try:
        header = json.loads(header_text)
        version = header["schema_version"]
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise AnalysisError(f"{folder}/session.json is not the header of a session") from error
    if version not in SCHEMA_VERSIONS:
        versions_text = ", ".join(map(str, SCHEMA_VERSIONS))
        raise AnalysisError(
            f"session {session} has schema version {version}; this natstui reads {versions_text}"
        )
    server = header.get("cluster") or header.get("server_name")
    reported_fields = {
        name: header[name] for name in REPORTED_HEADER_FIELDS if header.get(name) is not None
    }
    server_text = server if isinstance(server, str) else ""
    return SessionSource(session, escape_glob(folder), server_text, reported_fields)
