"""Files in the current folder never run: every process of ours is started among hostile ones."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from natstui.analysis.launch import AnalysisRequest, run_job
from natstui.children import module_command
from natstui.cli.demo import run_shop
from natstui.cli.open_viewer import ENGINE_COMMAND, replay_engine_command
from natstui.cli.watch.run import WatchedSystem, watch_several_systems
from natstui.engine.analyzing import start_child
from natstui.errors import NatstuiError
from natstui.jetstream.testbed.broker import Broker
from natstui.tui.app.link import Link
from tests.architecture.source import ROOT
from tests.session.making import made
from tests.session.scenario import Scenario

HOSTILE = (
    "natstui", "json", "asyncio", "msgspec", "click", "plotext", "pyspark", "numpy", "nats",
)  # fmt: skip


def unprotected(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take away the protection that Spark's session of another test left in this process."""
    monkeypatch.delenv("PYTHONSAFEPATH", raising=False)


@pytest.fixture
def hostile(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A current folder whose modules leave a mark when they run."""
    folder = tmp_path / "hostile"
    folder.mkdir()
    for name in HOSTILE:
        code = f"import os\nos.mkdir({str(folder / 'ran')!r} + str(os.getpid()))\n"
        (folder / f"{name}.py").write_text(code)
    monkeypatch.chdir(folder)
    unprotected(monkeypatch)
    return folder


def bench(server: Broker, _folder: Path) -> None:
    words = ("bench", "js", "pub", "async", "hello", "--msgs", "10", "--server", server.url)
    done = subprocess.run(module_command("natstui", *words), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def analyze(_server: Broker, folder: Path) -> None:
    missing = folder / "missing"
    with pytest.raises(NatstuiError, match="missing"):
        run_job(AnalysisRequest((str(missing),), str(folder.parent / "out")), print)
    with start_child(missing) as child:
        assert child.stdout is not None
        said = child.stdout.readlines()[-1]
    assert b'"kind": "failed"' in said and b"missing" in said


def engine(server: Broker, folder: Path) -> None:
    recorded = made(folder.parent / "sessions", Scenario().beginning())
    for argv in ((*ENGINE_COMMAND, "--server", server.url), replay_engine_command(str(recorded))):
        link = Link(argv)
        try:
            assert link.wait_started()
        finally:
            link.close()


def demo(_server: Broker, _folder: Path) -> None:
    with run_shop(None) as shop:
        assert shop.url


def several(_server: Broker, _folder: Path) -> None:
    printed, failures = list[str](), list[str]()
    system = WatchedSystem("a", "context")
    watching = watch_several_systems(
        [system], ["--help"], printed.append, failures.append, is_once=True
    )
    assert (asyncio.run(watching), failures) == (0, [])
    # Of an object, the first letter is not passed on.
    assert printed[0].startswith('{"system":"a",sage: natstui watch')


def viewer(server: Broker, _folder: Path) -> None:
    """Start the viewer as `natstui serve` does for a browser."""
    words = module_command("natstui", "--server", server.url)
    drawn_elsewhere = {**os.environ, "TEXTUAL_DRIVER": "textual.drivers.web_driver:WebDriver"}
    pipe = subprocess.PIPE
    with subprocess.Popen(words, env=drawn_elsewhere, stdin=pipe, stdout=pipe) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == b"__GANGLION__\n"
        process.terminate()
        process.communicate(timeout=60)


CHEAP = ("natstui.analysis.job", "natstui watch")
CHILDREN: dict[str, Callable[[Broker, Path], None]] = {
    "natstui.bench.worker": bench,
    "natstui.analysis.job": analyze,
    "natstui": viewer,
    "natstui engine": engine,
    "natstui watch": several,
    "natstui.jetstream.testbed.shop.process": demo,
}


@pytest.mark.server
@pytest.mark.parametrize(
    "name",
    # All are started as these: tests/architecture/test_children.py.
    [name if name in CHEAP else pytest.param(name, marks=pytest.mark.long) for name in CHILDREN],
)
def test_a_process_of_ours_runs_nothing_of_the_current_folder(
    name: str, hostile: Path, nats_server: Broker
) -> None:
    CHILDREN[name](nats_server, hostile)
    assert list(hostile.glob("ran*")) == []


@pytest.mark.slow
def test_a_mark_is_left_where_python_looks_into_the_current_folder(hostile: Path) -> None:
    subprocess.run([sys.executable, "-m", "click"], capture_output=True, check=False)
    assert list(hostile.glob("ran*"))


SPARK_WORKERS = """
import os, sys
from pathlib import Path
from natstui.analysis.spark.session import SparkSettings, open_session
before = dict(os.environ)
spark = open_session(SparkSettings(Path(sys.argv[1]), "local[1]"))
print(*sorted(name for name in os.environ if "PYTHON" in name and name not in before))
print(*spark.sparkContext.parallelize([42], 1).map(lambda n: (sys.executable, n)).first())
spark.stop()
"""


@pytest.mark.long
@pytest.mark.spark
def test_python_that_spark_starts_is_ours_and_runs_nothing_of_the_current_folder(
    hostile: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    programs = tmp_path / "programs"
    programs.mkdir()
    other = programs / "python3"
    other.write_text("#!/bin/sh\necho another Python >&2\nexit 1\n")
    other.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:{os.environ['PATH']}")
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    words = [sys.executable, "-P", "-c", SPARK_WORKERS, str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    # What this process starts afterwards finds its modules as before.
    assert done.stdout == f"\n{sys.executable} 42\n", done.stderr[-2000:]
    assert list(hostile.glob("ran*")) == []


FROM_A_CHECKOUT = """
import os, subprocess, sys
sys.path[0] = os.getcwd()
from natstui.__main__ import main
from natstui.children import module_command
sys.argv = ["natstui", "--version"]
main()
sys.stdout.flush()
words = module_command("natstui", "--version")
subprocess.run([*words[:2], "-c", "import natstui; print(natstui.__file__)"], check=True)
"""


@pytest.mark.slow
@pytest.mark.parametrize("before", ["", "/elsewhere"])
def test_a_checkout_that_is_not_installed_starts_its_own_processes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: str
) -> None:
    unprotected(monkeypatch)
    monkeypatch.setenv("PYTHONPATH", before)
    checkout = tmp_path.resolve() / "checkout"
    checkout.mkdir()
    (checkout / "natstui").symlink_to(ROOT / "natstui")
    done = subprocess.run(
        [sys.executable, "-c", FROM_A_CHECKOUT], capture_output=True, text=True, cwd=checkout
    )
    version, module = done.stdout.splitlines()
    assert version.startswith("natstui "), done.stderr
    assert module == str(checkout / "natstui" / "__init__.py")


def test_a_replay_is_started_as_every_other_process_of_ours() -> None:
    assert replay_engine_command("recorded") == (
        *module_command("natstui"),
        "replay-engine",
        "recorded",
    )
