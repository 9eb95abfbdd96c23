"""A Spark cluster on loopback: a standalone master and workers, stopped by their process ids."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Self

import pyspark

SPARK_HOME = Path(pyspark.__file__).parent
START_S = 90.0
QUICK = {
    # Each process would compile every query for itself, which takes longer than all else; queries
    # that are compiled are tested within one process.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # One run of chmod for each file, not four.
    "spark.hadoop.fs.file.impl": "org.apache.hadoop.fs.RawLocalFileSystem",
}
"""What an operator may set, so that little work is done soon."""


def environment(**more: str) -> dict[str, str]:
    """Return an environment in which everything of Spark stays on loopback and small."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("SPARK_")}
    return {
        **kept,
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_MEMORY": "256m",
        "PYSPARK_PYTHON": sys.executable,
        **more,
    }


class Cluster:
    """A master and its workers of one core each, as long as the block lasts."""

    def __init__(self, folder: Path, workers_count: int) -> None:
        self._folder = folder
        self._workers_count = workers_count
        self._processes: list[subprocess.Popen[bytes]] = []
        self.url = ""

    def __enter__(self) -> Self:
        try:
            self._start("master", "Master", "--port", "0", "--webui-port", "0")
            self.url = self._said("master", r"Starting Spark master at (spark://127\.0\.0\.1:\d+)")
            for number in range(self._workers_count):
                folder = self._folder / f"work-{number}"
                sizes = ("--cores", "1", "--memory", "600m", "--work-dir", str(folder))
                self._start(f"worker-{number}", "Worker", *sizes, "--webui-port", "0", self.url)
            for number in range(self._workers_count):
                self._said(f"worker-{number}", "(Successfully registered with master)")
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for process in reversed(self._processes):
            process.terminate()
        for process in self._processes:
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def _start(self, name: str, role: str, *words: str) -> None:
        program = str(SPARK_HOME / "bin" / "spark-class")
        command = [program, f"org.apache.spark.deploy.{role.lower()}.{role}", *words]
        with (self._folder / f"{name}.log").open("wb") as log:
            process = subprocess.Popen(
                [*command, "--host", "127.0.0.1"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=environment(),
                cwd=self._folder,
            )
        self._processes.append(process)

    def _said(self, name: str, pattern: str) -> str:
        return said(self._folder / f"{name}.log", pattern)


def said(log: Path, pattern: str) -> str:
    """Return what a process says in its log, as soon as it does."""
    give_up_at = time.monotonic() + START_S
    while time.monotonic() < give_up_at:
        if found := re.search(pattern, log.read_text(errors="replace")):
            return found[1]
        time.sleep(0.1)
    raise AssertionError(f"{log.name} does not say {pattern}: {log.read_text()[-2000:]}")


def submit(master: str, package: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the pipeline by spark-submit, with what is in the package and nothing else of ours."""
    job = Path(__file__).parents[2] / "natstui" / "analysis" / "job.py"
    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.warehouse.dir": str(package.parent / "warehouse"),
        **QUICK,
    }
    options = [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
    memory = ["--driver-memory", "512m", "--executor-memory", "512m"]
    return subprocess.run(
        [str(SPARK_HOME / "bin" / "spark-submit"), "--master", master, *memory, *options,
         "--py-files", str(package), str(job), *words],
        capture_output=True,
        text=True,
        timeout=900,
        check=False,
        env=environment(),
        cwd=package.parent,
    )  # fmt: skip
