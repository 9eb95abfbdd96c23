"""A load pattern is told from another in one module only: everybody else asks for its traits."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from typing import get_args

import pytest

from natstui.bench.worker import PROGRAMS
from natstui.model.bench.patterns import Pattern, traits
from tests.architecture.source import modules

HOME = "natstui.model.bench.patterns"
NAMES = frozenset(get_args(Pattern))
PLAIN_WORDS = frozenset({"publish", "subscribe", "request", "serve"})
"""Also words of other things: actions of the journal, kinds of denied permissions."""


def is_pattern_text(node: ast.AST) -> bool:
    """Return whether a literal is a pattern's name or the beginning of one."""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return False
    return node.value in NAMES - PLAIN_WORDS or node.value.startswith(("js-", "kv-"))


def is_pattern(node: ast.AST) -> bool:
    """Return whether an expression is somebody's pattern."""
    return (isinstance(node, ast.Attribute) and node.attr == "pattern") or (
        isinstance(node, ast.Name) and node.id == "pattern"
    )


def literals(node: ast.AST) -> Iterator[ast.AST]:
    yield from (part for part in ast.walk(node) if isinstance(part, ast.Constant))


def compares(node: ast.AST) -> bool:
    """Return whether a node compares pattern names, or parts of them."""
    if isinstance(node, ast.Compare):
        parts = [one for side in (node.left, *node.comparators) for one in ast.walk(side)]
        words = {getattr(one, "value", None) for one in parts if isinstance(one, ast.Constant)}
        about = any(map(is_pattern, parts)) and bool(words & NAMES)
        return about or any(map(is_pattern_text, parts))
    if isinstance(node, ast.Call):
        called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
        asks = called in ("startswith", "endswith", "removeprefix", "split")
        return asks and any(is_pattern_text(one) for arg in node.args for one in literals(arg))
    if isinstance(node, ast.Set):
        return any(map(is_pattern_text, node.elts))
    return isinstance(node, ast.MatchValue) and any(map(is_pattern_text, literals(node)))


def comparisons(nodes: Iterable[ast.AST]) -> list[int]:
    """Return the lines that compare pattern names."""
    return [getattr(node, "lineno", 0) for node in nodes if compares(node)]


def test_pattern_names_are_compared_in_one_module_only() -> None:
    found = [
        f"{module.name}:{line}"
        for module in modules()
        if module.name != HOME
        for line in comparisons(module.nodes())
    ]
    assert found == []


@pytest.mark.parametrize(
    "code",
    [
        'role.pattern == "js-push"',
        'one in {"js-get", "x"}',
        'role.pattern in ("publish", "x")',
        'pattern.startswith("js-publish")',
        'A | {"kv-put"}',
    ],
)
def test_a_comparison_is_found(code: str) -> None:
    assert comparisons(ast.walk(ast.parse(code))) != []


def test_a_request_of_the_journal_is_no_pattern() -> None:
    code = 'entry.action in ("publish", "request")'
    assert comparisons(ast.walk(ast.parse(code))) == []


def test_there_is_a_program_for_each_pattern() -> None:
    assert set(PROGRAMS) == NAMES


def test_who_sends_does_not_receive() -> None:
    for pattern in get_args(Pattern):
        does = traits(pattern)
        assert (does.sends, does.receives, does.reads_stored, does.replies).count(True) == 1
        assert does.needs_stream == pattern.startswith(("js-", "kv-"))
