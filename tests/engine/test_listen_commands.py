"""Listening, following and reading acks: what is refused in read-only mode, and how each ends."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from pathlib import Path

import pytest
from nats.errors import NoRespondersError

from natstui.config.connection import Connection
from natstui.engine.server_commands import ListenCommands, ServerCommands, SystemCommands
from natstui.errors import ActionRefusal
from natstui.jetstream.connection.client import connect
from natstui.jetstream.testbed.broker import Broker
from natstui.model.records.listening import StartListening, StopListening, SubjectRowOptions
from natstui.model.records.messages import Answered, StartTail, StopTail
from natstui.model.records.record import Record
from natstui.model.records.tap import StartTap, StopTap, TapResults
from natstui.values import replace
from tests.accounts import Account
from tests.cli.rewriting import just_before
from tests.cli.test_core import connected

LOOK = SubjectRowOptions(by="subject", reverse=False)


class Unread:
    """A viewer that reads nothing."""

    def add(self, _record: Record) -> None:
        pass


@pytest.mark.server
async def test_read_only_it_takes_nothing_of_a_push_consumer(account: Account) -> None:
    async with connected(account.url) as nc:
        js = nc.jetstream()
        await js.add_stream(name="S", subjects=["s"])
        await js.add_consumer(
            "S", durable_name="C", deliver_subject="push.here", ack_policy="none"
        )
        await js.publish("s", b"precious")
        client = await connect(Connection(servers=(account.url,), read_only=True))
        commands = ListenCommands(Unread())
        refused = "read-only: .*: C of S delivers to push.here, which has no subscriber"
        with pytest.raises(ActionRefusal, match=refused):
            await commands.execute(client, StartListening(1, ("push.here",), LOOK), print)
        sentence, _ = await commands.execute(client, StartListening(2, ("push.*",), LOOK), print)
        assert "push" in sentence
        # At once: also a listener that has had no time closes its connection.
        await commands.close()
        await client.close()
        assert (await js.consumer_info("S", "C")).delivered.stream_seq == 0, "nothing was taken"


@pytest.mark.server
async def test_a_subscription_that_is_stopped_while_it_connects_receives_nothing(
    account: Account,
) -> None:
    client = await connect(Connection(servers=(account.url,)))
    commands = ListenCommands(Unread())
    started, stopped = await asyncio.gather(
        commands.execute(client, StartListening(1, ("s",), LOOK), print),
        commands.execute(client, StopListening(2, 1), print),
        return_exceptions=True,
    )
    assert isinstance(started, ActionRefusal) and isinstance(stopped, tuple)
    async with connected(account.url) as nc:
        with pytest.raises(NoRespondersError):
            await nc.request("s", timeout=30)
    await commands.close()
    await client.close()


@pytest.mark.server
async def test_of_two_subscriptions_the_one_that_was_started_last_stays(account: Account) -> None:
    last_is_there = threading.Event()

    def wait() -> None:
        assert last_is_there.wait(30)

    client = await connect(Connection(servers=(account.url,)))
    commands = ListenCommands(Unread())
    with just_before(account.url, b"SUB first", wait) as url:
        slow_client = await connect(Connection(servers=(url,)))
        first = commands.execute(slow_client, StartListening(1, ("first",), LOOK), print)
        first_task = asyncio.create_task(first)
        last_task = asyncio.create_task(
            commands.execute(client, StartListening(2, ("last",), LOOK), print)
        )
        await last_task
        last_is_there.set()
        with pytest.raises(ActionRefusal, match="stopped listening while it connected"):
            await first_task
        async with connected(account.url) as nc, asyncio.timeout(30):
            # The wire passes on later that the connection was closed.
            with pytest.raises(NoRespondersError):
                while True:
                    with suppress(TimeoutError):
                        await nc.request("first", timeout=0.1)
            with pytest.raises(TimeoutError):
                await nc.request("last", timeout=0.1)
        await slow_client.close()
    await commands.close()
    await client.close()


class Kept:
    """A viewer that keeps the records."""

    def __init__(self) -> None:
        self.records: list[Record] = []

    def add(self, record: Record) -> None:
        self.records.append(record)


@pytest.mark.server
async def test_a_tail_or_tap_that_another_one_ends_is_told_and_its_stop_ends_no_other(
    account: Account, tmp_path: Path
) -> None:
    async with connected(account.url) as nc:
        await nc.jetstream().add_stream(name="S", subjects=["s"])
        await nc.jetstream().add_consumer("S", durable_name="C", ack_policy="explicit")
        client, viewer = await connect(Connection(servers=(account.url,))), Kept()
        commands = ServerCommands(viewer, lambda: client, tmp_path)
        for number, (start, text) in enumerate(
            (
                (lambda number: StartTail(number, ("followed",)), "another tail ended this one"),
                (lambda number: StartTap(number, "S", "C"), "another tap ended this one"),
            )
        ):
            first, second = 10 + number, 20 + number
            await commands.execute(start(first))
            await commands.execute(start(second))
            reply = next(record for record in viewer.records if isinstance(record, Answered))
            assert (reply.command_id, reply.status, reply.text) == (first, "replaced", text)
            viewer.records.clear()
        await commands.execute(StopTail(3, 10))
        with pytest.raises(TimeoutError):
            await nc.request("followed", timeout=0.3)
        await commands.execute(StopTail(4, 20))
        await commands.execute(StopTap(5, 21))
        async with asyncio.timeout(30):
            # The server may read the end of the subscription after the request.
            with pytest.raises(NoRespondersError):
                while True:
                    with suppress(TimeoutError):
                        await nc.request("followed", timeout=0.1)
        # What was stopped is not told that another one has ended it.
        await commands.execute(StartTail(30, ("followed",)))
        assert not [record for record in viewer.records if isinstance(record, Answered)]
        await commands.execute(StopTail(31, 30))
        await client.close()


@pytest.mark.server
async def test_a_tail_and_a_tap_that_are_stopped_while_they_start_receive_nothing(
    account: Account, tmp_path: Path
) -> None:
    async with connected(account.url) as nc:
        await nc.jetstream().add_stream(name="S", subjects=["s"])
        await nc.jetstream().add_consumer("S", durable_name="C", ack_policy="explicit")
        client, viewer = await connect(Connection(servers=(account.url,))), Kept()
        commands = ServerCommands(viewer, lambda: client, tmp_path)
        started_and_stopped = (
            StartTail(1, ("followed",)), StartTap(2, "S", "C"), StopTail(3, 1), StopTap(4, 2),
        )  # fmt: skip
        results = await asyncio.gather(
            *map(commands.execute, started_and_stopped), return_exceptions=True
        )
        # Each is stopped before or after it has subscribed.
        assert all(isinstance(result, ActionRefusal | tuple) for result in results[:2]), results
        assert all(isinstance(result, tuple) for result in results[2:]), results
        with pytest.raises(NoRespondersError):
            await nc.request("followed", timeout=30)
        tap_results = [record for record in viewer.records if isinstance(record, TapResults)]
        assert tap_results[-1].ended == "ended: reading was stopped"
        await client.close()


@pytest.mark.server
async def test_the_connection_of_the_system_account_is_closed_with_the_client_that_it_is_for(
    nats_server: Broker,
) -> None:
    connection = Connection(servers=(nats_server.url,))
    commands = SystemCommands()
    clients = [await connect(replace(connection, system=connection)) for _ in range(2)]
    _, system = await commands._get_server_access(clients[0])
    system_client = await system.client()
    assert (await commands._get_server_access(clients[0]))[1] is system
    assert not system_client.nc.is_closed
    assert (await commands._get_server_access(clients[1]))[1] is not system
    assert system_client.nc.is_closed
    await commands.close()
    for client in clients:
        await client.close()
