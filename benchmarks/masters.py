"""The same tables, row for row, on one core, two, a cluster in one process tree and a real one."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.analysis import measured
from natstui.analysis.spark.session import SparkSettings, open_session
from tests.analysis.alike import Row, assert_alike
from tests.analysis.cluster import Cluster
from tests.analysis.locally import read_tables, record

LOCAL = ("local[1]", "local[2]", "local-cluster[2,1,1024]")


def _compare(spark: SparkSession, first: dict[str, list[Row]], out: Path) -> int:
    """Return how many rows are the same; fails with the first that is not."""
    found = read_tables(spark, out)
    for name, rows in first.items():
        assert_alike(name, found[name], rows)
    return sum(map(len, found.values()))


def main() -> None:
    """Run the pipeline on every master, and hold all tables to those of the first."""
    with tempfile.TemporaryDirectory(prefix="natstui-bench-") as place:
        root = Path(place)
        record(root / "sessions")
        with Cluster(root, workers_count=2) as cluster:
            walls_s = {}
            for number, master in enumerate((*LOCAL, cluster.url)):
                began_s = time.monotonic()
                words = (f"--master={master}", "--memory=512m")
                measured(root / "sessions" / "*", root / f"out{number}", *words)
                walls_s[master] = time.monotonic() - began_s
        spark = open_session(SparkSettings(root / "scratch", "local[2]"))
        first = read_tables(spark, root / "out0")
        for number, (master, wall_s) in enumerate(walls_s.items()):
            same_count = _compare(spark, first, root / f"out{number}")
            print(f"{master.partition('127')[0]:<26} {wall_s:6.1f} s  "
                  f"{same_count} rows in {len(first)} tables, the same", flush=True)  # fmt: skip
        spark.stop()


if __name__ == "__main__":
    main()
