"""A benchmark that fails on the way, from the outside: one sentence, exit code, partial result."""

import asyncio
import json
import os
import signal
import subprocess
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from natstui.jetstream.testbed.broker import Broker
from tests.bench.test_failures import _children
from tests.cli.processes import NATSTUI
from tests.cli.test_bench import bench
from tests.cli.test_core import connected
from tests.tui.terminals import OnTerminal

pytestmark = pytest.mark.server

PACED = """
title = "paced"
duration = "30s"
[stream]
name = "PACED"
[[role]]
name = "subs"
pattern = "js-consume"
[[role]]
name = "pubs"
pattern = "js-publish-async"
timeout = "1s"
rate = 500
"""


PUBLISHED = PACED.replace('[[role]]\nname = "subs"\npattern = "js-consume"\n', "")


def run_meanwhile(
    folder: Path, url: str, scenario: str, act: Callable[[], object], *words: str, nth: int = 1
) -> tuple[int, dict[str, Any], str]:
    """Run it here, and act when the `nth` repetition has stored some messages.

    Returns the exit code, the object on stdout and what is on stderr.
    """
    (folder / "own.toml").write_text(scenario)

    async def wait() -> None:
        created = set[object]()
        async with connected(url) as nc, asyncio.timeout(90):
            while True:
                reply = await nc.request("$JS.API.STREAM.INFO.PACED", b"", timeout=30)
                info = json.loads(reply.data)
                if "created" in info:
                    created.add(info["created"])
                    if len(created) >= nth and info["state"]["messages"] > 20:
                        break
                await asyncio.sleep(0.05)
        act()

    thread = threading.Thread(target=lambda: asyncio.run(wait()))
    thread.start()
    own = str(folder / "own.toml")
    done = bench(own, *words, "--server", url, "--json", folder=folder)
    thread.join()
    assert "Traceback" not in done.stderr
    return done.returncode, json.loads(done.stdout), done.stderr


def said_in(err: str) -> list[str]:
    """Return the errors of stderr: with --json each is an object beside lines of progress."""
    return [json.loads(line)["error"] for line in err.splitlines() if line.startswith("{")]


def saved_as(folder: Path, found: dict[str, Any]) -> dict[str, Any]:
    """The run library has the same object."""
    (file,) = (folder / "runs").glob("*.json")
    assert file.stem == found["name"]
    assert (folder / "runs" / f"{file.stem}.hlog").read_text().startswith("#[")
    saved: dict[str, Any] = json.loads(file.read_text())
    assert saved["partial"]
    assert "PARTIAL" in bench("show", "-1", folder=folder).stdout
    return saved


def test_a_worker_that_dies_unasked_leaves_a_saved_partial_result(
    nats_server: Broker, tmp_path: Path
) -> None:
    def kill() -> None:
        os.kill(min(_children(os.getpid())), signal.SIGKILL)

    scenario = PACED.replace("30s", "2s").replace("500", "100")
    exit_code, result, err = run_meanwhile(tmp_path, nats_server.url, scenario, kill)
    assert exit_code == 1
    assert "sent no final report" in err
    saved = saved_as(tmp_path, result)
    ended = [worker["ended"] for worker in saved["results"][0]["workers"]]
    assert ended.count("died") == 1
    # What it had seen nobody knows, and so nobody knows what was lost.
    assert saved["metrics"]["lost"] is None


def test_an_interrupted_run_is_saved_with_the_repetitions_before_and_exits_as_interrupted(
    nats_server: Broker, tmp_path: Path
) -> None:
    def interrupt() -> None:
        os.kill(os.getpid(), signal.SIGTERM)

    scenario = PUBLISHED.replace("30s", "1500ms").replace("500", "100")
    ended, result, err = run_meanwhile(
        tmp_path, nats_server.url, scenario, interrupt, "--repeat", "9", nth=2
    )
    assert ended == 143
    assert said_in(err) == ["the run was stopped before its end"]
    results = saved_as(tmp_path, result)["results"]
    assert [result["verdict"] for result in results] == ["ok", "stopped"]
    assert results[0]["counts"]["acked_msgs"] > results[1]["counts"]["acked_msgs"] > 10


@pytest.mark.terminal
def test_a_run_whose_terminal_is_closed_is_saved(nats_server: Broker, tmp_path: Path) -> None:
    (tmp_path / "own.toml").write_text(PUBLISHED)
    config, runs = tmp_path / "config.toml", tmp_path / "runs"
    config.write_text(f'[benchmark]\nfolder = "{runs}"\n')
    with OnTerminal(
        "from natstui.__main__ import main; main()",
        *("bench", str(tmp_path / "own.toml")),
        *("--server", nats_server.url, "--config", str(config)),
    ) as terminal:
        assert b"phase steady" in terminal.read(b"phase steady")
        terminal.hang_up()
        terminal.process.wait(60)
    (saved,) = runs.glob("*.json")
    (result,) = json.loads(saved.read_text())["results"]
    assert result["verdict"] == "stopped"
    assert [worker["ended"] for worker in result["workers"]] == ["done"]


def test_a_signal_to_all_processes_of_a_run_leaves_a_saved_partial_result(
    nats_server: Broker, tmp_path: Path
) -> None:
    (tmp_path / "own.toml").write_text(PACED)
    config, runs = tmp_path / "config.toml", tmp_path / "runs"
    config.write_text(f'[benchmark]\nfolder = "{runs}"\n')
    words = ("bench", str(tmp_path / "own.toml"), "--server", nats_server.url)
    process = subprocess.Popen(
        [*NATSTUI, *words, "--config", str(config)],
        stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    assert process.stderr is not None
    try:
        assert "phase steady\n" in process.stderr
        # So do `timeout` and systemd.
        os.killpg(process.pid, signal.SIGTERM)
        _, said = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 143, said
    (saved,) = runs.glob("*.json")
    (result,) = json.loads(saved.read_text())["results"]
    assert result["verdict"] == "stopped", result["notes"]
    assert {worker["ended"] for worker in result["workers"]} == {"done"}


@pytest.mark.long
def test_a_server_that_goes_away_leaves_a_saved_result_with_the_repetitions_before(
    nats_server: Broker, tmp_path: Path
) -> None:
    scenario = PACED.replace("30s", "1s")
    exit_code, result, err = run_meanwhile(
        tmp_path, nats_server.url, scenario, nats_server.kill, "--repeat", "9", nth=2
    )
    assert exit_code == 3
    (said,) = said_in(err)
    assert "server" in said
    results = saved_as(tmp_path, result)["results"]
    assert (results[0]["verdict"], results[-1]["verdict"]) == ("ok", "failed")
    assert 100 < results[0]["counts"]["acked_msgs"] < 5000
    assert len(results) < 9


FULL = PACED.replace('name = "PACED"', 'name = "PACED"\ndiscard = "new"\nmax-msgs = 100')
GONE = PACED.replace('name = "PACED"', 'name = "MISSING"\ncreate = false')
DENYING = """
jetstream: enabled
authorization { users: [ { user: u, password: p, permissions: { publish: {
  allow: ["$JS.API.>", "$JS.ACK.>"] } } } ] }
"""


@pytest.mark.parametrize(
    ("scenario", "config", "exit_code", "sentence", "measured"),
    [
        pytest.param(
            FULL, "", 4, "maximum messages exceeded", True, id="full", marks=pytest.mark.long
        ),
        pytest.param(GONE, "", 4, "stream not found", False, id="gone"),
        pytest.param(
            PACED, DENYING, 4, 'no permission to publish to "bench"', True,
            id="denied", marks=pytest.mark.long,
        ),
    ],
)  # fmt: skip
def test_what_the_server_refuses_is_one_sentence(
    nats_server_factory: Callable[..., Broker],
    tmp_path: Path,
    scenario: str,
    config: str,
    exit_code: int,
    sentence: str,
    measured: bool,
) -> None:
    url = nats_server_factory(config).url.replace("//", "//u:p@" if config else "//")
    (tmp_path / "own.toml").write_text(scenario)
    done = bench(str(tmp_path / "own.toml"), "--server", url, "--json", folder=tmp_path)
    assert done.returncode == exit_code, done.stderr
    (said,) = said_in(done.stderr)
    assert sentence in said
    assert "Traceback" not in done.stderr
    if measured:
        assert saved_as(tmp_path, json.loads(done.stdout))["results"][0]["verdict"] == "failed"
    else:
        assert done.stdout == ""
