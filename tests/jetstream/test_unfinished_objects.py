"""Chunks of uploads that were killed: named at once, and removed without any other."""

from __future__ import annotations

import json
import shlex
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from nats.aio.client import Client as NatsClient

from natstui.config.connection import Connection
from natstui.engine.server_commands import execute_store
from natstui.jetstream.connection.client import connect
from natstui.jetstream.connection.journal import Journal
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.messages.objects import read_store
from natstui.jetstream.messages.unfinished_objects import (
    UnfinishedObject,
    removal_command,
    unfinished_text,
)
from natstui.jetstream.testbed.broker import Broker
from natstui.model.findings.thresholds import OBJECT_UPLOAD_ENDED_AFTER_S
from natstui.model.records.stores import ObjectsPage, ReadObjects
from tests.accounts import Account
from tests.cli.test_core import connected, run
from tests.cli.test_manage import Shell

HOUR_US = round(OBJECT_UPLOAD_ENDED_AFTER_S * 1e6)


async def leave_chunks(nc: NatsClient, nuid: str) -> None:
    """Store what an upload of nats-py leaves that is killed in its third chunk."""
    for size_bytes in (128 * 1024, 128 * 1024, 1000):
        await nc.jetstream().publish(f"$O.B.C.{nuid}", b"x" * size_bytes)


@pytest.mark.server
async def test_chunks_without_an_object_are_found_with_size_and_age_and_no_others(
    account: Account,
) -> None:
    async with connected(account.url) as nc:
        store = await nc.jetstream().create_object_store("B")
        await store.put("whole", b"x" * 300_000)
        await store.put("gone", b"x" * 10)
        await store.delete("gone")
        client = await connect(Connection(servers=(account.url,)))
        content = await read_store(client, "B")
        names = [stored.name for stored in content.objects]
        assert (names, content.error_by_name, content.unfinished) == (["whole"], {}, [])
        await leave_chunks(nc, "one")
        await leave_chunks(nc, "two")
        content = await read_store(client, "B")
        assert [stored.name for stored in content.objects] == ["whole"]
        assert [upload.subject for upload in content.unfinished] == ["$O.B.C.one", "$O.B.C.two"]
        assert {(upload.chunks_count, upload.size_bytes) for upload in content.unfinished} == {
            (3, 263_144)
        }
        await client.close()


@pytest.mark.server
async def test_a_killed_upload_is_named_by_ls_and_info_at_once(
    account: Account, tmp_path: Path
) -> None:
    shell = Shell(account.url, tmp_path)
    async with connected(account.url) as nc:
        store = await nc.jetstream().create_object_store("B")
        await store.put("whole", b"x" * 300_000)
        await leave_chunks(nc, "left")
        for words in (("ls", "B"), ("ls", "B", "--json"), ("info", "B"), ("info", "B", "--json")):
            done = await run(shell, "object", *words)
            assert done.returncode == 0, done.stderr
            assert "3 chunks (257 KiB) of an object that was not finished" in done.stderr, words
            # It may run: nobody is told to remove it.
            assert "purge" not in done.stderr
        words = shlex.split(removal_command("B", UnfinishedObject("$O.B.C.left", 3, 1, 1)))
        done = await run(shell, *words[1:], "--yes")
        assert done.returncode == 0, done.stderr
        assert (await store.get("whole")).data == b"x" * 300_000
        assert (await run(shell, "object", "ls", "B")).stderr == ""


@pytest.mark.server
async def test_a_store_is_described_though_its_files_may_not_be_read_or_are_damaged(
    nats_server_factory: Callable[..., Broker], tmp_path: Path
) -> None:
    broker = nats_server_factory(
        "authorization { users: [ {user: a, password: a}, {user: b, password: b,"
        ' permissions: { publish: { deny: "$JS.API.CONSUMER.>" } } } ] }'
    )
    urls = [broker.url.replace("//", f"//{user}@") for user in ("a:a", "b:b")]
    async with connected(urls[0]) as nc:
        await nc.jetstream().create_object_store("B")
        denied = await run(Shell(urls[1], tmp_path), "object", "info", "B")
        assert (denied.returncode, "Bucket" in denied.stdout) == (0, True), denied.stderr
        assert "whether uploads were left unfinished is unknown: the user" in denied.stderr
        await nc.jetstream().publish("$O.B.M.ZmlsZQ==", b"no JSON")
        damaged = await run(Shell(urls[0], tmp_path), "object", "info", "B", "--json")
        assert json.loads(damaged.stdout)["config"]["name"] == "OBJ_B"
        assert "the metadata of file in B cannot be read" in damaged.stderr


@pytest.mark.server
async def test_the_screen_looks_for_unfinished_uploads_only_when_it_asks_for_them(
    account: Account,
) -> None:
    async with connected(account.url) as nc:
        await nc.jetstream().create_object_store("B")
        client = await connect(Connection(servers=(account.url,)))
        writer, texts = Writer(client, Journal()), []
        for asked in (ReadObjects(0, "B"), ReadObjects(0, "B", with_unfinished=True)):
            page = (await execute_store(writer, asked))[1]
            assert isinstance(page, ObjectsPage)
            texts.append(page.unfinished_text)
        assert texts == [None, ""]
        await client.close()


@pytest.mark.server
async def test_the_age_of_chunks_is_by_the_clock_of_their_server(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with connected(account.url) as nc:
        await nc.jetstream().create_object_store("B")
        await leave_chunks(nc, "running")
        client = await connect(Connection(servers=(account.url,)))
        time_ns = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: time_ns() + 24 * HOUR_US * 1000)
        asked = ReadObjects(0, "B", with_unfinished=True)
        page = (await execute_store(Writer(client, Journal()), asked))[1]
        assert isinstance(page, ObjectsPage) and page.unfinished_text == ""
        content = await read_store(client, "B")
        assert [upload.may_be_running(content.server_at_us) for upload in content.unfinished] == [
            True
        ]
        await client.close()


def test_only_what_no_upload_can_be_storing_any_more_is_said_to_be_never_finished() -> None:
    old = UnfinishedObject("$O.B.C.a", 3, 2048, 0)
    new = UnfinishedObject("$O.B.C.b", 1, 1024, HOUR_US)
    unknown = UnfinishedObject("$O.B.C.c", 7, None, None)
    uploads = (old, new, unknown)
    assert [upload.may_be_running(HOUR_US) for upload in uploads] == [False, True, None]
    assert unfinished_text([old], HOUR_US) == (
        "3 chunks (2.00 KiB) of an object that was never finished"
    )
    assert unfinished_text([new, unknown], HOUR_US) == (
        "1 chunk (1.00 KiB) of an object that was not finished: an upload runs, or ended less than"
        " an hour ago; 7 chunks of an object that was not finished, and whose age is unknown"
    )
    assert unfinished_text([old, new], HOUR_US).count("; ") == 1
    assert unfinished_text([], HOUR_US) == ""
