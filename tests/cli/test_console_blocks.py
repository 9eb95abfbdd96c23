"""What README and docs show in blocks marked `console` is done, on a real server."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
from click.testing import CliRunner

from natstui.cli.root import root
from natstui.errors import ConnectionFailed, NatstuiError
from tests.accounts import Account
from tests.architecture.source import ROOT
from tests.session.making import made
from tests.session.scenario import Scenario

GENERATED = ("command-line.md", "findings.md")
PAGES = [
    ROOT / "README.md",
    *(it for it in sorted((ROOT / "docs").glob("*.md")) if it.name not in GENERATED),
]
MOST_TEXTS = 10
"""Blocks that are not run, each with its reason before it."""


class Step(NamedTuple):
    """A command of a block, and how the lines begin that the block shows of its output."""

    command: str
    shown: list[str]


def blocks(page: Path, kind: str) -> list[str]:
    """Return the blocks of a page that are marked so."""
    fenced = r"^```(\w*)\n(.*?)^```$"
    found = re.findall(fenced, page.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [text for marked, text in found if marked == kind]


def steps(page: Path) -> list[Step]:
    """Return the commands of a page."""
    found: list[Step] = []
    for line in "".join(blocks(page, "console")).splitlines():
        if line.startswith("$ "):
            found.append(Step(line[2:], []))
        else:
            found[-1].shown.append(line)
    return found


RUN = [page for page in PAGES if steps(page)]
BENCHMARK = "natstui bench "
"""A command that begins so is only understood: what it runs, `make long` shows."""
NOBODY = "--server nats://127.0.0.1:1"


def test_every_block_is_run_or_says_why_not() -> None:
    texts = [block for page in PAGES for block in blocks(page, "text")]
    reasons = [
        reason
        for page in PAGES
        for reason in re.findall(
            r"^<!-- not run: .+ -->\n```text$", page.read_text(encoding="utf-8"), re.MULTILINE
        )
    ]
    assert len(texts) == len(reasons) <= MOST_TEXTS
    assert [page.name for page in PAGES if blocks(page, "")] == []
    assert sum(len(steps(page)) for page in PAGES) >= 18


class Reader:
    """Somebody who types what a page shows, in a folder and with settings of their own."""

    def __init__(self, folder: Path) -> None:
        self.environment = {
            **{f"XDG_{name}_HOME": str(folder / name) for name in ("STATE", "CONFIG", "DATA")},
            "NATSTUI_SESSION_FOLDER": str(folder / "sessions"),
        }

    def run(self, command: str, failure: type[NatstuiError] | None = None) -> str:
        """Run a command, to a failure if one is named, and return what it prints."""
        words = shlex.split(command, comments=True)
        if words[0] == "natstui":
            done = CliRunner().invoke(root, words[1:], input="secret\n", env=self.environment)
            is_expected = isinstance(done.exception, failure) if failure else not done.exit_code
            assert is_expected, f"{command}\n{done.output}{done.exception!r}"
            return done.output
        programs = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        environment = {**os.environ, **self.environment, "PATH": programs}
        shell = ["bash", "-e", "-c", command]
        ran = subprocess.run(shell, env=environment, capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stderr) == (0, ""), command
        return ran.stdout


@pytest.mark.server
@pytest.mark.parametrize(
    "runs_benchmarks", [False, pytest.param(True, marks=pytest.mark.long)], ids=["cheap", "all"]
)
@pytest.mark.parametrize("page", RUN, ids=lambda page: page.name)
def test_the_commands_of_a_page_do_what_it_shows(
    page: Path, runs_benchmarks: bool, new_account: Callable[[], Account], tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    reader, own, lab = Reader(tmp_path), new_account(), new_account()
    made(tmp_path / "sessions", Scenario(streams=2, consumers=3).records(0, 20))
    advisories = "$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>"
    for command in (
        f"context add production --server {own.url} --select",
        f"context add lab --server {lab.url}",
        "stream add ORDERS --subjects orders.>",
        "consumer add ORDERS shipping --filter orders.shipped",
        f"stream add DROPPED --subjects {shlex.quote(advisories)}",
        *["pub orders.paid paid"] * 5,
    ):
        reader.run(f"natstui {command}")
    for step in steps(page):
        if step.command.startswith(BENCHMARK) and not runs_benchmarks:
            reader.run(f"{step.command} {NOBODY}", ConnectionFailed)
            continue
        lines = iter(reader.run(step.command).splitlines())
        for shown in step.shown:
            assert any(line.startswith(shown) for line in lines), (step.command, shown)
