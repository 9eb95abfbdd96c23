"""An analysis where something around it is wrong: paths, the home folder, kills."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.analysis.damaged import small
from tests.analysis.jobs import ENVIRONMENT, left_behind, natstui, started, told
from tests.analysis.limited import bound_by_permissions
from tests.analysis.locally import Locally

pytestmark = [pytest.mark.spark, pytest.mark.long]

ODD = "20260921T141320Z-ü% and spaces"


def test_paths_may_have_spaces_percent_signs_and_letters_of_any_kind(tmp_path: Path) -> None:
    folder = tmp_path / "my ü% recordings"
    session = small(folder / "sessions [1]", ODD)
    scratch = folder / "scratch {a b}"
    scratch.mkdir()
    out, page = folder / "out ü% *", folder / "page ü%.html"
    words = ("--out", str(out), "--scratch", str(scratch), "--html", str(page), "--json")
    first = natstui("analyze", str(session), *words)
    assert first.returncode == 0, first.stderr
    tables = json.loads(first.stdout)["tables"]
    (row,) = tables["session"]["rows"]
    assert ODD in row
    assert page.stat().st_size
    (session / "records-000002.jsonl.gz").touch()
    second = natstui("analyze", str(session), *words)
    assert second.returncode == 0, second.stderr
    assert json.loads(second.stdout)["tables"] == tables
    assert left_behind(out) == []


def test_a_home_that_cannot_be_written_is_named_or_not_needed(tmp_path: Path) -> None:
    session, home = small(tmp_path / "sessions"), tmp_path / "home"
    home.mkdir(mode=0o500)
    kept = {name: value for name, value in ENVIRONMENT.items() if not name.startswith("XDG_")}
    env = {**kept, "HOME": str(home)}
    refused = natstui("analyze", str(session), env=env, first=bound_by_permissions)
    assert refused.returncode in (6, 7), refused.stderr
    *_, sentence = refused.stderr.splitlines()
    assert f"cannot write the tables to {home}" in sentence
    words = ("--out", str(tmp_path / "out"), "--json")
    ran = natstui("analyze", str(session), *words, env=env, first=bound_by_permissions)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["tables"]["session"]["rows"]
    home.chmod(0o700)


KILLED_IN = ("reading ", "polls", "samples and events", "consumer rate", "collecting the results")
"""The steps in which a run is killed, one after the other, into the same folder."""


def test_runs_that_are_killed_leave_nothing_that_the_next_one_counts(
    spark: SparkSession, locally: Locally, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    words = (*map(str, locally.folders), "--out", str(out))
    for step in KILLED_IN:
        child = started(*words, "--master", "local[2]")
        while not (text := told(child)["text"]).startswith(step):
            assert text
        os.killpg(child.pid, signal.SIGKILL)
        child.wait(60)
        assert child.stdin is not None and child.stdout is not None
        child.stdin.close()
        child.stdout.close()
    ran = natstui("analyze", *words, "--json", "--rows", "1000")
    assert ran.returncode == 0, ran.stderr
    locally.assert_same_tables(spark, out)
    assert left_behind(out) == []
    assert json.loads(ran.stdout)["sessions"] == [folder.name for folder in locally.folders]
