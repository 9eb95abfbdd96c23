"""The record files of sessions, their sizes, and the fingerprints of these sizes."""

from __future__ import annotations

import fnmatch
import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from natstui.analysis.bronze.schema import KEYFRAME, LINE_KINDS
from natstui.analysis.bronze.sources import SessionSource, can_read_local_files
from natstui.analysis.folders import escape_glob, session_file_names
from natstui.analysis.tables import SESSION_COLUMN, Table, columns
from natstui.files import open_regular_file

PIPELINE_VERSION = 14
"""Version of bronze and silver; increase it to rebuild the tables of older versions."""

RECORD_FILES = "records-*.jsonl*"
"""Glob of the record files."""
INDEX_FILE = "index.jsonl"
"""File with the content of each sealed segment; it may be missing."""
_MAX_INDEX_LINE_BYTES = 4 << 20
SEGMENT_FILE = Table(
    "segment",
    "Record files whose lines are in the bronze tables; written last.",
    columns(
        SESSION_COLUMN,
        ("segment", "string", "File name"),
        ("size_bytes", "bigint", "Size on disk"),
        ("promised_bytes", "bigint", "Uncompressed size, as written at the end of the gzip file"),
        ("pipeline_version", "bigint", "Version of the analysis that read the file"),
        ("kinds", "string", "Kinds of lines in the files that were read with it"),
    ),
)


class SegmentFile(NamedTuple):
    """A record file of a session, with its size on disk."""

    session: str
    segment: str
    size_bytes: int


def segment_files(spark: SparkSession, sources: Iterable[SessionSource]) -> list[SegmentFile]:
    """Return the record files of sessions, sorted by session and file name."""
    files: list[SegmentFile] = []
    remote_folders = []
    for source in sources:
        if source.path is not None and can_read_local_files(spark):
            for name in fnmatch.filter(session_file_names(str(source.path)), RECORD_FILES):
                size_bytes = os.stat(source.path / name).st_size
                files.append(SegmentFile(source.session, name, size_bytes))
        else:
            remote_folders.append(source.folder)
    return sorted(files + (_remote_files(spark, remote_folders) if remote_folders else []))


def _remote_files(spark: SparkSession, folders: list[str]) -> list[SegmentFile]:
    rows = spark.read.format("binaryFile").load([f"{f}/{RECORD_FILES}" for f in folders])
    files = []
    for row in rows.select("path", "length").collect():
        folder, _, name = row["path"].rpartition("/")
        files.append(SegmentFile(folder.rpartition("/")[2], name, row["length"]))
    return files


def indexed_kinds(
    files: list[SegmentFile], sources: Mapping[str, SessionSource]
) -> tuple[set[str], list[SegmentFile]]:
    """Return the known kinds of lines in `files` by their indexes, and the files without one.

    `sources` are by session. Only local sessions have an index here; it describes a file whose
    size it has.
    """
    kinds: set[str] = set()
    files_without_index: list[SegmentFile] = []
    get_session = attrgetter("session")
    for session, session_files in groupby(files, get_session):
        kinds_by_file = _read_index(sources[session])
        for file in session_files:
            file_kinds = kinds_by_file.get((file.segment, file.size_bytes))
            if file_kinds is None:
                files_without_index.append(file)
            else:
                kinds |= file_kinds
    return kinds.intersection(LINE_KINDS), files_without_index


def _read_index(source: SessionSource) -> dict[tuple[str, int], set[str]]:
    """Return name and size of a sealed segment → kinds of its lines, from index.jsonl.

    Invalid lines, and segments with damaged lines, are left out; empty without the file.
    """
    kinds_by_file: dict[tuple[str, int], set[str]] = {}
    if source.path is None:
        return kinds_by_file
    try:
        with open_regular_file(source.path / INDEX_FILE) as index_file:
            for line in iter(lambda: index_file.readline(_MAX_INDEX_LINE_BYTES), b""):
                kinds_by_file |= _parse_index_line(line)
    except OSError:
        return {}
    return kinds_by_file


def _parse_index_line(line: bytes) -> dict[tuple[str, int], set[str]]:
    try:
        index = json.loads(line)
        segment = f"records-{index['number']:06d}.jsonl.gz"
        has_kinds = index["records_count"] and not index["damaged_lines_count"]
        # The index does not count the keyframe, with which every segment begins.
        kinds = {*index["records_count"], KEYFRAME}
        return {(segment, index["size_bytes"]): kinds} if has_kinds else {}
    except (ValueError, KeyError, TypeError, RecursionError):
        return {}


def segment_file_rows(
    spark: SparkSession,
    files: list[SegmentFile],
    sources: Mapping[str, SessionSource],
    kinds: Iterable[str],
) -> list[tuple[str, str, int, int | None, int, str]]:
    """Return rows of `SEGMENT_FILE`, with the uncompressed size modulo 2³² from a gzip file's end.

    The size is None for an open segment, and arbitrary for a file that was cut off. `sources` are
    by session; `kinds` are the kinds of lines that occur in the files together.
    """
    sealed_files = [file for file in files if file.segment.endswith(".gz")]
    local_files = [
        file for file in sealed_files if sources[file.session].path and can_read_local_files(spark)
    ]
    last_bytes_by_file = {
        (file.session, file.segment): _read_last_4_bytes(sources[file.session].path, file)
        for file in local_files
    }
    remote_files = [
        f"{sources[file.session].folder}/{escape_glob(file.segment)}"
        for file in sealed_files
        if (file.session, file.segment) not in last_bytes_by_file
    ]
    last_bytes_by_file |= _read_remote_last_4_bytes(spark, remote_files) if remote_files else {}

    def uncompressed_bytes(file: SegmentFile) -> int | None:
        if not file.segment.endswith(".gz"):
            return None
        # Even an empty gzip file has 18 bytes: this size is larger than any real one.
        tail = last_bytes_by_file[file.session, file.segment]
        return 2**33 if file.size_bytes < 18 else int.from_bytes(tail, "little")

    kinds_text = " ".join(sorted(kinds))
    return [(*file, uncompressed_bytes(file), PIPELINE_VERSION, kinds_text) for file in files]


def _read_last_4_bytes(folder: Path | None, file: SegmentFile) -> bytes:
    assert folder is not None
    with open_regular_file(folder / file.segment) as segment_file:
        segment_file.seek(max(file.size_bytes - 4, 0))
        return segment_file.read(4)


def _read_remote_last_4_bytes(
    spark: SparkSession, paths: list[str]
) -> dict[tuple[str, str], bytes]:
    files = spark.read.format("binaryFile").load(paths)
    last_bytes_by_file = {}
    for row in files.select("path", F.substring("content", -4, 4).alias("tail")).collect():
        folder, _, name = row["path"].rpartition("/")
        last_bytes_by_file[folder.rpartition("/")[2], name] = bytes(row["tail"])
    return last_bytes_by_file


def session_fingerprints(files: list[SegmentFile]) -> dict[str, str]:
    """Return session → text that changes with the pipeline version and with every file size."""
    fingerprint_by_session, get_session = {}, attrgetter("session")
    for session, session_files in groupby(sorted(files, key=get_session), get_session):
        file_sizes = sorted(f"{file.segment}:{file.size_bytes}" for file in session_files)
        fingerprint = hashlib.sha256("|".join(file_sizes).encode()).hexdigest()
        fingerprint_by_session[session] = f"{PIPELINE_VERSION}:{fingerprint}"
    return fingerprint_by_session


def is_current_fingerprint(fingerprint: str) -> bool:
    """Return whether silver tables with this fingerprint are of the current pipeline version."""
    return fingerprint.startswith(f"{PIPELINE_VERSION}:")


def current_segments(files: list[SegmentFile]) -> list[SegmentFile]:
    """Return the files except open segments that are also sealed, as after a crash."""
    sealed_files = {(file.session, file.segment) for file in files if file.segment.endswith(".gz")}
    return [file for file in files if (file.session, f"{file.segment}.gz") not in sealed_files]
