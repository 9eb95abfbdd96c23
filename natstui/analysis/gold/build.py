"""Computes and writes the gold tables, each after the tables that it reads.

The gold tables are found in the files of this folder: to add one, add a file with `GOLD_TABLES`, a
tuple, and `REPORT_POSITION`, the position of their sections in a report.
"""

from __future__ import annotations

import pkgutil
from collections.abc import Callable, Iterator
from graphlib import TopologicalSorter
from importlib import import_module
from types import ModuleType

from pyspark.sql import DataFrame

from natstui.analysis import gold as folder
from natstui.analysis.bronze.sources import SessionSource
from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold import findings, verdict
from natstui.analysis.gold.gold_table import GoldInputs, GoldTable
from natstui.analysis.silver.layer import read_silver
from natstui.analysis.spark.store import TableStore
from natstui.analysis.tables import Table

ReportStep = Callable[[str], None]


def _find_gold_modules() -> Iterator[ModuleType]:
    for entry in pkgutil.walk_packages(folder.__path__, f"{folder.__name__}."):
        if entry.name != __name__:
            module = import_module(entry.name)
            if hasattr(module, "REPORT_POSITION"):
                yield module


_TABLES_IN_REPORT_ORDER: tuple[GoldTable, ...] = tuple(
    gold_table
    for file in sorted(_find_gold_modules(), key=lambda file: file.REPORT_POSITION)
    for gold_table in file.GOLD_TABLES
)
# The table that ranks all findings, and the recorded findings, come first.
GOLD_TABLES: tuple[GoldTable, ...] = (
    verdict.verdict_table(_TABLES_IN_REPORT_ORDER),
    *findings.GOLD_TABLES,
    *_TABLES_IN_REPORT_ORDER,
)
TABLES = tuple(gold_table.table for gold_table in GOLD_TABLES)


def build_gold(
    store: TableStore,
    sources: list[SessionSource],
    thresholds: Thresholds,
    report_step: ReportStep,
) -> None:
    """Compute and write all gold tables; `report_step` is called with the name of each one."""
    tables_by_name = {gold_table.table.name: gold_table for gold_table in GOLD_TABLES}

    def is_empty_gold_table(name: str) -> bool:
        return store.is_empty(tables_by_name[name].table)

    def read_gold_table(name: str) -> DataFrame:
        return store.gold(tables_by_name[name].table)

    systems = {source.session: source.system for source in sources}
    silver = read_silver(store, [*systems])
    inputs = GoldInputs(
        systems, silver, thresholds, read_gold_table, is_empty_gold_table, store.create_rows
    )
    input_names = {name: gold_table.input_names for name, gold_table in tables_by_name.items()}
    for name in TopologicalSorter(input_names).static_order():
        report_step(name.replace("_", " "))
        write_gold_table(store, tables_by_name[name], inputs)


def write_gold_table(store: TableStore, gold_table: GoldTable, inputs: GoldInputs) -> None:
    """Write a gold table; without rows if all its `source_tables` are empty."""

    def may_have_rows(table: Table) -> bool:
        return not inputs.is_empty(table.name) if table in TABLES else store.has_silver(table)

    if not gold_table.source_tables or any(map(may_have_rows, gold_table.source_tables)):
        store.write_gold(gold_table.table, gold_table.rows(inputs))
    else:
        store.write_empty_gold(gold_table.table)
