"""No module needs, over others, a module that needs it: imports for type checkers count too."""

from __future__ import annotations

import ast
from graphlib import CycleError, TopologicalSorter

from tests.architecture.source import ROOT, Module


def imported(module: Module, known: set[str]) -> set[str]:
    """Return the modules that a module imports, wherever in its text."""
    found: set[str] = set()
    for node in module.nodes():
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module.name} imports relatively"
            assert node.module is not None
            inside = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inside & known or {node.module}
    return found & known - {module.name}


def circle(package: str) -> list[str]:
    """Return modules of a circle, in the order of their imports; none if there is no circle."""
    modules = [Module(path) for path in sorted((ROOT / package).rglob("*.py"))]
    known = {module.name for module in modules}
    assert len(known) > 10
    try:
        TopologicalSorter({m.name: imported(m, known) for m in modules}).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def test_no_imports_go_in_a_circle() -> None:
    assert circle("natstui") == []
    assert circle("benchmarks") == []
