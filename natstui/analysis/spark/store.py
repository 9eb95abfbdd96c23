"""Storage of the tables: bronze and silver in pieces; gold in a folder that replaces the old.

On any file system that Hadoop knows.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column as ColumnOfSpark
from pyspark.sql import DataFrame, DataFrameWriter, Observation, Row, SparkSession
from pyspark.sql import functions as F

from natstui.analysis.folders import FINGERPRINT, WRITTEN, glob_escaped, not_own_tables
from natstui.analysis.tables import DAY, SERVER, Table, dictionary, looked_up
from natstui.errors import AnalysisError

_ESCAPED = re.compile(r"[\x01-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
_NOTHING = "__HIVE_DEFAULT_PARTITION__"
"""Spark's name for the folder of rows without a value."""
_END_US = 253_402_300_800_000_000
"""The year 10000: a day from then on, or before 1970, comes of a damaged recording."""


def part_folder(name: str, value: str | None) -> str:
    """Return the name that Spark gives to the folder of the rows with a value."""
    if not value:
        return f"{name}={_NOTHING}"
    return f"{name}=" + _ESCAPED.sub(lambda found: f"%{ord(found[0]):02X}", value)


def with_places(table: Table, rows: DataFrame, servers: Mapping[str, str]) -> DataFrame:
    """Return stored rows with their day and server, each of which has a folder; `servers` are
    those of sessions.

    A query about one of them, in a month of recordings of many servers, reads only its own files.
    """
    at_us = F.col(table.day_of)
    day = F.when(at_us.between(0, _END_US - 1), F.to_date(F.timestamp_micros(at_us)))
    server = looked_up(F.col("session"), servers)
    return rows.withColumns({DAY: day.cast("string"), SERVER: server})


PART = "piece"
"""Names the folders of a table of bronze or silver: rows written, and dropped, together."""


def _partition(part: str) -> str:
    return part_folder(PART, part)


class Files:
    """The few file operations needed, on any file system Hadoop knows."""

    def __init__(self, jvm: Any, configuration: Any, root: str) -> None:
        # Looked up once: the JVM searches all its jars for each part of the name.
        self._path = jvm.org.apache.hadoop.fs.Path
        self._system = self._path(root).getFileSystem(configuration)

    def exists(self, path: str) -> bool:
        """Return whether there is such a path."""
        return bool(self._system.exists(self._path(path)))

    def delete(self, path: str) -> None:
        """Delete a path with all that is in it, if it is there."""
        self._system.delete(self._path(path), True)

    def rename(self, source: str, target: str) -> None:
        """Rename a folder; raises OSError."""
        if not self._system.rename(self._path(source), self._path(target)):
            raise OSError(f"cannot rename {source} to {target}")

    def glob(self, pattern: str) -> list[str]:
        """Return the paths that match."""
        found = self._system.globStatus(self._path(pattern))
        return [status.getPath().toString() for status in found or []]

    def write_text(self, path: str, text: str) -> None:
        """Write a small file."""
        stream = self._system.create(self._path(path), True)
        stream.write(bytearray(text.encode()))
        stream.close()


def file_system(spark: SparkSession, root: str) -> Files | None:
    """Return the file system of a path or URL; None over Spark Connect, which has no way to it."""
    jvm = getattr(spark, "_jvm", None)
    jsc = getattr(spark, "_jsc", None)
    return Files(jvm, jsc.hadoopConfiguration(), root) if jvm is not None and jsc else None


_SEALED = ".gz"
_OPEN = ".open"
"""Ends the name of a piece of bronze with segments that are still recorded."""
_OLD = ".old"
_STAGING = ".spark-staging-"
"""Begins the name of a folder of bronze or silver that is being written."""
_LEFT = re.compile(r"/(gold\.[0-9a-f]{8}(\.old)?|rows\.[0-9a-f]{8})$")
"""Names of the folders of a run: `tidy` removes nothing else."""


class Store:
    """A folder or URL with `bronze/`, `silver/` and `gold/`.

    Bronze consists of pieces, each of segments that one run has read; none is written again.
    Silver consists of parts, each of one session or of many small ones that were read together;
    Spark itself replaces one at a time (staged, then renamed).
    Gold is written to a folder of the run, which `publish` renames, so that a run that fails
    leaves the old tables. Spark Connect has no file system API: there gold is overwritten table by
    table, without a dictionary, and a run that fails leaves new tables beside old ones.
    """

    def __init__(self, spark: SparkSession, root: str, run: str) -> None:
        self.spark = spark
        self.root = root.rstrip("/")
        self._files = file_system(spark, self.root)
        self._run = run
        self._run_folder = f"{self.root}/gold.{run}" if self._files else f"{self.root}/gold"
        self._gold = self._run_folder
        self._rows_folder = f"{self.root}/rows.{run}"
        self._rows_count = 0
        self._empty: set[str] = set()
        self._read: dict[str, DataFrame] = {}
        self._parts: dict[str, str] = {}
        self._new: dict[str, str] = {}
        self.format: str = spark.conf.get("spark.sql.sources.default", "parquet") or "parquet"
        """What gold is written as: Spark's own setting decides; silver is Parquet."""
        self.servers: dict[str, str] = {}
        """What was recorded, by session: a cluster, or a server without one."""

    def known_rows(self, table: Table, rows: Sequence[tuple[Any, ...]]) -> DataFrame:
        """Return rows that are known here as a table: through a file of JSON lines.

        `createDataFrame` would start a Python worker beside the JVM to read them; over Spark
        Connect, which has no file system API, it does not.
        """
        if not rows:
            return table.no_rows(self.spark)
        if self._files is None:
            return self.spark.createDataFrame([*rows], table.ddl())
        names = [column.name for column in table.columns]
        lines = (json.dumps(dict(zip(names, row, strict=True))) for row in rows)
        self._rows_count += 1
        path = f"{self._rows_folder}/{table.name}-{self._rows_count}.json"
        self._files.write_text(path, "\n".join(lines))
        return self.spark.read.schema(table.ddl()).json(path, mode="FAILFAST")

    def has_silver(self, table: Table) -> bool:
        """Return whether the table was ever written."""
        return self._has(f"{self.root}/silver/{table.name}")

    def _has(self, folder: str) -> bool:
        if self._files is None:
            return bool(_readable(self.spark, folder))
        return bool(self._files.exists(folder))

    def part_of_many(self, count: int) -> str:
        """Return the name of a part of this run that no session can have."""
        return f"{self._run}/{count}"

    def know_parts(self, parts: Mapping[str, str], new: Iterable[str]) -> None:
        """Know in which part the rows of every session are, or go: those of the new ones."""
        self._parts = dict(parts)
        self._new = {session: parts[session] for session in new}

    def _part(self) -> ColumnOfSpark:
        """Return the part in which the rows of a new session lie."""
        part = F.col("session")
        for of_many in {name for session, name in self._new.items() if name != session}:
            alone = [session for session, name in self._new.items() if name == session]
            part = F.when(part.isin(alone), part).otherwise(of_many) if alone else F.lit(of_many)
        return part

    def _write_pieces(self, rows: DataFrame, folder: str) -> None:
        writer = rows.write.mode("overwrite").partitionBy(PART)
        writer.option("partitionOverwriteMode", "dynamic").parquet(folder)

    def write_silver(self, table: Table, rows: DataFrame) -> None:
        """Write the parts of the sessions in `rows` anew."""
        rows = table.contract(rows).withColumn(PART, self._part())
        if len({*self._new.values()}) > 1:
            # As few files in each part as its size asks for, and not one of each task.
            rows = rows.hint("rebalance", PART)
        self._write_pieces(rows, f"{self.root}/silver/{table.name}")

    def write_bronze(self, table: str, rows: DataFrame, number: int) -> None:
        """Write pieces of bronze that are new: sealed segments, and those that are open, apart.

        `rows` have a session and a segment; `number` tells the writes of a run apart.
        """
        is_open = F.when(F.col("segment").endswith(_SEALED), "").otherwise(_OPEN)
        piece = F.concat(self._part(), F.lit(f"/{self._run}-{number}"), is_open)
        self._write_pieces(rows.withColumn(PART, piece), f"{self.root}/bronze/{table}")

    def piece_of(self, session: str, segment: str, number: int) -> str:
        """Return in which piece `write_bronze` puts a segment."""
        is_open = "" if segment.endswith(_SEALED) else _OPEN
        return f"{self._new[session]}/{self._run}-{number}{is_open}"

    def bronze(self, table: str, ddl: str, pieces: set[str], sessions: list[str]) -> DataFrame:
        """Return the rows of sessions in pieces of a table of bronze; no other piece is opened.

        A run that was killed may have left others.
        """
        reader = self.spark.read.schema(f"{ddl}, {PART} string")
        rows = reader.parquet(f"{self.root}/bronze/{table}").where(F.col(PART).isin(pieces))
        return rows.where(F.col("session").isin(sessions)).drop(PART)

    def pieces_of(self, table: Table, sessions: list[str]) -> dict[str, list[Row]]:
        """Return all rows of the pieces of bronze in which there are some of sessions."""
        if not self._has(f"{self.root}/bronze/{table.name}"):
            return {}
        reader = self.spark.read.schema(f"{table.ddl()}, {PART} string")
        rows = reader.parquet(f"{self.root}/bronze/{table.name}")
        of_sessions = rows.where(F.col("session").isin(sessions)).select(PART).distinct()
        found: dict[str, list[Row]] = {}
        for row in rows.join(F.broadcast(of_sessions), PART, "left_semi").collect():
            found.setdefault(row[PART], []).append(row)
        return found

    def drop_bronze(self, table: str, pieces: set[str]) -> None:
        """Remove pieces of bronze."""
        for piece in pieces:
            folder = f"{self.root}/bronze/{table}/{_partition(piece)}"
            if self._files is not None:
                self._files.delete(folder)
            elif self._has(folder):
                # Nothing can be deleted there: a piece without rows takes its place.
                rows = self.spark.read.parquet(folder)
                rows.limit(0).write.mode("overwrite").parquet(folder)

    def tidy_bronze(self, whole: str, table: str) -> None:
        """Remove the pieces of a table that the table `whole`, which is written last, has not."""
        if self._files is None:
            return
        root = glob_escaped(f"{self.root}/bronze")
        names = {path.rpartition("/")[2] for path in self._files.glob(f"{root}/{whole}/*=*")}
        for path in self._files.glob(f"{root}/{table}/*=*"):
            if path.rpartition("/")[2] not in names:
                self._files.delete(path)

    def drop_silver(self, table: Table, parts: set[str]) -> None:
        """Remove all but these parts."""
        folder = f"{self.root}/silver/{table.name}"
        if self._files is None:
            for part in self._written(table) - parts:
                # Nothing can be deleted there: a part without rows takes its place.
                nothing = table.no_rows(self.spark)
                nothing.write.mode("overwrite").parquet(f"{folder}/{_partition(part)}")
            return
        kept = set(map(_partition, parts))
        for path in self._files.glob(f"{glob_escaped(folder)}/*=*"):
            if path.rpartition("/")[2] not in kept:
                self._files.delete(path)

    def _written(self, table: Table) -> set[str]:
        """Return the parts of a table that have rows."""
        if not self.has_silver(table):
            return set()
        reader = self.spark.read.schema(f"{table.ddl()}, {PART} string")
        rows = reader.parquet(f"{self.root}/silver/{table.name}").select(PART).distinct()
        return {row[PART] for row in rows.collect()}

    def silver(self, table: Table, sessions: list[str] | None) -> DataFrame:
        """Return the rows of sessions, or of all, in the columns of the table.

        A table no session ever had rows for is not there; Spark knows then that it is empty.
        """
        if not self.has_silver(table):
            return table.no_rows(self.spark)
        # Named here too: where all parts are gone, Spark would not know of any.
        reader = self.spark.read.schema(f"{table.ddl()}, {PART} string")
        rows = reader.parquet(f"{self.root}/silver/{table.name}")
        if sessions is not None:
            parts = {self._parts[session] for session in sessions if session in self._parts}
            if parts:
                rows = rows.where(F.col(PART).isin(parts))
            if {session for session, part in self._parts.items() if part in parts} != {*sessions}:
                rows = rows.where(F.col("session").isin(sessions))
        return rows.select([column.name for column in table.columns])

    def write_gold(self, table: Table, rows: DataFrame) -> None:
        """Write a table into the folder of this run: readers read the file, not all before it.

        What Spark counts on the way tells whether there is anything to read.
        """
        self._read.pop(table.name, None)
        counted = Observation()
        stored = table.stored(rows).observe(counted, F.count(F.lit(1)).alias("n"))
        folder = f"{self._run_folder}/{table.name}"
        if table.day_of:
            placed = with_places(table, stored, self.servers)
            # As few files in each folder as there can be, and as many as its size asks for.
            placed = placed.hint("rebalance", DAY, SERVER)
            self._save(placed.write.partitionBy(DAY, SERVER), folder)
        else:
            self._save(stored.write, folder)
        self._empty.discard(table.name)
        if not counted.get["n"]:
            self._empty.add(table.name)
            if table.day_of:
                # A table in folders without one has no file that tells its columns.
                self._save(table.stored(table.no_rows(self.spark)).write, folder)

    def _save(self, writer: DataFrameWriter, folder: str) -> None:
        writer.mode("overwrite").format(self.format).save(folder)

    def write_no_gold(self, table: Table) -> None:
        """Write a table without rows, of which nothing has to be read again."""
        self._read.pop(table.name, None)
        nothing = table.stored(table.no_rows(self.spark))
        self._save(nothing.write, f"{self._run_folder}/{table.name}")
        self._empty.add(table.name)

    def is_empty(self, table: Table) -> bool:
        """Return whether this run knows, without a look, that it wrote no row of a table."""
        return table.name in self._empty

    def gold(self, table: Table) -> DataFrame:
        """Return a table written in this run, or kept by it."""
        if self.is_empty(table):
            return table.no_rows(self.spark)
        if table.name not in self._read:
            reader = self.spark.read.format(self.format)
            if self.format == "parquet":
                # To find it in the files takes a job; other formats may keep their own.
                reader = reader.schema(table.ddl())
            rows = reader.load(f"{self._gold}/{table.name}")
            self._read[table.name] = rows.select([column.name for column in table.columns])
        return self._read[table.name]

    def keep_gold(self, tables: tuple[Table, ...], fingerprint: str) -> bool:
        """Keep the published tables if they are all there and have this fingerprint."""
        gold, mark = f"{self.root}/gold", f"{FINGERPRINT}{self.format}-{fingerprint}"
        if self._files is None or not self._files.exists(f"{gold}/{mark}"):
            return False
        if not all(self._is_written(f"{gold}/{table.name}") for table in tables):
            return False
        self._gold = gold
        return True

    def _is_written(self, folder: str) -> bool:
        assert self._files is not None
        return any(self._files.exists(f"{folder}/{mark}") for mark in WRITTEN)

    def publish(self, tables: tuple[Table, ...], fingerprint: str) -> None:
        """Replace the published gold tables by those of this run, with their dictionary."""
        if self._files is None:
            return
        self._files.write_text(f"{self._run_folder}/DICTIONARY.md", dictionary(tables))
        mark = f"{FINGERPRINT}{self.format}-{fingerprint}"
        self._files.write_text(f"{self._run_folder}/{mark}", "")
        gold, old = f"{self.root}/gold", f"{self._run_folder}{_OLD}"
        if self._files.exists(gold):
            self._files.rename(gold, old)
        self._files.rename(self._run_folder, gold)
        self._files.delete(old)

    def tidy(self) -> None:
        """Remove the folders of killed runs, and put back tables that one of them had moved.

        Only with the folder locked: it would also remove what another run is writing.
        """
        if self._files is None:
            return
        gold = f"{self.root}/gold"
        root = glob_escaped(self.root)
        folders = [*self._files.glob(f"{root}/gold.*"), *self._files.glob(f"{root}/rows.*")]
        for left in filter(_LEFT.search, folders):
            if left.endswith(_OLD) and not self._files.exists(gold):
                self._files.rename(left, gold)
            else:
                self._files.delete(left)
        self._drop_staging()

    def check_own(self) -> None:
        """Raise AnalysisError where there are tables that no analysis has written."""
        gold = f"{self.root}/gold"
        if self._files is None or not self._files.exists(gold):
            return
        if not self._files.glob(f"{glob_escaped(gold)}/{FINGERPRINT}*"):
            raise AnalysisError(not_own_tables(self.root, ["gold"]))

    def discard(self) -> None:
        """Remove the folder of this run, if it was not published."""
        if self._files is None:
            return
        self._files.delete(self._run_folder)
        self._files.delete(self._rows_folder)
        self._drop_staging()

    def _drop_staging(self) -> None:
        assert self._files is not None
        for staging in self._files.glob(f"{glob_escaped(self.root)}/*/*/{_STAGING}*"):
            self._files.delete(staging)


def _readable(spark: SparkSession, path: str) -> bool:
    from pyspark.errors import AnalysisException

    try:
        return bool(spark.read.parquet(path).columns)
    except AnalysisException:
        return False
