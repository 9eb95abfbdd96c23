"""The record files of sessions: their sizes, and whether these have changed."""

from __future__ import annotations

import fnmatch
import hashlib
import os
from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from natstui.analysis.bronze.sources import Source, reads_here
from natstui.analysis.folders import escape_glob, files_of
from natstui.analysis.tables import SESSION, Table, columns
from natstui.files import open_plain

PIPELINE_VERSION = 12
"""Version of bronze and silver; it is increased when those of older runs must be rebuilt."""

FILES = "records-*.jsonl*"
"""Glob of the record files."""
SEGMENT_FILE = Table(
    "segment",
    "Record files whose lines are in the bronze tables; written last.",
    columns(
        SESSION,
        ("segment", "string", "File name"),
        ("size_bytes", "bigint", "Size on disk"),
        ("promised_bytes", "bigint", "Uncompressed size, as written at the end of the gzip file"),
        ("pipeline_version", "bigint", "Version of the analysis that read the file"),
        ("kinds", "string", "Kinds of lines in the files that were read with it"),
    ),
)


class SegmentFile(NamedTuple):
    """A record file."""

    session: str
    segment: str
    size_bytes: int


def segment_files(spark: SparkSession, sources: Iterable[Source]) -> list[SegmentFile]:
    """Return the record files of sessions, in order."""
    files: list[SegmentFile] = []
    remote_folders = []
    for source in sources:
        if source.path is not None and reads_here(spark):
            for name in fnmatch.filter(files_of(str(source.path)), FILES):
                size_bytes = os.stat(source.path / name).st_size
                files.append(SegmentFile(source.session, name, size_bytes))
        else:
            remote_folders.append(source.folder)
    return sorted(files + (_remote_files(spark, remote_folders) if remote_folders else []))


def _remote_files(spark: SparkSession, folders: list[str]) -> list[SegmentFile]:
    rows = spark.read.format("binaryFile").load([f"{f}/{FILES}" for f in folders])
    files = []
    for row in rows.select("path", "length").collect():
        folder, _, name = row["path"].rpartition("/")
        files.append(SegmentFile(folder.rpartition("/")[2], name, row["length"]))
    return files


def with_promised_bytes(
    spark: SparkSession,
    files: list[SegmentFile],
    sources: Mapping[str, Source],
    kinds: Iterable[str],
) -> list[tuple[str, str, int, int | None, int, str]]:
    """Return rows of `SEGMENT_FILE`, with the uncompressed size from the end of a gzip file.

    This is the length (modulo 2³²) at the end of its last member; None for the open segment. In a
    file that was cut off it is noise, rarely a small number.
    """
    sealed = [file for file in files if file.segment.endswith(".gz")]
    local_files = [file for file in sealed if sources[file.session].path and reads_here(spark)]
    tails = {(f.session, f.segment): _tail(sources[f.session].path, f) for f in local_files}
    remote_files = [
        f"{sources[file.session].folder}/{escape_glob(file.segment)}"
        for file in sealed
        if (file.session, file.segment) not in tails
    ]
    tails |= _remote_tails(spark, remote_files) if remote_files else {}

    def promised_bytes(file: SegmentFile) -> int | None:
        if not file.segment.endswith(".gz"):
            return None
        # A shorter file is not even an empty one: more than any promises.
        tail = tails[file.session, file.segment]
        return 2**33 if file.size_bytes < 18 else int.from_bytes(tail, "little")

    kinds_text = " ".join(sorted(kinds))
    return [(*file, promised_bytes(file), PIPELINE_VERSION, kinds_text) for file in files]


def _tail(folder: Path | None, file: SegmentFile) -> bytes:
    assert folder is not None
    with open_plain(folder / file.segment) as content:
        content.seek(max(file.size_bytes - 4, 0))
        return content.read(4)


def _remote_tails(spark: SparkSession, paths: list[str]) -> dict[tuple[str, str], bytes]:
    files = spark.read.format("binaryFile").load(paths)
    tails = {}
    for row in files.select("path", F.substring("content", -4, 4).alias("tail")).collect():
        folder, _, name = row["path"].rpartition("/")
        tails[folder.rpartition("/")[2], name] = bytes(row["tail"])
    return tails


def fingerprints(files: list[SegmentFile]) -> dict[str, str]:
    """Return a text per session that changes whenever a segment is added or grows."""
    marks, by_session = {}, attrgetter("session")
    for session, session_files in groupby(sorted(files, key=by_session), by_session):
        parts = sorted(f"{file.segment}:{file.size_bytes}" for file in session_files)
        mark = hashlib.sha256("|".join(parts).encode()).hexdigest()
        marks[session] = f"{PIPELINE_VERSION}:{mark}"
    return marks


def is_current(fingerprint: str) -> bool:
    """Return whether silver tables were made by the current pipeline version."""
    return fingerprint.startswith(f"{PIPELINE_VERSION}:")


def current_segments(files: list[SegmentFile]) -> list[SegmentFile]:
    """Return the files without open segments that also exist sealed, as after a crash."""
    sealed = {(file.session, file.segment) for file in files if file.segment.endswith(".gz")}
    return [file for file in files if (file.session, f"{file.segment}.gz") not in sealed]
