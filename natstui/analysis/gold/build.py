"""Gold: every answer in the order of the report, computed and written after those that it needs.

The answers are those of each file below this folder that has some: a new one is one file with
`ANSWERS`, a tuple of them, and `PLACE`, where they are in a report.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator
from graphlib import TopologicalSorter
from importlib import import_module
from types import ModuleType

from pyspark.sql import DataFrame

from natstui.analysis import gold as folder
from natstui.analysis.bronze.sources import Source
from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold import findings, verdict
from natstui.analysis.gold.answer import Answer, Given
from natstui.analysis.silver.layer import read_silver
from natstui.analysis.spark.store import Store
from natstui.analysis.tables import Table

Step = Callable[[str], None]


def _files() -> Iterator[ModuleType]:
    for entry in pkgutil.walk_packages(folder.__path__, f"{folder.__name__}."):
        if entry.name != __name__:
            module = import_module(entry.name)
            if hasattr(module, "PLACE"):
                yield module


_OTHERS: tuple[Answer, ...] = tuple(
    answer for file in sorted(_files(), key=lambda file: file.PLACE) for answer in file.ANSWERS
)
# What ranks the findings of all answers, and the recorded findings, come first.
ANSWERS: tuple[Answer, ...] = (verdict.answer(_OTHERS), *findings.ANSWERS, *_OTHERS)
TABLES = tuple(answer.table for answer in ANSWERS)


def build_gold(store: Store, sources: list[Source], thresholds: Thresholds, step: Step) -> None:
    """Compute and write every answer; `step` gets the name of each table."""
    answers = {answer.table.name: answer for answer in ANSWERS}

    def is_empty(name: str) -> bool:
        return store.is_empty(answers[name].table)

    def gold(name: str) -> DataFrame:
        return store.gold(answers[name].table)

    systems = {source.session: source.system for source in sources}
    silver = read_silver(store, [*systems])
    given = Given(systems, silver, thresholds, gold, is_empty, store.known_rows)
    needs = {name: answer.needs for name, answer in answers.items()}
    for name in TopologicalSorter(needs).static_order():
        step(name.replace("_", " "))
        write_answer(store, answers[name], given)


def write_answer(store: Store, answer: Answer, given: Given) -> None:
    """Write the table of an answer; without rows of what it is made of, none is computed."""

    def may_have_rows(table: Table) -> bool:
        return not given.is_empty(table.name) if table in TABLES else store.has_silver(table)

    if not answer.made_of or any(map(may_have_rows, answer.made_of)):
        store.write_gold(answer.table, answer.rows(given))
    else:
        store.write_no_gold(answer.table)
