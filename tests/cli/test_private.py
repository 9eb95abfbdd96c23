"""What other users of a machine can see and touch: command lines, folders and files."""

from __future__ import annotations

import json
import os
import shutil
import socket
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from natstui.analysis.launch import AnalysisRequest, run_job
from natstui.children import module_command
from natstui.cli.open_viewer import move_secrets_to_stdin
from natstui.errors import NatstuiError
from natstui.jetstream.testbed.broker import Broker
from tests.cli.processes import PATIENCE_S, NatstuiProcess
from tests.cli.test_manage import run_here
from tests.session.making import made
from tests.session.scenario import Scenario
from tests.tui.terminals import OnTerminal

SECRET = "s3cr3t-word"
MAIN = "import sys; from natstui.__main__ import main; sys.argv[0] = 'natstui'; main()"
_PS = [shutil.which("ps") or "ps", "-axww", "-o", "pid=,ppid=,command="]


def started_by(pid: int) -> dict[int, str]:
    """Return the command lines of all processes below one."""
    listed = subprocess.run(_PS, capture_output=True, check=True, text=True).stdout
    rows = [line.split(maxsplit=2) for line in listed.splitlines()]
    below: dict[int, str] = {}
    # A process may be listed before the one that started it.
    for _ in range(5):
        for number, parent, *command in rows:
            if int(parent) in (pid, *below):
                below[int(number)] = " ".join(command)
    return below


@pytest.fixture
def secured(nats_server_factory: Callable[..., Broker]) -> str:
    """The address of a server that wants a password, with it."""
    server = nats_server_factory(f'authorization {{ user: app, password: "{SECRET}" }}')
    return server.url.replace("nats://", f"nats://app:{SECRET}@")


@pytest.mark.long
@pytest.mark.server
@pytest.mark.terminal
@pytest.mark.parametrize("flag", ["--server", "--engine"])
def test_no_engine_shows_the_password_of_its_server(flag: str, secured: str) -> None:
    engine = f"{sys.executable} -m natstui engine --server={secured}"
    words = [f"--server={secured}"] if flag == "--server" else ["--engine", engine]
    with OnTerminal(MAIN, *words, width=120) as terminal:
        assert b"connected" in terminal.read(b"connected", within_s=60), terminal.output[-500:]
        below = started_by(terminal.process.pid)
        terminal.type("q")
        assert terminal.wait() == 0
    assert any("engine" in command for command in below.values()), below
    assert SECRET not in str(below)


@pytest.mark.parametrize("words", [("--server=nats://{}@a,b",), ("--server", "nats://{}@a,b")])
def test_an_address_with_a_password_is_no_word_of_an_engine(words: tuple[str, ...]) -> None:
    named = [word.format(f"app:{SECRET}") for word in words]
    argv, first_line = move_secrets_to_stdin(["natstui", "engine", *named, "--read-only"])
    assert argv == ["natstui", "engine", "--read-only", "--server", "-"]
    assert json.loads(first_line) == f"nats://app:{SECRET}@a,b"
    plain = ["natstui", "engine", "--server", "nats://a", "--read-only"]
    assert move_secrets_to_stdin(plain) == (plain, b"")


@pytest.mark.long
@pytest.mark.server
def test_no_benchmark_worker_shows_the_password_of_its_server(secured: str) -> None:
    words = ("bench", "pub", "hello", "--duration", "2s", "--server", secured)
    with NatstuiProcess(*words) as bench:
        give_up_at = time.monotonic() + PATIENCE_S
        while "natstui.bench.worker" not in (below := str(started_by(bench.pid))):
            assert time.monotonic() < give_up_at and bench.poll() is None
            time.sleep(0.05)
        bench.terminate()
        bench.communicate()
    assert SECRET not in below


@pytest.mark.slow
def test_no_analysis_shows_the_token_of_its_spark_server(tmp_path: Path) -> None:
    recorded = made(tmp_path / "sessions", Scenario().beginning())
    seen: list[str] = []
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = f"sc://127.0.0.1:{server.getsockname()[1]}/;token={SECRET}"

        def look() -> None:
            connection, _ = server.accept()
            below = started_by(os.getpid())
            seen.append(str(below))
            connection.close()
            # It has asked at this address, so it knows it; but here is no Spark for it.
            os.kill(next(pid for pid, said in below.items() if "analysis.job" in said), 9)

        looking = threading.Thread(target=look)
        looking.start()
        with pytest.raises(NatstuiError, match="killed"):
            run_job(
                AnalysisRequest((str(recorded),), str(tmp_path / "out"), remote=address), print
            )
        looking.join()
    assert "natstui.analysis.job" in seen[0]
    assert SECRET not in seen[0]


@pytest.mark.slow
def test_an_engine_without_its_first_line_says_so() -> None:
    done = subprocess.run(
        module_command("natstui", "engine", "--server", "-"),
        input=b"no json\n", capture_output=True,
    )  # fmt: skip
    assert done.returncode == 2
    assert b"--server -: the first line on stdin has no address" in done.stderr


@pytest.mark.long
@pytest.mark.server
def test_nothing_that_natstui_makes_is_open_to_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, nats_server: Broker
) -> None:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    monkeypatch.setenv("HOME", str(home))
    for kind in ("CONFIG", "STATE", "DATA", "CACHE"):
        monkeypatch.delenv(f"XDG_{kind}_HOME")
    server = ("--server", nats_server.url)
    for words in (
        ("stream", "add", "ORDERS", *server),
        ("bench", "js", "pub", "async", "orders", "--msgs", "10", *server),
        ("record", "--duration", "1s", "--name", "seen", *server),
        ("export", "last", "--format", "csv", "--to", str(home / "tables")),
    ):
        if words[0] == "export":
            # What is not private is written with the mask that every process of natstui sets.
            process = NatstuiProcess(*words, before=lambda: os.umask(0))
            _, said = process.communicate()
            assert process.returncode == 0, (words, said)
            continue
        done = run_here(*words)
        assert done.returncode == 0, (words, done.stderr)
    made_here = [path for path in home.rglob("*") if not path.is_symlink()]
    names = {path.name for path in made_here}
    assert {"journal.jsonl", "sessions", "session.json", "tables"} <= names, names
    folders = [path for path in made_here if path.is_dir()]
    assert [(p, oct(mode)) for p in folders if (mode := p.stat().st_mode) & 0o077] == []
    files = [path for path in made_here if path.is_file()]
    assert [path for path in files if path.stat().st_mode & stat.S_IWOTH] == []
