"""Writes whose answers never come: the sentence says so, and what the server shows now."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import nats
import pytest

from natstui.config import Connection
from natstui.errors import (
    ConnectionLost,
    NatstuiError,
    OutcomeUnknown,
    RequestFailed,
    RequestTimedOut,
)
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.journal import Journal
from natstui.jetstream.connection.times import time_us
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.managing.apply import apply
from natstui.jetstream.managing.configure import ChangeResult
from natstui.jetstream.managing.replicas import wait_for_replicas
from natstui.jetstream.messages.publish import ack_text, publish
from natstui.jetstream.testbed.broker import Broker
from natstui.model.records.managing import Action, Change
from natstui.model.records.messages import PublishMessage
from tests.cli.test_core import connected, run
from tests.cli.test_manage import Shell
from tests.ending import ended
from tests.serving import relay, serving

pytestmark = pytest.mark.server


class Deafening:
    """A wire to the server that swallows the answer to the request it is told of, or a request."""

    def __init__(self, server: Broker) -> None:
        self._url = server.url
        self.swallow = b""
        self.lose = b""
        self._due = False

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        async with serving(self._join) as port:
            yield f"nats://127.0.0.1:{port}"

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await relay(reader, writer, self._url, self._up, self._down)

    def _up(self, data: bytes) -> bytes:
        self._due |= bool(self.swallow) and self.swallow in data
        return b"" if self.lose and self.lose in data else data

    def _down(self, data: bytes) -> bytes:
        if not self._due or b"MSG" not in data:
            return data
        self._due, self.swallow = False, b""
        return b""


_VERBS: dict[str, str] = {
    "create_stream": "CREATE",
    "edit_stream": "UPDATE",
    "delete_stream": "DELETE",
    "purge_stream": "PURGE",
    "delete_message": "MSG.DELETE",
}


async def test_changes_without_an_answer_are_read_again_and_told_as_they_are(
    nats_server: Broker, tmp_path: Path
) -> None:
    cases: tuple[tuple[Action, str, str], ...] = (
        ("create_stream", '{"name": "NEW", "subjects": ["new"]}', "stream NEW is as requested"),
        ("edit_stream", '{"name": "EDIT", "max_msgs": 7}', "stream EDIT is as requested"),
        ("delete_stream", "{}", "stream DELETE does not exist"),
        ("purge_stream", "{}", "stream PURGE has 0 messages"),
        ("delete_message", '{"seq": 1}', "message 1 is not there any more"),
    )
    async with asyncio.TaskGroup() as changing:
        # All at once: each waits a second for its answer.
        for name, case in zip(("NEW", "EDIT", "DELETE", "PURGE", "ONE"), cases, strict=True):
            folder = tmp_path / name
            folder.mkdir()
            changing.create_task(_changed_without_an_answer(nats_server, folder, name, *case))


async def _changed_without_an_answer(
    nats_server: Broker, folder: Path, name: str, action: Action, body: str, shown: str
) -> None:
    is_new = action == "create_stream"
    nc = await nats.connect(nats_server.url)
    if not is_new:
        await nc.jetstream().add_stream(name=name, subjects=[name])
        await nc.jetstream().publish(name, b"x")
    wire = Deafening(nats_server)
    async with wire.listening() as url:
        client = await connect(Connection(servers=(url,), request_timeout_s=1.0))
        journal = Journal(folder / "journal.jsonl")
        made = None
        if not is_new:
            made = time_us(json.loads(await client.request(f"STREAM.INFO.{name}"))["created"])
        wire.swallow = f"PUB $JS.API.STREAM.{_VERBS[action]}.".encode()
        change = Change(1, action, name, None, body, None, name, made)
        with pytest.raises(OutcomeUnknown) as caught:
            await apply(Writer(client, journal), change)
        sentence = str(caught.value)
        assert "no reply on" in sentence
        assert "the server may still have done it; read again, " + shown in sentence
        assert journal.entries()[-1].outcome == "unknown"
        await client.close()
    await nc.close()


async def test_a_consumer_without_a_name_is_told_by_the_one_that_it_got(
    nats_server: Broker, tmp_path: Path
) -> None:
    wire = Deafening(nats_server)
    async with wire.listening() as url:
        client = await connect(Connection(servers=(url,), request_timeout_s=1.0))
        await client.request("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        wire.swallow = b"PUB $JS.API.CONSUMER.CREATE.S."
        change = Change(1, "create_consumer", "S", body_json='{"ack_policy": "explicit"}')
        with pytest.raises(OutcomeUnknown) as caught:
            await apply(Writer(client, Journal(tmp_path / "journal.jsonl")), change)
        (name,) = json.loads(await client.request("CONSUMER.NAMES.S"))["consumers"]
        assert f"read again, consumer {name} is as requested" in str(caught.value)
        await client.close()


class Unread:
    """Requests of a client, of which one fails once a change is done."""

    def __init__(self, client: Client, verb: str, error: NatstuiError) -> None:
        self._request, self._verb, self._error = client.request, verb, error
        self.is_changed = False

    async def request(self, verb: str, *arguments: Any) -> bytes:
        """Return the reply; after the change, raise the error once."""
        if self.is_changed and verb == self._verb:
            self.is_changed = False
            raise self._error
        reply = await self._request(verb, *arguments)
        self.is_changed |= verb.startswith("STREAM.MSG.DELETE.")
        return reply


@pytest.mark.parametrize(
    "error", [RequestTimedOut("the server", 5.0), ConnectionLost("it was lost")]
)
async def test_a_change_that_is_done_is_said_to_be_though_it_cannot_be_read_again(
    nats_server: Broker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: NatstuiError
) -> None:
    client = await connect(Connection(servers=(nats_server.url,)))
    writer = Writer(client, Journal(tmp_path / "journal.jsonl"))
    await client.request("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
    ack = await publish(writer, PublishMessage(1, "s"))
    created_at_us = time_us(json.loads(await client.request("STREAM.INFO.S"))["created"])
    unread = Unread(client, "STREAM.MSG.GET.S", error)
    with monkeypatch.context() as patched:
        patched.setattr(client, "request", unread.request)
        change = Change(1, "delete_message", "S", None, '{"seq": 1}', None, "S", created_at_us)
        with pytest.raises(RequestFailed, match="message 1 of S deleted, as the server replied;"):
            await apply(writer, change)
    unread = Unread(client, "STREAM.INFO.S", error)
    monkeypatch.setattr(client, "request", unread.request)
    unread.is_changed = True
    text = await ack_text(client, "s", ack)
    assert text == f"acknowledged as 1 in S; whether it is kept could not be read: {error}"
    if isinstance(error, ConnectionLost):
        unread.is_changed = True
        result = ChangeResult("moved", None, None)
        result = await wait_for_replicas(writer, "S", created_at_us, lambda _: True, result)
        assert result.text.startswith("moved; it is current on ")
    await client.close()


@pytest.mark.parametrize(
    ("action", "shown"),
    [
        ("delete_stream", "stream S is another one: it was created in the meantime"),
        pytest.param(
            "purge_stream",
            "stream S is another one: it was created in the meantime",
            marks=pytest.mark.long,
        ),
    ],
)
async def test_a_stream_that_was_created_in_the_meantime_is_not_the_one_that_was_changed(
    nats_server: Broker, tmp_path: Path, action: Action, shown: str
) -> None:
    wire = Deafening(nats_server)
    async with wire.listening() as url:
        client = await connect(Connection(servers=(url,), request_timeout_s=1.0))
        other = await connect(Connection(servers=(nats_server.url,)))
        await other.request("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        made = time_us(json.loads(await client.request("STREAM.INFO.S"))["created"])
        wire.swallow = f"PUB $JS.API.STREAM.{_VERBS[action]}.".encode()
        change = Change(1, action, "S", None, "{}", None, "S", made)
        changing = asyncio.create_task(
            apply(Writer(client, Journal(tmp_path / "journal.jsonl")), change)
        )
        async with asyncio.timeout(30):
            while wire.swallow:
                await asyncio.sleep(0.01)
        if action != "delete_stream":
            await other.request("STREAM.DELETE.S")
        await other.request("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        with pytest.raises(OutcomeUnknown, match=f"read again, {shown}"):
            await changing
        await other.close()
        await client.close()


@pytest.mark.parametrize(
    ("words", "swallow", "shown"),
    [
        ("kv put B k new", b" $KV.B.k ", "key k of B has this value, at revision 2"),
        pytest.param(
            "kv create B other new",
            b" $KV.B.other ",
            "key other of B has this value, at revision 2",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "kv del B k",
            b" $KV.B.k ",
            "key k of B is deleted, at revision 2",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "kv purge B k --yes",
            b" $KV.B.k ",
            "key k of B is purged, at revision 2",
            marks=pytest.mark.long,
        ),
        ("object put O {file} --name chunks", b" $O.O.C.", "chunks of O does not exist"),
        ("object seal O --yes", b"STREAM.UPDATE.OBJ_O", "store O is as requested"),
        pytest.param(
            "stream seal S --yes",
            b"STREAM.UPDATE.S",
            "stream S is as requested",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "pub s hello -J",
            b"PUB s ",
            'the newest of "s" in S is 2 of .*, with the same payload',
            marks=pytest.mark.long,
        ),
        ("pub s hello -J -H Nats-Msg-Id:7", b"PUB s ", "with the id '7': it is stored"),
    ],
)
async def test_a_command_whose_reply_is_lost_says_what_the_server_has_now(
    nats_server: Broker, tmp_path: Path, words: str, swallow: bytes, shown: str
) -> None:
    (tmp_path / "file").write_bytes(b"content")
    async with connected(nats_server.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s"])
        await js.publish("s", b"before")
        await (await js.create_key_value(bucket="B", history=5)).put("k", b"old")
        await (await js.create_object_store("O")).put("old", b"old")
    wire = Deafening(nats_server)
    async with wire.listening() as url:
        shell = Shell(url, tmp_path)
        shell.environment["NATSTUI_CONNECTION_REQUEST_TIMEOUT_S"] = "1"
        wire.swallow = swallow
        done = await run(shell, *words.format(file=tmp_path / "file").split())
    assert done.returncode == 4, done.stderr
    assert re.search(f"; read again, .*{shown}", done.stderr), done.stderr


async def test_a_message_of_a_batch_that_was_lost_is_not_taken_for_the_one_before(
    nats_server: Broker, tmp_path: Path
) -> None:
    async with connected(nats_server.url) as nc:
        await nc.jetstream().add_stream(name="S", subjects=["s"])
    wire = Deafening(nats_server)
    async with wire.listening() as url:
        shell = Shell(url, tmp_path)
        shell.environment["NATSTUI_CONNECTION_REQUEST_TIMEOUT_S"] = "1"
        wire.lose = b"mine 3"
        done = await run(shell, *("pub", "s", "mine {{Count}}", "--count", "5", "-J", "--yes"))
    assert done.returncode == 4, done.stderr
    shown = r'the newest of "s" in S is 2 of .*, acknowledged before: .* is not stored'
    assert re.search(f"; read again, {shown}", done.stderr), done.stderr


@pytest.mark.parametrize(
    ("words", "swallow", "undone"),
    [
        ("stream edit S --max-msgs 7", b"STREAM.UPDATE.S", "stream S changed"),
        pytest.param(
            "stream rm S --yes",
            b"STREAM.DELETE.S",
            "stream S recreated, without its messages",
            marks=pytest.mark.long,
        ),
        pytest.param(
            "consumer edit S C --max-deliver 7",
            b"CONSUMER.CREATE.S",
            "consumer C changed",
            marks=pytest.mark.long,
        ),
        ("consumer rm S C --yes", b"CONSUMER.DELETE.S", "consumer C recreated, without"),
        pytest.param(
            "consumer pause S C 1h",
            b"CONSUMER.PAUSE.S",
            "consumer C on S resumed",
            marks=pytest.mark.long,
        ),
    ],
)
async def test_a_change_whose_reply_is_lost_is_undone(
    nats_server: Broker, tmp_path: Path, words: str, swallow: bytes, undone: str
) -> None:
    async with connected(nats_server.url) as nc:
        await nc.jetstream().add_stream(name="S", subjects=["s"])
        await nc.jetstream().add_consumer("S", durable_name="C", ack_policy="explicit")
    shell = await changed_without_reply(nats_server, tmp_path, words, swallow)
    done = await run(shell, "undo", "--yes")
    assert done.returncode == 0, done.stderr
    assert undone in done.stdout
    stream = json.loads((await run(shell, "stream", "info", "S", "--json")).stdout)
    assert stream["config"]["max_msgs"] == -1
    if "consumer" in words:
        consumer = json.loads((await run(shell, "consumer", "info", "S", "C", "--json")).stdout)
        assert (consumer["config"]["max_deliver"], consumer.get("paused", False)) == (-1, False)
    assert (await run(shell, "undo", "--yes")).returncode != 0


@pytest.mark.parametrize(
    ("words", "swallow", "reason"),
    [
        ("stream add T --subjects t --defaults", b"STREAM.CREATE.T", "create stream T"),
        pytest.param(
            "consumer add S D --defaults",
            b"CONSUMER.CREATE.S",
            "create consumer D on S",
            marks=pytest.mark.long,
        ),
        ("kv put B k new", b" $KV.B.k ", "put key k of B"),
    ],
)
async def test_an_undo_that_is_not_safe_without_a_reply_says_why(
    nats_server: Broker, tmp_path: Path, words: str, swallow: bytes, reason: str
) -> None:
    async with connected(nats_server.url) as nc:
        await nc.jetstream().add_stream(name="S", subjects=["s"])
        await nc.jetstream().create_key_value(bucket="B")
    shell = await changed_without_reply(nats_server, tmp_path, words, swallow)
    refused = await run(shell, "undo", "--yes")
    assert refused.returncode == 5, refused
    assert f"{reason} cannot be undone: no reply came, so what is there now" in refused.stderr


async def test_what_was_changed_again_after_a_lost_reply_is_left_alone(
    nats_server: Broker, tmp_path: Path
) -> None:
    async with connected(nats_server.url) as nc:
        await nc.jetstream().add_stream(name="S", subjects=["s"])
    shell = await changed_without_reply(
        nats_server, tmp_path, "stream edit S --max-msgs 7", b"STREAM.UPDATE.S"
    )
    async with connected(nats_server.url) as nc:
        await nc.jetstream().update_stream(name="S", subjects=["s"], max_msgs=9)
    refused = await run(shell, "undo", "--yes")
    assert refused.returncode == 4, refused
    assert "stream S is not as it was requested" in refused.stderr
    stream = json.loads((await run(shell, "stream", "info", "S", "--json")).stdout)
    assert stream["config"]["max_msgs"] == 9


async def changed_without_reply(
    nats_server: Broker, folder: Path, words: str, swallow: bytes
) -> Shell:
    """Run a command whose reply is lost, and return a shell that reaches the server."""
    wire = Deafening(nats_server)
    async with wire.listening() as url:
        shell = Shell(url, folder)
        shell.environment["NATSTUI_CONNECTION_REQUEST_TIMEOUT_S"] = "1"
        wire.swallow = swallow
        done = await run(shell, *words.split())
    assert done.returncode == 4 and "read again, " in done.stderr, done
    return Shell(nats_server.url, folder)


@pytest.mark.parametrize(
    ("words", "shown", "stored_msgs"),
    [
        ("object put O {file}", "file stored in O", 4),
        pytest.param(
            "object put O {file} --name old --yes",
            "old stored in O",
            2,
            marks=pytest.mark.long,
        ),
        ("object rm O old --yes", "old of O deleted", 1),
        pytest.param(
            "object link O new old",
            "new of O now links to old of O",
            3,
            marks=pytest.mark.long,
        ),
    ],
)
async def test_an_object_that_is_there_is_stored_though_the_reply_is_lost(
    nats_server: Broker, tmp_path: Path, words: str, shown: str, stored_msgs: int
) -> None:
    (tmp_path / "file").write_bytes(b"content")
    async with connected(nats_server.url) as nc:
        js = nc.jetstream()
        await (await js.create_object_store("O")).put("old", b"old")
        wire = Deafening(nats_server)
        async with wire.listening() as url:
            shell = Shell(url, tmp_path)
            shell.environment["NATSTUI_CONNECTION_REQUEST_TIMEOUT_S"] = "1"
            wire.swallow = b" $O.O.M."
            done = await run(shell, *words.format(file=tmp_path / "file").split())
            assert not wire.swallow
        assert done.returncode == 0, done.stderr
        assert shown in done.stdout and "natstui:" not in done.stderr
        # The chunks of what it was before are removed.
        assert (await js.stream_info("OBJ_O")).state.messages == stored_msgs


@pytest.mark.slow
async def test_a_put_that_is_stopped_too_late_is_told_as_it_ended(
    nats_server: Broker, tmp_path: Path
) -> None:
    (tmp_path / "file").write_bytes(b"content")
    async with connected(nats_server.url) as nc:
        js = nc.jetstream()
        store = await js.create_object_store("O")
        await store.put("f", b"before")
        wire = Deafening(nats_server)
        async with wire.listening() as url:
            shell = Shell(url, tmp_path)
            shell.environment["NATSTUI_CONNECTION_REQUEST_TIMEOUT_S"] = "2"
            wire.swallow = b" $O.O.M."
            words = ("object", "put", "O", str(tmp_path / "file"), "--name", "f", "--yes")
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "natstui", *words,
                env={**os.environ, **shell.environment}, stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
            )  # fmt: skip
            async with asyncio.timeout(30):
                while wire.swallow:
                    await asyncio.sleep(0.01)
            process.send_signal(signal.SIGINT)
            async with asyncio.timeout(60):
                stdout, stderr = await process.communicate()
        assert process.returncode == 0 and b"natstui:" not in stderr, stderr
        assert stdout.startswith(b"f stored in O")
        assert (await js.stream_info("OBJ_O")).state.messages == 2
        assert (await store.get("f")).data == b"content"


async def test_a_message_without_an_acknowledgement_may_be_stored_and_the_sentence_says_so(
    nats_server: Broker, tmp_path: Path
) -> None:
    nc = await nats.connect(nats_server.url)
    await nc.jetstream().add_stream(name="S", subjects=["s"])
    wire = Deafening(nats_server)
    async with wire.listening() as url:
        client = await connect(Connection(servers=(url,), request_timeout_s=1.0))
        writer = Writer(client, Journal(tmp_path / "journal.jsonl"))
        wire.swallow = b"PUB s "
        asked = PublishMessage(1, "s", message_id="one")
        with pytest.raises(OutcomeUnknown, match="may still have been stored; sent again"):
            await publish(writer, asked)
        assert (await publish(writer, asked)).duplicate
        assert [entry.outcome for entry in writer.journal.entries()] == ["unknown", "done"]
        await client.close()
    await nc.close()


async def test_a_write_that_is_broken_off_is_in_the_journal(
    nats_server: Broker, tmp_path: Path
) -> None:
    client = await connect(Connection(servers=(nats_server.url,)))
    journal = Journal(tmp_path / "journal.jsonl")
    nats_server.freeze()
    writing = asyncio.create_task(publish(Writer(client, journal), PublishMessage(1, "s")))
    await asyncio.sleep(0.05)
    writing.cancel()
    await ended(writing)
    nats_server.thaw()
    assert [(one.action, one.outcome) for one in journal.entries()] == [("publish", "unknown")]
    await client.close()


async def test_a_change_that_was_never_sent_is_not_in_doubt(
    nats_server: Broker, tmp_path: Path
) -> None:
    client = await connect(Connection(servers=(nats_server.url,)))
    journal = Journal(tmp_path / "journal.jsonl")
    await client.close()
    change = Change(1, "create_stream", "S", None, '{"name": "S"}')
    with pytest.raises(ConnectionLost, match="not connected"):
        await apply(Writer(client, journal), change)
    assert all(entry.outcome == "failed" for entry in journal.entries())
