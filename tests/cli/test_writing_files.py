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
from tests.write_cases import EVENTS, IN_THE_WAY, LONG, WRITINGS, make_foreign

pytestmark = [pytest.mark.server, pytest.mark.slow, pytest.mark.timeout(300)]


def without_rights() -> list[str]:
    """Return what starts a process that may not do everything, where we may."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    assert setpriv is not None, "root may everything: this test needs setpriv"
    return [setpriv, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]


GROUPS = {
    "bench": ("bench --csv",),
    "record": ("record", "record --log-file"),
    "analyze": ("analyze --html", "analyze --notebook", "analyze --log", "analyze --scratch"),
    "screenshot": ("screenshot",),
    **{name: (name,) for name in LONG},
}
"""Commands that start processes; all others are in a group without a name."""
FAULTS = (pytest.mark.faults, pytest.mark.spark, pytest.mark.timeout(600))
REST = tuple(set(WRITINGS) - {name for names in GROUPS.values() for name in names})


@pytest.mark.parametrize(
    "group",
    [
        "", "bench", "record", "screenshot", pytest.param("analyze", marks=pytest.mark.spark),
        *(pytest.param(name, marks=FAULTS) for name in LONG),
    ],
)  # fmt: skip
def test_nothing_but_the_target_ever_changes(account: Account, tmp_path: Path, group: str) -> None:
    names = GROUPS.get(group, REST)
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
        timeout=580 if names[0] in LONG else 280,
        check=False,
    )  # fmt: skip
    cases = [json.loads(line) for line in done.stdout.splitlines()]
    wrong = [case for case in cases if case["wrong"]]
    assert not wrong, "\n".join(map(json.dumps, wrong))
    assert done.returncode == 0, done.stderr
    tried = {(case["command"], case["in_the_way"]) for case in cases}
    assert tried >= {(name, way) for name in names for way in (*IN_THE_WAY, *EVENTS)}
