"""A benchmark that fails on the way, from the outside: one sentence, exit code, partial result."""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from natstui.jetstream.testbed.broker import Broker
from tests.bench.test_failures import _children
from tests.cli.test_bench import bench

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


class Running:
    """A benchmark that runs in a process of its own."""

    def __init__(self, folder: Path, url: str, scenario: str, *words: str) -> None:
        (folder / "config.toml").write_text(f'[benchmark]\nfolder = "{folder / "runs"}"\n')
        (folder / "own.toml").write_text(scenario)
        flags = ["--server", url, "--config", str(folder / "config.toml"), "--json"]
        command = [sys.executable, "-m", "natstui", "bench", str(folder / "own.toml"), *words]
        self.process = subprocess.Popen(
            [*command, *flags], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )

    def until(self, phrase: str) -> None:
        """Read its progress until something is said."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            if phrase in line:
                return
        raise AssertionError(f"{phrase!r} was never said")

    def ends(self) -> tuple[int, dict[str, Any], str]:
        """Wait; return exit code, the object on stdout and the rest of stderr."""
        out, err = self.process.communicate(timeout=90)
        assert "Traceback" not in err
        return self.process.returncode, json.loads(out), err


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
    running = Running(tmp_path, nats_server.url, PACED.replace("30s", "4s"))
    running.until("phase steady")
    time.sleep(0.5)
    os.kill(min(_children(running.process.pid)), signal.SIGKILL)
    exit_code, found, err = running.ends()
    assert exit_code == 1
    assert "sent no final report" in err
    saved = saved_as(tmp_path, found)
    ended = [worker["ended"] for worker in saved["results"][0]["workers"]]
    assert ended.count("died") == 1
    # What it had seen nobody knows, and so nobody knows what was lost.
    assert saved["metrics"]["lost"] is None


def test_an_interrupted_run_is_saved_and_exits_as_an_interrupted_command_does(
    nats_server: Broker, tmp_path: Path
) -> None:
    running = Running(tmp_path, nats_server.url, PACED, "--repeat", "3")
    running.until("phase steady")
    time.sleep(0.5)
    running.process.send_signal(signal.SIGTERM)
    ended, found, err = running.ends()
    assert ended == 143
    assert said_in(err) == ["the run was stopped before its end"]
    assert saved_as(tmp_path, found)["results"][0]["verdict"] == "stopped"


def test_a_server_that_goes_away_leaves_a_saved_result_with_the_repetitions_before(
    nats_server: Broker, tmp_path: Path
) -> None:
    running = Running(tmp_path, nats_server.url, PACED.replace("30s", "1s"), "--repeat", "9")
    running.until("phase drain")
    running.until("phase steady")
    nats_server.kill()
    exit_code, found, err = running.ends()
    assert exit_code == 3
    (said,) = said_in(err)
    assert "server" in said
    results = saved_as(tmp_path, found)["results"]
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
        (FULL, "", 4, "maximum messages exceeded", True),
        (GONE, "", 4, "stream not found", False),
        (PACED, DENYING, 4, 'no permission to publish to "bench"', True),
    ],
)
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
