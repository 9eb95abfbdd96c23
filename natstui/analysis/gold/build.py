"""Gold: compute and write every answer, each after those that it needs."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold.answer import Answer, Given
from natstui.analysis.gold.answers import ANSWERS
from natstui.analysis.silver.layer import Silver
from natstui.analysis.spark.parallel import in_parallel_after
from natstui.analysis.spark.store import Store
from natstui.analysis.tables import Table

Step = Callable[[str], None]


def build_gold(
    spark: SparkSession,
    store: Store,
    silver: Silver,
    sessions: list[str],
    thresholds: Thresholds,
    step: Step,
) -> None:
    """Compute and write every answer, a few at a time; `step` gets the name of each table."""
    tables = {answer.table.name: answer.table for answer in ANSWERS}

    def gold(name: str) -> DataFrame:
        return store.gold(tables[name])

    def is_empty(name: str) -> bool:
        return store.is_empty(tables[name])

    given = Given(spark, tuple(sessions), silver, thresholds, gold, is_empty)

    def may_have_rows(table: Table) -> bool:
        return not is_empty(table.name) if table.name in tables else store.has_silver(table)

    def write(answer: Answer) -> None:
        step(answer.table.name.replace("_", " "))
        if not answer.made_of or any(map(may_have_rows, answer.made_of)):
            store.write_gold(answer.table, answer.rows(given))
        else:
            store.write_no_gold(answer.table)

    in_parallel_after(
        write, ANSWERS, lambda answer: answer.table.name, lambda answer: answer.needs
    )
