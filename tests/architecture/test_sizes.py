"""Sizes that keep the code readable."""

from __future__ import annotations

import ast
import statistics

from source import Function, length_lines, modules


def function_lengths() -> dict[str, int]:
    """Return `module:function@line` → lines."""
    return {
        f"{module.name}:{node.name}@{node.lineno}": length_lines(node)
        for module in modules()
        for node in module.nodes()
        if isinstance(node, Function)
    }


def module_lengths() -> dict[str, int]:
    """Return module → lines; a package's empty front page is not a module to read."""
    lengths = {module.name: len(module.text.splitlines()) for module in modules()}
    return {name: lines for name, lines in lengths.items() if lines > 1}


def test_no_module_is_longer_than_300_lines() -> None:
    assert {name: n for name, n in module_lengths().items() if n > 300} == {}


def test_the_median_module_fits_in_90_lines() -> None:
    assert statistics.median(module_lengths().values()) <= 90


def test_no_function_is_longer_than_40_lines() -> None:
    assert {name: n for name, n in function_lengths().items() if n > 40} == {}


def test_nine_functions_in_ten_fit_in_20_lines() -> None:
    assert statistics.quantiles(function_lengths().values(), n=10)[-1] <= 20


def test_no_class_has_more_than_15_methods() -> None:
    methods = {
        f"{module.name}:{node.name}": sum(isinstance(child, Function) for child in node.body)
        for module in modules()
        for node in module.nodes()
        if isinstance(node, ast.ClassDef)
    }
    assert {name: n for name, n in methods.items() if n > 15} == {}


def test_no_file_is_a_drawer_for_everything() -> None:
    drawers = {"utils", "util", "helpers", "helper", "manager", "base", "common", "misc"}
    assert [m.name for m in modules() if m.path.stem in drawers] == []
