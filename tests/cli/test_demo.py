"""`natstui demo` starts quickly, and leaves nothing behind however it ends."""

from __future__ import annotations

import asyncio
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import urlsplit

import nats
import pytest

from natstui.cli import demo, open_viewer
from natstui.cli.demo import DemoShop, _end_servers, _remove_server_variables, write_context
from natstui.cli.options import ConnectionFlags
from natstui.config import Connection
from natstui.jetstream.testbed.broker import server_binary
from tests.cli.processes import PATIENCE_S, NatstuiProcess, assert_nothing_is_left, pids_of
from tests.cli.test_manage import Done, run_here
from tests.jetstream.demo_watch import eventually

pytestmark = pytest.mark.server

BACK_WITHIN_S = 60.0
PAYMENTS = "STREAM.INFO.PAYMENTS"
SEEN_S = 15.0
"""At least so long a killed server stays down, to be seen."""


class Demo:
    """A headless demo whose temporary files and processes can be told from all others."""

    def __init__(self, temporary: Path, *words: str) -> None:
        self.temporary = temporary
        words = ("demo", "--headless", *words)
        self.app = NatstuiProcess(*words, environment={"TMPDIR": str(temporary)})
        self.url = self.app.stdout.readline().strip()

    def pids(self, word: str = "") -> list[int]:
        """Return its servers and its shop, not the app itself."""
        return [pid for pid in pids_of(self.temporary, word) if pid != self.app.pid]

    def ended(self) -> tuple[int, str]:
        """Wait for the app and return its exit code and what it said to people."""
        _, said = self.app.communicate(timeout=PATIENCE_S)
        return self.app.returncode, said

    def assert_nothing_is_left(self) -> None:
        """Wait until neither a process nor a file is left."""
        assert_nothing_is_left(self.temporary)


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


@contextmanager
def running(temporary: Path, *words: str) -> Iterator[Demo]:
    demo = Demo(temporary, *words)
    try:
        assert "nats://127.0.0.1:" in demo.url
        assert len(demo.pids()) == 4
        yield demo
    finally:
        demo.app.kill()
        demo.app.communicate()


@pytest.mark.long
def test_a_demo_told_to_stop_leaves_nothing_and_is_ready_after_three_seconds_of_the_processor(
    temporary: Path,
) -> None:
    """How long that is, `python -m benchmarks` measures: here others use the machine too."""
    took_s = []
    for number in (signal.SIGINT, signal.SIGHUP):
        before_s = used_s()
        with running(temporary) as demo:
            # Where the signal finds it before it listens for it, it dies of it, and nothing is
            # left too.
            demo.app.send_signal(number)
            code, said = demo.ended()
            assert "Traceback" not in said
            assert code in (0, 1, -number)
            demo.assert_nothing_is_left()
        took_s.append(used_s() - before_s)
    # While others wait for the processor, too, the same work takes more of its time.
    assert min(took_s) < 3.0


WAITING = """
import signal
from natstui.cli.demo import _wait_for_stop
signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGHUP, signal.SIGTERM, signal.SIGCHLD})
print(flush=True)
_wait_for_stop()
"""


@pytest.mark.parametrize(
    ("before", "numbers", "code"),
    [
        ((), [signal.SIGHUP], 0),
        # Of two, the smaller number comes first.
        (("nohup",), [signal.SIGHUP, signal.SIGCHLD], 1),
    ],
    ids=["its terminal goes", "under nohup its terminal goes"],
)
def test_a_demo_ends_with_its_terminal_but_under_nohup_only_with_its_shop(
    before: tuple[str, ...], numbers: list[signal.Signals], code: int
) -> None:
    demo = subprocess.Popen(
        [*before, sys.executable, "-c", WAITING],
        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert demo.stdout is not None
    demo.stdout.readline()
    for number in numbers:
        demo.send_signal(number)
    _, said = demo.communicate(timeout=PATIENCE_S)
    assert demo.returncode == code, said
    assert ("the servers or the traffic of the demo ended unexpectedly" in said) is bool(code), (
        said
    )


def test_servers_that_a_killed_shop_left_are_ended() -> None:
    server = subprocess.Popen(["sleep", "600"], start_new_session=True)
    reaping = threading.Thread(target=server.wait)
    reaping.start()
    _end_servers(server.pid)
    reaping.join(PATIENCE_S)
    assert server.returncode == -signal.SIGTERM


def used_s() -> float:
    """Return the time of the processor that ended processes of this one took."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def test_json_is_refused_beside_a_screen() -> None:
    refused = run_here("demo", "--json")
    assert refused.returncode == 2
    assert "--json belongs to --headless" in json.loads(refused.stderr)["error"]


@pytest.mark.long
@pytest.mark.parametrize(
    "killed", [pytest.param(" -n n3 ", id="one"), pytest.param("nats-server", id="all")]
)
async def test_a_killed_server_comes_back_with_its_messages_its_streams_and_its_traffic(
    temporary: Path, killed: str
) -> None:
    with running(temporary) as demo:
        await a_killed_server_comes_back(demo, killed)
        if killed == "nats-server":
            a_demo_whose_shop_is_killed_says_so_and_leaves_nothing(demo)


async def a_killed_server_comes_back(demo: Demo, killed: str) -> None:
    verb = "STREAM.INFO.ORDERS"
    seen = await eventually(demo.url, verb, lambda a: a["state"]["last_seq"] > 3_000)
    pids = demo.pids(killed)
    assert len(pids) == (3 if killed == "nats-server" else 1)
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    killed_s = time.monotonic()
    grown = seen["state"]["last_seq"] + 30
    if len(pids) == 1:
        # The others go on without it.
        await eventually(demo.url, verb, lambda a: a["state"]["last_seq"] > grown)
    # One that was killed is still there for a moment.
    while len({*demo.pids(killed)} - {*pids}) < len(pids):
        assert time.monotonic() < killed_s + BACK_WITHIN_S
        await asyncio.sleep(0.2)
    assert time.monotonic() - killed_s > SEEN_S
    await accepting(demo.url)
    await eventually(demo.url, verb, lambda a: a["state"]["last_seq"] > grown)
    # It was in memory only, on n3.
    telemetry = "STREAM.INFO.TELEMETRY"
    await eventually(demo.url, telemetry, lambda a: a["state"]["messages"] > 0)


async def what_matters_is_on_every_server_and_the_rest_on_one(url: str) -> None:
    orders = await eventually(url, "STREAM.INFO.ORDERS", lambda _: True)
    sensors = await eventually(url, "STREAM.INFO.TELEMETRY", lambda _: True)
    members = {orders["cluster"]["leader"], *(r["name"] for r in orders["cluster"]["replicas"])}
    assert members == {"n1", "n2", "n3"}
    assert sensors["cluster"]["leader"] == "n3" and not sensors["cluster"].get("replicas")


def a_demo_whose_shop_is_killed_says_so_and_leaves_nothing(demo: Demo) -> None:
    (shop,) = demo.pids("testbed.shop.process")
    os.kill(shop, signal.SIGKILL)
    code, said = demo.ended()
    assert code == 1
    assert said.strip().splitlines() == [
        "natstui: the servers or the traffic of the demo ended unexpectedly"
    ]
    demo.assert_nothing_is_left()


async def accepting(url: str) -> None:
    """Wait until a server of the demo accepts connections."""
    give_up_at = time.monotonic() + BACK_WITHIN_S
    port = urlsplit(url).port
    assert port is not None
    while True:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            assert time.monotonic() < give_up_at
            await asyncio.sleep(0.1)
        else:
            return


async def test_a_store_goes_from_one_demo_to_the_next_is_used_by_one_and_a_kill_leaves_no_more(
    temporary: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = ("demo", "--store", str(tmp_path / "made" / "store"))
    for name in ("NATSTUI_SYSTEM_USER", "NATSTUI_SYSTEM_PASSWORD", "NATS_USER"):
        # What belongs to another server must not be tried on this one.
        monkeypatch.setenv(name, "somebody")
    # Here is no terminal to open its screen on.
    first = await asyncio.to_thread(run_here, *opened)
    assert (first.returncode, first.stdout) == (2, "") and "terminal" in first.stderr
    assert "NATS_USER" not in os.environ
    began = datetime.now(UTC).isoformat()
    with running(temporary, *opened[1:], "--json") as demo:
        url = json.loads(demo.url)["url"]
        await what_matters_is_on_every_server_and_the_rest_on_one(url)
        await its_screen_may_ask_the_servers_themselves(url)
        kept = await eventually(url, PAYMENTS, lambda _: True)
        assert kept["created"] < began
        last_seq = kept["state"]["last_seq"]
        await eventually(url, PAYMENTS, lambda a: a["state"]["last_seq"] > last_seq + 5)
        second = await asyncio.to_thread(run_here, *opened, "--headless")
        assert (second.returncode, second.stdout) == (1, "")
        assert second.stderr.strip().endswith("is in use by another `natstui demo`")
        assert len(second.stderr.strip().splitlines()) == 1
        demo.app.kill()
        demo.assert_nothing_is_left()


async def its_screen_may_ask_the_servers_themselves(url: str) -> None:
    """Ask as the user of the system account that a screen of a demo is given."""
    user, password = (os.environ[f"NATSTUI_SYSTEM_{name}"] for name in ("USER", "PASSWORD"))
    nc = await nats.connect(url, user=user, password=password)
    replies = await nc.subscribe("replies")
    await nc.publish("$SYS.REQ.SERVER.PING.VARZ", reply="replies")
    rows = [json.loads((await replies.next_msg(10)).data)["data"] for _ in range(3)]
    await nc.close()
    assert {row["server_name"] for row in rows} == {"n1", "n2", "n3"}
    assert all(row["cores"] > 0 for row in rows)


@pytest.fixture
def refused(temporary: Path) -> Callable[..., Done]:
    """Return what runs a demo, in this process, that does not start and leaves nothing."""

    def run(*words: str) -> Done:
        done = run_here("demo", "--headless", *words)
        assert done.stdout == ""
        assert len(done.stderr.strip().splitlines()) == 1
        assert_nothing_is_left(temporary)
        return done

    return run


def test_a_store_that_cannot_be_written_is_refused_in_one_sentence(
    refused: Callable[..., Done], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    done = refused("--store", str(tmp_path / "file" / "store"))
    assert done.returncode == 2
    assert "cannot be written: Not a directory" in done.stderr


def test_a_broker_that_cannot_start_is_one_sentence(
    refused: Callable[..., Done], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATS_SERVER", "/nowhere/nats-server")
    done = refused()
    assert done.returncode == 1
    assert "No such file or directory: '/nowhere/nats-server'" in done.stderr


def test_a_server_that_does_not_come_up_is_one_sentence_with_its_name(
    refused: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing = tmp_path / "nats-server"
    failing.write_text(
        "#!/bin/sh\n"
        'case "$*" in *" -n n2 "*) echo "[FTL] no room for JetStream" >&2; exit 1;; esac\n'
        f'exec "{server_binary()}" "$@"\n'
    )
    failing.chmod(0o755)
    monkeypatch.setenv("NATS_SERVER", str(failing))
    done = refused()
    assert done.returncode == 1
    assert "nats-server n2 stopped during startup: " in done.stderr
    assert "no room for JetStream" in done.stderr


def test_no_variable_names_another_system_than_the_demos(monkeypatch: pytest.MonkeyPatch) -> None:
    variables = {
        "NATSTUI_CONNECTION": '{"context": "production"}',
        "NATSTUI_SYSTEM": '{"server": "nats://production"}',
        "NATSTUI_CONNECTION_USER": "ann",
        "NATS_CONTEXT": "production",
        "NATSTUI_VIEWER_THEME": "nord",
    }
    monkeypatch.setattr(os, "environ", variables)
    _remove_server_variables()
    assert variables == {"NATSTUI_VIEWER_THEME": "nord"}


def test_the_screen_of_a_demo_has_no_user_and_no_encryption_of_the_settings_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.toml"
    config.write_text(
        '[connection]\nuser = "ann"\npassword = "secret"\ntls = true\ndomain = "hub"\n'
        '[system]\ncreds = "/nowhere/system.creds"\n'
    )
    monkeypatch.setenv("NATSTUI_CONFIG", str(config))
    system = {"NATSTUI_SYSTEM_USER": "system", "NATSTUI_SYSTEM_PASSWORD": "password"}
    for name in system:
        monkeypatch.setenv(name, "of another server")
    url = "nats://127.0.0.1:4222"

    @contextmanager
    def run_shop(_store: Path | None) -> Iterator[DemoShop]:
        yield DemoShop(url, system, write_context(tmp_path, url))

    opened: list[Connection] = []

    def open_screen(argv: tuple[str, ...], *, is_guided: bool) -> None:
        flag, value = argv[-2:]
        assert is_guided
        opened.append(ConnectionFlags(**{flag.removeprefix("--"): value}).resolve()[1])

    monkeypatch.setattr(demo, "run_shop", run_shop)
    monkeypatch.setattr(open_viewer, "open_viewer", open_screen)
    assert run_here("demo").returncode == 0
    (connection,) = opened
    assert (connection.servers, connection.user, connection.domain) == ((url,), None, None)
    assert not connection.requires_tls
    assert connection.system is not None
    assert (connection.system.user, connection.system.creds_file) == ("system", None)
