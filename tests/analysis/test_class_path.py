"""The jars that have the classes are looked through first."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from natstui.analysis.spark import class_path
from natstui.analysis.spark.class_path import SETTING, first_on_the_class_path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A Spark with a few jars, and nothing set beside it."""
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    monkeypatch.setattr(class_path, "_find_spark_home", lambda: str(tmp_path))
    (tmp_path / "jars").mkdir()
    for name in ("antlr-runtime-3.jar", "scala-library-2.13.jar", "spark-catalyst_2.13-4.jar"):
        (tmp_path / "jars" / name).touch()
    return tmp_path


def test_the_most_used_jars_come_first(home: Path) -> None:
    names = ("spark-catalyst_2.13-4.jar", "scala-library-2.13.jar")
    paths = os.pathsep.join(str(home / "jars" / name) for name in names)
    assert first_on_the_class_path() == {SETTING: paths}


def test_the_spark_that_is_installed_has_such_jars(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    paths = first_on_the_class_path()[SETTING].split(os.pathsep)
    assert len(paths) > 20 and all(map(os.path.isfile, paths))


def test_a_class_path_that_may_be_set_elsewhere_stays(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setenv("SPARK_CONF_DIR", str(home))
        assert first_on_the_class_path() == {}
    (home / "conf").mkdir()
    (home / "conf" / "spark-defaults.conf").write_text(f"{SETTING} /elsewhere/*")
    assert first_on_the_class_path() == {}


def test_without_jars_nothing_is_set(home: Path) -> None:
    for jar in (home / "jars").iterdir():
        jar.unlink()
    assert first_on_the_class_path() == {}
