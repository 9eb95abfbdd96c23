"""Which tests need neither a server nor Java nor another process: `pytest --quick` runs those."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SLOW_IMPORTS = (
    "natstui.bench.run",
    "natstui.cli.demo",
    "natstui.jetstream.testbed",
    "natstui.tui.app.engine_process",
    "natstui.tui.app.link",
    "pyspark",
    "subprocess",
    "tests.tui.terminals",
)
SLOW_FIXTURES = {
    "analysed", "broker", "nats_cluster", "nats_server", "nats_server_factory", "run", "spark",
}  # fmt: skip


@cache
def _imports(file: Path) -> frozenset[str]:
    """Return every dotted name that a file imports."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return frozenset(names)


def is_quick(file: Path, fixtures: Iterable[str]) -> bool:
    """Tell whether a test of a file with these fixtures starts no server, JVM or child."""
    return not SLOW_FIXTURES & set(fixtures) and has_quick_tests(file)


@cache
def has_quick_tests(file: Path) -> bool:
    """Tell whether a file imports nothing that starts a server, JVM or child.

    Follows the imports of other files of `tests`, because a test that starts a server seldom
    does it with its own hands.
    """
    waiting, seen = [file], set()
    while waiting:
        here = waiting.pop()
        seen.add(here)
        names = _imports(here)
        if any(name.startswith(SLOW_IMPORTS) for name in names):
            return False
        files = {ROOT.joinpath(*name.split(".")).with_suffix(".py") for name in names}
        waiting += [f for f in files - seen if ROOT / "tests" in f.parents and f.is_file()]
    return True
