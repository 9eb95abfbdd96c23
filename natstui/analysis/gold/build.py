"""Gold: compute and write every answer, each after those that it needs."""

from __future__ import annotations

from collections.abc import Callable
from graphlib import TopologicalSorter

from pyspark.sql import DataFrame

from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold.answer import Given
from natstui.analysis.gold.answers import ANSWERS
from natstui.analysis.silver.layer import read_silver
from natstui.analysis.spark.store import Store
from natstui.analysis.tables import Table

Step = Callable[[str], None]


def build_gold(store: Store, sessions: list[str], thresholds: Thresholds, step: Step) -> None:
    """Compute and write every answer; `step` gets the name of each table."""
    answers = {answer.table.name: answer for answer in ANSWERS}

    def is_empty(name: str) -> bool:
        return store.is_empty(answers[name].table)

    def gold(name: str) -> DataFrame:
        return store.gold(answers[name].table)

    def may_have_rows(table: Table) -> bool:
        return not is_empty(table.name) if table.name in answers else store.has_silver(table)

    silver = read_silver(store, sessions)
    given = Given(tuple(sessions), silver, thresholds, gold, is_empty, store.known_rows)
    needs = {name: answer.needs for name, answer in answers.items()}
    for name in TopologicalSorter(needs).static_order():
        answer = answers[name]
        step(name.replace("_", " "))
        if not answer.made_of or any(map(may_have_rows, answer.made_of)):
            store.write_gold(answer.table, answer.rows(given))
        else:
            store.write_no_gold(answer.table)
