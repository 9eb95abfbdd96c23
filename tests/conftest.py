"""What every room's tests share: servers, accounts, and no settings of the developer."""

from __future__ import annotations

import os
import signal
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from natstui.jetstream.testbed.broker import Broker, ReservedPorts
from natstui.jetstream.testbed.cluster import Cluster
from tests.accounts import Account, ClusterAccount, account_names, accounts_config
from tests.server_versions import LEFT_OUT, leave_out

MARKERS = {
    "new_account": "server",
    "nats_server": "server",
    "nats_server_factory": "server",
    "new_cluster_account": "cluster",
    "nats_cluster": "cluster",
    "spark": "spark",
}
"""The marker that a test needs to use a fixture."""
GROUPS = {"cluster_account": "cluster", "spark": "spark"}
"""The xdist group of the tests that share what a fixture starts once for the run."""
TOGETHER = {"architecture"}
"""Folders whose tests share what they have read, in one worker."""
LONG_TIMEOUT_S = 600
LONGEST_TIMEOUT_S = 900
"""For what is left to `make long`, and for tests of whole analyses: the first that uses one of
`WHOLE_ANALYSES` waits for it, on a machine that does other things."""
WHOLE_ANALYSES = {"answers", "two_runs"}


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what this machine lacks; mark the rest with its group and its time-out."""
    leave_out(config, items)
    for item in items:
        for fixture in GROUPS.keys() & set(getattr(item, "fixturenames", ())):
            item.add_marker(pytest.mark.xdist_group(GROUPS[fixture]))
        for folder in TOGETHER & set(item.path.parts):
            item.add_marker(pytest.mark.xdist_group(folder))
        is_long = any(map(item.get_closest_marker, ("spark", "cluster")))
        if is_long and item.get_closest_marker("timeout") is None:
            longest = bool(WHOLE_ANALYSES & set(getattr(item, "fixturenames", ())))
            longest = longest or item.get_closest_marker("long") is not None
            timeout_s = LONGEST_TIMEOUT_S if longest else LONG_TIMEOUT_S
            item.add_marker(pytest.mark.timeout(timeout_s))


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Print a failure at once: it is all that remains of a run that is stopped from outside."""
    if report.failed and os.environ.get("PYTEST_XDIST_WORKER") is None:
        print(f"\n{report.nodeid} failed:\n{report.longreprtext}", flush=True)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Pass on to the run what its worker left out; all of them leave out the same."""
    if hasattr(session.config, "workeroutput"):
        left_out = session.config.stash.get(LEFT_OUT, Counter())
        session.config.workeroutput["left_out"] = dict(left_out)


class LeftOutOfWorkers:
    """Receives what the workers of xdist left out."""

    def __init__(self, config: pytest.Config) -> None:
        self._config = config

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """Keep what a worker left out; one that died tells nothing."""
        left_out = getattr(node, "workeroutput", {}).get("left_out")
        if left_out is not None:
            self._config.stash[LEFT_OUT] = Counter(left_out)


def pytest_configure(config: pytest.Config) -> None:
    """Listen to the workers."""
    config.pluginmanager.register(LeftOutOfWorkers(config))


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print each file that another command runs, and what needs another server or a program."""
    for folder in config.getoption("ignore") or ():
        for file in sorted(Path(folder).glob("**/test_*.py")):
            terminalreporter.write_line(f"not collected: {file}: run by make {Path(folder).name}")
    for reason, count in sorted(config.stash.get(LEFT_OUT, Counter()).items()):
        terminalreporter.write_line(f"left out: {count} tests: {reason}")


# A shell that starts the tests in the background lets them ignore Ctrl-C, and nohup lets them
# ignore SIGHUP, and with them whatever they start and interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, signal.SIG_DFL)

# A busy machine may take long for an example: that is no failure.
settings.register_profile("any machine", deadline=None)
settings.load_profile("any machine")

# A process that compiles natstui takes twice as long to start, and tests start hundreds.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


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


@pytest.fixture(autouse=True)
def marked(request: pytest.FixtureRequest) -> None:
    """Fail a test that uses a server, a cluster or Spark and lacks the marker."""
    for fixture in MARKERS.keys() & set(request.fixturenames):
        if request.node.get_closest_marker(MARKERS[fixture]) is None:
            pytest.fail(f"a test that uses {fixture} needs pytest.mark.{MARKERS[fixture]}")


@pytest.fixture(scope="session")
def new_account(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[], Account]]:
    """Return accounts that nobody has used; they are on one server until it has no more."""
    with ExitStack() as stack:

        def accounts() -> Iterator[Account]:
            while True:
                broker = Broker(
                    store=tmp_path_factory.mktemp("accounts"),
                    config_text=accounts_config(),
                    name="server1",
                )
                stack.enter_context(broker)
                yield from (Account(name, broker.url) for name in account_names())

        yield accounts().__next__


@pytest.fixture
def account(new_account: Callable[[], Account]) -> Account:
    """An empty account on the server of the worker; `.url` has its user and password."""
    return new_account()


@pytest.fixture(scope="session")
def new_cluster_account() -> Iterator[Callable[[], ClusterAccount]]:
    """Return accounts nobody has used, of one cluster of three nodes."""
    names = iter(account_names())
    first = next(names)
    joining = {"user": first, "password": first}
    with Cluster(accounts=accounts_config(), connect_options=joining) as cluster:
        yield lambda: ClusterAccount(next(names), cluster.urls)


@pytest.fixture
def cluster_account(new_cluster_account: Callable[[], ClusterAccount]) -> ClusterAccount:
    """An empty account on the cluster of the run, which the test leaves running."""
    return new_cluster_account()


@pytest.fixture
def nats_server_factory(tmp_path: Path) -> Iterator[Callable[..., Broker]]:
    """Start as many servers as a test needs: `factory(config_text="", jetstream=True)`."""
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
    with ReservedPorts(1) as ports:
        yield ports.numbers[0]


@pytest.fixture
def nats_server(nats_server_factory: Callable[..., Broker]) -> Broker:
    """A server of the test's own: for what concerns its configuration, its death or its disk."""
    return nats_server_factory()


@pytest.fixture
def nats_cluster() -> Iterator[Cluster]:
    """A cluster of the test's own, for faults: three nodes; user `app`, password `app`."""
    with Cluster() as cluster:
        yield cluster
