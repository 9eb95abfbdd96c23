"""The tables of `tests/README.md` that say where something is tested: what they name exists."""

from __future__ import annotations

import re
from functools import cache

from tests.architecture.source import ROOT

TESTS = ROOT / "tests"
SECTIONS = (
    "What does no harm, and where it is tested",
    "What is judged right, and where it is tested",
)
_TOKEN = re.compile(r"`([\w/]+\.py|\w+_\w+…?)`")
_TEST = re.compile(r"^(?:async )?def test_(\w+)", re.MULTILINE)


@cache
def names_in(path: str) -> frozenset[str]:
    """Return the names of the tests of a file, without `test_`."""
    return frozenset(_TEST.findall((TESTS / path).read_text(encoding="utf-8")))


def rows_of(section: str) -> list[tuple[str, str]]:
    """Return the rows of the table below a heading."""
    text = (TESTS / "README.md").read_text(encoding="utf-8")
    body = text.partition(f"## {section}\n")[2].partition("\n## ")[0]
    rows = [line.strip("| ").split(" | ") for line in body.splitlines() if line.startswith("|")]
    return [(row[0], row[1] if len(row) > 1 else "") for row in rows]


def _is_in(token: str, files: list[str]) -> bool:
    """Return whether one of some files has a test; `…` stands for the rest of its name."""
    name = token.rstrip("…")
    names = (each for path in files for each in names_in(path))
    return any(each == name or (name != token and each.startswith(name)) for each in names)


def test_every_file_and_test_that_is_named_exists() -> None:
    missing = []
    for section in SECTIONS:
        rows = rows_of(section)
        assert len(rows) > 20, section
        of_group: list[str] = []
        for what, tests in rows:
            files, begins = ([] if what.startswith("**") else of_group), True
            for token in _TOKEN.findall(tests):
                if token.endswith(".py"):
                    # Files that stand together hold what is named behind them.
                    files = [token] if not begins or files is of_group else [*files, token]
                    begins = True
                    if not (TESTS / token).is_file():
                        missing.append(f"{what}: {token}")
                    continue
                begins = False
                if not _is_in(token, files):
                    missing.append(f"{what}: {token}")
            if what.startswith("**"):
                of_group = files
    assert missing == []
