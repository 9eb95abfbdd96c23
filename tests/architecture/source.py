"""Where the rules find the code they look at."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from msgspec import Struct

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "natstui"


class Module(Struct, frozen=True):
    """One file of the package."""

    path: Path

    @property
    def name(self) -> str:
        """Its dotted name."""
        parts = self.path.relative_to(ROOT).with_suffix("").parts
        return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)

    @property
    def text(self) -> str:
        """Its source."""
        return _text(self.path)

    def nodes(self) -> Iterator[ast.AST]:
        """Every node of its syntax tree."""
        return iter(_nodes(self.path))


@cache
def _text(path: Path) -> str:
    """Read a file once for all rules."""
    return path.read_text(encoding="utf-8")


@cache
def _nodes(path: Path) -> tuple[ast.AST, ...]:
    """Parse a file once for all rules."""
    return tuple(ast.walk(ast.parse(_text(path))))


@cache
def modules(under: str = "natstui") -> tuple[Module, ...]:
    """Return the modules of the package, or of one room of it."""
    found = [Module(path) for path in sorted(PACKAGE.rglob("*.py"))]
    return tuple(m for m in found if m.name == under or m.name.startswith(under + "."))


def text_files() -> list[Path]:
    """Return every file people wrote: code, tests, settings and scripts."""
    folders = ("natstui", "tests", "benchmarks", ".ci")
    files = [path for folder in folders for path in (ROOT / folder).rglob("*")]
    files += [path for path in ROOT.iterdir() if path.suffix in {".md", ".toml"}]
    readable = {".py", ".md", ".toml", ".tcss", ".sh", ".conf", ""}
    return [p for p in sorted(files) if p.is_file() and p.suffix in readable]
