"""Writes whose answers never come: the sentence says so, and what the server shows now."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import nats
import pytest

from natstui.config import Connection
from natstui.errors import OutcomeUnknown, ServerGone
from natstui.jetstream.connection.client import connect
from natstui.jetstream.connection.journal import Journal
from natstui.jetstream.connection.times import time_us
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.managing.apply import apply
from natstui.jetstream.messages.publish import publish
from natstui.jetstream.testbed.broker import Broker
from natstui.model.records.managing import Action, Change
from natstui.model.records.messages import PublishMessage
from tests.ending import ended
from tests.serving import relay, serving

pytestmark = pytest.mark.server


class Deafening:
    """A wire to the server that swallows one answer: that to the request it is told of."""

    def __init__(self, server: Broker) -> None:
        self._url = server.url
        self.swallow = b""
        self._due = False

    @asynccontextmanager
    async def listening(self) -> AsyncIterator[str]:
        async with serving(self._join) as port:
            yield f"nats://127.0.0.1:{port}"

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await relay(reader, writer, self._url, self._up, self._down)

    def _up(self, data: bytes) -> bytes:
        self._due |= bool(self.swallow) and self.swallow in data
        return data

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


@pytest.mark.parametrize(
    ("action", "body", "shown"),
    [
        ("create_stream", '{"name": "T", "subjects": ["t"]}', "stream T is as requested"),
        ("edit_stream", '{"name": "S", "max_msgs": 7}', "stream S is as requested"),
        ("delete_stream", "{}", "stream S does not exist"),
        ("purge_stream", "{}", "stream S holds 0 messages"),
        ("delete_message", '{"seq": 1}', "message 1 is not there any more"),
    ],
)
async def test_a_change_without_an_answer_is_read_again_and_told_as_it_is(
    nats_server: Broker, tmp_path: Path, action: Action, body: str, shown: str
) -> None:
    nc = await nats.connect(nats_server.url)
    await nc.jetstream().add_stream(name="S", subjects=["s"])
    await nc.jetstream().publish("s", b"x")
    wire = Deafening(nats_server)
    async with wire.listening() as url:
        client = await connect(Connection(servers=(url,), request_timeout_s=1.0))
        journal = Journal(tmp_path / "journal.jsonl")
        wire.swallow = f"PUB $JS.API.STREAM.{_VERBS[action]}.".encode()
        name = "T" if action == "create_stream" else "S"
        made = time_us(json.loads(await client.request("STREAM.INFO.S"))["created"])
        change = Change(1, action, name, None, body, None, name, None if name == "T" else made)
        with pytest.raises(OutcomeUnknown) as caught:
            await apply(Writer(client, journal), change)
        sentence = str(caught.value)
        assert "no reply on" in sentence
        assert "the server may still have done it; read again, " + shown in sentence
        assert journal.entries()[-1].outcome == "unknown"
        await client.close()
    await nc.close()


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
    with pytest.raises(ServerGone, match="not connected"):
        await apply(Writer(client, journal), change)
    assert all(entry.outcome == "failed" for entry in journal.entries())
