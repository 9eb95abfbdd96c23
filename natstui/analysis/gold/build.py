"""Computes and writes all answers, each after those that it needs.

The answers are found in the files of this folder: a new answer is a file with `ANSWERS`, a tuple
of answers, and `PLACE`, their position in a report.
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
from natstui.analysis.gold.answer import Answer, AnswerInputs
from natstui.analysis.silver.layer import read_silver
from natstui.analysis.spark.store import Store
from natstui.analysis.tables import Table

Step = Callable[[str], None]


def _answer_modules() -> Iterator[ModuleType]:
    for entry in pkgutil.walk_packages(folder.__path__, f"{folder.__name__}."):
        if entry.name != __name__:
            module = import_module(entry.name)
            if hasattr(module, "PLACE"):
                yield module


_OTHER_ANSWERS: tuple[Answer, ...] = tuple(
    answer
    for file in sorted(_answer_modules(), key=lambda file: file.PLACE)
    for answer in file.ANSWERS
)
# What ranks the findings of all answers, and the recorded findings, come first.
ANSWERS: tuple[Answer, ...] = (verdict.answer(_OTHER_ANSWERS), *findings.ANSWERS, *_OTHER_ANSWERS)
TABLES = tuple(answer.table for answer in ANSWERS)


def build_gold(store: Store, sources: list[Source], thresholds: Thresholds, step: Step) -> None:
    """Compute and write all answers; `step` is called with the name of each table."""
    answers = {answer.table.name: answer for answer in ANSWERS}

    def is_empty(name: str) -> bool:
        return store.is_empty(answers[name].table)

    def gold(name: str) -> DataFrame:
        return store.gold(answers[name].table)

    systems = {source.session: source.system for source in sources}
    silver = read_silver(store, [*systems])
    inputs = AnswerInputs(systems, silver, thresholds, gold, is_empty, store.known_rows)
    needs = {name: answer.needs for name, answer in answers.items()}
    for name in TopologicalSorter(needs).static_order():
        step(name.replace("_", " "))
        write_answer(store, answers[name], inputs)


def write_answer(store: Store, answer: Answer, inputs: AnswerInputs) -> None:
    """Write the table of an answer, which is not computed if all tables in `made_of` are empty."""

    def may_have_rows(table: Table) -> bool:
        return not inputs.is_empty(table.name) if table in TABLES else store.has_silver(table)

    if not answer.made_of or any(map(may_have_rows, answer.made_of)):
        store.write_gold(answer.table, answer.rows(inputs))
    else:
        store.write_no_gold(answer.table)
