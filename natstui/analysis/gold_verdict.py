"""Answer 9: the ten things most worth looking at, each with its evidence.

Every table tells its findings in the same shape, with a weight of 0 to 100. The second finding
of a kind weighs less than the first, so that fifty stuck consumers leave room for a full disk.
"""

from __future__ import annotations

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis import findings, findings_consumer
from natstui.analysis.findings_consumer import Gold
from natstui.analysis.tables import SESSION, Table, columns

TOLD_COUNT = 10
_FADE = 0.85

VERDICT = Table(
    "verdict",
    "The ten things most worth looking at.",
    columns(
        ("rank_count", "bigint", "1 for the most important"),
        SESSION,
        ("kind", "string", "The table the finding comes from"),
        ("subject", "string", "What it is about"),
        ("sentence", "string", "What was found"),
        ("evidence", "string", "The numbers behind it"),
        ("start_at_us", "bigint", "When it began"),
        ("end_at_us", "bigint", "When it ended, as far as recorded"),
        ("weight_count", "double", "0 to 100"),
    ),
)


def verdict(gold: Gold) -> DataFrame:
    """Return the table `verdict` from the other gold tables, by name."""
    parts = [tell(gold) for tell in _TELLERS]
    rows = parts[0]
    for part in parts[1:]:
        rows = rows.unionAll(part)
    of_kind = Window.partitionBy("kind").orderBy(F.col("weight").desc(), "subject", "start_at_us")
    faded = F.col("weight") * F.pow(F.lit(_FADE), F.row_number().over(of_kind) - 1)
    rows = rows.withColumn("weight_count", faded)
    top = rows.orderBy(F.col("weight_count").desc(), "kind", "subject").limit(TOLD_COUNT)
    order = Window.orderBy(F.col("weight_count").desc(), "kind", "subject")
    return VERDICT.contract(top.withColumn("rank_count", F.row_number().over(order)))


_TELLERS = (
    findings_consumer.stuck,
    findings_consumer.lag,
    findings_consumer.poison,
    findings_consumer.redelivery,
    findings.availability,
    findings.capacity,
    findings.benchmark,
    findings.comparison,
    findings.identity,
    findings.damage,
)
