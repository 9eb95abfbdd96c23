"""Answer 9: the ten things most worth looking at, each with its evidence.

It only ranks: every answer brings its own findings.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from natstui.analysis.gold.answer import RECORDING, Answer, Given
from natstui.analysis.section import Section
from natstui.analysis.tables import SESSION, Table, columns

MOST_COUNT = 10
_NEXT_OF_A_KIND = 0.85
"""Each further finding of the same kind counts for this much of the one before."""
_SURE_COUNT = 3
"""So many findings about the recordings are always among the ten, however light they are."""

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


def answer(others: Sequence[Answer]) -> Answer:
    """Return the answer that ranks the findings of all others."""
    found = [one for one in others if one.findings]

    def rows(given: Given) -> DataFrame:
        parts = [find(given.gold(one.table.name)) for one in found for find in one.findings]
        return ranked(reduce(lambda rows, more: rows.unionAll(more), parts))

    return Answer(
        VERDICT,
        rows,
        needs=tuple(one.table.name for one in found),
        section=Section(
            "Worth looking at",
            ("rank_count", "session", "subject", "sentence", "evidence", "start_at_us"),
            "Nothing stands out.",
        ),
        sorted_by=("rank_count",),
    )


def ranked(findings: DataFrame) -> DataFrame:
    """Return the table `verdict`: the heaviest findings, the first of its kind in full weight."""
    of_kind = Window.partitionBy("kind").orderBy(F.col("weight").desc(), "subject", "start_at_us")
    place = F.row_number().over(of_kind) - 1
    weight = F.col("weight") * F.pow(F.lit(_NEXT_OF_A_KIND), place)
    sure = (F.col("kind") == RECORDING) & (place < _SURE_COUNT)
    rows = findings.withColumns({"weight_count": weight, "sure": sure})
    heaviest = (F.col("weight_count").desc(), "kind", "subject")
    top = rows.orderBy(F.col("sure").desc(), *heaviest).limit(MOST_COUNT)
    order = Window.orderBy(*heaviest)
    return VERDICT.contract(top.withColumn("rank_count", F.row_number().over(order)))
