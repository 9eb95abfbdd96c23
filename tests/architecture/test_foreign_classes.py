"""Nothing of pyspark or py4j is changed: no attribute of a name imported from them is assigned."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator

import pytest

from tests.architecture.source import modules

PACKAGES = ("pyspark", "py4j")
NAMED_CALLS = ("setattr", "delattr")


def foreign_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that a module binds by importing from these packages."""
    found = set()
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and _is_foreign(node.module or ""):
            found |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            aliases = [alias for alias in node.names if _is_foreign(alias.name)]
            found |= {alias.asname or alias.name.partition(".")[0] for alias in aliases}
    return found


def _is_foreign(module_name: str) -> bool:
    return module_name.partition(".")[0] in PACKAGES


def _root(node: ast.AST) -> str:
    """Return the first name of `a.b.c`; empty for other expressions."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node.id if isinstance(node, ast.Name) else ""


def _changed_objects(node: ast.AST) -> Iterator[ast.AST]:
    """Yield the objects of which a node sets or deletes an attribute."""
    if isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store | ast.Del):
        yield node.value
    if isinstance(node, ast.Call) and node.args:
        called = node.func.attr if isinstance(node.func, ast.Attribute) else _root(node.func)
        if called in NAMED_CALLS:
            yield node.args[0]


def changes(nodes: Iterable[ast.AST]) -> list[int]:
    """Return the lines that set or delete an attribute of something foreign."""
    parts = [*nodes]
    names = foreign_names(parts)
    return [
        getattr(node, "lineno", 0)
        for node in parts
        for changed in _changed_objects(node)
        if _root(changed) in names
    ]


def test_no_attribute_of_spark_or_py4j_is_assigned() -> None:
    found = [f"{module.name}:{line}" for module in modules() for line in changes(module.nodes())]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        "from pyspark.sql import DataFrame\nDataFrame.count = None",
        "from pyspark.sql import DataFrame as Rows\nRows.count: int = 1",
        "import pyspark.sql\npyspark.sql.DataFrame.count += 1",
        "from pyspark import sql\nwith open('x') as sql.DataFrame.count: pass",
        "def f():\n    from py4j import java_gateway\n    del java_gateway.JavaObject.x",
        "from py4j.java_gateway import JavaObject\nsetattr(JavaObject, 'x', 1)",
        "from pyspark.sql import DataFrame\nfor DataFrame.x in (1,): pass",
        "from pyspark.sql import DataFrame\n(a, DataFrame.x) = 1, 2",
    ],
)
def test_a_change_is_found(code: str) -> None:
    assert changes(ast.walk(ast.parse(code))) != []


def test_what_is_ours_may_be_changed() -> None:
    code = "from pyspark.sql import DataFrame\nclass A: pass\nA.x = DataFrame.count\nself.x = 1"
    assert changes(ast.walk(ast.parse(code))) == []
