"""Reads stored messages in order as fast as they come, and then new ones.

It uses a consumer without acknowledgements, which does not affect others, and which the server
deletes afterwards.
"""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import msgspec
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from natstui.errors import (
    Conflict,
    JetStreamUnavailable,
    NotFound,
    PermissionDenied,
    RequestFailed,
    RequestTimedOut,
    ServerGone,
)
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.nats_client import STATUS_LINE
from natstui.jetstream.connection.storing import gone_back_text, has_gone_back
from natstui.jetstream.connection.times import time_us
from natstui.jetstream.connection.wire_parser import Piece, ReceivedMessage
from natstui.jetstream.messages.browse import sequence_since
from natstui.jetstream.messages.decode import headers_of
from natstui.jetstream.messages.pull import answered_numbers
from natstui.model.assets.defaults import consumer_request
from natstui.model.assets.subjects import is_flow_control
from natstui.model.records.messages import StoredMessage
from natstui.model.servers.versions import SKIPS_BESIDE_DELETED, is_in
from natstui.units import duration_text

Policy = Literal["all", "last", "last_per_subject", "new"]

_HEARTBEAT_S = 5
_SILENT_S = 15.0
_MOST_SILENT_CONSUMERS = 2
"""A server that was stopped for a while is silent as well; it lets another consumer begin."""
_UNUSED_S = 60
_NO_PROGRESS_S = 30.0
_AGAIN_S = 1.0
_NS = 1_000_000_000
_MOST_UNREAD_BYTES, _MOST_UNREAD_MSGS = 128 * 1024 * 1024, 2_000_000
"""Limits of received messages that are not read yet.

With flow control, a server sends at most 32 MiB and one message ahead of our confirmations.
"""


async def _ignore(_: Msg) -> None:
    """Ignore the message: messages are passed on as they are parsed."""


class Read(msgspec.Struct, frozen=True):
    """A message, with the number of messages that follow it now.

    No dataclass: a frozen one takes several times as long to create, and buckets have many keys.
    """

    subject: str
    stream_seq: int
    stored_at_us: int
    headers: tuple[tuple[str, str], ...]
    payload: bytes
    left_msgs: int

    def as_stored(self) -> StoredMessage:
        """Return the message without the number of following ones."""
        return StoredMessage(
            self.stream_seq, self.subject, self.stored_at_us, self.headers,
            base64.b64encode(self.payload).decode(), len(self.payload),
        )  # fmt: skip


@dataclass
class Reader:
    """Reads a stream from a position on; use it with `async with`, then `async for`.

    After a lost connection it continues with the message after the last one it read. Raises
    Conflict when another stream has the name then.
    """

    client: Client
    stream: str
    filter_subjects: tuple[str, ...] = ()
    policy: Policy = "all"
    from_seq: int | None = None
    headers_only: bool = False
    exact_headers: bool = False
    """Whether headers keep blanks, and bytes that are no UTF-8 as surrogates."""
    from_time: str | None = None
    """Start time as RFC 3339."""
    ends: bool = False
    """Whether it ends when nothing is left to read."""
    is_bounded: bool = False
    """Whether it reads only messages from before its start, and fails when no message comes."""
    quiet_s: float | None = None
    """It ends after this time without a message; raises RequestFailed where some were waiting and
    nothing at all came."""
    created_at_us: int | None = None
    """When the stream was created, read at the start if not given: only that one is continued.
    None after that if the user may not read it."""
    waiting_msgs: int = 0
    """Number of messages at its start."""
    _name: str = ""
    _is_over: bool = False
    _checked_seq: int = 0
    _progress_at_s: float = 0.0
    _consumer_seq: int = 0
    _last_seq: int = 0
    _last_at_us: int = 0
    """When the last message it read was stored."""
    _left_msgs: int | None = None
    """Number of messages that follow the last one read; None until its consumer is created."""
    _reconnects_count: int = 0
    _arrived: deque[ReceivedMessage] = field(default_factory=deque)
    """Received messages; an asyncio queue would take a third of the time of a small message."""
    _arrived_bytes: int = 0
    _is_flooded: bool = False
    """Whether the server has sent more than `_MOST_UNREAD_BYTES`; it is not kept."""
    _came: asyncio.Event = field(default_factory=asyncio.Event)
    _has_received: bool = False
    """Whether a message or heartbeat has come from a consumer of its own."""
    _silent_consumers_count: int = 0
    _subscription: Subscription | None = None

    async def __aenter__(self) -> Self:
        if self.created_at_us is None:
            with suppress(PermissionDenied):
                self.created_at_us = time_us((await self._read_info())["created"])
        self.waiting_msgs = await self._begin(self.policy, self.from_seq)
        try:
            # From here on, what is read is of the stream that has the consumer.
            await self.check_stream()
        except BaseException:
            await self._leave()
            raise
        self._is_over = self.is_bounded and not self.waiting_msgs
        self._progress_at_s = asyncio.get_running_loop().time()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._leave()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Read:
        if self.quiet_s is None:
            return await self._next_read()
        try:
            async with asyncio.timeout(self.quiet_s):
                return await self._next_read()
        except TimeoutError:
            is_connected = self.client.link.state == "connected"
            if is_connected and self._left_msgs and not self._has_received:
                raise self._nothing_came(self.quiet_s) from None
            raise StopAsyncIteration from None

    async def _next_read(self) -> Read:
        while not self._is_over:
            msg = self._arrived.popleft() if self._arrived else await self._next()
            if msg is None:
                self._check_progress()
                await self._go_on()
                continue
            self._arrived_bytes -= len(msg.header) + len(msg.data)
            if self._is_flooded:
                raise RequestFailed(
                    f"reading {self.stream} was interrupted: the server sends more than flow "
                    "control allows"
                )
            if msg.header.startswith(STATUS_LINE):
                if (self.ends or self.is_bounded) and self._is_read(msg):
                    break
                self._check_progress()
                await self._let_go_on(msg)
                continue
            if (message := self._read(msg)) is not None:
                return message
            await self._go_on()
        raise StopAsyncIteration

    @property
    def has_caught_up(self) -> bool:
        """Return whether it has read all that was stored when it read last, or when it began
        again after the connection was lost.
        """
        is_lost = self.client.nc.stats["reconnects"] != self._reconnects_count
        return not is_lost and self._left_msgs == 0

    def _check_progress(self) -> None:
        """Raise RequestTimedOut when a bounded reader has waited too long for a message."""
        now_s = asyncio.get_running_loop().time()
        if self._last_seq != self._checked_seq:
            self._checked_seq, self._progress_at_s = self._last_seq, now_s
        elif self.is_bounded and now_s - self._progress_at_s > _NO_PROGRESS_S:
            raise RequestTimedOut(f"the messages of {self.stream}", _NO_PROGRESS_S)

    async def batch(self) -> list[Read]:
        """Return the next message with all received ones after it; empty at the end.

        Of many small messages a step of the event loop each would take a third of the time.
        """
        batch_messages, message = list[Read](), await anext(self, None)
        while message is not None:
            batch_messages.append(message)
            if (
                self._is_over
                or not self._arrived
                or self._arrived[0].header.startswith(STATUS_LINE)
            ):
                break
            if (message := self._read(self._arrived[0])) is not None:
                msg = self._arrived.popleft()
                self._arrived_bytes -= len(msg.header) + len(msg.data)
        return batch_messages

    def _read(self, msg: ReceivedMessage) -> Read | None:
        """Return the message if it follows the previous one; None if some between are missing."""
        try:
            _, stream_seq, consumer_seq, at_ns, pending_msgs = answered_numbers(msg.reply)
        except ValueError as error:
            raise RequestFailed(f"the reply of {self.stream} is not a stored message") from error
        if consumer_seq != self._consumer_seq + 1:
            return None
        self._consumer_seq, self._last_seq = consumer_seq, stream_seq
        self._last_at_us = at_ns // 1000
        self._left_msgs = pending_msgs
        self._is_over = self.is_bounded and not pending_msgs
        headers = headers_of(msg.header, exact=self.exact_headers) if msg.header else ()
        subject = msg.subject.decode(errors="replace")
        return Read(subject, stream_seq, at_ns // 1000, headers, msg.data, pending_msgs)

    async def _let_go_on(self, msg: ReceivedMessage) -> None:
        """Reply to flow control of the server; to another subject it would be a message."""
        reply = msg.reply.decode(errors="replace")
        if is_flow_control(reply, self.stream, self._name):
            with suppress(ServerGone):  # the next connection has another consumer
                await self.client.publish(reply)

    def _is_read(self, heartbeat: ReceivedMessage) -> bool:
        """Return whether the server had sent everything, and we have read it."""
        headers = dict(headers_of(heartbeat.header))
        if heartbeat.reply or "Nats-Consumer-Stalled" in headers:
            return False
        return headers.get("Nats-Last-Consumer") == str(self._consumer_seq)

    async def _next(self) -> ReceivedMessage | None:
        """Return the next message; None when it will not come.

        The server is never silent for long, and deletes the consumer with the connection.
        """
        until = asyncio.get_running_loop().time() + _SILENT_S
        while asyncio.get_running_loop().time() < until:
            if self._arrived:
                return self._arrived.popleft()
            self._came.clear()
            try:
                async with asyncio.timeout(_AGAIN_S):
                    await self._came.wait()
            except TimeoutError:
                if self.client.nc.stats["reconnects"] != self._reconnects_count:
                    return None
        self._silent_consumers_count += 1
        if not self._has_received and self._silent_consumers_count >= _MOST_SILENT_CONSUMERS:
            raise self._nothing_came(_MOST_SILENT_CONSUMERS * _SILENT_S)
        return None

    def _nothing_came(self, within_s: float) -> RequestFailed:
        text = f"nothing came within {duration_text(within_s)} from the consumer that reads it"
        if self.client.prefix != "$JS.API":
            text += (
                f'; through "{self.client.prefix}" the other account must also export what its '
                "consumers deliver: connect as a user of that account to read there"
            )
        return RequestFailed(f"{self.stream}: {text}")

    def _take(self, block: bytes, run: list[Piece]) -> None:
        self._has_received = True
        if self._arrived_bytes > _MOST_UNREAD_BYTES or len(self._arrived) > _MOST_UNREAD_MSGS:
            self._is_flooded = True
            return
        for subject, reply, start, header_bytes, size_bytes in run:
            self._arrived_bytes += size_bytes
            payload_start = start + header_bytes
            data = block[payload_start : start + size_bytes]
            self._arrived.append(ReceivedMessage(subject, reply, block[start:payload_start], data))
        self._came.set()

    async def _begin(self, policy: str, from_seq: int | None) -> int:
        self._arrived, self._consumer_seq, self._left_msgs = deque(), 0, None
        self._arrived_bytes, self._is_flooded = 0, False
        self._reconnects_count = self.client.nc.stats["reconnects"]
        self._name = f"natstui-{uuid.uuid4().hex[:12]}"
        inbox = self.client.nc.new_inbox()
        self._subscription = await self.client.subscribe(inbox, _ignore)
        self.client.nc.deliver_runs(self._subscription, self._take)
        config: dict[str, Any] = {
            "name": self._name,
            "deliver_subject": inbox,
            "deliver_policy": policy,
            "filter_subjects": list(self.filter_subjects),
            "ack_policy": "none",
            "max_deliver": 1,
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": _UNUSED_S * _NS,
            "headers_only": self.headers_only,
            "flow_control": True,
            "idle_heartbeat": _HEARTBEAT_S * _NS,
        }
        if self.from_time is not None and not self._last_seq:
            if is_in(self.client.link.server_version, SKIPS_BESIDE_DELETED):
                from_seq = await sequence_since(self.client, self.stream, self.from_time)
            else:
                config |= {"deliver_policy": "by_start_time", "opt_start_time": self.from_time}
        if from_seq is not None:
            config |= {"deliver_policy": "by_start_sequence", "opt_start_seq": from_seq}
        verb, body = consumer_request(self.stream, self._name, config, "create")
        reply = json.loads(await self.client.request(verb, body))
        self._left_msgs = int(reply.get("num_pending") or 0)
        return self._left_msgs

    async def _go_on(self) -> None:
        """Start again after the last message that was read, when there is a connection."""
        await self._leave()
        policy = self.policy if not self._last_seq else "all"
        from_seq = self._last_seq + 1 if self._last_seq else self.from_seq
        while True:
            try:
                pending_msgs = await self._begin(policy, from_seq)
                await self.check_stream()
                self._is_over = self.is_bounded and not pending_msgs
                return
            except (ServerGone, RequestTimedOut, JetStreamUnavailable):
                self._check_progress()
                # A server that was restarted has no leader for the stream at first.
                await asyncio.sleep(_AGAIN_S)

    async def check_stream(self) -> None:
        """Raise Conflict when the stream is another one than at the start, NotFound without one.

        Also raises the request errors.
        """
        if self.created_at_us is None:
            return
        part_text = "nothing was read"
        if self._last_seq:
            part_text = (
                f"what was read up to sequence {self._last_seq:,} is of the deleted stream, and "
                "the rest of it is gone"
            )
        try:
            info = await self._read_info()
        except NotFound as error:
            raise NotFound(f"{self.stream} was deleted while it was read: {part_text}") from error
        if time_us(info["created"]) != self.created_at_us:
            raise Conflict(
                f"{self.stream} was deleted and recreated while it was read: {part_text}"
            )
        last_read = self._last_seq, self._last_at_us
        if await has_gone_back(self.client, self.stream, info["state"], *last_read):
            raise Conflict(
                f"{gone_back_text(self.stream)}: what was read up to sequence "
                f"{self._last_seq:,} is gone, and the others up to there were not read"
            )

    async def _read_info(self) -> dict[str, Any]:
        info: dict[str, Any] = json.loads(await self.client.request(f"STREAM.INFO.{self.stream}"))
        return info

    async def _leave(self) -> None:
        """Delete the consumer; without a connection the server does it soon."""
        if self._subscription is not None:
            self.client.nc.deliver_runs(self._subscription, None)
        if self.client.link.state != "connected":
            return
        if self._subscription is not None:
            await self._subscription.unsubscribe()
        try:
            await self.client.request(f"CONSUMER.DELETE.{self.stream}.{self._name}")
        except (NotFound, PermissionDenied, ServerGone, RequestTimedOut, JetStreamUnavailable):
            return  # the server removes it itself when nobody listens
