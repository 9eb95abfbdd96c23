"""Storage of the tables on any file system of Hadoop.

Bronze is stored in pieces, silver in parts, gold in a folder that replaces the old one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import Column as ColumnOfSpark
from pyspark.sql import DataFrame, DataFrameWriter, Observation, SparkSession
from pyspark.sql import functions as F

from natstui.analysis.folders import (
    COMPLETION_FILE_NAMES,
    FINGERPRINT_PREFIX,
    escape_glob,
    foreign_files_text,
)
from natstui.analysis.spark.failures import is_missing_format
from natstui.analysis.spark.session import PARTITIONS_SETTING
from natstui.analysis.tables import DAY_COLUMN, SERVER_COLUMN, Table, data_dictionary, lookup_value
from natstui.errors import AnalysisError, NatstuiError

_ESCAPED_CHARACTER_PATTERN = re.compile(r"[\x01-\x1f\x7f\"#%'*/:=?\\{\[\]^]")
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""Spark's name of the folder for rows without a value."""
_YEAR_10000_US = 253_402_300_800_000_000
"""Start of the year 10000 (UTC µs): later times, or negative ones, are from damaged recordings."""


def partition_folder(name: str, value: str | None) -> str:
    """Return Spark's name of the folder for rows with `value` in column `name`."""
    if not value:
        return f"{name}={_NULL_PARTITION}"
    return f"{name}=" + _ESCAPED_CHARACTER_PATTERN.sub(
        lambda match: f"%{ord(match[0]):02X}", value
    )


def with_folder_columns(table: Table, rows: DataFrame, servers: Mapping[str, str]) -> DataFrame:
    """Return rows with the columns that name their folders: UTC day and server.

    `servers` are by session. A query about a day or server reads only the files in its folder.
    """
    at_us = F.col(table.day_column)
    day = F.when(at_us.between(0, _YEAR_10000_US - 1), F.to_date(F.timestamp_micros(at_us)))
    server = lookup_value(F.col("session"), servers)
    return rows.withColumns({DAY_COLUMN: day.cast("string"), SERVER_COLUMN: server})


PART_COLUMN = "piece"
"""Column of a bronze or silver table whose value names the folder of a piece (bronze) or part."""


def _part_folder(part: str) -> str:
    return partition_folder(PART_COLUMN, part)


_BATCH_LINES_COUNT = 10_000


class HadoopFiles:
    """File operations on any file system of Hadoop."""

    def __init__(self, jvm: Any, configuration: Any, root: str) -> None:
        # Resolved once: the JVM searches all its jars for each part of the name.
        self._path_class = jvm.org.apache.hadoop.fs.Path
        self._file_system = self._path_class(root).getFileSystem(configuration)

    def exists(self, path: str) -> bool:
        """Return whether a path exists."""
        return bool(self._file_system.exists(self._path_class(path)))

    def delete(self, path: str) -> None:
        """Delete a file or a folder with its content, if it exists."""
        self._file_system.delete(self._path_class(path), True)

    def rename(self, source: str, target: str) -> None:
        """Rename a folder; raises OSError if that fails."""
        if not self._file_system.rename(self._path_class(source), self._path_class(target)):
            raise OSError(f"cannot rename {source} to {target}")

    def glob(self, pattern: str) -> list[str]:
        """Return the paths that match a pattern."""
        statuses = self._file_system.globStatus(self._path_class(pattern))
        return [status.getPath().toString() for status in statuses or []]

    def write_lines(self, path: str, lines: Iterable[str]) -> int:
        """Write a file of lines, which replaces an existing one; return their count."""
        stream = self._file_system.create(self._path_class(path), True)
        lines, lines_count = iter(lines), 0
        # In batches, because a call into the JVM has all of its bytes in memory.
        try:
            while batch := [*islice(lines, _BATCH_LINES_COUNT)]:
                stream.write(bytearray("".join(f"{line}\n" for line in batch).encode()))
                lines_count += len(batch)
        finally:
            stream.close()
        return lines_count


def file_system(spark: SparkSession, root: str) -> HadoopFiles | None:
    """Return the file system of a path or URL; None over Spark Connect, which has no access."""
    jvm = getattr(spark, "_jvm", None)
    jsc = getattr(spark, "_jsc", None)
    return HadoopFiles(jvm, jsc.hadoopConfiguration(), root) if jvm is not None and jsc else None


_SEALED_SUFFIX = ".gz"
_OPEN_SUFFIX = ".open"
"""Suffix of the name of a bronze piece with open segments."""
_OLD_SUFFIX = ".old"
_STAGING_PREFIX = ".spark-staging-"
"""Prefix of the name of a bronze or silver folder while it is written."""
DICTIONARY = "DICTIONARY.md"
_OWN_FILE_PATTERN = re.compile(r"part-|[_.]|[^/]+=")
"""Pattern of the beginning of the names that Spark writes."""
_LEFTOVER_FOLDER_PATTERN = re.compile(r"/(gold\.[0-9a-f]{8}(\.old)?|rows\.[0-9a-f]{8})$")
"""Pattern of the folders of a run, which `delete_leftovers` deletes."""


class TableStore:
    """A folder or URL with `bronze/`, `silver/` and `gold/`.

    Bronze consists of pieces: each has segments that one run read, and is never rewritten.
    Silver consists of parts: each has one session, or many small ones that were read together.
    Spark replaces one part at a time (staged, then renamed).
    Gold is written to a folder of the run, which `publish` renames, so that a failed run leaves
    the old tables. Spark Connect has no file system API: there gold is overwritten table by table,
    without a dictionary, and a failed run leaves new tables beside old ones.
    """

    def __init__(self, spark: SparkSession, root: str, run_id: str) -> None:
        self.spark = spark
        self.root = root.rstrip("/")
        self._files = file_system(spark, self.root)
        self._run_id = run_id
        self._run_folder = f"{self.root}/gold.{run_id}" if self._files else f"{self.root}/gold"
        self._gold_folder = self._run_folder
        self._rows_folder = f"{self.root}/rows.{run_id}"
        self._rows_files_count = 0
        self._empty_tables: set[str] = set()
        self._gold_rows: dict[str, DataFrame] = {}
        self._part_by_session: dict[str, str] = {}
        """Session → name of the part of the silver tables that has its rows."""
        self._part_by_new_session: dict[str, str] = {}
        self.format: str = spark.conf.get("spark.sql.sources.default", "parquet") or "parquet"
        """Format of gold, from Spark's own setting; silver is Parquet."""
        self.servers: dict[str, str] = {}
        """Session → name of the recorded cluster, or of a server without one."""

    def check_format(self) -> None:
        """Raise the error of Spark if it does not know the format of the gold tables."""
        try:
            # A Connect server looks for the format only when it is asked for the columns.
            self.spark.read.format(self.format).load().columns  # noqa: B018
        except (PySparkException, Py4JError) as error:
            # Known formats need a path.
            if is_missing_format(error):
                raise

    def create_rows(self, table: Table, rows: Sequence[tuple[Any, ...]]) -> DataFrame:
        """Return Python rows as a DataFrame of a table.

        Writes the rows to a file of JSON lines, which Spark reads: `createDataFrame` would start a
        Python worker beside the JVM. Over Spark Connect, which has no file system API,
        `createDataFrame` is used.
        """
        if not rows:
            return table.empty_dataframe(self.spark)
        if self._files is None:
            return self.spark.createDataFrame([*rows], table.ddl())
        self._rows_files_count += 1
        folder = f"{table.name}-{self._rows_files_count}"
        self.write_rows(table, folder, "rows", rows)
        return self.read_rows(table, folder)

    @property
    def can_write_rows(self) -> bool:
        """Return whether `write_rows` can write; False over Spark Connect."""
        return self._files is not None

    def write_rows(
        self, table: Table, folder: str, name: str, rows: Iterable[tuple[Any, ...]]
    ) -> int:
        """Write rows of a table to a temporary file of JSON lines, and return their count.

        `rows` may be more than fit in memory. If they raise NatstuiError, there is no file.
        """
        assert self._files is not None
        names = [column.name for column in table.columns]
        path = f"{self._rows_folder}/{folder}/{name}.json"
        lines = (json.dumps(dict(zip(names, row, strict=True))) for row in rows)
        try:
            return self._files.write_lines(path, lines)
        except NatstuiError:
            self._files.delete(path)
            raise

    def read_rows(self, table: Table, folder: str) -> DataFrame:
        """Return the rows of all files that `write_rows` has written to a folder."""
        reader = self.spark.read.schema(table.schema())
        return reader.json(f"{self._rows_folder}/{folder}", mode="FAILFAST")

    def has_silver(self, table: Table) -> bool:
        """Return whether a silver table exists, also one without rows."""
        return self._exists(f"{self.root}/silver/{table.name}")

    def _exists(self, folder: str) -> bool:
        if self._files is None:
            return bool(_is_readable(self.spark, folder))
        return bool(self._files.exists(folder))

    def shared_part_name(self, count: int) -> str:
        """Return the name of a part that `count` sessions share; no session can have this name."""
        return f"{self._run_id}/{count}"

    def set_parts(self, part_by_session: Mapping[str, str], new_sessions: Iterable[str]) -> None:
        """Set the part of every session; this run writes only `new_sessions`."""
        self._part_by_session = dict(part_by_session)
        self._part_by_new_session = {session: part_by_session[session] for session in new_sessions}

    def _part_column(self) -> ColumnOfSpark:
        """Return a column: the part in which this run writes the session of a row."""
        part = F.col("session")
        for shared_part in {
            name for session, name in self._part_by_new_session.items() if name != session
        }:
            sessions_with_own_part = [
                session for session, name in self._part_by_new_session.items() if name == session
            ]
            part = (
                F.when(part.isin(sessions_with_own_part), part).otherwise(shared_part)
                if sessions_with_own_part
                else F.lit(shared_part)
            )
        return part

    def _write_pieces(self, rows: DataFrame, folder: str, texts: Iterable[str] = ()) -> None:
        """Write rows to pieces or parts of a table; with dictionaries for the columns `texts`."""
        writer = rows.write.mode("overwrite").partitionBy(PART_COLUMN)
        # Names repeat; for counters and times, which are most values, dictionaries are useless.
        writer = writer.option("parquet.enable.dictionary", "false")
        for name in texts:
            writer = writer.option(f"parquet.enable.dictionary#{name}", "true")
        writer.option("partitionOverwriteMode", "dynamic").parquet(folder)

    def write_silver(self, table: Table, rows: DataFrame) -> None:
        """Write `rows`, which have the columns of the table, to a silver table.

        Replaces the parts of the sessions in `rows`; other parts are kept.
        """
        rows = rows.withColumn(PART_COLUMN, self._part_column())
        if len({*self._part_by_new_session.values()}) > 1:
            # As few files in each part as its size allows, instead of one per task.
            rows = rows.hint("rebalance", PART_COLUMN)
        texts = [column.name for column in table.columns if column.type == "string"]
        self._write_pieces(rows, f"{self.root}/silver/{table.name}", texts)

    def write_bronze(self, table: str, rows: DataFrame, number: int) -> None:
        """Write rows to new pieces of a bronze table: separate ones for sealed and open segments.

        `rows` have a session and a segment; `number` is unique for each write of a run.
        """
        open_suffix = F.when(F.col("segment").endswith(_SEALED_SUFFIX), "").otherwise(_OPEN_SUFFIX)
        piece = F.concat(self._part_column(), F.lit(f"/{self._run_id}-{number}"), open_suffix)
        self._write_pieces(rows.withColumn(PART_COLUMN, piece), f"{self.root}/bronze/{table}")

    def piece_name(self, session: str, segment: str, number: int) -> str:
        """Return the name of the piece to which `write_bronze` writes a segment."""
        open_suffix = "" if segment.endswith(_SEALED_SUFFIX) else _OPEN_SUFFIX
        return f"{self._part_by_new_session[session]}/{self._run_id}-{number}{open_suffix}"

    def bronze(self, table: str, ddl: str, pieces: set[str], sessions: list[str]) -> DataFrame:
        """Return the rows of `sessions` in `pieces` of a bronze table, as columns `ddl`.

        Other pieces, which a killed run may have left, are not read.
        """
        reader = self.spark.read.schema(f"{ddl}, {PART_COLUMN} string")
        rows = reader.parquet(f"{self.root}/bronze/{table}").where(F.col(PART_COLUMN).isin(pieces))
        return rows.where(F.col("session").isin(sessions)).drop(PART_COLUMN)

    def pieces(self, table: Table, sessions: list[str]) -> DataFrame | None:
        """Return all rows of each bronze piece that has a row of these sessions, with its name.

        The name is in `PART_COLUMN`. None if no run has written the table.
        """
        if not self._exists(f"{self.root}/bronze/{table.name}"):
            return None
        reader = self.spark.read.schema(f"{table.ddl()}, {PART_COLUMN} string")
        rows = reader.parquet(f"{self.root}/bronze/{table.name}")
        pieces_of_sessions = (
            rows.where(F.col("session").isin(sessions)).select(PART_COLUMN).distinct()
        )
        return rows.join(F.broadcast(pieces_of_sessions), PART_COLUMN, "left_semi")

    def drop_bronze(self, table: str, pieces: set[str]) -> None:
        """Delete pieces of a bronze table."""
        for piece in pieces:
            folder = f"{self.root}/bronze/{table}/{_part_folder(piece)}"
            if self._files is not None:
                self._files.delete(folder)
            elif self._exists(folder):
                # Without a file system nothing can be deleted: an empty piece replaces it.
                rows = self.spark.read.parquet(folder)
                rows.limit(0).write.mode("overwrite").parquet(folder)

    def delete_incomplete_pieces(self, last_table: str, table: str) -> None:
        """Delete the pieces of `table` that `last_table`, which is written last, does not have."""
        if self._files is None:
            return
        root = escape_glob(f"{self.root}/bronze")
        names = {path.rpartition("/")[2] for path in self._files.glob(f"{root}/{last_table}/*=*")}
        for path in self._files.glob(f"{root}/{table}/*=*"):
            if path.rpartition("/")[2] not in names:
                self._files.delete(path)

    def drop_silver(self, table: Table, kept_parts: set[str]) -> None:
        """Delete all parts of a silver table except `kept_parts`."""
        folder = f"{self.root}/silver/{table.name}"
        if self._files is None:
            for part in self._read_part_names(table) - kept_parts:
                # Without a file system nothing can be deleted: an empty part replaces it.
                empty_dataframe = table.empty_dataframe(self.spark)
                empty_dataframe.write.mode("overwrite").parquet(f"{folder}/{_part_folder(part)}")
            return
        kept_folders = set(map(_part_folder, kept_parts))
        for path in self._files.glob(f"{escape_glob(folder)}/*=*"):
            if path.rpartition("/")[2] not in kept_folders:
                self._files.delete(path)

    def _read_part_names(self, table: Table) -> set[str]:
        """Return the names of the parts of a silver table that have rows."""
        if not self.has_silver(table):
            return set()
        reader = self.spark.read.schema(f"{table.ddl()}, {PART_COLUMN} string")
        rows = reader.parquet(f"{self.root}/silver/{table.name}").select(PART_COLUMN).distinct()
        return {row[PART_COLUMN] for row in rows.collect()}

    def silver(self, table: Table, sessions: list[str] | None) -> DataFrame:
        """Return the rows of `sessions` in a silver table; None: of all sessions.

        A table that does not exist has no rows.
        """
        if not self.has_silver(table):
            return table.empty_dataframe(self.spark)
        # The schema includes the part: Spark could not find its column if all parts are deleted.
        reader = self.spark.read.schema(f"{table.ddl()}, {PART_COLUMN} string")
        rows = reader.parquet(f"{self.root}/silver/{table.name}")
        if sessions is not None:
            parts = {
                self._part_by_session[session]
                for session in sessions
                if session in self._part_by_session
            }
            if parts:
                rows = rows.where(F.col(PART_COLUMN).isin(parts))
            if {session for session, part in self._part_by_session.items() if part in parts} != {
                *sessions
            }:
                rows = rows.where(F.col("session").isin(sessions))
        return self._merge_partitions(table.conform(rows))

    def _merge_partitions(self, rows: DataFrame) -> DataFrame:
        """Return rows in one partition, which needs no shuffle, if a shuffle has only one."""
        return rows.coalesce(1) if self.spark.conf.get(PARTITIONS_SETTING) == "1" else rows

    def write_gold(self, table: Table, rows: DataFrame) -> None:
        """Compute a gold table and write it to the folder of this run.

        Spark also counts the rows, for `is_empty`.
        """
        self._gold_rows.pop(table.name, None)
        observation = Observation()
        rows_with_timestamps = table.with_timestamps(rows).observe(
            observation, F.expr("count(1) AS n")
        )
        folder = f"{self._run_folder}/{table.name}"
        if table.day_column:
            rows_with_folders = with_folder_columns(table, rows_with_timestamps, self.servers)
            # As few files in each folder as its size allows.
            rows_with_folders = rows_with_folders.hint("rebalance", DAY_COLUMN, SERVER_COLUMN)
            self._save(rows_with_folders.write.partitionBy(DAY_COLUMN, SERVER_COLUMN), folder)
        else:
            self._save(rows_with_timestamps.write, folder)
        self._empty_tables.discard(table.name)
        if not observation.get["n"]:
            self._empty_tables.add(table.name)
            if table.day_column:
                # Without a folder there would be no file with the columns of the table.
                self._save(table.with_timestamps(table.empty_dataframe(self.spark)).write, folder)

    def _save(self, writer: DataFrameWriter, folder: str) -> None:
        writer.mode("overwrite").format(self.format).save(folder)

    def write_empty_gold(self, table: Table) -> None:
        """Write a gold table without rows to the folder of this run."""
        self._gold_rows.pop(table.name, None)
        empty_dataframe = table.with_timestamps(table.empty_dataframe(self.spark))
        self._save(empty_dataframe.write, f"{self._run_folder}/{table.name}")
        self._empty_tables.add(table.name)

    def is_empty(self, table: Table) -> bool:
        """Return whether this run wrote a gold table without rows; reads no files."""
        return table.name in self._empty_tables

    def gold(self, table: Table) -> DataFrame:
        """Return the rows of a gold table that this run wrote.

        After `use_published_gold` returned true, they are the rows of the published table.
        """
        if self.is_empty(table):
            return table.empty_dataframe(self.spark)
        if table.name not in self._gold_rows:
            reader = self.spark.read.format(self.format)
            if self.format == "parquet":
                # To read the schema from the files would be a job; other formats may store it.
                reader = reader.schema(table.ddl())
            rows = reader.load(f"{self._gold_folder}/{table.name}")
            self._gold_rows[table.name] = self._merge_partitions(table.conform(rows))
        return self._gold_rows[table.name]

    def use_published_gold(self, tables: tuple[Table, ...], fingerprint: str) -> bool:
        """Use the published gold tables if all are complete and have this fingerprint.

        Return whether they are used.
        """
        gold, fingerprint_file_name = (
            f"{self.root}/gold",
            f"{FINGERPRINT_PREFIX}{self.format}-{fingerprint}",
        )
        if self._files is None or not self._files.exists(f"{gold}/{fingerprint_file_name}"):
            return False
        if not all(self._is_complete_table(f"{gold}/{table.name}") for table in tables):
            return False
        self._gold_folder = gold
        return True

    def _is_complete_table(self, folder: str) -> bool:
        assert self._files is not None
        return any(self._files.exists(f"{folder}/{name}") for name in COMPLETION_FILE_NAMES)

    def publish(self, tables: tuple[Table, ...], fingerprint: str) -> None:
        """Replace the published gold tables by those of this run, and write their dictionary."""
        if self._files is None:
            return
        dictionary_lines = data_dictionary(tables).splitlines()
        self._files.write_lines(f"{self._run_folder}/{DICTIONARY}", dictionary_lines)
        fingerprint_file_name = f"{FINGERPRINT_PREFIX}{self.format}-{fingerprint}"
        self._files.write_lines(f"{self._run_folder}/{fingerprint_file_name}", ())
        gold_folder, old_gold_folder = f"{self.root}/gold", f"{self._run_folder}{_OLD_SUFFIX}"
        if self._files.exists(gold_folder):
            self._files.rename(gold_folder, old_gold_folder)
        self._files.rename(self._run_folder, gold_folder)
        self._files.delete(old_gold_folder)

    def delete_leftovers(self) -> None:
        """Delete the folders of killed runs; restore gold tables that such a run had renamed.

        The folder must be locked: otherwise the files of a running analysis would be deleted.
        """
        if self._files is None:
            return
        gold = f"{self.root}/gold"
        root = escape_glob(self.root)
        folders = [*self._files.glob(f"{root}/gold.*"), *self._files.glob(f"{root}/rows.*")]
        for leftover in filter(_LEFTOVER_FOLDER_PATTERN.search, folders):
            if leftover.endswith(_OLD_SUFFIX) and not self._files.exists(gold):
                self._files.rename(leftover, gold)
            else:
                self._files.delete(leftover)
        self._delete_staging()

    def check_own_gold(self) -> None:
        """Raise AnalysisError if the folder `gold` was not written by an analysis."""
        gold = f"{self.root}/gold"
        if self._files is None or not self._files.exists(gold):
            return
        if not self._files.glob(f"{escape_glob(gold)}/{FINGERPRINT_PREFIX}*"):
            raise AnalysisError(foreign_files_text(self.root, ["gold"]))

    def check_no_other_files(self, tables: tuple[Table, ...]) -> None:
        """Raise AnalysisError if `gold`, which will be replaced, has files beside its tables."""
        if self._files is None:
            return
        gold, table_names = f"{self.root}/gold", {table.name for table in tables} | {DICTIONARY}
        folder = escape_glob(gold)
        other_names = [
            "/".join(path.split("/")[-depth:])
            for depth in (1, 2)
            for path in self._files.glob(folder + "/*" * depth)
            if not _OWN_FILE_PATTERN.match(path.rsplit("/", 1)[-1])
            and not (depth == 1 and path.rsplit("/", 1)[-1] in table_names)
            # Files in a folder that is no table are reported by the name of the folder.
            and not (depth == 2 and path.split("/")[-2] not in table_names)
        ]
        if other_names:
            raise AnalysisError(
                foreign_files_text(self.root, [f"gold/{name}" for name in other_names[:3]])
            )

    def delete_run_folders(self) -> None:
        """Delete the temporary folders of this run, and gold tables that were not published."""
        if self._files is None:
            return
        self._files.delete(self._run_folder)
        self._files.delete(self._rows_folder)
        self._delete_staging()

    def _delete_staging(self) -> None:
        assert self._files is not None
        for staging_folder in self._files.glob(f"{escape_glob(self.root)}/*/*/{_STAGING_PREFIX}*"):
            self._files.delete(staging_folder)


def _is_readable(spark: SparkSession, path: str) -> bool:
    from pyspark.errors import AnalysisException

    try:
        return bool(spark.read.parquet(path).columns)
    except AnalysisException:
        return False
