"""Whatever is in the way of a command that writes a file: nothing but its target ever changes."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.accounts import Account
from tests.hostile_commands import filled
from tests.write_cases import (
    EVENTS,
    FOREIGN,
    IN_THE_WAY,
    NO_SPARK,
    WRITINGS,
    make_foreign,
)

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(600)]


def without_rights() -> list[str]:
    """Return what starts a process that may not do everything, where we may."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    assert setpriv is not None, "root may everything: this test needs setpriv"
    return [setpriv, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]


def cases_of(command: str, *ways: str) -> tuple[str, ...]:
    """Return the cases of a command in some situations."""
    return tuple(f"{command}::{way}" for way in ways)


OF_OTHERS = (FOREIGN,) if os.geteuid() == 0 else ()
"""Only root can make what is of another owner."""
SOME = ("nothing", "a link to a file", "a FIFO", "no parent", "a full disk")
"""What is tried of a command that starts a process or a screen in each situation."""
REPLACED = ("a hard link", "a plain file", "a read-only file")
"""What `--force` replaces, after an analysis."""
REFUSED = (
    "a link to a file", "a link to a folder", "a link to nothing", "a link to itself",
    "a link to a device", "a FIFO", "a socket", "a folder with files", "an empty folder",
    "no parent", "a file for a parent", *OF_OTHERS,
)  # fmt: skip
"""What is refused before an analysis."""
OF_A_KIND = (
    "stream backup", "backup", "object get", "sessions pack", "export", "context add",
    "context select", "record", "record --log-file",
)  # fmt: skip
"""They write as others do: folders, new files, files that are replaced, and into a library."""
PARTLY = (
    *(case for name in OF_A_KIND for case in cases_of(name, *SOME, *OF_OTHERS)),
    *cases_of("record --log-file", "a plain file"),
    *cases_of("bench --csv", "a full disk"),
    *cases_of("screenshot", "a link to a file"),
    *cases_of("analyze --html", *REFUSED, *REPLACED),
    *cases_of("analyze --html --force", *REFUSED),
    *cases_of("analyze --notebook", *REFUSED, *REPLACED),
)
"""What `make check` tries of commands that are tried whole by `make long`."""
LONG_GROUPS = {
    "what writes as others do: everything": OF_A_KIND,
    "bench, screenshot: everything": ("bench --csv", "screenshot"),
    "analyze: everything": (
        "analyze --html",
        "analyze --html --force",
        "analyze --notebook",
        "analyze --log",
        "analyze --scratch",
    ),
    "demo --store": ("demo --store",),
    "analyze --out, refused": cases_of("analyze --out", *NO_SPARK, *OF_OTHERS),
    **{
        f"analyze --out, {way}": cases_of("analyze --out", way)
        for way in (
            "nothing",
            "no parent",
            "an empty folder",
            "a folder with files",
            "a link to a folder",
            "links at temporary names",
            "two writers",
            "kill -9",
        )
    },
}
"""Commands that start processes, some situation by situation, for `make long`."""
MARKS_OF_LONG = (pytest.mark.long, pytest.mark.spark)
LONG = {name.partition("::")[0] for names in LONG_GROUPS.values() for name in names}
GROUPS = {"": (*(name for name in WRITINGS if name not in LONG), *PARTLY), **LONG_GROUPS}


def expected(case: str) -> set[tuple[str, str]]:
    """Return the command and the situations that a case tries."""
    name, _, way = case.partition("::")
    return {(name, one) for one in ((way,) if way else (*IN_THE_WAY, *EVENTS))}


def test_every_situation_of_every_command_is_tried() -> None:
    tried = {pair for cases in GROUPS.values() for case in cases for pair in expected(case)}
    assert tried >= {(name, way) for name in WRITINGS for way in (*IN_THE_WAY, *EVENTS)}


@pytest.mark.parametrize(
    "group", ["", *(pytest.param(name, marks=MARKS_OF_LONG) for name in LONG_GROUPS)]
)
def test_nothing_but_the_target_ever_changes(account: Account, tmp_path: Path, group: str) -> None:
    names = GROUPS[group]
    filled(account.url)
    folder = tmp_path / "writing"
    folder.mkdir()
    if os.geteuid() == 0:
        make_foreign(folder / "foreign")
    done = subprocess.run(
        [*without_rights(), sys.executable, "-m", "tests.write_cases", account.url, str(folder),
         *names],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=570,
        check=False,
    )  # fmt: skip
    cases = [json.loads(line) for line in done.stdout.splitlines()]
    wrong = [case for case in cases if case["wrong"]]
    assert not wrong, "\n".join(map(json.dumps, wrong))
    assert done.returncode == 0, done.stderr
    tried = {(case["command"], case["in_the_way"]) for case in cases}
    assert tried >= {pair for name in names for pair in expected(name)}


RUN_EACH = """
import dataclasses, json, sys
from tests.cli.test_manage import run_here
for words in json.loads(sys.argv[1]):
    print(json.dumps(dataclasses.asdict(run_here(*words))))
"""


@pytest.mark.long
def test_a_folder_that_the_user_may_not_reach_is_named(tmp_path: Path) -> None:
    code_of = {
        ("sessions", "ls", "--sessions"): 6,
        ("record", "--duration", "1s", "--sessions"): 6,
        ("health", "--session", "last", "--sessions"): 3,
        ("sessions", "show"): 2,
    }
    barred = tmp_path / "barred"
    barred.mkdir(mode=0)
    commands = json.dumps([(*command, str(barred / "sessions")) for command in code_of])
    done = subprocess.run(
        [*without_rights(), sys.executable, "-c", RUN_EACH, commands],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    barred.chmod(0o700)
    every = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(every) == len(code_of), done.stderr
    for each, (command, code) in zip(every, code_of.items(), strict=True):
        named = str(barred) in each["stderr"]
        assert (each["returncode"], named) == (code, True), (command, each)
        assert "Traceback" not in each["stderr"]
