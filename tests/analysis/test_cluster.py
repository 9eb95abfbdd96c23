"""The tables of a cluster are those of this machine: master, workers and spark-submit."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from natstui.analysis.submit_zip import write_zip
from tests.analysis.cluster import Cluster, submit
from tests.analysis.damaged import small
from tests.analysis.locally import Locally

pytestmark = pytest.mark.spark


@pytest.mark.long
def test_spark_submit_to_a_cluster_gives_the_tables_of_a_local_run(
    spark: SparkSession, locally: Locally, tmp_path: Path
) -> None:
    there = tmp_path / "there"
    package = tmp_path / "natstui.zip"
    build = [sys.executable, "-m", "natstui.analysis.submit_zip", str(package)]
    assert subprocess.run(build, check=True, capture_output=True).returncode == 0
    pattern = f"{locally.folders[0].parent}/*"
    with Cluster(tmp_path, workers_count=2) as cluster:
        ran = submit(cluster.url, package, pattern, "--out", str(there))
    assert ran.returncode == 0, ran.stderr[-3000:]
    told = json.loads(ran.stdout.splitlines()[-1])
    assert told["rows"].keys() == locally.tables.keys()
    locally.assert_same_tables(spark, there)


@pytest.mark.long
def test_a_session_without_findings_is_named_as_not_judged_on_a_cluster(
    spark: SparkSession, tmp_path: Path
) -> None:
    session, there = small(tmp_path, ticks=10), tmp_path / "there"
    with Cluster(tmp_path, workers_count=1) as cluster:
        package = write_zip(tmp_path / "natstui.zip")
        ran = submit(cluster.url, package, str(session), "--out", str(there))
    assert ran.returncode == 0, ran.stderr[-3000:]
    rows = spark.read.parquet(f"{there}/gold/session").select("session", "not_judged").collect()
    reason = "the code that reads recordings is not installed on the Spark cluster"
    assert [tuple(row) for row in rows] == [(session.name, reason)]


def test_the_zip_holds_all_that_the_job_imports_and_nothing_of_the_screen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "natstui.zip"
    monkeypatch.setattr(sys, "argv", ["submit_zip", str(package)])
    # A test that reads every module may have left it in this process.
    monkeypatch.delitem(sys.modules, "natstui.analysis.submit_zip", raising=False)
    runpy.run_module("natstui.analysis.submit_zip", run_name="__main__")
    names = zipfile.ZipFile(package).namelist()
    assert "natstui/analysis/job.py" in names
    assert not [name for name in names if name.startswith(("natstui/tui", "natstui/jetstream"))]
    lines = (
        "import sys",
        f"sys.path.insert(0, {str(package)!r})",
        "import natstui.analysis.job",
        "import natstui.analysis.pipeline",
        "print(natstui.__file__)",
    )
    alone = subprocess.run(
        [sys.executable, "-I", "-c", "\n".join(lines)], capture_output=True, check=False, text=True
    )
    assert alone.returncode == 0, alone.stderr
    assert alone.stdout.strip() == f"{package}/natstui/__init__.py"
