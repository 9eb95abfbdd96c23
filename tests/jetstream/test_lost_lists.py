"""A list that was asked for while nobody answers lists is asked for again, soon."""

from __future__ import annotations

import asyncio
import re

import nats
import pytest
from nats.js.api import ConsumerConfig

from natstui.jetstream.testbed.broker import Broker
from natstui.model.records.record import Unavailable
from tests.jetstream.polling import polling
from tests.serving import relay, serving

pytestmark = pytest.mark.server

_LIST = re.compile(rb"PUB \$JS\.API\.CONSUMER\.LIST\.B \S+ \d+\r\n[^\r]*\r\n")
_LONG_S = 25.0
"""Before this is over, the request itself is not given up."""


class _Losing:
    """A wire to the server that loses one request for the consumers of B."""

    def __init__(self, server: Broker) -> None:
        self._url = server.url
        self.loses = False
        self.lost = asyncio.Event()

    async def join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await relay(reader, writer, self._url, up=self._up)

    def _up(self, data: bytes) -> bytes:
        if not self.loses or not _LIST.search(data):
            return data
        self.loses = False
        self.lost.set()
        return _LIST.sub(b"", data, count=1)


async def test_a_list_whose_request_was_lost_is_asked_for_again_and_nothing_is_said_of_it(
    nats_server: Broker,
) -> None:
    nc = await nats.connect(nats_server.url)
    for name in "AB":
        await nc.jetstream().add_stream(name=name, subjects=[name])
        await nc.jetstream().add_consumer(name, ConsumerConfig(durable_name="C"))
    wire = _Losing(nats_server)
    async with (
        serving(wire.join) as port,
        polling(f"nats://127.0.0.1:{port}", request_timeout_s=_LONG_S) as polled,
    ):
        await polled.fresh()
        wire.loses = True
        await wire.lost.wait()
        for _ in range(3):
            await nc.jetstream().publish("B", b"x")
        async with asyncio.timeout(_LONG_S - 5):
            while max(polled.state.consumers.columns.pending_msgs) < 3:
                await asyncio.sleep(0.05)
        assert not [one for one in polled.records if isinstance(one, Unavailable)]
    await nc.close()
