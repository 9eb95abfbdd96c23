"""`natstui servers` on a real server."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from natstui.jetstream.testbed.broker import Broker
from tests.cli.test_connections import run
from tests.jetstream.test_connections import APP, as_user

pytestmark = pytest.mark.server


async def test_a_table_and_one_object_of_json_tell_the_same(
    nats_server: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = await run(nats_server.url, tmp_path, "servers")
    assert plain.returncode == 0, plain.stderr
    assert "told by the account" in plain.stdout
    assert "$SYS.REQ.SERVER.PING.VARZ" in plain.stdout
    monkeypatch.setenv("NATSTUI_CONNECTION_MONITORING", nats_server.monitoring_url)
    table = await run(nats_server.url, tmp_path, "servers")
    whole = await run(nats_server.url, tmp_path, "servers", "--json", "--for", "200ms")
    assert table.returncode == whole.returncode == 0, table.stderr + whole.stderr
    summary, titles, *_ = table.stdout.splitlines()
    assert summary == "1 server, told by the monitoring ports"
    assert titles.split()[:2] == ["NAME", "VERSION"]
    assert "NOT AVAILABLE" not in table.stdout
    found = json.loads(whole.stdout)
    [row] = found["servers"]
    assert (row["name"], found["source"]) == (nats_server.name, "monitoring")
    assert row["cpu_percent"] >= 0 and row["in_msgs_per_s"] >= 0
    assert row["jetstream"]["file"]["free_bytes"] > 0


async def test_a_port_that_does_not_answer_is_named(
    nats_server: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NATSTUI_CONNECTION_MONITORING", "http://ann:secret@127.0.0.1:1")
    done = await run(nats_server.url, tmp_path, "servers")
    assert done.returncode == 0, done.stderr
    assert "http://127.0.0.1:1" in done.stdout and "secret" not in done.stdout
    assert "told by the account" in done.stdout


async def test_without_any_permission_all_that_is_missing_is_named_and_it_is_no_success(
    nats_server_factory: Callable[..., Broker], tmp_path: Path
) -> None:
    server = nats_server_factory(APP)
    done = await run(as_user(server.url, "shut"), tmp_path, "servers")
    assert (done.returncode, done.stdout) == (4, "")
    for subject in ("$SYS.REQ.ACCOUNT.PING.CONNZ", "$SYS.REQ.SERVER.PING.VARZ", "http_port"):
        assert subject in done.stderr
