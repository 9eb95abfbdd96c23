"""A failed request is reported only while what it is about is needed."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import nats
import pytest
from nats.js.client import JetStreamContext

from natstui.jetstream.polling import lag
from natstui.model.live.snapshot import Snapshot
from tests.accounts import Account, through
from tests.jetstream.pending import until_pending
from tests.jetstream.polling import Polled, polling
from tests.serving import relay, serving

pytestmark = pytest.mark.server

DIRECT, LEADER, LIST = "DIRECT.GET.S", "STREAM.MSG.GET.S", "CONSUMER.LIST.S"


class _Losing:
    """A wire to the server that loses all requests of some verbs."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.loses: set[str] = set()

    async def join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await relay(reader, writer, self._url, up=self._up)

    def _up(self, data: bytes) -> bytes:
        for verb in self.loses:
            name = re.escape(verb).encode()
            data = re.sub(rb"PUB \$JS\.API\." + name + rb" \S+ \d+\r\n[^\r]*\r\n", b"", data)
        return data


@asynccontextmanager
async def _losing(
    account: Account, *verbs: str, allow_direct: bool
) -> AsyncIterator[tuple[_Losing, Polled, JetStreamContext]]:
    """Poll a consumer of a stream, until requests of some verbs have failed."""
    nc = await nats.connect(account.url)
    js = nc.jetstream(timeout=30)
    await js.add_stream(name="S", subjects=["s.>"], allow_direct=allow_direct)
    await js.add_consumer("S", durable_name="C", ack_policy="explicit", filter_subject="s.b")
    for word in "abc":
        await js.publish(f"s.{word}", b"x")
    await until_pending(js, "S", 1, "C")
    wire = _Losing(account.url)
    wire.loses.update(verbs)
    async with (
        serving(wire.join) as port,
        polling(through(port, account.url), request_timeout_s=1.0) as polled,
    ):
        await polled.until(Snapshot, lambda _: polled.state.unavailable.keys() == set(verbs))
        yield wire, polled, js
    await nc.close()


@pytest.fixture(autouse=True)
def soon_timed_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lag, "_MESSAGE_GET_TIMEOUT_S", 0.2)


async def test_a_failed_request_is_not_reported_any_more_where_another_brings_the_same_message(
    account: Account,
) -> None:
    async with _losing(account, DIRECT, LEADER, allow_direct=True) as (wire, polled, _):
        wire.loses = {LEADER}
        await polled.until(Snapshot, lambda s: None not in (s.consumers.next_at_us or (None,)))
        assert polled.state.unavailable == {}


async def test_a_failed_request_is_not_reported_any_more_when_no_consumer_waits_for_its_message(
    account: Account,
) -> None:
    async with _losing(account, LEADER, allow_direct=False) as (_, polled, js):
        bound = await js.pull_subscribe_bind("C", stream="S")
        await bound.fetch(1, timeout=20)
        await polled.until(Snapshot, lambda _: not polled.state.unavailable)


async def test_failed_requests_are_not_reported_any_more_when_their_stream_is_deleted(
    account: Account,
) -> None:
    async with _losing(account, DIRECT, LEADER, allow_direct=True) as (_, polled, js):
        await js.delete_stream("S")
        await polled.until(Snapshot, lambda _: not polled.state.unavailable)


async def test_a_list_of_consumers_that_failed_is_not_reported_any_more_when_there_are_none(
    account: Account,
) -> None:
    async with _losing(account, LIST, allow_direct=True) as (_, polled, js):
        await js.delete_consumer("S", "C")
        await polled.until(Snapshot, lambda _: not polled.state.unavailable)
