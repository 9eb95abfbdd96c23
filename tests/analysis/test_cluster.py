"""The tables of a cluster are those of this machine: master, workers and spark-submit."""

from __future__ import annotations

import json
import subprocess
import sys
import uuid
import zipfile
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from benchmarks._bench_run import bench_records
from benchmarks._fleet import START_AT_US, Fault, Plan
from benchmarks._sessions import write_session
from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold import answers as gold
from natstui.analysis.job import analyse
from natstui.analysis.progress import Progress
from natstui.analysis.spark.store import Store
from tests.analysis.alike import assert_alike
from tests.analysis.cluster import Cluster, submit

pytestmark = pytest.mark.spark

WEEK_US = 7 * 86_400_000_000
FAULTS = (
    Fault("no_pull", 1, 10, 80),
    Fault("poison", 3, 20, 60),
    Fault("recreate_stream", 2, 50),
    Fault("leader_change", 0, 40),
)


def recorded(folder: Path) -> None:
    """Write two sessions in which something happens for every table."""
    bench = bench_records(START_AT_US + 100_000_000, "run-1", 3)
    first = Plan(6, 8, 100, faults=FAULTS, gaps=((85, 95),), extra=bench)
    write_session(folder / "20260921T141320Z-first", first, records_per_segment=60)
    second = Plan(6, 8, 100, seed=2, started_at_us=START_AT_US + WEEK_US)
    write_session(folder / "20260928T141320Z-second", second, records_per_segment=60)


def tables(spark: SparkSession, out: Path) -> dict[str, list[dict[str, Any]]]:
    """Return the rows of every gold table."""
    frames = {t.name: spark.read.parquet(f"{out}/gold/{t.name}") for t in gold.TABLES}
    return {name: [row.asDict() for row in frame.collect()] for name, frame in frames.items()}


def test_spark_submit_to_a_cluster_gives_the_tables_of_a_local_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    sessions, here, there = tmp_path / "sessions", tmp_path / "here", tmp_path / "there"
    recorded(sessions)
    pattern = f"{sessions}/*"
    progress = Progress(lambda _: None, 1)
    analyse(spark, Store(spark, str(here), uuid.uuid4().hex), [pattern], Thresholds(), progress, 5)
    package = tmp_path / "natstui.zip"
    build = [sys.executable, "-m", "natstui.analysis.submit_zip", str(package)]
    assert subprocess.run(build, check=True, capture_output=True).returncode == 0
    with Cluster(tmp_path, workers_count=2) as cluster:
        ran = submit(cluster.url, package, pattern, "--out", str(there))
    assert ran.returncode == 0, ran.stderr[-3000:]
    told = json.loads(ran.stdout.splitlines()[-1])
    local, remote = tables(spark, here), tables(spark, there)
    assert told["rows"].keys() == local.keys()
    for name, rows in local.items():
        assert rows, f"{name} compares nothing with nothing"
        assert_alike(name, remote[name], rows)


def test_the_zip_holds_all_that_the_job_imports_and_nothing_of_the_screen(tmp_path: Path) -> None:
    package = tmp_path / "natstui.zip"
    build = [sys.executable, "-m", "natstui.analysis.submit_zip", str(package)]
    assert subprocess.run(build, check=True, capture_output=True).returncode == 0
    names = zipfile.ZipFile(package).namelist()
    assert "natstui/analysis/job.py" in names
    assert not [name for name in names if name.startswith(("natstui/tui", "natstui/jetstream"))]
    lines = (
        "import sys",
        f"sys.path.insert(0, {str(package)!r})",
        "import natstui.analysis.job",
        "print(natstui.__file__)",
    )
    alone = subprocess.run(
        [sys.executable, "-I", "-c", "\n".join(lines)], capture_output=True, check=False, text=True
    )
    assert alone.returncode == 0, alone.stderr
    assert alone.stdout.strip() == f"{package}/natstui/__init__.py"
