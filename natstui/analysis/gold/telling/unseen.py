"""How long before the end of its recording a stream or consumer was read for the last time.

What was deleted, or could not be read any more, keeps its last row: in a table it is beside rows
that are as of the end.
"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

UNSEEN = "Time from its last sample to the end of the recording"


def with_unseen(rows: DataFrame, own: DataFrame, streams: DataFrame) -> DataFrame:
    """Add `unseen_s` to rows by series; `own` are their rates, `streams` those of streams."""
    both = own.select("session", "last_at_us").unionAll(streams.select("session", "last_at_us"))
    ends = both.groupBy("session").agg(F.max("last_at_us").alias("ended_at_us"))
    seen = own.groupBy("series_id").agg(F.max("last_at_us").alias("seen_at_us"))
    rows = rows.join(F.broadcast(ends), "session").join(seen, "series_id")
    unseen_s = (F.col("ended_at_us") - F.col("seen_at_us")) / 1e6
    return rows.withColumn("unseen_s", unseen_s).drop("ended_at_us", "seen_at_us")
