"""Which Python the workers of Spark run on."""

from __future__ import annotations

import sys

import pytest

from natstui.analysis.spark.session import start_environment


@pytest.mark.parametrize("master", ["local", "local[*]", "local-cluster[2,1,512]"])
def test_the_user_may_choose_another_python(master: str) -> None:
    alone = start_environment(master, {})
    # It finds no module in the current folder.
    assert (alone["PYSPARK_PYTHON"], alone["PYTHONSAFEPATH"]) == (sys.executable, "1")
    assert start_environment(master, {"PYSPARK_PYTHON": ""})["PYSPARK_PYTHON"] == sys.executable
    chosen = {"PYSPARK_PYTHON": "/opt/python3.12"}
    assert start_environment(master, chosen)["PYSPARK_PYTHON"] == "/opt/python3.12"


@pytest.mark.parametrize("master", ["spark://127.0.0.1:7077", "yarn", "k8s://https://host"])
def test_a_cluster_has_a_python_of_its_own(master: str) -> None:
    assert "PYSPARK_PYTHON" not in start_environment(master, {})
