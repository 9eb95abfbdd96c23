"""The files of records of the sessions: how long they are, and whether that has changed."""

from __future__ import annotations

import fnmatch
import hashlib
import os
from collections import Counter
from collections.abc import Iterable, Iterator
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from natstui.analysis.folders import files_of
from natstui.analysis.silver.sources import Source, reads_here
from natstui.analysis.tables import SESSION, Table, columns
from natstui.files import open_plain

PIPELINE_VERSION = 8
"""Raised when silver tables of older runs must be made again."""

FILES = "records-*.jsonl*"
"""The names of the files of records."""
SEGMENT_FILE = Table(
    "file",
    "The files of records.",
    columns(
        SESSION,
        ("segment", "string", "File name"),
        ("size_bytes", "bigint", "Size on disk"),
        ("promised_bytes", "bigint", "Uncompressed size that a sealed file ends with"),
    ),
)


class SegmentFile(NamedTuple):
    """One file of records.

    `promised_bytes` is the uncompressed length (modulo 2³²) with which the last member of a gzip
    file ends; None for the open segment. In a file cut off it is noise, rarely a small number.
    """

    session: str
    segment: str
    size_bytes: int
    promised_bytes: int | None


def segment_files(spark: SparkSession, sources: Iterable[Source]) -> list[SegmentFile]:
    """Return the files of records of sessions."""
    found: list[SegmentFile] = []
    away = []
    for source in sources:
        if source.path is not None and reads_here(spark):
            found += _files_here(source.session, source.path)
        else:
            away.append(source.folder)
    return found + (_files_away(spark, away) if away else [])


def _files_here(session: str, folder: Path) -> Iterator[SegmentFile]:
    for name in fnmatch.filter(files_of(str(folder)), FILES):
        with open_plain(folder / name) as file:
            size_bytes, promised_bytes = file.seek(0, os.SEEK_END), None
            if name.endswith(".gz"):
                file.seek(max(size_bytes - 4, 0))
                promised_bytes = _promised_bytes(size_bytes, file.read(4))
        yield SegmentFile(session, name, size_bytes, promised_bytes)


def _promised_bytes(size_bytes: int, tail: bytes) -> int:
    # A shorter file is not even an empty one: more than any promises.
    return 2**33 if size_bytes < 18 else int.from_bytes(tail, "little")


def _files_away(spark: SparkSession, folders: list[str]) -> list[SegmentFile]:
    files = spark.read.format("binaryFile").load([f"{f}/{FILES}" for f in folders])
    tail = F.substring(F.col("content"), -4, 4).alias("tail")
    found = []
    for row in files.select("path", "length", tail).collect():
        folder, _, name = row["path"].rpartition("/")
        sealed, size_bytes = name.endswith(".gz"), row["length"]
        promised_bytes = _promised_bytes(size_bytes, bytes(row["tail"])) if sealed else None
        session = folder.rpartition("/")[2]
        found.append(SegmentFile(session, name, size_bytes, promised_bytes))
    return found


def fingerprints(files: list[SegmentFile]) -> dict[str, str]:
    """Return, per session, a text that changes whenever a segment is added or grows."""
    found, by_session = {}, attrgetter("session")
    for session, its in groupby(sorted(files, key=by_session), by_session):
        parts = sorted(f"{file.segment}:{file.size_bytes}" for file in its)
        mark = hashlib.sha256("|".join(parts).encode()).hexdigest()
        found[session] = f"{PIPELINE_VERSION}:{mark}"
    return found


def is_of_now(fingerprint: str) -> bool:
    """Return whether silver tables were made as this version makes them."""
    return fingerprint.startswith(f"{PIPELINE_VERSION}:")


def doubled_segments(files: list[SegmentFile]) -> list[str]:
    """Return plain segments that are sealed too, as `session/file`: a crash came in between."""
    plain = Counter(f"{file.session}/{file.segment.removesuffix('.gz')}" for file in files)
    return [name for name, count in plain.items() if count > 1]
