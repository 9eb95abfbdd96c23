"""Which gold rows are the same in this tree, and in another that NATSTUI_BENCH_BASE names.

    NATSTUI_BENCH_BASE=../base python -m benchmarks same_gold

The other tree has an environment of its own, as for `paired`. Both analyse the same recordings: a
small generated session, the three with planted faults of the tests, and the folder that
`NATSTUI_BENCH_SESSION` names. Of each table it is printed how many rows are the same, and of each
column in how many rows it differs, with an example.
"""

from __future__ import annotations

import math
import os
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from benchmarks._sessions import write_session
from benchmarks.analysis import SMALL, measured
from benchmarks.paired import base_tree
from natstui.analysis.gold.build import TABLES
from natstui.analysis.spark.session import SparkSettings, open_session
from tests.analysis.planted import write_planted

Row = dict[str, Any]
KEYS = {table.name: table.key for table in TABLES} | {
    # The position of a row is no identity: one row more would move all that follow.
    "busiest": ("session", "bucket_at_us"),
    "picture": ("session", "stream", "consumer", "bucket_at_us"),
    "verdict": ("session", "kind", "subject"),
}
RENAMED = {
    "availability": {"value_count": "value"},
    "bench_knee": {"level_count": "level"},
    "busiest": {"busiest_count": "rank"},
    "hour": {"worst_count": "rank"},
    "picture": {"rank_count": "rank"},
    "verdict": {"rank_count": "rank", "weight_count": "weight"},
}
"""Table → the name of a column in older trees, and its present one."""


def recordings(root: Path) -> Iterator[tuple[str, Path]]:
    """Write the recordings; yield the name of each group and the pattern of its folders."""
    yield "small", write_session(root / "small", SMALL)
    write_planted(root / "planted")
    yield "planted", root / "planted" / "*"
    if named := os.environ.get("NATSTUI_BENCH_SESSION"):
        yield named, Path(named)


def compare_tables(spark: SparkSession, here: Path, base: Path) -> Iterator[str]:
    """Yield the lines about all tables of two output folders."""
    ours, theirs = (
        {path.name: path for path in (out / "gold").glob("[a-z]*")} for out in (here, base)
    )
    for name in KEYS:
        if name not in theirs:
            yield f"{name}: only here"
            continue
        frames = (spark.read.parquet(str(tables[name])) for tables in (ours, theirs))
        sides = [frame.withColumnsRenamed(RENAMED.get(name, {})) for frame in frames]
        rows = [[row.asDict() for row in side.collect()] for side in sides]
        columns = [_without_timestamps(side.columns) for side in sides]
        yield from _compare_rows(name, *columns, *rows)
    yield from (f"{name}: only in the base" for name in theirs.keys() - KEYS.keys())


def _without_timestamps(columns: list[str]) -> list[str]:
    """Return the columns without those that repeat a time in microseconds."""
    return [column for column in columns if f"{column}_us" not in columns]


def _compare_rows(
    name: str, ours: list[str], theirs: list[str], rows: list[Row], others: list[Row]
) -> Iterator[str]:
    key = [column for column in KEYS[name] if column in theirs]
    here, base = _by_key(rows, key), _by_key(others, key)
    pairs = [(here[at], base[at]) for at in here if at in base]
    columns = [column for column in ours if column in theirs]
    different = {
        column: [pair for pair in pairs if not _is_same(*(row[column] for row in pair))]
        for column in columns
    }
    different_rows = {id(row) for many in different.values() for row, _ in many}
    same_count = len(pairs) - len(different_rows)
    yield f"{name}: {len(here)} rows here, {len(base)} in the base, {same_count} the same"
    for side, names in (("here", {*ours} - {*theirs}), ("in the base", {*theirs} - {*ours})):
        if names:
            yield f"  columns only {side}: {', '.join(sorted(names))}"
    for side, some, all_others in (("here", here, base), ("in the base", base, here)):
        if alone := [row for at, row in some.items() if at not in all_others]:
            known = {column: value for column, value in alone[0].items() if value is not None}
            yield f"  rows only {side}: {len(alone)}, as {known}"
    for column, many in different.items():
        if many:
            row, other = many[0]
            at = ", ".join(str(row[part]) for part in key)
            example = f"{row[column]!r} here and {other[column]!r} there"
            yield f"  {column}: {len(many)} differ, as {example} at {at}"


def _by_key(rows: list[Row], key: list[str]) -> dict[tuple[Any, ...], Row]:
    """Return the rows by their key, and the number of earlier rows that have the same one."""
    found: dict[tuple[Any, ...], Row] = {}
    counts = Counter[tuple[Any, ...]]()
    for row in sorted(rows, key=str):
        at = tuple(row[column] for column in key)
        found[*at, counts[at]] = row
        counts[at] += 1
    return found


def _is_same(value: object, other: object) -> bool:
    if isinstance(value, float) and isinstance(other, float):
        return math.isclose(value, other, rel_tol=1e-9, abs_tol=1e-9)
    return value == other


def main() -> None:
    """Analyse all recordings with both trees, and compare their tables."""
    base = base_tree()
    if base is None:
        return
    with tempfile.TemporaryDirectory(prefix="natstui-bench-") as place:
        root = Path(place)
        spark = open_session(SparkSettings(root / "scratch", "local[2]", size_bytes=0))
        for number, (name, pattern) in enumerate(recordings(root)):
            outs = root / f"here-{number}", root / f"base-{number}"
            measured(pattern, outs[0])
            measured(pattern, outs[1], tree=base)
            print(f"== {name}", flush=True)
            for line in compare_tables(spark, *outs):
                print(line, flush=True)
        spark.stop()


if __name__ == "__main__":
    main()
