"""Little to read: each table is one piece, so that nothing is moved, and is held by the driver.

Samples are held only where they are few: many are read sooner from the file.

A session of a minute costs what Spark does around the rows, not the rows: every exchange between
tasks, and every file that the next step reads again, takes longer than all of its numbers.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

LITTLE = "spark.natstui.little"
"""Setting of a session that was started for little."""
HELD = "spark.natstui.held"
"""Setting of one in which the driver holds the samples, too."""


def is_little(spark: SparkSession) -> bool:
    """Return whether the session was started for little."""
    return bool(spark.conf.get(LITTLE, "false") == "true")


def holds_samples(spark: SparkSession) -> bool:
    """Return whether there is so little that the driver holds the samples, too."""
    return bool(spark.conf.get(HELD, "false") == "true")


def one_piece(rows: DataFrame) -> DataFrame:
    """Return the rows as one partition where there are few, otherwise as they are.

    Spark sorts, groups and joins what is one partition where it lies.
    """
    return rows.coalesce(1) if is_little(rows.sparkSession) else rows


def held_here(rows: DataFrame) -> DataFrame:
    """Return the rows computed where there are few, otherwise as they are."""
    return one_piece(held(rows)[0]) if is_little(rows.sparkSession) else rows


def held(rows: DataFrame) -> tuple[DataFrame, int]:
    """Compute the rows once; return them as a table that the driver holds, and their number.

    They stay in the JVM: Python is not sent them.
    """
    spark = rows.sparkSession
    found = rows._jdf.collectAsList()
    frame = spark._jsparkSession.createDataFrame(found, rows._jdf.schema())
    count: int = found.size()
    # The table has rows of its own by now; py4j would keep this list much longer.
    spark.sparkContext._gateway.detach(found)
    return DataFrame(frame, spark), count
