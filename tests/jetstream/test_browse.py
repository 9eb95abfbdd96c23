from __future__ import annotations

import asyncio
import base64
import io
import json
import random
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.js.api import AckPolicy, ConsumerConfig

from natstui.config import Connection
from natstui.errors import Conflict, ConnectionLost, RequestFailed, RequestTimedOut, UsageError
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.times import time_us
from natstui.jetstream.messages import objects
from natstui.jetstream.messages.browse import browse, count_subjects, read_message
from natstui.jetstream.messages.delivery_preview import preview_delivery
from natstui.jetstream.messages.gets import can_batch_direct_gets
from natstui.jetstream.messages.keys import watch
from natstui.jetstream.messages.objects import copy_object, read_object, read_store
from natstui.jetstream.messages.pull import pull_next
from natstui.jetstream.messages.reading import DeliverPolicy, Reader
from natstui.jetstream.messages.unfinished_objects import count_chunks
from natstui.jetstream.testbed.broker import Broker
from natstui.model.records.messages import (
    BrowseMessages,
    MessagePage,
    PreviewDelivery,
    PullNext,
    ReadMessage,
)
from tests.accounts import Account
from tests.jetstream.admin_session import AdminSession, admin_session
from tests.jetstream.flushing import flushed
from tests.jetstream.pending import until_pending

pytestmark = pytest.mark.server

DIRECT = pytest.mark.parametrize("direct", [True, False], ids=["direct", "one by one"])
DIRECT_OR_LONG = pytest.mark.parametrize(
    "direct",
    [
        pytest.param(True, id="direct"),
        pytest.param(False, id="one by one", marks=pytest.mark.long),
    ],
)


def filled(session: AdminSession, direct: bool, *, spaced: bool = False, **options: Any) -> None:
    """300 messages on three subjects; every third of a stretch in the middle is deleted.

    Those that are `spaced` were stored at different times: none before the one before it is there.
    """
    client = session.writer.client

    async def fill() -> None:
        config = {"name": "S", "subjects": ["s.>"], "allow_direct": direct} | options
        await client.request("STREAM.CREATE.S", config)
        for number in range(1, 301):
            subject, payload = f"s.{number % 3}", b"m%d" % number
            if spaced or number == 300:
                await client.request_subject(subject, payload)
            else:
                await client.publish(subject, payload)
        deletions = ({"seq": number} for number in range(100, 200, 3))
        await asyncio.gather(*(client.request("STREAM.MSG.DELETE.S", it) for it in deletions))

    session.run(fill())


def page(session: AdminSession, **words: Any) -> MessagePage:
    return session.run(browse(session.writer.client, BrowseMessages(1, "S", **words)))


def sequences(found: MessagePage) -> list[int | None]:
    return [message.stream_seq for message in found.messages]


STORED = [number for number in range(1, 301) if not (100 <= number < 200 and number % 3 == 1)]


async def _answered_by(client: Client, stream: str, names: set[str]) -> None:
    """Wait until each of the streams has replied to a direct get."""
    waiting = set(names)
    async with asyncio.timeout(30):
        while waiting:
            for subject in ("s.0", "s.1"):
                request = json.dumps({"last_by_subj": subject}).encode()
                reply = await client.nc.request(
                    f"$JS.API.DIRECT.GET.{stream}", request, timeout=30
                )
                waiting.discard((reply.headers or {}).get("Nats-Stream", ""))


def test_what_a_mirror_lacks_is_read_of_the_stream_itself(
    account: Account, tmp_path: Path
) -> None:
    """With `mirror_direct` it replies to the direct gets of its stream, now and then."""
    with admin_session(account.url, tmp_path) as session:
        filled(session, direct=True)
        for name, filter_subject in (("M0", "s.0"), ("M1", "s.1")):
            mirror = {"name": "S", "filter_subject": filter_subject}
            config = {"name": name, "mirror": mirror, "mirror_direct": True, "max_msgs": 20}
            session.request(f"STREAM.CREATE.{name}", config)
        session.run(_answered_by(session.writer.client, "S", {"S", "M0", "M1"}))
        of_2 = [number for number in STORED if number % 3 == 2]
        # Any of three replies to each request.
        for _ in range(5):
            assert sequences(page(session, page_msgs=40)) == STORED[-40:]
            assert sequences(page(session, page_msgs=40, from_seq=50, newer=True)) == STORED[49:89]
            found = page(session, page_msgs=20, filter_subject="s.2")
            assert sequences(found) == of_2[-20:]
            found = page(session, filter_subject="s.2", last_per_subject=True)
            assert sequences(found) == of_2[-1:]
            assert sequences(page(session, from_time="1h ago", page_msgs=3)) == STORED[:3]
            policy = {"deliver_policy": "all", "filter_subject": "s.2"}
            command = PreviewDelivery(1, "S", json.dumps(policy))
            preview = session.run(preview_delivery(session.writer.client, command))
            assert preview.first is not None
            assert preview.first.stream_seq == 2


@DIRECT_OR_LONG
def test_pages_go_from_the_newest_to_the_oldest_and_back(
    account: Account, tmp_path: Path, direct: bool
) -> None:
    with admin_session(account.url, tmp_path) as session:
        filled(session, direct)
        found = page(session, page_msgs=40)
        backwards = sequences(found)
        while found.older_seq is not None:
            found = page(session, page_msgs=40, from_seq=found.older_seq)
            backwards = sequences(found) + backwards
        assert backwards == STORED
        found = page(session, page_msgs=40, newer=True)
        forwards = sequences(found)
        while found.newer_seq is not None:
            found = page(session, page_msgs=40, from_seq=found.newer_seq, newer=True)
            forwards += sequences(found)
        assert forwards == STORED


@DIRECT
def test_a_filter_finds_the_newest_of_its_subject(
    account: Account, tmp_path: Path, direct: bool
) -> None:
    with admin_session(account.url, tmp_path) as session:
        filled(session, direct)
        found = page(session, page_msgs=10, filter_subject="s.2")
        assert sequences(found) == [n for n in STORED if n % 3 == 2][-10:]
        found = page(session, page_msgs=10, filter_subject="s.2", from_seq=found.older_seq)
        assert sequences(found) == [n for n in STORED if n % 3 == 2][-20:-10]
        assert page(session, filter_subject="s.nothing").messages == ()


async def consumed(client: Client, subject: str) -> list[int]:
    """Return the sequences that a plain pull consumer of nats-py receives."""
    config = ConsumerConfig(ack_policy=AckPolicy.NONE)
    js = client.nc.jetstream()
    subscription = await js.pull_subscribe(subject, stream="S", config=config)
    waiting = (await subscription.consumer_info()).num_pending or 0
    received = [await subscription.fetch(1) for _ in range(waiting)]
    await subscription.unsubscribe()
    return [message.metadata.sequence.stream for messages in received for message in messages]


@DIRECT
def test_every_page_has_what_a_plain_consumer_gets(
    account: Account, tmp_path: Path, direct: bool
) -> None:
    with admin_session(account.url, tmp_path) as session:
        filled(session, direct)
        client = session.writer.client
        for subject in ("s.1", "s.*"):
            wanted = session.run(consumed(client, subject))
            assert sequences(page(session, page_msgs=10, filter_subject=subject)) == wanted[-10:]
            found = page(session, page_msgs=500, filter_subject=subject)
            assert sequences(found) == wanted
            for start in (1, 101, 150, 199, 290):
                expected = [seq for seq in wanted if seq >= start]
                plan = {"deliver_policy": "by_start_sequence", "opt_start_seq": start}
                asked = PreviewDelivery(1, "S", json.dumps(plan | {"filter_subject": subject}))
                preview = session.run(preview_delivery(client, asked))
                # Without batches nothing counts from the middle on: unknown, never another number.
                counts = direct and can_batch_direct_gets(client)
                assert preview.pending_msgs in ({len(expected)} | (set() if counts else {None}))
                assert preview.first is not None
                assert preview.first.stream_seq == expected[0]


async def read_since(client: Client, moment: str) -> list[int]:
    async with Reader(client, "S", from_time=moment) as reader:
        return [(await anext(reader)).stream_seq for _ in range(reader.waiting_msgs)]


async def flooded(client: Client, url: str) -> None:
    """Read a stream while somebody sends to the reader what no server would send at a time."""
    async with Reader(client, "S") as reader:
        (name,) = json.loads(await client.request("CONSUMER.NAMES.S"))["consumers"]
        info = json.loads(await client.request(f"CONSUMER.INFO.S.{name}"))
        nc = await nats.connect(url)
        for _ in range(28):
            for _ in range(5):
                await nc.publish(info["config"]["deliver_subject"], b"x" * 1_000_000)
            # More at a time, and the server would disconnect the reader.
            await flushed(nc)
            await client.request("INFO")
        await nc.close()
        await anext(reader)


def test_a_server_that_sends_more_than_is_confirmed_fills_no_memory(
    account: Account, tmp_path: Path
) -> None:
    with admin_session(account.url, tmp_path) as session:
        session.request("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        with pytest.raises(RequestFailed, match=r"sends more than flow control allows"):
            session.run(flooded(session.writer.client, account.url))


@pytest.mark.parametrize("storage", ["file", pytest.param("memory", marks=pytest.mark.long)])
@DIRECT_OR_LONG
def test_whatever_is_deleted_a_time_leads_to_the_first_message_since(
    account: Account, tmp_path: Path, direct: bool, storage: str
) -> None:
    with admin_session(account.url, tmp_path) as session:
        filled(session, direct, storage=storage, spaced=True)
        client = session.writer.client
        for seq in (30, 200, *range(290, 300)):
            session.request("STREAM.MSG.DELETE.S", {"seq": seq})
        stored = session.run(consumed(client, "s.>"))
        for seq in (stored[0], 98, 101, 102, 149, 153, 198, 201, stored[-1]):
            message = session.run(read_message(client, ReadMessage(1, "S", seq)))
            moment = datetime.fromtimestamp(message.stored_at_us / 1_000_000, UTC).isoformat()
            assert page(session, from_time=moment, page_msgs=1).sought_seq == seq
            assert session.run(read_since(client, moment)) == stored[stored.index(seq) :]


@pytest.mark.parametrize("subject", [None, "s.2"])
@pytest.mark.needs_server("2.11")
@DIRECT
def test_the_preview_of_a_start_time_is_what_the_server_then_delivers(
    account: Account, tmp_path: Path, direct: bool, subject: str | None
) -> None:
    """Compares with a consumer of the server, which on 2.11 does not start where it should."""
    with admin_session(account.url, tmp_path) as session:
        filled(session, direct, spaced=True)
        client = session.writer.client
        for seq in (1, 101, 149, 153, 198, 300):
            message = session.run(read_message(client, ReadMessage(1, "S", seq)))
            moment = datetime.fromtimestamp(message.stored_at_us / 1_000_000, UTC).isoformat()
            plan = {"deliver_policy": "by_start_time", "opt_start_time": moment}
            config = plan | ({"filter_subject": subject} if subject else {})
            asked = PreviewDelivery(1, "S", json.dumps(config))
            preview = session.run(preview_delivery(client, asked))
            body = {"stream_name": "S", "config": config | {"ack_policy": "none"}}
            info = session.request("CONSUMER.CREATE.S", body)
            assert preview.pending_msgs in (
                {info["num_pending"]} | ({None} if not direct else set())
            )


@DIRECT
def test_the_last_of_each_subject(account: Account, tmp_path: Path, direct: bool) -> None:
    with admin_session(account.url, tmp_path) as session:
        filled(session, direct)
        found = page(session, last_per_subject=True)
        assert sequences(found) == [298, 299, 300]
        counted = session.run(count_subjects(session.writer.client, "S", "s.*"))
        assert counted == {"s.0": 100, "s.1": 66, "s.2": 100}


@DIRECT
def test_the_last_of_each_subject_is_read_of_all_subjects_though_the_messages_are_large(
    account: Account, tmp_path: Path, direct: bool
) -> None:
    with admin_session(account.url, tmp_path) as session:
        config = {"name": "S", "subjects": ["s.>"], "allow_direct": direct, "storage": "memory"}
        session.request("STREAM.CREATE.S", config)
        # A server sends at most 64 MB in a reply.
        for number in range(70):
            session.run(session.writer.client.publish(f"s.{number}", b"x" * 1_000_000))
        session.run(session.writer.client.request_subject("s.0", b""))
        assert sequences(page(session, last_per_subject=True)) == list(range(2, 72))


@DIRECT
def test_a_time_leads_to_the_first_message_since(
    account: Account, tmp_path: Path, direct: bool
) -> None:
    with admin_session(account.url, tmp_path) as session:
        filled(session, direct, spaced=True)
        wanted = session.run(read_message(session.writer.client, ReadMessage(1, "S", 153)))
        moment = datetime.fromtimestamp(wanted.stored_at_us / 1_000_000, UTC).isoformat()
        found = page(session, from_time=moment, page_msgs=5)
        assert found.sought_seq == 153
        assert sequences(found)[:2] == [153, 155]
        assert page(session, from_time="10m ago").sought_seq == STORED[0]
        for wrong in ("yesterday", "0001-01-01T00:00:00+14:00"):
            with pytest.raises(UsageError, match="is not a time"):
                page(session, from_time=wrong)


@DIRECT
def test_a_consumer_leads_to_its_places_and_does_not_move(
    account: Account, tmp_path: Path, direct: bool
) -> None:
    with admin_session(account.url, tmp_path) as session:
        filled(session, direct)
        consumer = {"durable_name": "C", "ack_policy": "explicit", "filter_subject": "s.0"}
        session.apply("create_consumer", "S", consumer, consumer="C")
        client = session.writer.client
        pulled = [session.run(pull_next(session.writer, PullNext(1, "S", "C"))) for _ in range(5)]
        for one in (pulled[0], pulled[1], pulled[3]):
            session.run(client.request_subject(one.reply, b"+ACK"))
        before = session.request("CONSUMER.INFO.S.C")
        assert page(session, consumer="C", jump="ack_floor").sought_seq == 8
        assert page(session, consumer="C", jump="first_unacked").sought_seq == 9
        assert page(session, consumer="C", jump="next_to_deliver").sought_seq == 18
        after = session.request("CONSUMER.INFO.S.C")
        assert {k: v for k, v in before.items() if k != "ts"} == {
            k: v for k, v in after.items() if k != "ts"
        }


@DIRECT_OR_LONG
def test_random_places_of_a_stream_full_of_holes_give_the_right_pages(
    account: Account, tmp_path: Path, direct: bool
) -> None:
    with admin_session(account.url, tmp_path) as session:
        filled(session, direct)
        dice = random.Random(1)
        for _ in range(12):
            place, size = dice.randint(1, 310), dice.randint(1, 60)
            subject = dice.choice([None, "s.1", "s.>"])
            fits = [n for n in STORED if subject != "s.1" or n % 3 == 1]
            found = page(session, from_seq=place, page_msgs=size, filter_subject=subject)
            assert sequences(found) == [n for n in fits if n < place][-size:]
            found = page(
                session, from_seq=place, page_msgs=size, filter_subject=subject, newer=True
            )
            assert sequences(found) == [n for n in fits if n >= place][:size]


@DIRECT
def test_previews_are_cut_and_a_message_is_read_whole(
    account: Account, tmp_path: Path, direct: bool
) -> None:
    with admin_session(account.url, tmp_path) as session:
        config = {"name": "S", "subjects": ["s.>"], "allow_direct": direct}
        session.request("STREAM.CREATE.S", config)
        payload = bytes(range(256)) * 3000
        client = session.writer.client
        headers = {"Nats-Msg-Id": "one", "X": "ü"}
        for _ in range(2):
            session.run(client.request_subject("s.big", payload, headers=headers))
        session.run(client.request_subject("s.big", b""))
        first, empty = page(session, preview_bytes=10).messages
        assert base64.b64decode(first.payload_base64) == payload[:10]
        assert first.payload_bytes == len(payload)
        assert dict(first.headers) == headers
        assert empty.payload_bytes == 0
        whole = session.run(read_message(client, ReadMessage(1, "S", 1)))
        assert base64.b64decode(whole.payload_base64) == payload
        assert dict(whole.headers) == headers


async def flood(client: Client, count: int) -> None:
    for number in range(count):
        if number % 2000 == 1999 or number == count - 1:
            await client.request_subject(f"s.{number}", b"")  # acked after all before it
        else:
            await client.nc.publish(f"s.{number}", b"")


def test_too_many_subjects_are_not_listed(account: Account, tmp_path: Path) -> None:
    with admin_session(account.url, tmp_path) as session:
        config = {"name": "S", "subjects": ["s.>"], "storage": "memory"}
        session.request("STREAM.CREATE.S", config)
        session.run(flood(session.writer.client, 50_001))
        with pytest.raises(RequestFailed, match="too many to list"):
            session.run(count_subjects(session.writer.client, "S", ">"))


@DIRECT
def test_browsing_a_work_queue_of_twenty_thousand_leaves_its_consumer_alone(
    account: Account, tmp_path: Path, direct: bool
) -> None:
    with admin_session(account.url, tmp_path) as session:
        queue = {"name": "S", "subjects": ["s.*"], "retention": "workqueue"}
        session.request("STREAM.CREATE.S", {**queue, "allow_direct": direct})
        consumer = {"durable_name": "C", "ack_policy": "explicit"}
        session.apply("create_consumer", "S", consumer, consumer="C")
        session.run(flood(session.writer.client, 20_000))
        taken = [session.run(pull_next(session.writer, PullNext(1, "S", "C"))) for _ in range(4)]
        session.run(session.writer.client.request_subject(taken[1].reply, b"+ACK"))
        session.run(until_pending(session.writer.client.nc.jetstream(), "S", 19_996, "C"))
        before = session.request("CONSUMER.INFO.S.C")
        assert sequences(page(session)) == list(range(19_901, 20_001))
        assert sequences(page(session, from_seq=10_000)) == list(range(9_900, 10_000))
        assert page(session, consumer="C", jump="first_unacked").sought_seq == 1
        assert page(session, consumer="C", jump="next_to_deliver").sought_seq == 5
        after = session.request("CONSUMER.INFO.S.C")
        assert before | {"ts": ""} == after | {"ts": ""}


@pytest.mark.parametrize("what", ["stream", "bucket", "unknown creation time"])
async def test_reading_does_not_continue_in_a_stream_that_was_recreated(
    account: Account, what: str
) -> None:
    name = "KV_B" if what == "bucket" else "S"
    config = {"name": name, "subjects": ["$KV.B.>"], "storage": "memory"}
    client = await connect(Connection(servers=(account.url,)))
    try:
        created = json.loads(await client.request(f"STREAM.CREATE.{name}", config))["created"]

        async def recreate() -> None:
            await client.request(f"STREAM.DELETE.{name}")
            await client.request(f"STREAM.CREATE.{name}", config)
            for key in range(20):
                await client.request_subject(f"$KV.B.new{key}", b"x")
            client.nc._transport.abort()

        for key in range(5):
            await client.request_subject(f"$KV.B.old{key}", b"x")
        async with asyncio.timeout(30):
            if what == "bucket":
                with pytest.raises(Conflict, match="KV_B was deleted and recreated"):
                    async with watch(client, "B", ">", "all") as entries:
                        for key in range(5):
                            assert (await anext(entries)).key == f"old{key}"
                        await recreate()
                        await anext(entries)
                return
            created_at_us = time_us(created) if what == "stream" else None
            reader = Reader(client, "S", created_at_us=created_at_us)
            with pytest.raises(Conflict, match="S was deleted and recreated while it was read"):
                async with reader:
                    for key in range(5):
                        assert (await anext(reader)).subject == f"$KV.B.old{key}"
                    await recreate()
                    await anext(reader)
    finally:
        await client.close()


async def test_a_reader_has_caught_up_only_once_it_read_what_came_while_it_was_disconnected(
    nats_server: Broker,
) -> None:
    client = await connect(Connection(servers=(nats_server.url,)))
    try:
        await client.request("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        for _ in range(2):
            await client.request_subject("s", b"x")
        async with asyncio.timeout(30), Reader(client, "S") as reader:
            assert not reader.has_caught_up
            for later_msgs in (1, 0):
                assert (await anext(reader)).later_msgs == later_msgs
                assert reader.has_caught_up == (later_msgs == 0)
            await asyncio.to_thread(nats_server.restart)
            while not client.nc.stats["reconnects"]:
                await asyncio.sleep(0.01)
            assert not reader.has_caught_up
            await client.request_subject("s", b"x")
            assert (await anext(reader)).stream_seq == 3
            assert reader.has_caught_up
    finally:
        await client.close()


async def test_a_second_outage_leaves_no_consumer_of_the_failed_attempt(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = await connect(Connection(servers=(account.url,)))
    failures = [ConnectionLost("lost again"), RequestTimedOut("STREAM.INFO.S", 5.0)]
    check_stream = Reader.check_stream

    async def fail_at_first(reader: Reader) -> None:
        if failures:
            raise failures.pop()
        await check_stream(reader)

    async def read_consumers() -> list[str]:
        names: list[str] = json.loads(await client.request("CONSUMER.NAMES.S"))["consumers"]
        return names

    try:
        await client.request("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        async with asyncio.timeout(30), Reader(client, "S") as reader:
            monkeypatch.setattr(Reader, "check_stream", fail_at_first)
            subscriptions_count = len(client.nc._subs)
            (lost_consumer,) = await read_consumers()
            await client.request(f"CONSUMER.DELETE.S.{lost_consumer}")
            client.nc._transport.abort()
            while not client.nc.stats["reconnects"]:
                await asyncio.sleep(0.01)
            await client.request_subject("s", b"x")
            assert (await anext(reader)).stream_seq == 1
            assert not failures
            assert reader.restarts_count == 1
            consumers = await read_consumers()
            assert len(consumers) == 1
            assert len(client.nc._subs) == subscriptions_count
            for seq in range(2, 12):
                await client.request_subject("s", b"x")
                assert (await anext(reader)).stream_seq == seq
            assert await read_consumers() == consumers
    finally:
        await client.close()


async def test_a_reader_whose_consumer_is_refused_or_that_ends_disconnected_is_unsubscribed(
    account: Account,
) -> None:
    client = await connect(Connection(servers=(account.url,)))
    try:
        await client.request("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
        subscriptions_count = len(client.nc._subs)
        with pytest.raises(RequestFailed, match="overlap"):
            async with Reader(client, "S", ("s", "s")):
                pass
        assert len(client.nc._subs) == subscriptions_count
        async with Reader(client, "S"):
            client.nc._transport.abort()
            while client.link.state == "connected":
                await asyncio.sleep(0)
        assert len(client.nc._subs) == subscriptions_count
    finally:
        await client.close()


@pytest.mark.parametrize("policy", ["new", "last", "last_per_subject"])
@pytest.mark.parametrize("stored_msgs", [0, 2])
async def test_what_is_stored_during_an_outage_before_the_first_message_is_read(
    account: Account, policy: DeliverPolicy, stored_msgs: int
) -> None:
    """Where the filter matches nothing yet, and where the stream is empty."""
    client = await connect(Connection(servers=(account.url,)))
    other = await connect(Connection(servers=(account.url,)))
    try:
        await client.request("STREAM.CREATE.S", {"name": "S", "subjects": ["s", "t"]})
        for _ in range(2):
            await client.request_subject("t", b"before")
        if not stored_msgs:
            await client.request("STREAM.PURGE.S")
        reader = Reader(client, "S", () if policy == "new" else ("s",), policy)
        async with asyncio.timeout(30), reader:
            client.nc._transport.abort()
            (name,) = json.loads(await other.request("CONSUMER.NAMES.S"))["consumers"]
            await other.request(f"CONSUMER.DELETE.S.{name}")
            for _ in range(2):
                await other.request_subject("s", b"meanwhile")
            while not client.nc.stats["reconnects"]:
                await asyncio.sleep(0.01)
            await other.request_subject("s", b"later")
            assert [(await anext(reader)).stream_seq for _ in range(3)] == [3, 4, 5]
            assert reader.has_caught_up
    finally:
        await client.close()
        await other.close()


async def test_chunks_of_a_store_are_not_compared_with_the_objects_of_a_recreated_one(
    account: Account, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = {"name": "OBJ_F", "subjects": ["$O.F.C.>", "$O.F.M.>"], "storage": "memory"}
    client = await connect(Connection(servers=(account.url,)))

    async def count_and_recreate(client: Client, bucket: str) -> dict[str, int]:
        chunks = await count_chunks(client, bucket)
        await client.request("STREAM.DELETE.OBJ_F")
        await client.request("STREAM.CREATE.OBJ_F", config)
        return chunks

    try:
        await client.request("STREAM.CREATE.OBJ_F", config)
        await client.request_subject("$O.F.C.upload", b"x")
        assert len((await read_store(client, "F")).unfinished) == 1
        monkeypatch.setattr(objects, "count_chunks", count_and_recreate)
        # The chunk is gone with its store: nothing of it is unfinished in the new one.
        await client.request_subject("$O.F.C.upload", b"x")
        with pytest.raises(Conflict, match="F was deleted and recreated while it was read"):
            await read_store(client, "F")
    finally:
        await client.close()


async def test_a_file_that_is_replaced_or_deleted_while_it_is_read_is_no_damaged_one(
    account: Account,
) -> None:
    client = await connect(Connection(servers=(account.url,)))
    try:
        nc = await nats.connect(account.url)
        store = await nc.jetstream().create_object_store("R")
        for what in ("replaced", "deleted"):
            await store.put("x", b"old")
            read = await read_object(client, "R", "x")
            await (store.put("x", b"new") if what == "replaced" else store.delete("x"))
            for verify in (True, False):
                with pytest.raises(Conflict, match=f"x was {what} while it was read"):
                    await copy_object(client, read, io.BytesIO(), lambda _: None, verify=verify)
        await nc.close()
    finally:
        await client.close()
