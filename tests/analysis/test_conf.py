"""What the user gives Spark: settings, packages and jars reach it, and bad ones are refused."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from typing import Any

import pytest

from natstui.analysis.conf import check_conf_has_effect, read_conf
from natstui.analysis.launch import AnalysisRequest, child_command
from natstui.errors import AnalysisError
from tests.analysis.damaged import small
from tests.analysis.jobs import natstui


@pytest.mark.parametrize(
    ("word", "told"),
    [
        ("spark.eventLog.enabled", "--conf takes KEY=VALUE"),
        ("=1", "--conf takes KEY=VALUE"),
        ("fs.s3a.endpoint=x", "Spark's settings begin with spark."),
        ("spark.=x", "Spark's settings begin with spark."),
        ("spark.a b=x", "Spark's settings begin with spark."),
        ("spark.master=local", "use --master"),
        ("spark.jars=a.jar", "use --jars"),
        ("spark.sql.session.timeZone=CET", "all times are UTC"),
        ("spark.app.name=a\nb", "control character"),
    ],
)
def test_a_setting_that_spark_cannot_be_given_is_refused(word: str, told: str) -> None:
    with pytest.raises(AnalysisError) as refused:
        read_conf([word], [], [])
    assert told in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("word", ["delta", "io.delta:delta", "a:b:c:d", "a:b:", "a b:c:1", ""])
def test_a_package_without_its_three_parts_is_refused(word: str) -> None:
    with pytest.raises(AnalysisError, match="group:artifact:version"):
        read_conf([], [word], [])


def test_a_jar_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AnalysisError, match="there is no file"):
        read_conf([], [], [str(tmp_path / "no.jar")])
    with pytest.raises(AnalysisError, match=r"end with \.jar"):
        read_conf([], [], [str(tmp_path)])
    assert read_conf([], [], ["hdfs://name/a.jar,s3a://b/c.jar"]).jars == (
        "hdfs://name/a.jar", "s3a://b/c.jar",
    )  # fmt: skip


def test_the_last_of_two_values_holds_and_values_may_have_equals_signs() -> None:
    given = read_conf(["spark.a=1", "spark.b=x=y,z", "spark.a=2"], ["g:a:1,g:b:2"], [])
    assert given.start_settings() == {
        "spark.a": "2", "spark.b": "x=y,z", "spark.jars.packages": "g:a:1,g:b:2",
    }  # fmt: skip


def test_who_starts_spark_must_be_given_them() -> None:
    given = read_conf([], ["g:a:1"], [])
    with pytest.raises(AnalysisError, match="before the name of the program"):
        check_conf_has_effect(given, is_remote=False, is_submitted=True)
    with pytest.raises(AnalysisError, match="Connect server"):
        check_conf_has_effect(given, is_remote=True, is_submitted=False)
    check_conf_has_effect(read_conf(["spark.a=1"], [], []), is_remote=True, is_submitted=False)


def test_a_bad_setting_is_refused_before_a_process_starts() -> None:
    with pytest.raises(AnalysisError, match="KEY=VALUE"):
        child_command(AnalysisRequest(("a",), "out", conf=("bad",)))


def _repository(folder: Path) -> Path:
    """Write a folder of packages with one jar in it; return the settings that name it."""
    place = folder / "repository" / "test" / "natstui" / "nothing" / "1.0"
    place.mkdir(parents=True)
    _jar(place / "nothing-1.0.jar")
    (place / "nothing-1.0.pom").write_text(
        "<project><modelVersion>4.0.0</modelVersion><groupId>test.natstui</groupId>"
        "<artifactId>nothing</artifactId><version>1.0</version></project>"
    )
    parts = "[organisation]/[module]/[revision]/[module]-[revision]"
    settings = folder / "ivysettings.xml"
    settings.write_text(
        '<ivysettings><settings defaultResolver="here"/><resolvers><filesystem name="here" '
        f'm2compatible="true"><ivy pattern="{folder}/repository/{parts}.pom"/>'
        f'<artifact pattern="{folder}/repository/{parts}.[ext]"/></filesystem></resolvers>'
        "</ivysettings>"
    )
    return settings


def _jar(path: Path) -> Path:
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr("META-INF/MANIFEST.MF", "Manifest-Version: 1.0\n")
    return path


def _environment(events: Path) -> dict[str, Any]:
    """Return what Spark itself wrote down of what it was started with."""
    lines = [line for file in events.rglob("*") if file.is_file()
             for line in file.read_text(errors="replace").splitlines()]  # fmt: skip
    found = (json.loads(line) for line in lines if "SparkListenerEnvironmentUpdate" in line)
    environment: dict[str, Any] = next(found)
    return environment


@pytest.mark.long
@pytest.mark.spark
def test_settings_packages_and_jars_reach_spark_and_tables_have_its_format(
    tmp_path: Path,
) -> None:
    session, out, events = small(tmp_path / "sessions"), tmp_path / "out", tmp_path / "events"
    events.mkdir()
    settings = {
        "spark.sql.sources.default": "orc",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.jars.ivySettings": str(_repository(tmp_path)),
        "spark.jars.ivy": str(tmp_path / "ivy"),
        "spark.driver.extraJavaOptions": "-Dnatstui.test=1",
    }
    ran = natstui(
        "analyze", str(session), "--out", str(out), "--master", "local[2]", "--json",
        "--packages", "test.natstui:nothing:1.0", "--jars", str(_jar(tmp_path / "own.jar")),
        *(f"--conf={name}={value}" for name, value in settings.items()),
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    result = json.loads(ran.stdout)
    assert result["tables_format"] == "orc"
    assert result["tables"]["session"]["rows"]
    files = [path for path in (out / "gold" / "session").iterdir() if path.name[0] not in "._"]
    assert files
    assert all(path.read_bytes()[:3] == b"ORC" for path in files)
    environment = _environment(events)
    given = dict(environment["Spark Properties"])
    assert given["spark.sql.sources.default"] == "orc"
    assert "own.jar" in given["spark.jars"]
    added = [
        where for where, how in environment["Classpath Entries"].items() if how == "Added By User"
    ]
    assert any(where.endswith("nothing-1.0.jar") for where in added)
    assert "-Dnatstui.test=1" in given["spark.driver.extraJavaOptions"]
    assert "GC" in given["spark.driver.extraJavaOptions"]


@pytest.mark.long
@pytest.mark.spark
def test_a_package_that_cannot_be_had_is_one_sentence(tmp_path: Path) -> None:
    session = small(tmp_path / "sessions")
    ran = natstui(
        "analyze", str(session), "--out", str(tmp_path / "out"),
        "--packages", "test.natstui:absent:1.0",
        "--conf", f"spark.jars.ivySettings={_repository(tmp_path)}",
        "--conf", f"spark.jars.ivy={tmp_path / 'ivy'}",
    )  # fmt: skip
    assert ran.returncode != 0
    assert "test.natstui:absent:1.0" in ran.stderr
    assert "Traceback" not in ran.stderr


SENTENCES = {
    "spark.sql.sources.default=delta": "Spark does not know the table format of "
    "spark.sql.sources.default: add its package with --packages",
    "spark.eventLog.enabled=true": "Spark cannot write its event log ({events}): create that "
    "folder, or choose another with --conf spark.eventLog.dir=DIR",
}
"""Option that lacks something → what is said of it."""


@pytest.mark.long
@pytest.mark.spark
@pytest.mark.parametrize("option", SENTENCES)
def test_an_option_that_lacks_something_is_told_before_anything_is_computed(
    option: str, tmp_path: Path
) -> None:
    session, out, events = small(tmp_path / "sessions"), tmp_path / "out", tmp_path / "events"
    ran = natstui(
        "analyze", str(session), "--out", str(out), "--master", "local[2]",
        "--conf", option, "--conf", f"spark.eventLog.dir={events.as_uri()}",
    )  # fmt: skip
    assert ran.returncode == 7, ran.stderr
    *steps, sentence = ran.stderr.splitlines()
    assert sentence == f"natstui: {SENTENCES[option].format(events=events)}"
    assert steps == ["natstui: starting Spark"]
    assert not (out / "silver").exists()
