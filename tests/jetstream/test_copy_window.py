"""Messages of a copy that their target does not store at first are sent again, or refused."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import nats
import pytest
from nats.aio.msg import Msg

from natstui.config import Connection
from natstui.jetstream.connection.client import connect
from natstui.jetstream.messages.copying.account import CopyAccount
from natstui.jetstream.messages.copying.window import MessageWindow, OutgoingMessage
from natstui.jetstream.testbed.broker import Broker
from tests.hostile_server import Lie, lying
from tests.jetstream.flushing import flushed

pytestmark = pytest.mark.server

_NOBODY = b""
"""What is replied where no leader is there to store a message."""
_NOT_NOW = json.dumps({"error": {"code": 503, "err_code": 10008, "description": "later"}}).encode()


@dataclass
class _Target:
    """Stores what comes on `t.>` in stream T, or replies something else."""

    reply: Callable[[int], bytes | None] = lambda _: None
    """What is replied to the n-th message of all; None where it is stored."""
    is_stream: bool = True
    """Whether the server says that a stream has these subjects."""
    payloads: list[bytes] = field(default_factory=list)
    waits: list[str] = field(default_factory=list)

    async def send(self, window: MessageWindow, count: int) -> None:
        for number in range(1, count + 1):
            headers = (("Nats-Msg-Id", f"id{number}"),)
            await window.send(OutgoingMessage(number, "t.x", b"%d" % number, headers))


@asynccontextmanager
async def _copying(url: str, target: _Target) -> AsyncIterator[tuple[MessageWindow, CopyAccount]]:
    nc = await nats.connect(url)
    await nc.jetstream().add_stream(name="T", subjects=["stored.>"])

    async def take(msg: Msg) -> None:
        target.payloads.append(msg.data)
        reply = target.reply(len(target.payloads))
        if reply is None:
            stored = f"stored.{msg.subject}"
            reply = (await nc.request(stored, msg.data, headers=msg.headers, timeout=30)).data
        await msg.respond(reply)

    await nc.subscribe("t.>", cb=take)
    await flushed(nc)

    def names(_: bytes) -> bytes:
        return json.dumps({"streams": ["T"] if target.is_stream else []}).encode()

    with lying(url) as wire:
        wire.carries_changes, wire.lie = True, Lie("STREAM.NAMES", names)
        client, account = await connect(Connection(servers=(wire.url,))), CopyAccount()
        try:
            async with MessageWindow(client, account, target.waits.append) as window:
                yield window, account
        finally:
            await client.close()
    await nc.close()


async def test_what_waits_for_a_leader_is_all_sent_again_in_order_once_the_first_is_stored(
    nats_server: Broker,
) -> None:
    target = _Target(lambda number: _NOBODY if 1 < number <= 5 else None)
    async with _copying(nats_server.url, target) as (window, account):
        await target.send(window, 5)
        await window.drain()
    assert target.payloads == [b"1", b"2", b"3", b"4", b"5", b"2", b"3", b"4", b"5"]
    assert (account.acknowledged_msgs, account.confirmed_msgs, account.done_seq) == (5, 4, 5)
    assert account.refused_msgs == account.duplicate_msgs == 0
    assert target.waits == ['the stream of "t.x" has no leader']


async def test_a_late_message_that_no_stream_stores_any_more_is_refused(
    nats_server: Broker,
) -> None:
    def reply(number: int) -> bytes | None:
        target.is_stream = number == 1
        return {2: _NOT_NOW, 3: _NOBODY}.get(number)

    target = _Target(reply)
    async with _copying(nats_server.url, target) as (window, account):
        await target.send(window, 2)
        await window.drain()
    assert target.payloads == [b"1", b"2", b"2"]
    assert (account.acknowledged_msgs, account.refused_msgs, account.done_seq) == (1, 1, 2)
    ((reason, msgs_count),) = account.refusals.items()
    assert reason.startswith('no stream stores "t.x"') and msgs_count == 1
