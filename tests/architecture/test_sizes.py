"""Sizes that keep the code readable."""

from __future__ import annotations

import ast
import statistics

from tests.architecture.source import Function, length_lines, modules


def function_lengths() -> dict[str, int]:
    """Return `module:function@line` → lines."""
    return {
        f"{module.name}:{node.name}@{node.lineno}": length_lines(node)
        for module in modules()
        for node in module.nodes()
        if isinstance(node, Function)
    }


def module_lengths() -> dict[str, int]:
    """Return module → lines."""
    return {module.name: len(module.text.splitlines()) for module in modules()}


def test_no_module_is_longer_than_300_lines() -> None:
    assert {name: n for name, n in module_lengths().items() if n > 300} == {}


def test_the_median_module_fits_in_90_lines() -> None:
    assert statistics.median(module_lengths().values()) <= 90


def test_no_function_is_longer_than_40_lines() -> None:
    assert {name: n for name, n in function_lengths().items() if n > 40} == {}


def test_nine_functions_in_ten_fit_in_20_lines() -> None:
    assert statistics.quantiles(function_lengths().values(), n=10)[-1] <= 20


def methods_count(node: ast.ClassDef) -> int:
    """Return how many methods a class adds to those the language asks for."""
    names = [child.name for child in node.body if isinstance(child, Function)]
    return sum(not name.startswith("__") for name in names)


def test_no_class_has_more_than_15_methods() -> None:
    methods = {
        f"{module.name}:{node.name}": methods_count(node)
        for module in modules()
        for node in module.nodes()
        if isinstance(node, ast.ClassDef)
    }
    assert {name: n for name, n in methods.items() if n > 15} == {}


def test_no_file_is_a_drawer_for_everything() -> None:
    drawers = {"utils", "util", "helpers", "helper", "manager", "base", "common", "misc"}
    assert [m.name for m in modules() if m.path.stem in drawers] == []
