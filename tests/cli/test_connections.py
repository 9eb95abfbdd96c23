"""`natstui connections` on a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import nats
import pytest

from natstui.jetstream.testbed.broker import Broker
from tests.cli.test_manage import Done, Shell
from tests.jetstream.flushing import flushed
from tests.jetstream.test_connections import APP, as_user

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("lone_server")]

HOSTILE = "evil\x1b]0;title\x07\x1b[31m\u202ename"


async def run(url: str, folder: Path, *words: str) -> Done:
    """Run the command, which has a loop of its own, beside this one."""
    return await asyncio.to_thread(Shell(url, folder).run, *words)


async def test_a_table_and_one_object_of_json_tell_the_same(
    nats_server: Broker, tmp_path: Path
) -> None:
    nc = await nats.connect(nats_server.url, name=HOSTILE)
    await nc.subscribe("work.>")
    await flushed(nc)
    table = await run(nats_server.url, tmp_path, "connections")
    whole = await run(nats_server.url, tmp_path, "connections", "--json", "--for", "100ms")
    await nc.close()
    assert table.returncode == whole.returncode == 0, table.stderr + whole.stderr
    summary, titles, *rows = table.stdout.splitlines()
    assert summary.endswith(f"on 1 server: {nats_server.name}")
    assert titles.split()[:3] == ["NAME", "USER", "ADDRESS"]
    assert any("evil" in row and "python3" in row for row in rows)
    for text in (table.stdout, whole.stdout):
        assert not {letter for letter in text if letter < " "} - {"\n"}
        assert "\u202e" not in text and "\x7f" not in text
    found = json.loads(whole.stdout)
    row = next(row for row in found["connections"] if row["name"] == HOSTILE)
    assert (row["subscriptions_count"], row["in_msgs_per_s"]) == (1, 0)
    assert [one["name"] for one in found["servers"]] == [row["server_name"]]
    assert "listening" not in row


async def test_closed_ones_have_their_reason(
    nats_server_factory: Callable[..., Broker], tmp_path: Path
) -> None:
    url = as_user(nats_server_factory(APP).url, "app")
    nc = await nats.connect(url, name="over")
    await nc.close()
    lines: list[str] = []
    while not lines:
        done = await run(url, tmp_path, "connections", "--closed")
        assert done.returncode == 0
        lines = [line for line in done.stdout.splitlines() if line.startswith("over ")]
    assert lines[0].endswith("Client Closed")


async def test_what_is_not_allowed_is_one_sentence_and_no_success(
    nats_server_factory: Callable[..., Broker], tmp_path: Path
) -> None:
    server = nats_server_factory(APP)
    done = await run(as_user(server.url, "shut"), tmp_path, "connections")
    assert (done.returncode, done.stdout) == (4, "")
    assert "$SYS.REQ.ACCOUNT.PING.CONNZ" in done.stderr and "an operator adds it" in done.stderr
    wrong = await run(server.url, tmp_path, "connections", "--for", "2h")
    assert wrong.returncode == 2 and "300s" in wrong.stderr
