"""Links that carry few bytes a second: what comes late is waited for, and nothing else is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import nats
import pytest
from nats.aio.msg import Msg

from natstui.config import Connection
from natstui.errors import RequestTimedOut
from natstui.jetstream.connection import client as connection_client
from natstui.jetstream.connection import link
from natstui.jetstream.connection.client import connect
from natstui.jetstream.polling import listing, streams
from natstui.jetstream.testbed.broker import Broker
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.record import LinkChanged
from natstui.values import replace
from tests.jetstream.polling import api, polling
from tests.jetstream.slow_link import SlowLink, Wire
from tests.serving import serving

pytestmark = pytest.mark.server

STEADY = Wire(20_000, 0.05, stall_share=0.0)
FAR = Wire(1_000_000, 0.1, stall_share=0.0)
FAR_COUNT = 48
LISTED_COUNT = 40
"""A list that is read as pages only where a page does not take too long."""


@pytest.mark.long
async def test_an_answer_is_waited_for_while_its_bytes_come_and_no_ping_ends_the_link(
    nats_server: Broker,
) -> None:
    answering = await nats.connect(nats_server.url)

    async def answer(message: Msg) -> None:
        await message.respond(b"x" * 180_000)

    await answering.subscribe("long", cb=answer)
    changes: list[LinkChanged] = []
    async with SlowLink(nats_server.url, STEADY).listening() as url:
        client = await connect(Connection(servers=(url,)), on_link=changes.append)
        assert len((await client.request_subject("long", timeout_s=0.5)).data) == 180_000
        assert [change.state for change in changes] == ["connected"]
        await client.close()
    await answering.close()


async def test_a_question_nobody_answers_times_out_although_other_bytes_come_for_ever(
    nats_server: Broker,
) -> None:
    telling = await nats.connect(nats_server.url)

    async def tell() -> None:
        while True:
            await telling.publish("news", b"x" * 500)
            await asyncio.sleep(0.05)

    async def hear(_message: Msg) -> None:
        pass

    async with SlowLink(nats_server.url, STEADY).listening() as url:
        client = await connect(Connection(servers=(url,)))
        await client.subscribe("news", hear)
        news = asyncio.create_task(tell())
        async with asyncio.timeout(60):
            with pytest.raises(RequestTimedOut, match=r"within 0\.5 s"):
                await client.request("NO.SUCH.VERB", timeout_s=0.5)
        news.cancel()
        await client.close()
    await telling.close()


INFO = b'INFO {"server_id":"x","version":"2.11.0","max_payload":1048576,"headers":true}\r\n'


@asynccontextmanager
async def babbling(babble: bytes) -> AsyncIterator[str]:
    """Yield the address of a server that answers the first PING, and then only babbles."""

    async def join(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(INFO)
        while b"PING" not in await reader.readline():
            pass
        writer.write(b"PONG\r\n")
        while True:
            writer.write(babble)
            await writer.drain()
            await asyncio.sleep(0.05)

    async with serving(join) as port:
        yield f"nats://127.0.0.1:{port}"


async def test_bytes_that_are_no_reply_extend_no_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(link, "_MAX_MESSAGE_SILENCE_S", 0.5)
    # Nobody tells who this is.
    monkeypatch.setattr(connection_client, "_IDENTITY_TIMEOUT_S", 0.2)

    async def hear_only(babble: bytes) -> None:
        async with babbling(babble) as url:
            client = await connect(Connection(servers=(url,)))
            ends = await asyncio.gather(
                client.request_subject("anything", timeout_s=0.5),
                anext(client.request_many("anything", b"", timeout_s=0.5)),
                return_exceptions=True,
            )
            for end in ends:
                assert isinstance(end, RequestTimedOut) and "within 0.5 s" in str(end)
        # Not before the server: it answers no last PING.
        await client.close()

    async with asyncio.timeout(60), asyncio.TaskGroup() as hearing:
        for babble in (INFO, b"PING\r\n", b"+OK\r\n", b"IN"):
            hearing.create_task(hear_only(babble), name=str(babble))


async def test_messages_of_others_extend_a_deadline_for_a_limited_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(link, "_MAX_MESSAGE_SILENCE_S", 0.5)
    # Nobody tells who this is.
    monkeypatch.setattr(connection_client, "_IDENTITY_TIMEOUT_S", 0.2)
    monkeypatch.setattr(link, "_MAX_REPLY_DELAY_S", 1.0)
    async with babbling(b"MSG other 1 1\r\nx\r\n") as url, asyncio.timeout(60):
        client = await connect(Connection(servers=(url,)))
        with pytest.raises(RequestTimedOut, match=r"within 0\.5 s"):
            await client.request_subject("anything", timeout_s=0.5)
    await client.close()


async def test_an_answer_that_is_arriving_is_waited_for_longer_than_others(
    nats_server: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "_MAX_REPLY_DELAY_S", 0.5)
    answering = await nats.connect(nats_server.url)

    async def answer(message: Msg) -> None:
        await message.respond(b"x" * 36_000)

    await answering.subscribe("long", cb=answer)
    async with SlowLink(nats_server.url, STEADY).listening() as url:
        client = await connect(Connection(servers=(url,)))
        assert len((await client.request_subject("long", timeout_s=0.5)).data) == 36_000
        replies = client.request_many("long", b"", timeout_s=0.5)
        assert len((await anext(replies)).data) == 36_000
        await replies.aclose()
        await client.close()
    await answering.close()


async def test_consumers_of_a_far_server_do_not_come_one_a_round_trip(
    nats_server: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "_REPLY_WAIT_S", 0.2)
    async with SlowLink(nats_server.url, FAR).listening() as url, polling(url) as polled:
        polled.control.set_interval(1.0)
        polled.control.set_visible(("S000",), ())
        near = await connect(Connection(servers=(nats_server.url,)))
        for number in range(FAR_COUNT):
            name = f"S{number:03}"
            await api(near, f"STREAM.CREATE.{name}", {"name": name, "storage": "memory"})
            body = {"stream_name": name, "config": {"durable_name": "C", "ack_policy": "none"}}
            await api(near, f"CONSUMER.DURABLE.CREATE.{name}.C", body)
        await near.close()
        begun_s = time.monotonic()
        await polled.until(Snapshot, lambda _: len(polled.state.consumers) == FAR_COUNT)
        one_by_one_s = FAR_COUNT * 2 * FAR.latency_s
        assert time.monotonic() - begun_s < one_by_one_s
        # To be on the way is no work.
        await polled.until(Snapshot)
        reasons = [
            it.cost.backoff_reason or "" for it in polled.records if isinstance(it, Snapshot)
        ]
        assert not [reason for reason in reasons if "costs the server" in reason]


async def test_rows_of_which_a_page_would_take_too_long_come_one_by_one(
    nats_server: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_MAX_PAGE_TRANSFER_S", 0.25)
    near = await connect(Connection(servers=(nats_server.url,)))
    names = {f"S{number:03}" for number in range(LISTED_COUNT)}
    for name in names:
        await api(near, f"STREAM.CREATE.{name}", {"name": name, "storage": "memory"})
    await near.close()

    def listed(snapshot: Snapshot) -> set[str]:
        return set(snapshot.streams.name)

    link_of_all = SlowLink(nats_server.url, replace(STEADY, bytes_per_s=40_000))
    async with link_of_all.listening() as url, polling(url) as polled:
        polled.control.set_interval(0.2)
        first = await polled.until(Snapshot, lambda s: bool(s.streams.name))
        assert listed(first) < names and not first.streams_complete
        await polled.until(Snapshot, lambda s: s.streams_complete)
        assert set(polled.state.streams.columns.name) == names
        # The second list spares the link, and the third ends while rows are on their way.
        await polled.until(Snapshot, lambda s: s.streams_complete)
        again = await polled.until(Snapshot, lambda s: 0 < len(s.streams.name) < LISTED_COUNT)
        assert not again.unreachable_streams
    assert link_of_all.joined_count == 1


async def test_consumers_are_read_again_after_the_link_broke_in_a_list_that_was_read_row_by_row(
    nats_server: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listing, "_MAX_PAGE_TRANSFER_S", 0.25)
    near = await connect(Connection(servers=(nats_server.url,)))
    body = {"name": "S", "storage": "memory"}
    await api(near, "STREAM.CREATE.S", body)
    for number in range(LISTED_COUNT):
        config = {"durable_name": f"C{number:03}", "ack_policy": "explicit"}
        created = {"stream_name": "S", "config": config}
        await api(near, f"CONSUMER.DURABLE.CREATE.S.C{number:03}", created)
    await near.close()
    slow_link = SlowLink(nats_server.url, replace(STEADY, bytes_per_s=40_000))
    async with slow_link.listening() as url, polling(url) as polled:
        await polled.until(Snapshot, lambda s: 0 < len(s.consumers.name) < LISTED_COUNT)
        slow_link.cut()
        stats = polled.client.nc.stats
        await polled.until(Snapshot, lambda s: s.consumers_complete and stats["reconnects"] == 1)
        assert len(polled.state.consumers) == LISTED_COUNT
