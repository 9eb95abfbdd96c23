"""What a server says before it hangs up, and what that means for a tail that goes on."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable

import pytest

from natstui.config import Connection, Secret
from natstui.errors import AuthenticationFailed, ConnectionFailed
from natstui.jetstream.connection.client import connect
from natstui.jetstream.messages.tail import MessageTail
from natstui.jetstream.testbed.broker import Broker
from natstui.model.records.messages import StartTail, Tailed
from natstui.model.records.record import LinkChanged
from tests.ending import ended
from tests.jetstream.test_outage import until
from tests.serving import serving

pytestmark = pytest.mark.server

_LAME_DUCK = 'lame_duck_grace_period: "1s"\nlame_duck_duration: "30s"\n'
_LOGIN = "authorization { user: u, password: p, timeout: 0.2 }\n"


async def test_a_server_in_lame_duck_mode_is_named_before_and_after_it_hangs_up(
    nats_server_factory: Callable[..., Broker],
) -> None:
    broker, changes = nats_server_factory(_LAME_DUCK), []
    client = await connect(Connection(servers=(broker.url,)), on_link=changes.append)
    try:
        os.kill(broker.pid, signal.SIGUSR2)
        await until(lambda: len(changes) > 1)
        leaving: LinkChanged = changes[1]
        assert (leaving.state, leaving.server_name) == ("connected", broker.name)
        words = f"{broker.name} is in lame duck mode: it closes its connections and then stops"
        assert leaving.reason == words
        await until(lambda: changes[-1].state == "reconnecting")
        lost = next(change for change in changes if change.state == "reconnecting")
        assert lost.reason == f"{broker.name} was in lame duck mode and closed the connection"
    finally:
        await client.close()


async def test_a_login_that_comes_too_late_is_no_refused_user(
    nats_server_factory: Callable[..., Broker],
) -> None:
    broker = nats_server_factory(_LOGIN)
    port = broker.ports[0]

    async def delay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Pass on at once what the server says, and late what is said to it."""
        up_reader, up_writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(await up_reader.read(65536))
        await reader.read(65536)
        writer.write(await up_reader.read(65536))
        up_writer.close()

    async with serving(delay) as proxy_port:
        url = f"nats://127.0.0.1:{proxy_port}"
        late = Connection(servers=(url,), user="u", password=Secret("p"))
        with pytest.raises(
            ConnectionFailed, match="did not receive user or password in time"
        ) as told:
            await connect(late)
    assert not isinstance(told.value, AuthenticationFailed)


async def test_a_tail_whose_connection_was_lost_says_that_messages_are_missing(
    nats_server: Broker,
) -> None:
    client = await connect(Connection(servers=(nats_server.url,)))
    told: list[Tailed] = []
    tail = MessageTail(StartTail(1, ("news",)), told.append)
    await tail.begin(client, lambda _error: None)
    following = asyncio.create_task(tail.run())
    try:
        await client.publish("news", b"one")
        await until(lambda: bool(told) and told[-1].arrived_msgs == 1)
        assert told[-1].interruptions_count == 0
        nats_server.restart()
        await until(lambda: told[-1].interruptions_count == 1)
        await client.publish("news", b"two")
        await until(lambda: told[-1].arrived_msgs == 2)
        assert told[-1].interruptions_count == 1
    finally:
        following.cancel()
        await ended(following)
        await client.close()
