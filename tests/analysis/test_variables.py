"""Variables of the environment that break Spark, or that are meant for a cluster."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.analysis.damaged import small
from tests.analysis.jobs import ENVIRONMENT, natstui

pytestmark = [pytest.mark.spark, pytest.mark.long]

Prepare = Callable[[Path], str]


def _options(_: Path) -> str:
    return "-XX:NoSuchOption=1"


def _nowhere(folder: Path) -> str:
    return str(folder / "nowhere")


def _server(_: Path) -> str:
    return "sc://127.0.0.1:1"


def _no_xml(folder: Path) -> str:
    (folder / "core-site.xml").write_text("<configuration><property>")
    return str(folder)


def _script_that_ends(folder: Path) -> str:
    (folder / "spark-env.sh").write_text("exit 3\n")
    return str(folder)


BROKEN: dict[str, Prepare] = {
    "_JAVA_OPTIONS": _options,
    "JAVA_TOOL_OPTIONS": _options,
    "JDK_JAVA_OPTIONS": _options,
    "SPARK_HOME": _nowhere,
    "SPARK_REMOTE": _server,
    "SPARK_CONF_DIR": _script_that_ends,
    "HADOOP_CONF_DIR": _no_xml,
}
"""Variable of the environment → what it is set to, that nothing can start with."""


@pytest.mark.parametrize("name", BROKEN)
def test_a_variable_that_breaks_spark_is_named_in_one_sentence(name: str, tmp_path: Path) -> None:
    session, folder = small(tmp_path / "sessions"), tmp_path / "conf"
    folder.mkdir()
    value = BROKEN[name](folder)
    words = ("analyze", str(session), "--out", str(tmp_path / "out"))
    ran = natstui(*words, env={**ENVIRONMENT, name: value})
    assert ran.returncode == 7, ran.stderr
    *_, sentence = ran.stderr.splitlines()
    assert name in sentence
    assert "Traceback" not in ran.stderr


def test_what_is_configured_for_a_cluster_or_for_workers_harms_no_local_run(
    tmp_path: Path,
) -> None:
    session, folder = small(tmp_path / "sessions"), tmp_path / "conf"
    folder.mkdir()
    away = "hdfs://nowhere.invalid:9000"
    settings = {
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"{away}/events",
        "spark.sql.warehouse.dir": f"{away}/warehouse",
        "spark.hadoop.fs.defaultFS": away,
        "spark.master": "spark://nowhere.invalid:7077",
    }
    text = "".join(f"{name} {value}\n" for name, value in settings.items())
    (folder / "spark-defaults.conf").write_text(text)
    env = {**ENVIRONMENT, "SPARK_CONF_DIR": str(folder), "PYSPARK_PYTHON": str(folder / "python")}
    ran = natstui("analyze", str(session), "--out", str(tmp_path / "out"), "--json", env=env)
    assert ran.returncode == 0, ran.stderr
    assert json.loads(ran.stdout)["tables"]["session"]["rows"]
