"""`natstui servers` on a real server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from natstui.jetstream.testbed.broker import Broker
from tests.cli.test_connections import run
from tests.jetstream.test_connections import APP, as_user

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("lone_server")]


async def test_a_table_and_one_object_of_json_tell_the_same(
    nats_server: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = await run(nats_server.url, tmp_path, "servers")
    assert plain.returncode == 0, plain.stderr
    assert "data from your account" in plain.stdout
    assert "UNAVAILABLE" in plain.stdout and "$SYS.REQ.SERVER.PING.VARZ" in plain.stdout
    monkeypatch.setenv("NATSTUI_CONNECTION_MONITORING", nats_server.monitoring_url)
    table = await run(nats_server.url, tmp_path, "servers")
    whole = await run(nats_server.url, tmp_path, "servers", "--json", "--for", "200ms")
    assert table.returncode == whole.returncode == 0, table.stderr + whole.stderr
    summary, titles, *_ = table.stdout.splitlines()
    assert summary == "1 server, data from the monitoring ports"
    assert titles.split()[:3] == ["NAME", "META", "VERSION"]
    assert "UNAVAILABLE" not in table.stdout
    found = json.loads(whole.stdout)
    [row] = found["servers"]
    assert (row["name"], found["source"]) == (nats_server.name, "monitoring")
    assert row["cpu_percent"] >= 0 and row["in_msgs_per_s"] >= 0
    assert row["jetstream"]["file"]["free_bytes"] > 0


async def test_a_port_that_does_not_answer_is_named(
    nats_server: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATSTUI_CONNECTION_MONITORING", "http://ann:secret@127.0.0.1:1")
    for words in ((), ("--json",)):
        done = await run(nats_server.url, tmp_path, "servers", *words)
        assert done.returncode == 4, done.stderr
        assert (
            "not read: the monitoring ports; what is printed is from your account" in done.stderr
        )
        assert "http://127.0.0.1:1" in done.stdout
        assert "secret" not in done.stdout + done.stderr
        assert ("data from your account" in done.stdout) is not bool(words)
    # One of them is enough: the other is named, and nothing else is missing.
    both = f"http://127.0.0.1:1,{nats_server.monitoring_url}"
    monkeypatch.setenv("NATSTUI_CONNECTION_MONITORING", both)
    done = await run(nats_server.url, tmp_path, "servers")
    assert done.returncode == 0, done.stderr
    assert (await run(nats_server.url, tmp_path, "overview")).returncode == 0
    assert "http://127.0.0.1:1" in done.stdout and "data from the monitoring ports" in done.stdout


async def test_a_system_account_that_cannot_be_used_is_no_success(
    nats_server: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config.toml"
    config.write_text('[system]\nserver = "nats://127.0.0.1:1"\nuser = "s"\npassword = "s"\n')
    done = await run(nats_server.url, tmp_path, "servers", "--config", str(config))
    assert done.returncode == 4, done.stderr
    assert "not read: the system account" in done.stderr
    assert "data from your account" in done.stdout


async def test_without_any_permission_all_that_is_missing_is_named_and_it_is_no_success(
    nats_server_factory: Callable[..., Broker], tmp_path: Path
) -> None:
    server = nats_server_factory(APP)
    done = await run(as_user(server.url, "shut"), tmp_path, "servers")
    assert (done.returncode, done.stdout) == (4, "")
    for subject in ("$SYS.REQ.ACCOUNT.PING.CONNZ", "$SYS.REQ.SERVER.PING.VARZ", "http_port"):
        assert subject in done.stderr


SYSTEM_USERS = """
accounts {
  SYS { users = [
    { user: sys, password: secret },
    { user: narrow, password: secret, permissions: {
        publish: { deny: ["$SYS.REQ.SERVER.PING.VARZ"] } } },
    { user: deaf, password: secret, permissions: { subscribe: { allow: ["elsewhere"] } } },
  ] }
  APP { jetstream: enabled, users = [
    { user: app, password: secret },
    { user: shut, password: secret, permissions: { publish: { deny: ["$SYS.>"] } } },
  ] }
}
system_account: SYS
"""


async def test_a_user_of_the_system_account_is_not_told_that_only_that_account_may_ask(
    nats_server_factory: Callable[..., Broker], tmp_path: Path
) -> None:
    server = nats_server_factory(SYSTEM_USERS)
    only, none = (
        "only the system account may request",
        "natstui needs exactly one meta group: none",
    )
    denied = 'the user has no permission to subscribe to "_INBOX.>"'
    allowed = "only a user of the system account with permission may request"
    for user, kick, meta in (
        ("sys", "has no connection 99", none),
        ("narrow", "has no connection 99", none),
        ("deaf", denied, denied),
        ("shut", allowed, allowed),
        ("app", only, only),
    ):
        url = server.url.replace("://", f"://{user}:secret@")
        for words, said in (
            (f"kick {server.name} 99", kick),
            ("meta step-down", meta),
            ("meta peer-remove nope", meta),
        ):
            done = await run(url, tmp_path, *words.split(), "--yes")
            assert said in done.stderr, (user, words, done.stderr)
            assert done.returncode != 0 and (only in done.stderr) == (said == only)
    table = await run(server.url.replace("://", "://sys:secret@"), tmp_path, "servers")
    assert table.returncode == 0 and "data from the system account" in table.stdout
