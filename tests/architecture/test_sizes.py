"""Sizes that keep the code readable."""

from __future__ import annotations

import ast
import statistics
from collections import Counter

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


def classes() -> dict[str, tuple[ast.ClassDef, list[str]]]:
    """Return `module.class` → its definition and the classes of ours it inherits from."""
    found = {}
    for module in modules():
        places, nodes = {}, list(module.nodes())
        for node in nodes:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("natstui"):
                places |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
            elif isinstance(node, ast.ClassDef):
                places[node.name] = f"{module.name}.{node.name}"
        for node in nodes:
            if isinstance(node, ast.ClassDef):
                names = [ast.unparse(base).partition("[")[0] for base in node.bases]
                bases = [places[name] for name in names if name in places]
                found[f"{module.name}.{node.name}"] = (node, bases)
    return found


def members(name: str, known: dict[str, tuple[ast.ClassDef, list[str]]]) -> set[str]:
    """Return methods and properties of a class, those it inherits from us included."""
    node, bases = known[name]
    own = {one.name for one in node.body if isinstance(one, Function)}
    inherited = (members(base, known) for base in bases)
    return {one for one in own.union(*inherited) if not one.startswith("__")}


def test_no_class_has_more_than_30_members_with_what_it_inherits_from_us() -> None:
    known = classes()
    counts = {name: len(members(name, known)) for name in known}
    assert counts["natstui.tui.app.app.NatstuiApp"] > counts["natstui.tui.app.guarded.GuardedApp"]
    assert {name for name, n in counts.items() if n > 30} == set()


def test_no_module_is_longer_than_400_lines() -> None:
    assert {name: n for name, n in module_lengths().items() if n > 400} == {}


def test_no_folder_holds_more_than_16_modules() -> None:
    folders = Counter(m.path.parent for m in modules() if m.path.name != "__init__.py")
    crowded = {folder.name: n for folder, n in folders.items() if n > 16}
    assert folders
    assert crowded == {}


def test_no_function_is_longer_than_40_lines() -> None:
    assert {name: n for name, n in function_lengths().items() if n > 40} == {}


def test_nine_functions_in_ten_fit_in_20_lines() -> None:
    assert statistics.quantiles(function_lengths().values(), n=10)[-1] <= 20


def test_no_file_is_a_drawer_for_everything() -> None:
    drawers = {"utils", "util", "helpers", "helper", "manager", "base", "common", "misc"}
    assert [m.name for m in modules() if m.path.stem in drawers] == []
