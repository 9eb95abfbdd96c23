"""The README's set-up lines: two, and the ones that are checked."""

from __future__ import annotations

import re
import subprocess

import pytest

from tests.architecture.source import ROOT

README = (ROOT / "README.md").read_text(encoding="utf-8")


def test_there_are_exactly_two_set_up_lines_and_each_is_complete() -> None:
    demo, tests = re.findall(r"^python3 -m venv .*$", README, re.MULTILINE)
    assert ".[demo]" in demo
    assert demo.endswith("natstui demo")
    assert ".[dev]" in tests
    assert "make check" in tests


@pytest.mark.slow
def test_the_check_of_a_fresh_clone_takes_its_lines_from_the_readme() -> None:
    script = ROOT / ".ci" / "run"
    assert subprocess.run(["bash", "-n", script], check=False).returncode == 0
    assert "grep -E '^python3 -m venv ' README.md" in script.read_text(encoding="utf-8")


def test_every_picture_of_the_readme_is_in_the_repository() -> None:
    pictures = re.findall(r"!\[[^]]*\]\(([^)]+)\)", README)
    assert pictures
    assert [picture for picture in pictures if not (ROOT / picture).is_file()] == []
