"""Everything about a gold table of the analysis is in its own file."""

from __future__ import annotations

import ast

from natstui.analysis.gold.build import GOLD_TABLES
from tests.architecture.source import Module, modules

COLUMNS = {
    gold_table.table.name: {c.name for c in gold_table.table.columns} for gold_table in GOLD_TABLES
}


def calls(module: Module, name: str) -> int:
    """Count the calls of a class by name."""
    return sum(
        isinstance(node, ast.Call) and ast.unparse(node.func) == name for node in module.nodes()
    )


def tables_defined(module: Module) -> set[str]:
    """Return the names of the tables that a module defines."""
    return {
        str(ast.literal_eval(node.args[0]))
        for node in module.nodes()
        if isinstance(node, ast.Call) and ast.unparse(node.func) == "Table"
    }


def listed_columns(module: Module) -> list[str]:
    """Return the tables of which a module lists three columns or more in one literal."""
    found = []
    for node in module.nodes():
        if isinstance(node, ast.Tuple | ast.List | ast.Set):
            words = {item.value for item in node.elts if isinstance(item, ast.Constant)}
            found += [name for name, own in COLUMNS.items() if len(words) > 2 and words <= own]
    return found


def test_the_file_that_defines_a_table_of_gold_also_makes_its_answer() -> None:
    places = {name: m for m in modules("natstui.analysis.gold") for name in tables_defined(m)}
    assert places.keys() == COLUMNS.keys()
    for module in set(places.values()):
        assert calls(module, "GoldTable") == len(tables_defined(module)), module.name


def test_no_file_but_that_of_the_answer_describes_its_table() -> None:
    elsewhere = [*modules("natstui.analysis.report"), *modules("natstui.cli.sessions")]
    assert elsewhere
    for module in elsewhere:
        assert listed_columns(module) == [], module.name
