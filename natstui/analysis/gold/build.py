"""Gold: compute and write every answer, each after those that it needs."""

from __future__ import annotations

from collections.abc import Callable

from pyspark.sql import DataFrame

from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold.answer import Answer, Given
from natstui.analysis.gold.answers import ANSWERS
from natstui.analysis.silver.layer import read_silver
from natstui.analysis.spark.parallel import in_parallel_after
from natstui.analysis.spark.store import Store
from natstui.analysis.tables import Table

Step = Callable[[str], None]


def build_gold(
    store: Store, short: Store, sessions: list[str], thresholds: Thresholds, step: Step
) -> None:
    """Compute and write every answer, a few at a time; `step` gets the name of each table.

    `short` is the same store, or as a session for little has it: for what reads no samples.
    """
    tables = {answer.table.name: answer.table for answer in ANSWERS}

    def is_empty(name: str) -> bool:
        return store.is_empty(tables[name]) or short.is_empty(tables[name])

    def given(place: Store) -> Given:
        def gold(name: str) -> DataFrame:
            return place.gold(tables[name])

        silver = read_silver(place, sessions)
        return Given(place.spark, tuple(sessions), silver, thresholds, gold, is_empty)

    of_samples = store, given(store)
    of_short_tables = of_samples if short is store else (short, given(short))

    def may_have_rows(table: Table) -> bool:
        return not is_empty(table.name) if table.name in tables else store.has_silver(table)

    def write(answer: Answer) -> None:
        step(answer.table.name.replace("_", " "))
        place, made_of = of_samples if answer.reads_samples else of_short_tables
        if not answer.made_of or any(map(may_have_rows, answer.made_of)):
            place.write_gold(answer.table, answer.rows(made_of))
        else:
            place.write_no_gold(answer.table)

    in_parallel_after(
        write, ANSWERS, lambda answer: answer.table.name, lambda answer: answer.needs
    )
