"""Write the lines of new and changed segments into bronze, once; those of the others stay.

A piece of bronze holds segments that one run has read, of one session or of many small ones. It is
written complete, with the list of its segments last, and dropped complete: when one of them has
changed or is gone, the others of its piece are read again. A segment that is being recorded lies
in a piece apart, so that of a session that grows only what is new is read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from pyspark.sql import DataFrame, Row

from natstui.analysis.bronze.files import (
    PIPELINE_VERSION,
    SEGMENT_FILE,
    SegmentFile,
    current_segments,
    with_promise,
)
from natstui.analysis.bronze.lines import line_schema, read_lines
from natstui.analysis.bronze.sources import Source
from natstui.analysis.folders import glob_escaped
from natstui.analysis.spark.store import Store
from natstui.units import bytes_text, counted

LINE = "line"
"""Name of the table of bronze that has all lines."""
MOST_SEGMENTS = 20_000
"""The segments that are read at a time: their names are in the plan, in the driver's memory."""

Step = Callable[[str], None]


def build_bronze(
    store: Store, sources: list[Source], files: list[SegmentFile], step: Step
) -> tuple[DataFrame, DataFrame]:
    """Bring bronze up to date with these files, which are the segments of the sources.

    Returns the rows of `line` and of `segment` of the sessions.
    """
    files = current_segments(files)
    store.tidy_bronze(SEGMENT_FILE.name, LINE)
    stay, drop = _pieces(store, files)
    for table in (SEGMENT_FILE.name, LINE):
        store.drop_bronze(table, drop)
    known = {(row["session"], row["segment"]) for rows in stay.values() for row in rows}
    read = [file for file in files if (file.session, file.segment) not in known]
    folders = {source.session: source for source in sources}
    size = bytes_text(sum(file.size_bytes for file in read))
    step(f"reading {len(read):,} of {counted(f'{len(files):,}', 'segment')}, {size}")
    pieces = set(stay)
    for number, chunk in enumerate(_chunks(read)):
        promised = with_promise(store.spark, chunk, folders)
        paths = [f"{folders[f.session].folder}/{glob_escaped(f.segment)}" for f in chunk]
        store.write_bronze(LINE, read_lines(store.spark, paths), number)
        # Last: a piece without its list is not there.
        store.write_bronze(SEGMENT_FILE.name, store.known_rows(SEGMENT_FILE, promised), number)
        pieces |= {store.piece_of(file.session, file.segment, number) for file in chunk}
    names = list(folders)
    return (
        store.bronze(LINE, line_schema(), pieces, names),
        store.bronze(SEGMENT_FILE.name, SEGMENT_FILE.ddl(), pieces, names),
    )


def _pieces(store: Store, files: list[SegmentFile]) -> tuple[dict[str, list[Row]], set[str]]:
    """Return the pieces whose segments are as they are now, and those to be dropped."""
    now = {(file.session, file.segment): file.size_bytes for file in files}
    known = store.pieces_of(SEGMENT_FILE, sorted({file.session for file in files}))

    def is_same(row: Row) -> bool:
        size_bytes: int = row["size_bytes"]
        is_of_now: bool = row["pipeline_version"] == PIPELINE_VERSION
        return is_of_now and now.get((row["session"], row["segment"])) == size_bytes

    stay = {piece: rows for piece, rows in known.items() if all(map(is_same, rows))}
    return stay, known.keys() - stay.keys()


def _chunks(files: list[SegmentFile]) -> Iterator[list[SegmentFile]]:
    """Yield segments, those of a session together, so many that a driver can list them."""
    for start in range(0, len(files), MOST_SEGMENTS):
        yield files[start : start + MOST_SEGMENTS]
