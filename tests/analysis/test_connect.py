"""Spark Connect: the same tables through a server, or a sentence about what is missing."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from benchmarks._fleet import Plan
from benchmarks._sessions import write_session
from natstui.analysis.launch import AnalysisRequest, child_command
from natstui.cli.sessions.analyze import analyze
from natstui.errors import MissingExtra, NatstuiError
from tests.analysis.alike import assert_alike
from tests.analysis.cluster import QUICK, SPARK_HOME, environment, said
from tests.analysis.damaged import NAME
from tests.analysis.jobs import natstui
from tests.analysis.locally import Locally

pytestmark = pytest.mark.spark


@contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """Run a server on loopback; yields its address."""
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        **QUICK,
    }
    options = [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
    log = folder / "connect.log"
    with log.open("wb") as file:
        process = subprocess.Popen(
            [str(SPARK_HOME / "bin" / "spark-submit"), "--master", "local[2]", *options,
             "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
             "spark-internal"],
            stdin=subprocess.DEVNULL, stdout=file, stderr=file,
            env=environment(SPARK_DAEMON_MEMORY="1g"), cwd=folder,
        )  # fmt: skip
    try:
        port = said(log, r"SparkConnectService\' on port (\d+)")
        yield f"sc://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(60)


def has_client() -> bool:
    """Tell whether the extra is installed, which `dev` brings along."""
    return importlib.util.find_spec("grpc") is not None


@pytest.mark.long
def test_a_connect_server_gives_the_tables_of_a_local_run(
    spark: SparkSession, locally: Locally, tmp_path: Path
) -> None:
    if not has_client():
        with pytest.raises(MissingExtra, match=r"natstui\[connect\]"):
            child_command(AnalysisRequest(("x",), "y", remote="sc://127.0.0.1:1"))
        return
    there = tmp_path / "there"
    with connect_server(tmp_path) as address:
        words = ("--remote", address, "--out", str(there), "--json")
        ran = natstui("analyze", *map(str, locally.folders), *words)
    assert ran.returncode == 0, ran.stderr
    remote = json.loads(ran.stdout)
    locally.assert_same_tables(spark, there)
    for name, table in locally.result["tables"].items():
        assert remote["tables"][name]["cut"] == table["cut"]
        names = [column["name"] for column in table["columns"]]
        rows, expected = (
            [dict(zip(names, row, strict=True)) for row in one["tables"][name]["rows"]]
            for one in (remote, locally.result)
        )
        assert len(rows) == len(expected)
        if not table["cut"]:
            # Of rows that weigh the same, any may be among the first.
            assert_alike(name, rows, expected)


@pytest.mark.long
def test_a_session_without_findings_is_named_as_not_judged_over_connect(tmp_path: Path) -> None:
    if not has_client():
        with pytest.raises(MissingExtra, match=r"natstui\[connect\]"):
            child_command(AnalysisRequest(("x",), "y", remote="sc://127.0.0.1:1"))
        return
    folder = write_session(tmp_path / NAME, Plan(4, 6, 10))
    with connect_server(tmp_path) as address:
        words = ("--remote", address, "--out", str(tmp_path / "there"), "--json")
        ran = natstui("analyze", str(folder), *words)
    assert ran.returncode == 0, ran.stderr
    assert not_judged(json.loads(ran.stdout)) == {
        NAME: "the recording is on the Spark Connect server, not on this machine"
    }


def not_judged(result: dict[str, Any]) -> dict[str, str]:
    """Return the sessions of a result that were not judged, each with the reason."""
    table = result["tables"]["session"]
    names = [column["name"] for column in table["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in table["rows"]]
    return {row["session"]: row["not_judged"] for row in rows if row["not_judged"]}


def test_a_connect_server_that_is_not_there_is_one_sentence(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = write_session(tmp_path / NAME, Plan(4, 6, 10))
    words = ("--remote", "sc://127.0.0.1:1", "--out", str(tmp_path / "out"))
    with pytest.raises(NatstuiError) as refusal:
        analyze.main([str(folder), *words], standalone_mode=False)
    assert capfd.readouterr().out == ""
    expected = (7, "no Spark Connect server replies") if has_client() else (2, "natstui[connect]")
    assert refusal.value.exit_code == expected[0]
    assert expected[1] in str(refusal.value)
