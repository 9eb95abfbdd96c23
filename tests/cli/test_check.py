from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from click.testing import CliRunner

from natstui.cli.root import root
from natstui.jetstream.testbed.broker import Broker
from tests.cli.processes import NatstuiProcess
from tests.cli.rewriting import too_old
from tests.cli.test_manage import Done, run_here

pytestmark = pytest.mark.slow


def run_check(*arguments: str) -> Done:
    return run_here("check", *arguments)


@pytest.mark.server
def test_a_good_connection_ends_with_success(nats_server: Broker) -> None:
    done = run_check("--server", nats_server.url)
    assert (done.returncode, done.stderr) == (0, "")
    assert all(line.startswith("ok ") for line in done.stdout.splitlines())
    assert "JetStream" in done.stdout


@pytest.mark.server
def test_a_server_that_is_not_supported_is_told_once(nats_server: Broker) -> None:
    with too_old(nats_server.url) as (url, version):
        done = run_check("--server", url)
    assert (done.returncode, done.stderr) == (3, "")
    told = f"nats-server {version} is not supported: natstui needs 2.10 or newer"
    failed = [line for line in done.stdout.splitlines() if not line.startswith("ok ")]
    place = url.removeprefix("nats://")
    assert failed == [f"failed  {place}  version         {told}"]
    assert "may read all streams" in done.stdout


def test_a_failed_step_ends_with_its_exit_code() -> None:
    done = run_check("--server", "127.0.0.1:1", "--json")
    assert done.returncode == 3
    last = json.loads(done.stdout.splitlines()[-1])
    assert last == {
        "place": "127.0.0.1:1",
        "step": "TCP",
        "ok": False,
        "text": "nothing listens at 127.0.0.1:1 (connection refused)",
    }


def test_the_parts_of_an_analysis_are_printed() -> None:
    done = run_check("--analysis", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    steps = {step["step"]: step["text"] for step in map(json.loads, done.stdout.splitlines())}
    assert list(steps) == ["Java", "Spark", "memory"]
    assert re.match(r"Java \d\d of .*: /.*java$", steps["Java"])
    assert steps["Spark"].startswith("pyspark 4.")
    assert "1g of heap" in steps["memory"] and "this machine has" in steps["memory"]


def test_an_analysis_that_cannot_start_is_told_with_its_exit_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    done = run_check("--analysis")
    assert done.returncode == 7
    assert done.stdout.startswith(f"failed  analysis  Java            JAVA_HOME={tmp_path} has no")


def test_a_wrong_file_is_one_sentence() -> None:
    done = run_check("--config", "/no/such/config.toml")
    assert done.returncode == 2
    assert done.stderr == "natstui: the configuration /no/such/config.toml does not exist\n"


def test_flags_of_the_viewer_before_a_command_are_refused_rather_than_dropped() -> None:
    process = NatstuiProcess("--theme", "nord", "check")
    _, said = process.communicate()
    assert process.returncode == 2
    assert "options of the screen work only without a command" in said


def test_where_to_connect_may_stand_before_the_command_and_behind_it() -> None:
    before = ("--profile", "none", "--config=/no/such.toml")
    told = {
        tuple(words): CliRunner().invoke(root, words)
        for words in (
            [*before, "check"],
            ["check", *before],
            [*before, "stream", "ls"],
            ["stream", "ls", *before],
        )
    }
    for words, done in told.items():
        assert str(done.exception) == "the configuration /no/such.toml does not exist", words
    # A command that connects to nothing does not take them silently.
    for words in (["--profile", "none", "sessions", "ls"], ["sessions", "ls", "--server", "x"]):
        done = CliRunner().invoke(root, words)
        assert done.exit_code == 2
        assert "this command does not connect to a server, so omit the option" in done.stderr
    done = CliRunner().invoke(root, ["stream", "ls", "--account", "A"])
    assert done.exit_code == 2
    assert "--account: this command works in the account of its user: connect as" in done.stderr
