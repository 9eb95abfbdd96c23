"""Find the sessions of a run by path, glob or URL, and check their headers."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from natstui.analysis.silver.schema import SCHEMA_VERSIONS
from natstui.errors import AnalysisError

PIPELINE_VERSION = 5
"""Raised when silver tables of older runs must be made again."""

_HEADER_LIMIT = 10_000


@dataclass(frozen=True, slots=True)
class Source:
    """One recorded session."""

    session: str
    """Name of its folder: the key of every table."""
    folder: str
    """Path or URL, glob characters escaped."""
    server: str
    """The cluster that was recorded, or the server without one; empty when it is not known."""


def find_sources(spark: SparkSession, patterns: list[str]) -> list[Source]:
    """Return the sessions that patterns name; raise AnalysisError when there are none.

    A pattern is a session folder or a glob of them, as a path or a URL Hadoop can read.
    """
    headers = [f"{pattern.rstrip('/')}/session.json" for pattern in patterns]
    found = []
    for header in headers:
        try:
            rows = spark.read.text(header, wholetext=True)
            found += rows.select("value", F.col("_metadata.file_path").alias("path")).take(
                _HEADER_LIMIT
            )
        except AnalysisException as error:
            if "PATH_NOT_FOUND" not in str(error):
                raise
    sources = {_source(row["path"], row["value"]) for row in found}
    if not sources:
        raise AnalysisError(f"no recorded session matches {', '.join(patterns)}")
    by_name: dict[str, Source] = {}
    for source in sorted(sources, key=lambda source: source.folder):
        if source.session in by_name:
            raise AnalysisError(
                f"two sessions are called {source.session}: rename one of them or analyse them "
                f"apart ({by_name[source.session].folder} and {source.folder})"
            )
        by_name[source.session] = source
    return list(by_name.values())


def _source(path: str, header_text: str) -> Source:
    folder, _, _ = path.rpartition("/")
    session = folder.rpartition("/")[2]
    try:
        header = json.loads(header_text)
        version = header["schema_version"]
    except (ValueError, KeyError, TypeError) as error:
        raise AnalysisError(f"{path} is not the header of a session") from error
    if version not in SCHEMA_VERSIONS:
        known = ", ".join(map(str, SCHEMA_VERSIONS))
        raise AnalysisError(
            f"session {session} has schema version {version}; this natstui reads {known}"
        )
    server = header.get("cluster") or header.get("server_name")
    escaped = re.sub(r"([*?\[\]{}\\])", r"\\\1", folder)
    return Source(session, escaped, server if isinstance(server, str) else "")


def fingerprints(segments: DataFrame) -> dict[str, str]:
    """Return, per session, a text that changes whenever a segment is added or grows."""
    parts = F.array_sort(F.collect_list(F.concat_ws(":", "segment", "size_bytes")))
    rows = segments.groupBy("session").agg(F.sha2(F.concat_ws("|", parts), 256).alias("mark"))
    return {
        row["session"]: f"{PIPELINE_VERSION}:{row['mark']}" for row in rows.take(_HEADER_LIMIT)
    }


def doubled_segments(segments: DataFrame) -> list[str]:
    """Return plain segments that are sealed too, as `session/file`: a crash came in between."""
    number = F.regexp_replace("segment", r"\.gz$", "")
    rows = segments.groupBy("session", number.alias("plain")).count().where(F.col("count") > 1)
    return [f"{row['session']}/{row['plain']}" for row in rows.take(_HEADER_LIMIT)]
