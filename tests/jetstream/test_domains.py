"""Writing to another domain or account: never into the local one as well."""

from __future__ import annotations

import asyncio
import io
import json
from collections.abc import Callable
from contextlib import nullcontext, suppress
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client as NatsClient
from nats.js import JetStreamContext

from natstui.bench.run.controller import Benchmark
from natstui.cli.core.printer import MessagePrinter
from natstui.cli.core.sub import StreamPrinter
from natstui.config.connection import Connection
from natstui.errors import ActionRefusal, OutcomeUnknown, RequestFailed
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.journal import Journal
from natstui.jetstream.connection.storing import check_domain, store
from natstui.jetstream.connection.times import time_us
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.events.subscriptions import read_events
from natstui.jetstream.managing.losses import upstreams_and_republish_loss
from natstui.jetstream.managing.objects import ObjectChange, delete_object, put_object
from natstui.jetstream.messages import reading
from natstui.jetstream.messages.copying.copy import CopyTarget, MessageCopy, send_copy, write_copy
from natstui.jetstream.messages.copying.dead_letters import preview_send_again, send_again
from natstui.jetstream.messages.copying.losses import describe_copy_loss
from natstui.jetstream.messages.copying.selection import SelectionRequest, select
from natstui.jetstream.messages.keys import watch
from natstui.jetstream.messages.objects import find_names_with_chunks
from natstui.jetstream.messages.publish import MessageBatch, ack_text, publish, publish_batch
from natstui.jetstream.messages.pull import send_ack
from natstui.jetstream.testbed.broker import Broker
from natstui.model.bench.plan import Role, StreamPlan
from natstui.model.records.copies import PreviewResend, ResendMessages
from natstui.model.records.messages import AnswerMessage, PublishMessage
from tests.bench.running import Records, plan
from tests.cli.test_manage import Shell

pytestmark = pytest.mark.server


@pytest.fixture
def hub_and_leaf(
    nats_server_factory: Callable[..., Broker], held_port: int
) -> tuple[Broker, Broker]:
    """Return a server of the domain hub, and a leaf node of it with the domain leaf."""
    return (
        nats_server_factory(
            f'jetstream {{ domain: hub }}\nleafnodes {{ listen: "127.0.0.1:{held_port}" }}'
        ),
        nats_server_factory(
            "jetstream { domain: leaf }\n"
            f'leafnodes {{ remotes: [ {{ url: "nats://127.0.0.1:{held_port}" }} ] }}'
        ),
    )


@pytest.fixture
async def accounts(nats_server_factory: Callable[..., Broker]) -> list[str]:
    """Return the addresses of two accounts that have a stream W each; the second one has the
    JetStream of the first one too, as fromA.JS.
    """
    broker = nats_server_factory(
        """
        jetstream {}
        accounts {
          A { jetstream: enabled, users: [{user: a, password: a}],
              exports: [{service: "$JS.API.>"}] }
          B { jetstream: enabled, users: [{user: b, password: b}],
              imports: [{service: {account: A, subject: "$JS.API.>"}, to: "fromA.JS.>"}] }
        }
        """
    )
    urls = [broker.url.replace("://", f"://{user}:{user}@") for user in "ab"]
    for url in urls:
        nc = await nats.connect(url)
        await nc.jetstream().add_stream(name="W", subjects=["w"])
        await nc.close()
    return urls


async def joined(client: Client) -> None:
    """Wait until the leaf node reaches the JetStream of its hub."""
    while True:
        try:
            await client.request("INFO")
            return
        except RequestFailed:
            await asyncio.sleep(0.05)


async def test_what_the_local_domain_would_store_as_well_is_refused(
    hub_and_leaf: tuple[Broker, Broker],
) -> None:
    hub, leaf = hub_and_leaf
    clients = [await nats.connect(broker.url) for broker in (hub, leaf)]
    for nc in clients:
        store = await nc.jetstream().create_object_store("F")
        await store.put("f", b"precious")
        await nc.jetstream().add_stream(name="T", subjects=["t"])
    connection = Connection(servers=(leaf.url,), domain="hub")
    client = await connect(connection)
    await joined(client)
    writer = Writer(client, Journal())
    asked = ObjectChange("F", "f", confirmed="f")
    with pytest.raises(
        ActionRefusal, match="stream OBJ_F of domain leaf would store this as well"
    ):
        await put_object(writer, asked, io.BytesIO(b"new"), lambda _: None, find_names_with_chunks)
    with pytest.raises(ActionRefusal, match="connect to a server of domain hub"):
        await delete_object(writer, asked, find_names_with_chunks)
    what = plan(
        Role("pubs", "js-publish-async", subject="t", total_msgs=3),
        stream=StreamPlan("T", create=False),
    )
    with pytest.raises(ActionRefusal, match="stream T of domain leaf"):
        await Benchmark(what, connection, Records()).run()
    await clients[1].jetstream().add_stream(name="FROM", subjects=["from"])
    await clients[1].publish("from", b"x")
    source = await connect(Connection(servers=(leaf.url,)))
    selection = await select(source, SelectionRequest("FROM"))
    with pytest.raises(ActionRefusal, match="stream T of domain leaf"):
        await describe_copy_loss(
            source, client, MessageCopy(CopyTarget(subject_maps=(("from", "t"),)), selection)
        )
    with pytest.raises(ActionRefusal, match="stream FROM of domain leaf"):
        await describe_copy_loss(source, client, MessageCopy(CopyTarget(), selection))
    batch = MessageBatch("t", [b"x"], 1, 1, waits_for_acks=True)
    with pytest.raises(ActionRefusal, match="stream T of domain leaf"):
        await publish_batch(writer, batch)
    with pytest.raises(ActionRefusal, match="stream T of domain leaf"):
        await publish(writer, PublishMessage(0, "t"))
    created_at_us = time_us(json.loads(await client.request("STREAM.INFO.T"))["created"])
    with pytest.raises(ActionRefusal, match="stream T of domain leaf"):
        await preview_send_again(client, PreviewResend(0, "T", (1,), created_at_us, (0, 0)))
    with pytest.raises(ActionRefusal, match="stream T of domain leaf"):
        await send_again(writer, ResendMessages(0, "T", (1,), created_at_us, (0, 0)))
    for nc in clients:
        store = await nc.jetstream().object_store("F")
        assert (await store.get("f")).data == b"precious"
        assert (await nc.jetstream().stream_info("T")).state.messages == 0
    await clients[1].jetstream().delete_stream("T")
    await check_domain(client, "t")
    await publish_batch(writer, batch)
    assert batch.acks[0].stream == "T", "what only the other domain stores is published"
    # Without its domain as well: the ack names it, and the messages are in no doubt.
    local_writer = Writer(source, Journal())
    batch = MessageBatch("t", [b"1", b"2"], 2, 1, waits_for_acks=True)
    await publish_batch(local_writer, batch)
    assert [ack.stream_text for ack in batch.acks] == ["T of domain hub"] * 2
    assert (batch.is_kept_count_known, batch.kept_no_message) == (False, False)
    ack = await publish(local_writer, PublishMessage(0, "t"))
    assert await ack_text(source, "t", ack) == "acknowledged as 4 in T of domain hub"
    copy = MessageCopy(CopyTarget(subject_maps=(("from", "t"),)), selection)
    with pytest.raises(RequestFailed, match='no stream stores "t"'):
        await send_copy(source, local_writer, copy, ("t", "t"), asyncio.Event())
    assert (await clients[0].jetstream().stream_info("T")).state.messages == 4
    # All that is read gets a subject that only the other domain stores.
    assert (
        await describe_copy_loss(
            source, client, MessageCopy(CopyTarget(subject_maps=(("from", "t"),)), selection)
        )
        is None
    )
    await client.close()
    await source.close()
    for nc in clients:
        await nc.close()


async def dropped(nc: NatsClient, count: int, keeper: JetStreamContext, kept_count: int) -> None:
    """Let the consumer drop messages, until `keeper` has stored as many advisories."""
    subscription = await nc.jetstream().pull_subscribe_bind("w", stream="GV")
    await subscription.fetch(count, timeout=10)
    async with asyncio.timeout(30):
        while (await keeper.stream_info("ADV")).state.messages < kept_count:
            with suppress(nats.errors.TimeoutError):
                await subscription.fetch(1, timeout=0.2)


async def test_events_of_another_domain_are_not_taken_for_our_own(
    hub_and_leaf: tuple[Broker, Broker],
) -> None:
    hub, leaf = hub_and_leaf
    of_hub, of_leaf = [await nats.connect(broker.url) for broker in (hub, leaf)]
    keeper = of_hub.jetstream()
    await keeper.add_stream(name="ADV", subjects=["$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.>"])
    through_leaf = await connect(Connection(servers=(leaf.url,), domain="hub"))
    await joined(through_leaf)
    client, records = await connect(Connection(servers=(hub.url,))), Records()
    listening = asyncio.create_task(read_events(client, records))
    for nc, subject in ((of_hub, "gv.hub"), (of_leaf, "gv.leaf")):
        await nc.jetstream().add_stream(name="GV", subjects=[subject])
        await nc.jetstream().add_consumer(
            "GV", durable_name="w", ack_policy="explicit", max_deliver=1, ack_wait=0.1
        )
        for _ in range(3):
            await nc.jetstream().publish(subject, b"x")
    await dropped(of_leaf, 3, keeper, 3)
    given_up = SelectionRequest("GV", consumer="w", consumer_messages="given_up")
    for prefixed in (client, through_leaf):
        assert not (await select(prefixed, given_up)).seqs
    await dropped(of_hub, 3, keeper, 6)
    assert (await select(client, given_up)).seqs == (1, 2, 3)
    async with asyncio.timeout(30):
        while sum("was dropped" in str(record) for record in records.all) < 3:
            await asyncio.sleep(0.05)
    drops = [str(record) for record in records.all if "was dropped" in str(record)]
    assert all('"domain":"hub"' in drop for drop in drops), drops
    listening.cancel()
    await asyncio.wait({listening})
    for each in (client, through_leaf):
        await each.close()
    for nc in (of_hub, of_leaf):
        await nc.close()


async def test_what_the_own_account_would_store_of_another_accounts_jetstream_is_refused(
    accounts: list[str],
) -> None:
    for url in accounts:
        nc = await nats.connect(url)
        store = await nc.jetstream().create_object_store("F")
        await store.put("f", b"precious")
        await nc.close()
    client = await connect(Connection(servers=(accounts[1],), api_prefix="fromA.JS"))
    writer = Writer(client, Journal())
    asked = ObjectChange("F", "f", confirmed="f")
    refusal = r'would store this as well as that of "fromA.JS": connect as a user of its account'
    with pytest.raises(ActionRefusal, match=refusal):
        await put_object(writer, asked, io.BytesIO(b""), lambda _: None, find_names_with_chunks)
    with pytest.raises(ActionRefusal, match=refusal):
        await delete_object(writer, asked, find_names_with_chunks)
    with pytest.raises(ActionRefusal, match=refusal):
        await publish_batch(writer, MessageBatch("w", [b"x"], 1, 1, waits_for_acks=True))
    await client.close()
    nc = await nats.connect(accounts[1])
    store = await nc.jetstream().object_store("F")
    assert (await store.get("f")).data == b"precious"
    assert (await nc.jetstream().stream_info("W")).state.messages == 0
    await nc.close()


async def test_messages_that_another_account_does_not_deliver_are_an_error(
    accounts: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "_MAX_SILENCE_S", 0.2)
    nc = await nats.connect(accounts[0])
    await nc.jetstream().publish("w", b"x")
    bucket = await nc.jetstream().create_key_value(bucket="K")
    await bucket.put("k", b"v")
    await nc.close()
    other = Connection(servers=(accounts[1],), api_prefix="fromA.JS")
    client = await connect(other)
    nothing_came = 'nothing came within .* from the consumer .*; through "fromA.JS" the other'
    copy = MessageCopy(CopyTarget(), await select(client, SelectionRequest("W")))
    with pytest.raises(RequestFailed, match=f"W: {nothing_came}"):
        await write_copy(client, copy, tmp_path / "w.jsonl", asyncio.Event())
    with pytest.raises(RequestFailed, match=f"KV_K: {nothing_came}"):
        async with watch(client, "K", ">", "all", 0.1) as entries:
            await anext(entries)
    await client.close()
    unset = dict.fromkeys(("stream", "since", "start_sequence", "from_last", "last_per_subject"))
    printer = MessagePrinter("subjects")
    for flags in ({"from_all": True, "from_new": False}, {"from_all": False, "from_new": True}):
        listening = StreamPrinter(("w",), (), None, 0.2, printer, {**unset, **flags})
        # Where nothing was waiting, nothing is missing.
        expected = pytest.raises(RequestFailed, match=f"W: {nothing_came}")
        with expected if flags["from_all"] else nullcontext():
            await listening.run_until_stopped(other)


async def test_an_ack_that_the_local_domain_would_take_as_well_is_refused(
    hub_and_leaf: tuple[Broker, Broker], tmp_path: Path
) -> None:
    hub, leaf = hub_and_leaf
    clients = [await nats.connect(broker.url) for broker in (hub, leaf)]
    for nc, subject in zip(clients, ("hub", "leaf"), strict=True):
        js = nc.jetstream()
        await js.add_stream(name="W", subjects=[subject], retention="workqueue")
        await js.add_consumer("W", durable_name="C", ack_policy="explicit")
        await js.publish(subject, b"one")
    connection = Connection(servers=(hub.url,), domain="leaf")
    client = await connect(connection)
    await joined(client)
    shell = Shell(hub.url, tmp_path)
    flags = ("--js-domain", "leaf", "--yes")
    for words in (
        ("consumer", "next", "W", "C", "--ack"),
        ("consumer", "sub", "W", "C", "--ack", "--count", "1"),
    ):
        done = await asyncio.to_thread(shell.run, *words, *flags)
        assert done.returncode == 5, done
        assert "to C on W of domain leaf would also be one to that of domain hub" in done.stderr
    what = plan(
        Role("subs", "js-fetch", consumer="C", total_msgs=1), stream=StreamPlan("W", create=False)
    )
    with pytest.raises(ActionRefusal, match="to C on W of domain leaf would also be one to that"):
        await Benchmark(what, connection, Records()).run()
    taken = await asyncio.to_thread(shell.run, "consumer", "next", "W", "C", "--no-ack", *flags)
    assert taken.returncode == 0, taken
    reply = (await client.request_timed("CONSUMER.INFO.W.C")).data
    assert json.loads(reply)["num_ack_pending"] == 1
    with pytest.raises(
        ActionRefusal, match="connect to a server of domain leaf to acknowledge there"
    ):
        await send_ack(
            Writer(client, Journal()),
            AnswerMessage(0, "C", "$JS.ACK.W.C.1.1.1.1700000000000000000.0", "ack", confirmed="C"),
        )
    for nc in clients:
        assert (await nc.jetstream().stream_info("W")).state.messages == 1
        await nc.close()
    await client.close()


async def test_an_ack_of_another_domain_is_none_of_the_target(
    hub_and_leaf: tuple[Broker, Broker],
) -> None:
    hub, leaf = hub_and_leaf
    nc = await nats.connect(leaf.url)
    await nc.jetstream().add_stream(name="W", subjects=["w"])
    client = await connect(Connection(servers=(hub.url,)))
    leaf_client = await connect(Connection(servers=(hub.url,), domain="leaf"))
    await joined(leaf_client)
    await leaf_client.close()
    with pytest.raises(OutcomeUnknown, match="acknowledged by W of domain leaf; it is not known"):
        await store(client, "w", b"x", None, "W")
    await client.close()
    await nc.close()


async def test_a_work_queue_of_another_domain_is_said_to_be_emptied(
    hub_and_leaf: tuple[Broker, Broker],
) -> None:
    hub, leaf = hub_and_leaf
    nc = await nats.connect(leaf.url)
    js = nc.jetstream()
    for number, name in enumerate(("W", "E", "L")):
        retention = "limits" if name == "L" else "workqueue"
        await js.add_stream(name=name, subjects=[name], retention=retention)
        if number != 1:
            await js.publish(name, b"x")
    client = await connect(Connection(servers=(hub.url,)))
    leaf_client = await connect(Connection(servers=(hub.url,), domain="leaf"))
    await joined(leaf_client)
    for name, text in (
        ("W", "up to 1 message of the work queue W is moved out of it for good"),
        ("E", "what the work queue E gets from now on is moved out of it for good"),
        ("absent", ""),
        ("L", ""),
    ):
        source = {"name": name, "external": {"api": "$JS.leaf.API", "deliver": ""}}
        for config in ({"sources": [source]}, {"mirror": source}):
            assert (await upstreams_and_republish_loss(client, config)).text == text
    source = {"name": "W", "external": {"api": "$JS.nowhere.API", "deliver": ""}}
    loss = await upstreams_and_republish_loss(client, {"sources": [source]})
    assert loss.most_msgs is None and "if it is a work queue, it is emptied" in loss.text
    await leaf_client.close()
    await client.close()
    await nc.close()
