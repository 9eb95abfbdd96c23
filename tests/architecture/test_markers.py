"""A test that starts something itself, without a fixture, has the marker of what it starts."""

from __future__ import annotations

import re
from pathlib import Path

from tests.architecture.source import ROOT

STARTS = {
    r"\bBroker\(": ("server", "cluster"),
    r"\bCluster\(": ("cluster", "spark"),
    r"\bOnTerminal\(": ("terminal",),
    r"\bEngineProcess\(": ("server", "cluster", "slow", "spark"),
    r"\bviewing\(": ("server", "cluster", "slow", "spark"),
    r"\breplaying\(": ("server", "cluster", "slow", "spark"),
}
"""What starts a server, a terminal or a process, and the markers of which a file has one."""


def unmarked(file: Path) -> list[str]:
    """Return what a file starts without a marker."""
    text = file.read_text(encoding="utf-8")
    return [
        start
        for start, markers in STARTS.items()
        if re.search(start, text) and not any(f"pytest.mark.{name}" in text for name in markers)
    ]


def test_every_file_that_starts_something_has_the_marker_of_it() -> None:
    files = (ROOT / "tests").rglob("test_*.py")
    found = {str(file.relative_to(ROOT)): unmarked(file) for file in files}
    assert not {path: starts for path, starts in found.items() if starts}
