"""What every room's tests share: a real nats-server per test, and no settings of the developer."""

from __future__ import annotations

import gc
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import cache
from pathlib import Path

import pytest
from hypothesis import settings
from xdist.scheduler.loadscope import LoadScopeScheduling

from natstui.jetstream.testbed.broker import Broker
from natstui.jetstream.testbed.cluster import Cluster
from natstui.jetstream.testbed.ports import HeldPorts
from tests.duration import SPARK, SPARK_PROCESSES, longest
from tests.quick import has_quick_tests, is_quick

# The client in Go is the NATS CLI.
collect_ignore = [] if shutil.which("nats") else ["jetstream/test_holders_in_two_languages.py"]


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--quick` is for people at work; `make check` runs everything."""
    parser.addoption("--quick", action="store_true", help="only tests without server and Java")


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Do not even import with `--quick` a file of which no test is chosen."""
    is_test = collection_path.name.startswith("test_") and collection_path.suffix == ".py"
    if is_test and config.getoption("--quick") and not has_quick_tests(collection_path):
        return True
    return None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out with `--quick` what starts a server, a JVM or a process."""
    if not config.getoption("--quick"):
        return
    chosen = [it for it in items if is_quick(it.path, getattr(it, "fixturenames", ()))]
    config.hook.pytest_deselected(items=[it for it in items if it not in set(chosen)])
    items[:] = chosen


def pytest_collection_finish() -> None:
    """Spend little on garbage: it took a third of the time of whatever runs an app."""
    gc.collect()
    # What is imported stays.
    gc.freeze()
    gc.set_threshold(5000, 10, 10)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Say at once what failed: of a run that is ended from outside, that is all one has."""
    if report.failed and os.environ.get("PYTEST_XDIST_WORKER") is None:
        print(f"\n{report.nodeid} failed:\n{report.longreprtext}", flush=True)


ROOT = Path(__file__).parent.parent


class FileScheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives a worker whole files, which share servers; two of them get all that start Spark."""

    def _split_scope(self, nodeid: str) -> str:
        """Return what the test has to run together with."""
        path = nodeid.split("::", 1)[0]
        return _spark_of(path) or path

    def _assign_work_unit(self, node: object) -> None:
        """Give a worker what takes longest: at the end nobody waits for a file begun late."""
        self.workqueue.move_to_end(longest(self.workqueue), last=False)
        super()._assign_work_unit(node)


@cache
def _spark_of(path: str) -> str | None:
    """Return where a file has Spark: in the session of the worker, or in processes of its own."""
    text = (ROOT / path).read_text(encoding="utf-8")
    if "pytest.mark.spark" not in text:
        return None
    return SPARK if any(name in text for name in ("SparkSession", "Analysed")) else SPARK_PROCESSES


def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> FileScheduling | None:
    """One session of Spark is shared by all that use it; more would need more memory."""
    return FileScheduling(config, log) if config.getvalue("dist") == "loadscope" else None


# A shell that starts the tests in the background lets them ignore Ctrl-C, and with them whatever
# they start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# A busy machine may take long for an example: that is no failure.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

# Whatever is started finds byte code, as where it is installed: a process takes as long to compile
# natstui as for all else of its start, and tests start thousands.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# Spark's jobs of tests are trivial: most of their time would go into compiling them well, into
# checking the bytecode of Spark and of what it generates, and into the chmod of every small file,
# for which the JVM starts two processes unless it is told to start one.
os.environ.setdefault(
    "JAVA_TOOL_OPTIONS",
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m "
    "-XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote "
    "-Djdk.lang.Process.launchMechanism=VFORK",
)


def keep_apart(environ: pytest.MonkeyPatch, folders: Path) -> None:
    """Let everything that is started keep its files below a folder."""
    for kind in ("CONFIG", "STATE", "DATA", "CACHE"):
        environ.setenv(f"XDG_{kind}_HOME", str(folders / kind.lower()))
    for name in [name for name in os.environ if name.startswith(("NATS_", "NATSTUI_"))]:
        if name != "NATS_SERVER":
            environ.delenv(name)


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Settings, journals and what the viewer remembers are the test's, not the developer's."""
    keep_apart(monkeypatch, tmp_path / "folders")


@pytest.fixture
def nats_server_factory(tmp_path: Path) -> Iterator[Callable[..., Broker]]:
    """Start as many servers as a test asks for: `factory(config_text="", jetstream=True)`."""
    with ExitStack() as stack:
        names = (f"server{i}" for i in range(1, 1000))

        def start(config_text: str = "", *, jetstream: bool = True) -> Broker:
            name = next(names)
            broker = Broker(
                store=tmp_path / name, config_text=config_text, name=name, jetstream=jetstream
            )
            return stack.enter_context(broker)

        yield start


@pytest.fixture
def held_port() -> Iterator[int]:
    """A loopback port on which nobody listens, kept for the test: to listen at, or to call."""
    with HeldPorts(1) as ports:
        yield ports.numbers[0]


@pytest.fixture
def nats_server(nats_server_factory: Callable[..., Broker]) -> Broker:
    """A fresh server with JetStream and an empty store; `.url` is where it listens."""
    return nats_server_factory()


@pytest.fixture
def nats_cluster() -> Iterator[Cluster]:
    """Three nodes with a meta leader; connect as user `app`, password `app`."""
    with Cluster() as cluster:
        yield cluster
