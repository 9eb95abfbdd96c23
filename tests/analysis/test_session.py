"""Which Python the workers of Spark run on."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from natstui.analysis.spark.session import start_environment

SESSION = """
import sys
from pathlib import Path
from natstui.analysis.spark.session import SparkSettings, open_session
spark = open_session(SparkSettings(Path(sys.argv[1]), "local[1]", size_bytes=0))
print(spark.sparkContext.parallelize([1], 1).map(lambda _: sys.executable).first())
spark.stop()
"""


@pytest.mark.spark
def test_workers_on_this_machine_run_on_the_python_of_natstui(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "python3"
    other.write_text("#!/bin/sh\necho another Python >&2\nexit 1\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    words = [sys.executable, "-c", SESSION, str(tmp_path)]
    ran = subprocess.run(words, capture_output=True, text=True, timeout=200)
    assert ran.stdout == f"{sys.executable}\n", ran.stderr[-2000:]


@pytest.mark.parametrize("master", ["local", "local[*]", "local-cluster[2,1,512]"])
def test_the_user_may_choose_another_python(master: str) -> None:
    assert start_environment(master, {})["PYSPARK_PYTHON"] == sys.executable
    assert start_environment(master, {"PYSPARK_PYTHON": ""})["PYSPARK_PYTHON"] == sys.executable
    chosen = {"PYSPARK_PYTHON": "/opt/python3.12"}
    assert start_environment(master, chosen)["PYSPARK_PYTHON"] == "/opt/python3.12"


@pytest.mark.parametrize("master", ["spark://127.0.0.1:7077", "yarn", "k8s://https://host"])
def test_a_cluster_has_a_python_of_its_own(master: str) -> None:
    assert "PYSPARK_PYTHON" not in start_environment(master, {})
