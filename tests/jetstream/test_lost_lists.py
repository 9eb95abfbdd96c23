"""What was asked for while nobody answers is asked for again, soon."""

from __future__ import annotations

import asyncio
import re
from typing import Any, cast

import nats
import pytest
from nats.js.api import ConsumerConfig

from natstui.errors import ConnectionLost
from natstui.jetstream.polling import open_requests
from natstui.jetstream.polling.budget.requests import PollingApi
from natstui.jetstream.polling.open_requests import OpenRequests
from natstui.jetstream.testbed.broker import Broker
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.record import Unavailable
from tests.jetstream.polling import polling
from tests.serving import relay, serving

pytestmark = pytest.mark.server


@pytest.fixture(autouse=True)
def lost_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take what is not answered within a second for lost, where others of its kind are."""
    monkeypatch.setattr(open_requests, "_REPLY_LOST_AFTER_S", 1.0)


_LIST = "LIST.B"
_LONG_S = 25.0
"""Before this is over, the request itself is not given up."""


class _Losing:
    """A wire to the server that loses one request of each of some verbs for consumers."""

    def __init__(self, server: Broker) -> None:
        self._url = server.url
        self.loses: set[str] = set()
        self.lost = asyncio.Event()

    async def join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await relay(reader, writer, self._url, up=self._up)

    def _up(self, data: bytes) -> bytes:
        for verb in list(self.loses):
            name = re.escape(verb).encode()
            request = re.compile(rb"PUB \$JS\.API\.CONSUMER\." + name + rb" \S+ \d+\r\n[^\r]*\r\n")
            data, count = request.subn(b"", data, count=1)
            if count:
                self.loses.discard(verb)
                self.lost.set()
        return data


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
        wire.loses = {_LIST}
        await wire.lost.wait()
        for _ in range(3):
            await nc.jetstream().publish("B", b"x")
        async with asyncio.timeout(_LONG_S - 5):
            while max(polled.state.consumers.columns.pending_msgs) < 3:
                await asyncio.sleep(0.05)
        assert not [one for one in polled.records if isinstance(one, Unavailable)]
    await nc.close()


async def test_consumers_in_view_whose_answers_are_lost_hold_nothing_up_and_are_asked_for_again(
    nats_server: Broker,
) -> None:
    nc = await nats.connect(nats_server.url)
    for name, consumers in (("A", "C"), ("B", "CD")):
        await nc.jetstream().add_stream(name=name, subjects=[name])
        for each in consumers:
            await nc.jetstream().add_consumer(name, ConsumerConfig(durable_name=each))
    wire = _Losing(nats_server)
    async with (
        serving(wire.join) as port,
        polling(f"nats://127.0.0.1:{port}", request_timeout_s=_LONG_S) as polled,
    ):
        await polled.fresh()
        polled.control.set_visible((), (("B", "C"), ("B", "D")))
        wire.loses = {_LIST, "INFO.B.C", "INFO.B.D"}
        async with asyncio.timeout(_LONG_S - 5):
            while wire.loses:
                await polled.until(Snapshot)
            for name in "AB":
                await nc.jetstream().publish(name, b"x")
            snapshot = await polled.until(Snapshot, lambda s: "A" in s.consumers.stream)
            assert "B" not in snapshot.consumers.stream
            while min(polled.state.consumers.columns.pending_msgs) < 1:
                await polled.until(Snapshot)
        assert not [one for one in polled.records if isinstance(one, Unavailable)]
    await nc.close()


@pytest.mark.parametrize("is_row", [True, False])
async def test_a_request_that_fails_after_polling_has_ended_is_no_error_of_asyncio(
    caplog: pytest.LogCaptureFixture, is_row: bool
) -> None:
    """Python logs the error of a task that nobody awaits when nothing refers to it any more."""

    async def fail() -> None:
        raise ConnectionLost("the connection was closed")

    client = cast(Any, None)
    if is_row:
        PollingApi(client, None).spawn(fail())
    else:
        OpenRequests(client).send("STREAM.LIST", fail)
    # Polling was cancelled before it closed its requests.
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert caplog.messages == []
