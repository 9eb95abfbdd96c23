"""Where tables live: silver by session, gold written aside and then put in place."""

from __future__ import annotations

import re

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from natstui.analysis.file_system import file_system
from natstui.analysis.tables import Table, dictionary

_OLD = ".old"
_MADE_OF = "_made_of-"
"""Begins the name of an empty file that tells what the answers were made of."""
_LEFT = re.compile(r"/gold\.[0-9a-f]{8}(\.old)?$")
"""What a run calls its folders: nothing else beside the tables is ours to remove."""


class Store:
    """A folder or URL with `silver/` and `gold/`.

    Silver partitions are replaced one session at a time by Spark itself (staged, then renamed).
    Gold is written to a folder beside and renamed by `publish`, so that a run that fails leaves
    the old tables. Spark Connect has no file system API: there gold is overwritten table by
    table, without a dictionary, and a run that fails leaves new tables beside old ones.
    """

    def __init__(self, spark: SparkSession, root: str, run: str) -> None:
        self._spark = spark
        self.root = root.rstrip("/")
        self._files = file_system(spark, self.root)
        self._aside = f"{self.root}/gold.{run}" if self._files else f"{self.root}/gold"
        self._gold = self._aside

    def has_silver(self, table: Table) -> bool:
        """Return whether the table was ever written."""
        if self._files is None:
            return bool(_readable(self._spark, f"{self.root}/silver/{table.name}"))
        return bool(self._files.exists(f"{self.root}/silver/{table.name}"))

    def write_silver(self, table: Table, rows: DataFrame) -> None:
        """Replace the partitions of the sessions in `rows`."""
        writer = table.contract(rows).write.mode("overwrite").partitionBy("session")
        # Numbers as deltas: half the size, and less work than a dictionary given up half-way.
        writer = writer.option("parquet.writer.version", "v2")
        writer = writer.option("parquet.enable.dictionary", value=False)
        for column in table.columns:
            if column.type == "string":
                writer = writer.option(f"parquet.enable.dictionary#{column.name}", value=True)
        writer.option("partitionOverwriteMode", "dynamic").parquet(
            f"{self.root}/silver/{table.name}"
        )

    def silver(self, table: Table, sessions: list[str]) -> DataFrame:
        """Return the rows of sessions, in the columns of the table.

        A table no session ever had rows for is not there; Spark knows then that it is empty.
        """
        if not self.has_silver(table):
            return self._spark.createDataFrame([], table.ddl())
        reader = self._spark.read.schema(table.ddl())
        rows = reader.parquet(f"{self.root}/silver/{table.name}")
        names = [column.name for column in table.columns]
        return rows.where(F.col("session").isin(sessions)).select(names)

    def write_gold(self, table: Table, rows: DataFrame) -> None:
        """Write a table aside."""
        table.contract(rows).write.mode("overwrite").parquet(f"{self._aside}/{table.name}")

    def gold(self, table: Table) -> DataFrame:
        """Return a table written in this run, or kept by it."""
        return self._spark.read.schema(table.ddl()).parquet(f"{self._gold}/{table.name}")

    def keep_gold(self, tables: tuple[Table, ...], made_of: str) -> bool:
        """Keep the published tables if they are all there and were made of the same."""
        gold = f"{self.root}/gold"
        if self._files is None or not self._files.exists(f"{gold}/{_MADE_OF}{made_of}"):
            return False
        if not all(self._files.exists(f"{gold}/{table.name}/_SUCCESS") for table in tables):
            return False
        self._gold = gold
        return True

    def publish(self, tables: tuple[Table, ...], made_of: str) -> None:
        """Put the gold tables of this run, with their dictionary, in the place of the old."""
        if self._files is None:
            return
        self._files.write_text(f"{self._aside}/DICTIONARY.md", dictionary(tables))
        self._files.write_text(f"{self._aside}/{_MADE_OF}{made_of}", "")
        gold, old = f"{self.root}/gold", f"{self._aside}{_OLD}"
        if self._files.exists(gold):
            self._files.rename(gold, old)
        self._files.rename(self._aside, gold)
        self._files.delete(old)

    def tidy(self) -> None:
        """Remove what killed runs left, and put back the tables one of them had moved aside.

        Only for who has the folder alone: what another run is writing would go too.
        """
        if self._files is None:
            return
        gold = f"{self.root}/gold"
        for left in filter(_LEFT.search, self._files.glob(f"{gold}.*")):
            if left.endswith(_OLD) and not self._files.exists(gold):
                self._files.rename(left, gold)
            else:
                self._files.delete(left)
        self._drop_staging()

    def discard(self) -> None:
        """Remove what an unfinished run left aside."""
        if self._files is None:
            return
        self._files.delete(self._aside)
        self._drop_staging()

    def _drop_staging(self) -> None:
        assert self._files is not None
        for staging in self._files.glob(f"{self.root}/silver/*/.spark-staging-*"):
            self._files.delete(staging)


def _readable(spark: SparkSession, path: str) -> bool:
    from pyspark.errors import AnalysisException

    try:
        return bool(spark.read.parquet(path).columns)
    except AnalysisException:
        return False
