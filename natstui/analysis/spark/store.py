"""Storage of the tables on any file system of Hadoop.

Bronze and silver are stored in pieces; gold in a folder that replaces the old one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from pyspark.sql import Column as ColumnOfSpark
from pyspark.sql import DataFrame, DataFrameWriter, Observation, Row, SparkSession
from pyspark.sql import functions as F

from natstui.analysis.folders import FINGERPRINT, WRITTEN, escape_glob, not_own_tables
from natstui.analysis.tables import DAY, SERVER, Table, dictionary, look_up
from natstui.errors import AnalysisError

_ESCAPED = re.compile(r"[\x01-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
_NOTHING = "__HIVE_DEFAULT_PARTITION__"
"""Spark's name of the folder for rows without a value."""
_END_US = 253_402_300_800_000_000
"""The year 10000: later days, or those before 1970, are from damaged recordings."""


def part_folder(name: str, value: str | None) -> str:
    """Return Spark's name of the folder for rows with a value in a column."""
    if not value:
        return f"{name}={_NOTHING}"
    return f"{name}=" + _ESCAPED.sub(lambda match: f"%{ord(match[0]):02X}", value)


def with_folder_columns(table: Table, rows: DataFrame, servers: Mapping[str, str]) -> DataFrame:
    """Return rows with the columns of their folders, day and server; `servers` are by session.

    A query about a day or a server reads only the files in its folder.
    """
    at_us = F.col(table.day_of)
    day = F.when(at_us.between(0, _END_US - 1), F.to_date(F.timestamp_micros(at_us)))
    server = look_up(F.col("session"), servers)
    return rows.withColumns({DAY: day.cast("string"), SERVER: server})


PART = "piece"
"""Column of a bronze or silver table whose value names the folder of a piece or part."""


def _partition(part: str) -> str:
    return part_folder(PART, part)


class Files:
    """File operations on any file system of Hadoop."""

    def __init__(self, jvm: Any, configuration: Any, root: str) -> None:
        # Looked up once: the JVM searches all its jars for each part of the name.
        self._path = jvm.org.apache.hadoop.fs.Path
        self._system = self._path(root).getFileSystem(configuration)

    def exists(self, path: str) -> bool:
        """Return whether a path exists."""
        return bool(self._system.exists(self._path(path)))

    def delete(self, path: str) -> None:
        """Delete a file or a folder with its content, if it exists."""
        self._system.delete(self._path(path), True)

    def rename(self, source: str, target: str) -> None:
        """Rename a folder; raises OSError."""
        if not self._system.rename(self._path(source), self._path(target)):
            raise OSError(f"cannot rename {source} to {target}")

    def glob(self, pattern: str) -> list[str]:
        """Return the paths that match a pattern."""
        statuses = self._system.globStatus(self._path(pattern))
        return [status.getPath().toString() for status in statuses or []]

    def write_text(self, path: str, text: str) -> None:
        """Write a small file."""
        stream = self._system.create(self._path(path), True)
        stream.write(bytearray(text.encode()))
        stream.close()


def file_system(spark: SparkSession, root: str) -> Files | None:
    """Return the file system of a path or URL; None over Spark Connect, which has no access."""
    jvm = getattr(spark, "_jvm", None)
    jsc = getattr(spark, "_jsc", None)
    return Files(jvm, jsc.hadoopConfiguration(), root) if jvm is not None and jsc else None


_SEALED = ".gz"
_OPEN = ".open"
"""Suffix of the name of a bronze piece with open segments."""
_OLD = ".old"
_STAGING = ".spark-staging-"
"""Prefix of the name of a bronze or silver folder while it is written."""
DICTIONARY = "DICTIONARY.md"
_OWN_FILE = re.compile(r"part-|[_.]|[^/]+=")
"""Beginnings of the names of files and folders that Spark writes."""
_LEFTOVER = re.compile(r"/(gold\.[0-9a-f]{8}(\.old)?|rows\.[0-9a-f]{8})$")
"""Pattern of the folders of a run, which `tidy` removes."""


class Store:
    """A folder or URL with `bronze/`, `silver/` and `gold/`.

    Bronze consists of pieces with the segments read by one run, which are never rewritten.
    Silver consists of parts, with one session or many small ones that were read together; Spark
    replaces one part at a time (staged, then renamed).
    Gold is written to a folder of the run, which `publish` renames, so that a failed run leaves
    the old tables. Spark Connect has no file system API: there gold is overwritten table by table,
    without a dictionary, and a failed run leaves new tables beside old ones.
    """

    def __init__(self, spark: SparkSession, root: str, run: str) -> None:
        self.spark = spark
        self.root = root.rstrip("/")
        self._files = file_system(spark, self.root)
        self._partitions_count = int(spark.conf.get("spark.sql.shuffle.partitions") or 1)
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
        """Format of gold, from Spark's own setting; silver is Parquet."""
        self.servers: dict[str, str] = {}
        """Session → name of the recorded cluster, or of a server without one."""

    def known_rows(self, table: Table, rows: Sequence[tuple[Any, ...]]) -> DataFrame:
        """Return rows of this process as a DataFrame, through a file of JSON lines.

        `createDataFrame` would start a Python worker beside the JVM to read them, except over
        Spark Connect, which has no file system API.
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
        return self.spark.read.schema(table.schema()).json(path, mode="FAILFAST")

    def has_silver(self, table: Table) -> bool:
        """Return whether the table was ever written."""
        return self._has(f"{self.root}/silver/{table.name}")

    def _has(self, folder: str) -> bool:
        if self._files is None:
            return bool(_readable(self.spark, folder))
        return bool(self._files.exists(folder))

    def part_of_many(self, count: int) -> str:
        """Return the name of a part for `count` sessions, which no session can have."""
        return f"{self._run}/{count}"

    def set_parts(self, parts: Mapping[str, str], new: Iterable[str]) -> None:
        """Set the part of every session, and which sessions are written by this run."""
        self._parts = dict(parts)
        self._new = {session: parts[session] for session in new}

    def _part(self) -> ColumnOfSpark:
        """Return the part of the session of a row, for sessions written by this run."""
        part = F.col("session")
        for shared_part in {name for session, name in self._new.items() if name != session}:
            sessions_with_own_part = [
                session for session, name in self._new.items() if name == session
            ]
            part = (
                F.when(part.isin(sessions_with_own_part), part).otherwise(shared_part)
                if sessions_with_own_part
                else F.lit(shared_part)
            )
        return part

    def _write_pieces(self, rows: DataFrame, folder: str) -> None:
        writer = rows.write.mode("overwrite").partitionBy(PART)
        # Most values are counters and times: dictionaries of them would be made in vain.
        writer = writer.option("parquet.enable.dictionary", "false")
        writer.option("partitionOverwriteMode", "dynamic").parquet(folder)

    def write_silver(self, table: Table, rows: DataFrame) -> None:
        """Replace the parts of the sessions in `rows`, which have the columns of the table."""
        rows = rows.withColumn(PART, self._part())
        if len({*self._new.values()}) > 1:
            # As few files in each part as its size asks for, and not one of each task.
            rows = rows.hint("rebalance", PART)
        self._write_pieces(rows, f"{self.root}/silver/{table.name}")

    def write_bronze(self, table: str, rows: DataFrame, number: int) -> None:
        """Write new pieces of bronze, separate ones for sealed and for open segments.

        `rows` have a session and a segment; `number` is unique for each write of a run.
        """
        is_open = F.when(F.col("segment").endswith(_SEALED), "").otherwise(_OPEN)
        piece = F.concat(self._part(), F.lit(f"/{self._run}-{number}"), is_open)
        self._write_pieces(rows.withColumn(PART, piece), f"{self.root}/bronze/{table}")

    def piece_of(self, session: str, segment: str, number: int) -> str:
        """Return the piece of a segment in `write_bronze`."""
        is_open = "" if segment.endswith(_SEALED) else _OPEN
        return f"{self._new[session]}/{self._run}-{number}{is_open}"

    def bronze(self, table: str, ddl: str, pieces: set[str], sessions: list[str]) -> DataFrame:
        """Return the rows of sessions in pieces of a bronze table; no other piece is opened.

        A killed run may have left other pieces.
        """
        reader = self.spark.read.schema(f"{ddl}, {PART} string")
        rows = reader.parquet(f"{self.root}/bronze/{table}").where(F.col(PART).isin(pieces))
        return rows.where(F.col("session").isin(sessions)).drop(PART)

    def pieces_of(self, table: Table, sessions: list[str]) -> dict[str, list[Row]]:
        """Return piece → all of its rows, for bronze pieces with rows of these sessions."""
        if not self._has(f"{self.root}/bronze/{table.name}"):
            return {}
        reader = self.spark.read.schema(f"{table.ddl()}, {PART} string")
        rows = reader.parquet(f"{self.root}/bronze/{table.name}")
        of_sessions = rows.where(F.col("session").isin(sessions)).select(PART).distinct()
        rows_by_piece: dict[str, list[Row]] = {}
        for row in rows.join(F.broadcast(of_sessions), PART, "left_semi").collect():
            rows_by_piece.setdefault(row[PART], []).append(row)
        return rows_by_piece

    def drop_bronze(self, table: str, pieces: set[str]) -> None:
        """Delete pieces of a bronze table."""
        for piece in pieces:
            folder = f"{self.root}/bronze/{table}/{_partition(piece)}"
            if self._files is not None:
                self._files.delete(folder)
            elif self._has(folder):
                # Nothing can be deleted there: a piece without rows takes its place.
                rows = self.spark.read.parquet(folder)
                rows.limit(0).write.mode("overwrite").parquet(folder)

    def tidy_bronze(self, last_table: str, table: str) -> None:
        """Delete the pieces of a table that are missing in `last_table`, which is written last."""
        if self._files is None:
            return
        root = escape_glob(f"{self.root}/bronze")
        names = {path.rpartition("/")[2] for path in self._files.glob(f"{root}/{last_table}/*=*")}
        for path in self._files.glob(f"{root}/{table}/*=*"):
            if path.rpartition("/")[2] not in names:
                self._files.delete(path)

    def drop_silver(self, table: Table, parts: set[str]) -> None:
        """Delete all parts of a silver table except `parts`."""
        folder = f"{self.root}/silver/{table.name}"
        if self._files is None:
            for part in self._written(table) - parts:
                # Nothing can be deleted there: a part without rows takes its place.
                no_rows = table.no_rows(self.spark)
                no_rows.write.mode("overwrite").parquet(f"{folder}/{_partition(part)}")
            return
        kept_folders = set(map(_partition, parts))
        for path in self._files.glob(f"{escape_glob(folder)}/*=*"):
            if path.rpartition("/")[2] not in kept_folders:
                self._files.delete(path)

    def _written(self, table: Table) -> set[str]:
        """Return the parts of a table with rows."""
        if not self.has_silver(table):
            return set()
        reader = self.spark.read.schema(f"{table.ddl()}, {PART} string")
        rows = reader.parquet(f"{self.root}/silver/{table.name}").select(PART).distinct()
        return {row[PART] for row in rows.collect()}

    def silver(self, table: Table, sessions: list[str] | None) -> DataFrame:
        """Return the rows of these sessions, or of all, in the columns of the table.

        A table that never had rows does not exist: it is returned as an empty one.
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
        return self._in_few_parts(table.contract(rows))

    def _in_few_parts(self, rows: DataFrame) -> DataFrame:
        """Return rows in at most as many partitions as a shuffle has: one needs no shuffle."""
        return rows.coalesce(self._partitions_count)

    def write_gold(self, table: Table, rows: DataFrame) -> None:
        """Write a table to the folder of this run, so that later reads do not compute it again.

        Spark counts the rows meanwhile, for `is_empty`.
        """
        self._read.pop(table.name, None)
        counted = Observation()
        stored = table.stored(rows).observe(counted, F.expr("count(1) AS n"))
        folder = f"{self._run_folder}/{table.name}"
        if table.day_of:
            partitioned = with_folder_columns(table, stored, self.servers)
            # As few files in each folder as there can be, and as many as its size asks for.
            partitioned = partitioned.hint("rebalance", DAY, SERVER)
            self._save(partitioned.write.partitionBy(DAY, SERVER), folder)
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
        """Write a table without rows."""
        self._read.pop(table.name, None)
        no_rows = table.stored(table.no_rows(self.spark))
        self._save(no_rows.write, f"{self._run_folder}/{table.name}")
        self._empty.add(table.name)

    def is_empty(self, table: Table) -> bool:
        """Return whether this run wrote a table without rows; does not read the table."""
        return table.name in self._empty

    def gold(self, table: Table) -> DataFrame:
        """Return the rows of a table that was written or kept by this run."""
        if self.is_empty(table):
            return table.no_rows(self.spark)
        if table.name not in self._read:
            reader = self.spark.read.format(self.format)
            if self.format == "parquet":
                # To find it in the files takes a job; other formats may keep their own.
                reader = reader.schema(table.ddl())
            rows = reader.load(f"{self._gold}/{table.name}")
            self._read[table.name] = self._in_few_parts(table.contract(rows))
        return self._read[table.name]

    def keep_gold(self, tables: tuple[Table, ...], fingerprint: str) -> bool:
        """Use the published tables if all exist with this fingerprint; returns whether they do."""
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
        self._files.write_text(f"{self._run_folder}/{DICTIONARY}", dictionary(tables))
        mark = f"{FINGERPRINT}{self.format}-{fingerprint}"
        self._files.write_text(f"{self._run_folder}/{mark}", "")
        gold, old = f"{self.root}/gold", f"{self._run_folder}{_OLD}"
        if self._files.exists(gold):
            self._files.rename(gold, old)
        self._files.rename(self._run_folder, gold)
        self._files.delete(old)

    def tidy(self) -> None:
        """Delete the folders of killed runs, and restore tables that one of them had moved.

        The folder must be locked, as this would also delete the files of a running analysis.
        """
        if self._files is None:
            return
        gold = f"{self.root}/gold"
        root = escape_glob(self.root)
        folders = [*self._files.glob(f"{root}/gold.*"), *self._files.glob(f"{root}/rows.*")]
        for leftover in filter(_LEFTOVER.search, folders):
            if leftover.endswith(_OLD) and not self._files.exists(gold):
                self._files.rename(leftover, gold)
            else:
                self._files.delete(leftover)
        self._drop_staging()

    def check_own(self) -> None:
        """Raise AnalysisError if there are tables that no analysis has written."""
        gold = f"{self.root}/gold"
        if self._files is None or not self._files.exists(gold):
            return
        if not self._files.glob(f"{escape_glob(gold)}/{FINGERPRINT}*"):
            raise AnalysisError(not_own_tables(self.root, ["gold"]))

    def check_others(self, tables: tuple[Table, ...]) -> None:
        """Raise AnalysisError if gold has files beside its tables: it is replaced as a whole."""
        if self._files is None:
            return
        gold, own_names = f"{self.root}/gold", {table.name for table in tables} | {DICTIONARY}
        folder = escape_glob(gold)
        others = [
            "/".join(path.split("/")[-depth:])
            for depth in (1, 2)
            for path in self._files.glob(folder + "/*" * depth)
            if not _OWN_FILE.match(path.rsplit("/", 1)[-1])
            and not (depth == 1 and path.rsplit("/", 1)[-1] in own_names)
            # What another folder has is named by that.
            and not (depth == 2 and path.split("/")[-2] not in own_names)
        ]
        if others:
            raise AnalysisError(not_own_tables(self.root, [f"gold/{name}" for name in others[:3]]))

    def discard(self) -> None:
        """Delete the folders of this run that were not published."""
        if self._files is None:
            return
        self._files.delete(self._run_folder)
        self._files.delete(self._rows_folder)
        self._drop_staging()

    def _drop_staging(self) -> None:
        assert self._files is not None
        for staging in self._files.glob(f"{escape_glob(self.root)}/*/*/{_STAGING}*"):
            self._files.delete(staging)


def _readable(spark: SparkSession, path: str) -> bool:
    from pyspark.errors import AnalysisException

    try:
        return bool(spark.read.parquet(path).columns)
    except AnalysisException:
        return False
