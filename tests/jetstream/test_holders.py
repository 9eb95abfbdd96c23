"""Who holds a consumer and who publishes: named by a real server, held against who really does."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress

import nats
import nats.errors
import pytest
from nats.aio.client import Client as NatsClient

from natstui.errors import NotFound, PermissionDenied
from natstui.jetstream.connection.client import Client
from natstui.jetstream.system.clients import (
    _drop_covered,
    read_consumer,
    read_publishers,
    read_pull_clients,
    read_push_clients,
)
from natstui.jetstream.system.connections import read_connections
from natstui.jetstream.system.reply_tap import ReplyTap, TappedRequest
from natstui.jetstream.system.requests import ServerRequests
from natstui.jetstream.testbed.broker import Broker
from natstui.model.clients.requests import TappedRequests
from tests.accounts import Account
from tests.ending import ended
from tests.jetstream.flushing import flushed
from tests.jetstream.test_connections import as_user, asking

pytestmark = pytest.mark.server

NEXT = "$JS.API.CONSUMER.MSG.NEXT.S.C"


@asynccontextmanager
async def people(urls: Sequence[str], *names: str) -> AsyncIterator[list[NatsClient]]:
    """Connect clients by name, one after the other to each of the servers."""
    async with AsyncExitStack() as stack:
        found = []
        for place, name in enumerate(names):
            nc = await nats.connect(urls[place % len(urls)], name=name)
            stack.push_async_callback(nc.close)
            found.append(nc)
        yield found


async def consumer(nc: NatsClient, replicas: int = 1, **config: object) -> None:
    await nc.jetstream().add_stream(name="S", subjects=["s.>"], num_replicas=replicas)
    await nc.jetstream().add_consumer(
        "S", **({"durable_name": "C", "ack_policy": "explicit"} | config)
    )


async def pull(nc: NatsClient, batch: int) -> None:
    """Pull for ever, as a worker with nothing to do."""
    pulling = await nc.jetstream().pull_subscribe_bind("C", stream="S")
    while True:
        # On a busy machine nats-py lets asyncio's own error through.
        with suppress(TimeoutError):
            await pulling.fetch(batch, timeout=0.5)


@asynccontextmanager
async def at_work(*workers: asyncio.Future[None]) -> AsyncIterator[None]:
    try:
        yield
    finally:
        for one in workers:
            one.cancel()
        await ended(*workers)
    for one in workers:
        if not one.cancelled():
            one.result()


def names(heard: TappedRequests) -> set[str | None]:
    return {one.connection.name if one.connection else None for one in heard.requesters}


async def until_it_reads(client: Client, what: str = NEXT) -> None:
    while what not in {sub.subject for sub in client.nc._subs.values()}:
        await asyncio.sleep(0.05)
    # The server has not seen it yet: another client's request could come before it.
    await client.nc.flush(timeout=20)


async def heard_of(client: Client, servers: ServerRequests, for_s: float = 2.0) -> TappedRequests:
    return await read_pull_clients(client, servers, "S", "C", for_s)


def test_a_subject_that_another_one_covers_is_not_read_twice() -> None:
    assert _drop_covered(["a.b", "a.*", "c", "c", "a.b.>"]) == ["a.*", "c", "a.b.>"]


async def test_what_each_client_gets_of_a_pull_consumer_is_what_it_counts(
    account: Account,
) -> None:
    counted: Counter[str] = Counter()
    stop = asyncio.Event()

    async def rounds(*workers: NatsClient) -> None:
        """Take in turns, the first three times as much: however busy the machine is."""
        await until_it_reads(client)
        pulls = [await nc.jetstream().pull_subscribe_bind("C", stream="S") for nc in workers]
        try:
            for number in range(80):
                name, pulling = ("slow", pulls[1]) if number % 4 == 3 else ("fast", pulls[0])
                for message in await pulling.fetch(5, timeout=60):
                    counted[name] += 1
                    await message.ack()
                await asyncio.sleep(0.03)
        finally:
            stop.set()

    async with (
        people([account.url], "fast", "slow") as (fast, slow),
        asking(account.url) as (client, servers),
    ):
        await consumer(fast)
        for _ in range(400):
            await fast.publish("s.a", b"x")
        await flushed(fast)
        async with at_work(asyncio.ensure_future(rounds(fast, slow))):
            heard = await read_pull_clients(client, servers, "S", "C", 300.0, stop)
    assert heard.ended == "reading was stopped"
    told = {
        one.connection.name: one.delivered_msgs or 0 for one in heard.requesters if one.connection
    }
    assert counted == {"fast": 300, "slow": 100}
    assert told.keys() == counted.keys()
    # What came before the tap knew whose inbox it is stays uncounted: a few rounds.
    assert told["fast"] / sum(told.values()) == pytest.approx(0.75, abs=0.05)
    assert all(0.5 < told[name] / counted[name] <= 1 for name in counted)


async def test_a_queue_group_of_a_push_consumer_is_named_without_those_who_look_on(
    account: Account,
) -> None:
    async with (
        people([account.url], "one", "two", "other", "nosy") as (one, two, other, nosy),
        asking(account.url) as (client, servers),
    ):
        await consumer(one, deliver_subject="to.workers", deliver_group="G")
        for worker in (one, two):
            await worker.subscribe("to.workers", queue="G")
            await flushed(worker)
        await other.subscribe("to.workers", queue="H")
        await nosy.subscribe("to.*")
        await nosy.subscribe(">")
        for nc in (other, nosy):
            await flushed(nc)
        for _ in range(20):
            await one.jetstream().publish("s.a", b"x")
        told = await read_consumer(client, "S", "C")
        assert (told.deliver_subject, told.deliver_group) == ("to.workers", "G")
        found = await read_push_clients(servers, "to.workers", "G")
    assert {one.connection.name for one in found} == {"one", "two"}
    assert sum(one.by.delivered_msgs for one in found) == 20


async def test_a_push_consumer_without_a_group_is_held_by_who_listens_closest(
    account: Account,
) -> None:
    async with (
        people([account.url], "one", "nosy") as (one, nosy),
        asking(account.url) as (_, servers),
    ):
        await nosy.subscribe("to.>")
        await flushed(nosy)
        assert await read_push_clients(servers, "to.workers", None) == []
        await one.subscribe("to.workers")
        await flushed(one)
        found = await read_push_clients(servers, "to.workers", None)
    assert [one.connection.name for one in found] == ["one"]


async def test_a_new_inbox_for_each_pull_and_one_word_below_an_inbox_are_one_client_each(
    account: Account,
) -> None:
    async def pull_anew(nc: NatsClient) -> None:
        while True:
            sub = await nc.subscribe(nc.new_inbox())
            body = json.dumps({"batch": 1, "expires": 400_000_000}).encode()
            await nc.publish(NEXT, body, reply=sub.subject)
            await asyncio.sleep(0.5)
            await sub.unsubscribe()

    async def pull_below(nc: NatsClient) -> None:
        inbox = nc.new_inbox()
        await nc.subscribe(f"{inbox}.*")
        number = 0
        while True:
            number += 1
            await nc.publish(NEXT, b"7", reply=f"{inbox}.{number}")
            await asyncio.sleep(0.01)

    async with (
        people([account.url], "anew", "below") as (anew, below),
        asking(account.url) as (client, servers),
    ):
        await consumer(anew)
        tasks = asyncio.ensure_future(pull_anew(anew)), asyncio.ensure_future(pull_below(below))
        async with at_work(*tasks):
            heard = await heard_of(client, servers)
    assert names(heard) == {"anew", "below"}
    by_name = {one.connection.name: one for one in heard.requesters if one.connection}
    assert by_name["below"].about == ("7",) and by_name["below"].requests_count > 20
    assert by_name["below"].requests_count + heard.gone_msgs <= heard.read_msgs


@pytest.mark.needs_server("2.11")
async def test_a_pinned_client_is_known_by_the_id_that_it_sends(account: Account) -> None:
    async with (
        people([account.url], "pinned", "spare") as (pinned, spare),
        asking(account.url) as (client, servers),
    ):
        js = pinned.jetstream()
        await js.add_stream(name="S", subjects=["s.>"])
        config = {"durable_name": "C", "ack_policy": "explicit", "priority_groups": ["G"],
                  "priority_policy": "pinned_client"}  # fmt: skip
        body = json.dumps({"stream_name": "S", "config": config}).encode()
        await pinned.request("$JS.API.CONSUMER.DURABLE.CREATE.S.C", body, timeout=20)
        inboxes = {nc: await nc.subscribe(nc.new_inbox()) for nc in (pinned, spare)}

        async def ask(nc: NatsClient, **more: str) -> None:
            words = {"batch": 1, "expires": 20_000_000_000, "group": "G"} | more
            await nc.publish(NEXT, json.dumps(words).encode(), reply=inboxes[nc].subject)
            await flushed(nc)

        await ask(pinned)
        await js.publish("s.a", b"x")
        first = await inboxes[pinned].next_msg(timeout=20)
        pin = (first.headers or {})["Nats-Pin-Id"]
        task = asyncio.ensure_future(heard_of(client, servers))
        await until_it_reads(client)
        await ask(pinned, id=pin)
        await ask(spare)
        heard = await task
        told = await read_consumer(client, "S", "C")
    assert told.pins == (pin,)
    pins = {one.connection.name: one.pins for one in heard.requesters if one.connection}
    assert pins == {"pinned": (pin,), "spare": ()}


async def test_a_tap_leaves_nothing_behind_and_keeps_no_dead_client_alive(
    account: Account,
) -> None:
    async with (
        people([account.url], "one") as (one,),
        asking(account.url) as (client, servers),
    ):
        await consumer(one)
        before = client.nc._subs.keys() | set()
        task = asyncio.ensure_future(heard_of(client, servers))
        await until_it_reads(client)
        # Nobody listens to this inbox: its pull must not wait in the server.
        await one.publish(NEXT, b"1", reply="_INBOX.dead")
        await flushed(one)
        heard = await task
        assert client.nc._subs.keys() == before
        assert (heard.gone_msgs, heard.requesters) == (1, ())
        info = await one.jetstream().consumer_info("S", "C")
        assert info.num_waiting == 0
        await one.jetstream().delete_consumer("S", "C")
        # The server may not have seen yet that the tap is over.
        await client.nc.flush(timeout=20)
        with pytest.raises(nats.errors.NoRespondersError):
            await one.request(NEXT, b"1", timeout=20)


async def test_a_tap_ends_when_its_consumer_is_deleted(account: Account) -> None:
    async with (
        people([account.url], "one") as (one,),
        asking(account.url) as (client, servers),
    ):
        await consumer(one)
        task = asyncio.ensure_future(heard_of(client, servers, 300.0))
        await until_it_reads(client)
        await one.jetstream().delete_consumer("S", "C")
        async with asyncio.timeout(60):
            heard = await task
        assert heard.ended == "it was deleted"
        # The server may not have seen yet that the tap is over.
        await client.nc.flush(timeout=20)
        with pytest.raises(nats.errors.NoRespondersError):
            await one.request(NEXT, b"1", timeout=20)


async def test_too_many_requests_and_inboxes_end_it_with_bounded_memory(
    account: Account,
) -> None:
    async with (
        people([account.url], "one") as (one,),
        asking(account.url) as (client, servers),
    ):
        tap = ReplyTap(["s.>"], lambda _: TappedRequest("x"), for_s=60, max_msgs=8_000)
        await tap.begin(client, servers)
        for number in range(9_000):
            await one.publish("s.a", b"x", reply=f"_INBOX.none{number}.1")
        await flushed(one)
        heard = await tap.run(servers)
    assert heard.ended == "it read 8,000 messages"
    assert heard.gone_msgs == heard.read_msgs == 8_000
    assert len(tap._new_tallies) + len(tap._unmatched_tallies) <= 5_000


async def test_without_the_consumer_or_permission_it_is_one_sentence(
    nats_server_factory: Callable[..., Broker],
) -> None:
    server = nats_server_factory(
        """
        authorization { users: [
          { user: all, password: all },
          { user: some, password: some, permissions: {
              subscribe: { deny: "$JS.API.CONSUMER.MSG.NEXT.>" } } }
        ] }
        """
    )
    async with (
        people([as_user(server.url, "all")], "one") as (one,),
        asking(as_user(server.url, "some")) as (client, servers),
    ):
        await consumer(one)
        with pytest.raises(NotFound):
            await read_consumer(client, "S", "NONE")
        with pytest.raises(PermissionDenied, match="no permission to subscribe") as denied:
            await heard_of(client, servers)
        assert NEXT in str(denied.value)


async def test_of_a_client_of_another_account_the_account_is_known(
    nats_server_factory: Callable[..., Broker],
) -> None:
    server = nats_server_factory(
        """
        accounts {
          APP: { jetstream: enabled, users: [ { user: app, password: app } ]
            exports: [ { service: "$JS.API.CONSUMER.MSG.NEXT.S.C", response_type: stream } ] }
          BIZ: { users: [ { user: biz, password: biz } ]
            imports: [ { service: { account: APP, subject: "$JS.API.CONSUMER.MSG.NEXT.S.C" } } ] }
        }
        """
    )
    urls = [as_user(server.url, user) for user in ("app", "biz")]
    async with (
        people(urls, "own", "foreign") as (own, foreign),
        asking(urls[0]) as (client, servers),
    ):
        await consumer(own)
        async with at_work(asyncio.ensure_future(pull_far(foreign))):
            heard = await heard_of(client, servers)
    assert [(one.connection, one.account) for one in heard.requesters] == [(None, "BIZ")]


async def pull_far(nc: NatsClient) -> None:
    inbox = await nc.subscribe(nc.new_inbox())
    while True:
        await nc.publish(NEXT, b'{"batch": 2, "expires": 200000000}', reply=inbox.subject)
        await asyncio.sleep(0.2)


async def test_a_client_behind_a_leafnode_is_named_and_no_server_counts_twice(
    nats_server_factory: Callable[..., Broker], held_port: int
) -> None:
    hub = nats_server_factory(
        f"""
        leafnodes {{ listen: "127.0.0.1:{held_port}" }}
        accounts {{ APP: {{ jetstream: enabled, users: [ {{ user: app, password: app }} ] }} }}
        """
    )
    leaves = [
        nats_server_factory(
            f"""
            leafnodes {{ remotes: [
              {{ url: "nats://app:app@127.0.0.1:{held_port}", account: APP }}
            ] }}
            accounts {{ APP: {{ users: [ {{ user: app, password: app }} ] }} }}
            """,
            jetstream=False,
        )
        for _ in range(2)
    ]
    urls = [as_user(one.url, "app") for one in (hub, *leaves)]
    async with people(urls, "hub", "far", "idle") as (at_hub, far, _):
        await consumer(at_hub)
        async with asking(urls[0]) as (client, servers):
            async with at_work(asyncio.ensure_future(publish_for_ever(far))):
                while not (await at_hub.jetstream().stream_info("S")).state.messages:
                    await asyncio.sleep(0.05)
                heard = await read_publishers(client, servers, "S", ["s.>"], 2.0)
            seen = await read_connections(client, servers, closed=False)
    assert [one.connection.name for one in heard.requesters if one.connection] == ["far"]
    assert {one.connection.server_name for one in heard.requesters if one.connection} == {
        "server2"
    }
    assert sorted(one.name for one in seen.servers) == ["server1", "server2", "server3"]
    assert len({one.key for one in seen.rows}) == len(seen.rows)
    clients = [one.name for one in seen.rows if one.kind == "Client"]
    assert sorted(filter(None, clients)) == ["far", "hub", "idle", "natstui"]


async def publish_for_ever(nc: NatsClient) -> None:
    """Publish to the stream, also while the way to it is not there yet."""
    while True:
        # On a busy machine nats-py lets asyncio's own error through.
        with suppress(nats.errors.Error, TimeoutError):
            await nc.jetstream().publish("s.far", b"x", timeout=2)
        await asyncio.sleep(0.05)
