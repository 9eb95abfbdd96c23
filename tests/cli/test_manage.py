"""The commands that manage streams and consumers, against a real server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from click.testing import CliRunner

from natstui.cli.root import root
from natstui.errors import NatstuiError
from natstui.jetstream.broker import Broker


@dataclass(frozen=True)
class Done:
    """What a command printed, and how it ended."""

    returncode: int
    stdout: str
    stderr: str


class Shell:
    """Runs commands of `natstui` with a state and configuration of its own."""

    def __init__(self, url: str, folder: Path) -> None:
        home = {f"XDG_{name}_HOME": str(folder / name) for name in ("STATE", "CONFIG", "DATA")}
        self.environment = {**home, "NATSTUI_CONNECTION_SERVER": url}
        self.folder = folder

    def run(self, *words: str, stdin: str = "") -> Done:
        done = CliRunner().invoke(root, words, input=stdin, env=self.environment)
        if isinstance(done.exception, NatstuiError):
            said = f"{done.stderr}natstui: {done.exception}\n"
            return Done(done.exception.exit_code, done.stdout, said)
        return Done(done.exit_code, done.stdout, done.stderr)

    def ok(self, *words: str, stdin: str = "") -> str:
        done = self.run(*words, stdin=stdin)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def config(self, *words: str) -> dict[str, object]:
        config: dict[str, object] = json.loads(self.ok(*words, "--json"))["config"]
        return config


@pytest.fixture
def shell(nats_server: Broker, tmp_path: Path) -> Shell:
    return Shell(nats_server.url, tmp_path)


def test_a_stream_is_made_changed_purged_and_deleted(shell: Shell) -> None:
    made = shell.ok(
        "stream", "add", "ORDERS", "--subjects", "orders.>", "--max-bytes", "256MB",
        "--max-age", "1d3h", "--storage", "memory", "--metadata", "team=ops",
    )  # fmt: skip
    assert made == "stream ORDERS made\n"
    config = shell.config("stream", "info", "ORDERS")
    assert config["max_bytes"] == 256 << 20
    assert config["max_age"] == 97_200 * 10**9
    plan = shell.run("stream", "edit", "ORDERS", "--max-msgs", "15k", "--dry-run")
    assert plan.returncode == 1
    assert plan.stdout == "Maximum messages: unlimited → 15000\n"
    assert "nats stream edit ORDERS --max-msgs=15000 --force" in plan.stderr
    assert shell.config("stream", "info", "ORDERS")["max_msgs"] == -1
    shell.ok("stream", "edit", "ORDERS", "--max-msgs", "15k")
    assert shell.run("stream", "edit", "ORDERS", "--max-msgs", "15k", "--dry-run").returncode == 0
    assert shell.ok("undo") == "stream ORDERS changed\n"
    assert shell.config("stream", "info", "ORDERS")["max_msgs"] == -1
    refused = shell.run("stream", "rm", "ORDERS")
    assert refused.returncode == 5
    assert "not confirmed" in refused.stderr
    shell.ok("stream", "purge", "ORDERS", "--yes")
    refused = shell.run("undo", "--yes")
    assert refused.returncode == 2
    assert "purge stream ORDERS, cannot be taken back" in refused.stderr
    assert shell.run("stream", "add", "ORDERS").returncode == 4
    shell.ok("stream", "rm", "ORDERS", "--confirm", "ORDERS")
    assert shell.ok("stream", "ls", "--json").strip() == "[]"
    lines = shell.ok("journal").splitlines()
    assert [line.split("  ")[-2] for line in lines] == [
        "create stream ORDERS", "edit stream ORDERS", "edit stream ORDERS",
        "purge stream ORDERS", "delete stream ORDERS",
    ]  # fmt: skip


def test_a_consumer_is_made_paused_changed_and_deleted(shell: Shell) -> None:
    shell.ok("stream", "add", "S", "--subjects", "s.>")
    shell.ok(
        "consumer", "add", "S", "C", "--filter", "s.a", "--backoff", "1s, 5s", "--max-deliver", "5"
    )
    assert shell.config("consumer", "info", "S", "C")["backoff"] == [10**9, 5 * 10**9]
    assert "paused until" in shell.ok("consumer", "pause", "S", "C", "1h")
    shell.ok("consumer", "resume", "S", "C")
    shell.ok("consumer", "reset", "S", "C", "--seq", "1")
    shell.ok("consumer", "edit", "S", "C", "--description", "edited")
    assert shell.ok("consumer", "ls", "S").splitlines()[1].startswith("C ")
    shell.ok("consumer", "rm", "S", "C", "--yes")
    assert shell.ok("consumer", "ls", "S", "--json").strip() == "[]"


def test_a_file_of_any_kind_makes_a_stream(shell: Shell) -> None:
    for suffix, text in (
        ("json", '{"subjects": ["json.>"], "max_msgs": 7}'),
        ("yaml", "subjects: [yaml.>]\nmax_msgs: 7\n"),
        ("toml", 'subjects = ["toml.>"]\nmax_msgs = 7\n'),
    ):
        file = shell.folder / f"config.{suffix}"
        file.write_text(text)
        shell.ok("stream", "add", suffix.upper(), "--file", str(file))
        config = shell.config("stream", "info", suffix.upper())
        assert (config["subjects"], config["max_msgs"]) == ([f"{suffix}.>"], 7)
    shell.ok("stream", "add", "COPY", "--clone", "JSON", "--subjects", "copied.>")
    assert shell.config("stream", "info", "COPY")["max_msgs"] == 7


def test_an_own_template_is_found_beside_the_built_in_ones(shell: Shell) -> None:
    folder = shell.folder / "CONFIG" / "natstui" / "templates"
    folder.mkdir(parents=True)
    (folder / "audit.toml").write_text('help = "kept for ten years"\nmax_age = 1000000000\n')
    assert "audit: kept for ten years" in shell.ok("stream", "add", "X", "--template", "?")
    shell.ok("stream", "add", "A", "--template", "audit", "--subjects", "audit.>")
    assert shell.config("stream", "info", "A")["max_age"] == 10**9


def test_a_mistake_ends_with_the_words_of_the_form(shell: Shell) -> None:
    done = shell.run("stream", "add", "S", "--max-age", "5ms")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == "natstui: a maximum age is at least 100ms\n"
    done = shell.run("stream", "add", "S", "--max-age", "soon")
    assert "Maximum age: 'soon' is not a duration" in done.stderr


def test_read_only_changes_nothing_also_as_a_process(shell: Shell) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "natstui", "stream", "add", "S", "--read-only"],
        env={**os.environ, **shell.environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (5, "")
    assert done.stderr == "natstui: read-only: nothing is changed on this server\n"
    assert shell.ok("stream", "ls", "--json").strip() == "[]"


def test_a_stored_message_is_printed_byte_by_byte(shell: Shell) -> None:
    shell.ok("stream", "add", "S", "--subjects", "s.>")
    done = shell.run("stream", "get", "S", "1")
    assert done.returncode == 4
    assert done.stderr == "natstui: stream S has no such message\n"


def test_a_dry_run_warns_of_what_the_server_has(shell: Shell) -> None:
    shell.ok("stream", "add", "ORDERS", "--subjects", "orders.>", "--retention", "workqueue")
    shell.ok("consumer", "add", "ORDERS", "FIRST", "--filter", "orders.eu")
    plan = shell.run("stream", "add", "EU", "--subjects", "orders.eu", "--dry-run")
    assert plan.returncode == 1
    assert "'orders.eu' overlaps 'orders.>' of stream ORDERS: it is refused" in plan.stderr
    plan = shell.run("consumer", "add", "ORDERS", "SECOND", "--dry-run")
    assert "'>' overlaps 'orders.eu' of consumer FIRST, so it is refused" in plan.stderr
