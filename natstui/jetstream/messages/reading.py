"""Reads stored messages in order, and then new ones, with high throughput.

The reader creates a consumer without acknowledgements, which does not affect other clients, and
deletes it at the end; if it cannot, the server does.
"""

from __future__ import annotations

import asyncio
import base64
import uuid
from collections import deque
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Literal, Self

import msgspec
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from natstui.errors import (
    ActionRefusal,
    Conflict,
    ConnectionLost,
    JetStreamUnavailable,
    NotFound,
    PermissionDenied,
    RequestFailed,
    RequestTimedOut,
)
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.decode.consumers import read_consumer
from natstui.jetstream.connection.decode.streams import StreamRow
from natstui.jetstream.connection.nats_client import STATUS_LINE_START
from natstui.jetstream.connection.storing import has_lost_newest, lost_newest_text
from natstui.jetstream.connection.wire_parser import BlockMessage, ReceivedMessage
from natstui.jetstream.messages.browse import find_sequence_since
from natstui.jetstream.messages.decode import parse_headers
from natstui.jetstream.messages.pull import parse_reply_numbers
from natstui.model.assets.defaults import consumer_request
from natstui.model.assets.subjects import is_flow_control
from natstui.model.records.messages import StoredMessage
from natstui.model.servers.versions import VERSIONS_WITH_START_TIME_SKIPPING, is_version_in
from natstui.units import duration_text

DeliverPolicy = Literal["all", "last", "last_per_subject", "new"]

_HEARTBEAT_S = 5
_MAX_SILENCE_S = 15.0
_MAX_SILENT_CONSUMERS = 2
"""After so many consumers that sent nothing, reading fails. One silent consumer may be due to a
server that was stopped for a while."""
_INACTIVE_THRESHOLD_S = 60
_PROGRESS_TIMEOUT_S = 30.0
_RETRY_INTERVAL_S = 1.0
_SECOND_NS = 1_000_000_000
_MAX_UNREAD_BYTES, _MAX_UNREAD_MSGS = 128 * 1024 * 1024, 2_000_000
"""Limits of the received messages that were not read yet.

With flow control, a server sends at most 32 MiB and one message ahead of our confirmations.
"""


def check_limits_retention(info: StreamRow) -> None:
    """Raise ActionRefusal if the retention of a stream is not `limits`, according to its INFO.

    With interest retention, the consumer of a reader could remove what it reads; a work queue
    refuses that consumer.
    """
    stream, retention = info.name, info.read_config().get("retention", "limits")
    if retention != "limits":
        raise ActionRefusal(
            f"{stream} has {retention} retention, so reading here could remove messages: natstui "
            f"stream view {stream} reads without a consumer"
        )


async def _ignore_message(_: Msg) -> None:
    """Ignore a message: the parser delivers them in blocks instead."""


class StreamMessage(msgspec.Struct, frozen=True):
    """A stored message, with the number of messages that follow it.

    Not a dataclass: a frozen one takes several times as long to create, and buckets have many
    keys.
    """

    subject: str
    stream_seq: int
    stored_at_us: int
    headers: tuple[tuple[str, str], ...]
    payload: bytes
    later_msgs: int

    def as_stored(self) -> StoredMessage:
        """Return the message as a record, without the number of messages that follow it."""
        return StoredMessage(
            self.stream_seq, self.subject, self.stored_at_us, self.headers,
            base64.b64encode(self.payload).decode(), len(self.payload),
        )  # fmt: skip


@dataclass
class Reader:
    """Reads a stream from a position on; use it with `async with`, and in it `async for`.

    After a lost connection it continues with the message after the last one it read. Raises
    Conflict if another stream has the name then, and what `check_limits_retention` raises.
    """

    client: Client
    stream: str
    filter_subjects: tuple[str, ...] = ()
    policy: DeliverPolicy = "all"
    from_seq: int | None = None
    headers_only: bool = False
    exact_headers: bool = False
    """Whether headers keep blanks, and bytes that are not UTF-8 as surrogates."""
    from_time: str | None = None
    """Start time as RFC 3339; None to start as `policy` or `from_seq` says."""
    ends_at_last_message: bool = False
    """Whether the iteration ends after the last stored message; else it waits for new ones."""
    reads_stored_only: bool = False
    """Whether it reads only messages stored before the start, and fails when none arrive."""
    quiet_s: float | None = None
    """The iteration ends after this time without a message, None: never. RequestFailed is raised
    then if messages were waiting and none arrived."""
    created_at_us: int | None = None
    """Creation time of the stream, by which a recreated one is noticed. If it is None, the reader
    reads it and checks the retention; still None if the user may not read it. Else the retention
    was checked before."""
    waiting_msgs: int = 0
    """Number of messages to read at the start."""
    restarts_count: int = 0
    """How often it was continued with another consumer, which delivers all messages."""
    _consumer_name: str = ""
    _has_ended: bool = False
    _progress_seq: int = 0
    _progress_at_s: float = 0.0
    _last_consumer_seq: int = 0
    _start_seq: int | None = None
    """Sequence at which reading starts if `policy` depends on when it does; None otherwise."""
    _last_seq: int = 0
    _last_stored_at_us: int = 0
    """When the last message it read was stored."""
    _remaining_msgs: int | None = None
    """Number of messages that follow the last one read; None before the consumer exists."""
    _reconnects_count: int = 0
    _arrived_messages: deque[ReceivedMessage] = field(default_factory=deque)
    """Received messages that were not read yet. Not an asyncio queue, which would take a third of
    the time that a small message takes."""
    _arrived_bytes: int = 0
    _is_buffer_full: bool = False
    """Whether the server sent more than the unread limits; those messages were dropped."""
    _arrival_event: asyncio.Event = field(default_factory=asyncio.Event)
    _has_received_message: bool = False
    """Whether any consumer of this reader has sent a message or heartbeat."""
    _silent_consumers_count: int = 0
    _subscription: Subscription | None = None

    async def __aenter__(self) -> Self:
        if self.created_at_us is None:
            with suppress(PermissionDenied):
                info = await self.client.stream_info(self.stream)
                check_limits_retention(info)
                self.created_at_us = info.created_at_us
        try:
            self.waiting_msgs = await self._create_consumer(self.policy, self.from_seq)
        except BaseException:
            await self._unsubscribe()
            raise
        try:
            # From now on, messages are of the stream on which the consumer was created.
            await self.check_stream()
        except BaseException:
            await self._delete_consumer()
            raise
        self._has_ended = self.reads_stored_only and not self.waiting_msgs
        self._progress_at_s = asyncio.get_running_loop().time()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._delete_consumer()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> StreamMessage:
        if self.quiet_s is None:
            return await self._read_next_message()
        try:
            async with asyncio.timeout(self.quiet_s):
                return await self._read_next_message()
        except TimeoutError:
            is_connected = self.client.link.state == "connected"
            if is_connected and self._remaining_msgs and not self._has_received_message:
                raise self._make_silence_error(self.quiet_s) from None
            raise StopAsyncIteration from None

    async def _read_next_message(self) -> StreamMessage:
        while not self._has_ended:
            msg = (
                self._arrived_messages.popleft()
                if self._arrived_messages
                else await self._wait_for_message()
            )
            if msg is None:
                self._check_progress()
                await self._recreate_consumer()
                continue
            self._arrived_bytes -= len(msg.header) + len(msg.data)
            if self._is_buffer_full:
                raise RequestFailed(
                    f"reading {self.stream} was interrupted: the server sends more than flow "
                    "control allows"
                )
            if msg.header.startswith(STATUS_LINE_START):
                if (self.ends_at_last_message or self.reads_stored_only) and self._has_read_all(
                    msg
                ):
                    break
                self._check_progress()
                await self._reply_to_flow_control(msg)
                continue
            if (message := self._decode(msg)) is not None:
                return message
            await self._recreate_consumer()
        raise StopAsyncIteration

    @property
    def has_caught_up(self) -> bool:
        """Return whether no stored message was left when the last one was read, or when the reader
        restarted after a lost connection.
        """
        is_lost = self.client.nc.stats["reconnects"] != self._reconnects_count
        return not is_lost and self._remaining_msgs == 0

    def _check_progress(self) -> None:
        """Raise RequestTimedOut if a reader of stored messages has waited too long for one."""
        now_s = asyncio.get_running_loop().time()
        if self._last_seq != self._progress_seq:
            self._progress_seq, self._progress_at_s = self._last_seq, now_s
        elif self.reads_stored_only and now_s - self._progress_at_s > _PROGRESS_TIMEOUT_S:
            raise RequestTimedOut(f"the messages of {self.stream}", _PROGRESS_TIMEOUT_S)

    async def read_batch(self) -> list[StreamMessage]:
        """Return the next message and all received ones after it; an empty list at the end.

        It is for many small messages: a step of the event loop for each of them would take a third
        of the time.
        """
        batch_messages, message = list[StreamMessage](), await anext(self, None)
        while message is not None:
            batch_messages.append(message)
            if (
                self._has_ended
                or not self._arrived_messages
                or self._arrived_messages[0].header.startswith(STATUS_LINE_START)
            ):
                break
            if (message := self._decode(self._arrived_messages[0])) is not None:
                msg = self._arrived_messages.popleft()
                self._arrived_bytes -= len(msg.header) + len(msg.data)
        return batch_messages

    def _decode(self, msg: ReceivedMessage) -> StreamMessage | None:
        """Return a received message; None if messages before it were not received."""
        try:
            _, stream_seq, consumer_seq, stored_at_ns, pending_msgs = parse_reply_numbers(
                msg.reply
            )
        except ValueError as error:
            raise RequestFailed(f"the reply of {self.stream} is not a stored message") from error
        if consumer_seq != self._last_consumer_seq + 1:
            return None
        self._last_consumer_seq, self._last_seq = consumer_seq, stream_seq
        self._last_stored_at_us = stored_at_ns // 1000
        self._remaining_msgs = pending_msgs
        self._has_ended = self.reads_stored_only and not pending_msgs
        headers = parse_headers(msg.header, exact_headers=self.exact_headers) if msg.header else ()
        subject = msg.subject.decode(errors="replace")
        return StreamMessage(
            subject, stream_seq, stored_at_ns // 1000, headers, msg.data, pending_msgs
        )

    async def _reply_to_flow_control(self, msg: ReceivedMessage) -> None:
        """Reply to a flow control message, if its reply subject belongs to this consumer."""
        reply = msg.reply.decode(errors="replace")
        if is_flow_control(reply, self.stream, self._consumer_name):
            with suppress(ConnectionLost):  # the next connection has another consumer
                await self.client.publish(reply)

    def _has_read_all(self, heartbeat: ReceivedMessage) -> bool:
        """Return whether everything is read that the consumer had sent before a heartbeat."""
        headers = dict(parse_headers(heartbeat.header))
        if heartbeat.reply or "Nats-Consumer-Stalled" in headers:
            return False
        return headers.get("Nats-Last-Consumer") == str(self._last_consumer_seq)

    async def _wait_for_message(self) -> ReceivedMessage | None:
        """Return the next message or heartbeat; None if it will not arrive.

        Heartbeats arrive every few seconds as long as the consumer exists; the server deletes it
        when the connection is lost.
        """
        until_s = asyncio.get_running_loop().time() + _MAX_SILENCE_S
        while asyncio.get_running_loop().time() < until_s:
            if self._arrived_messages:
                return self._arrived_messages.popleft()
            self._arrival_event.clear()
            try:
                async with asyncio.timeout(_RETRY_INTERVAL_S):
                    await self._arrival_event.wait()
            except TimeoutError:
                if self.client.nc.stats["reconnects"] != self._reconnects_count:
                    return None
        self._silent_consumers_count += 1
        if (
            not self._has_received_message
            and self._silent_consumers_count >= _MAX_SILENT_CONSUMERS
        ):
            raise self._make_silence_error(_MAX_SILENT_CONSUMERS * _MAX_SILENCE_S)
        return None

    def _make_silence_error(self, within_s: float) -> RequestFailed:
        text = f"nothing came within {duration_text(within_s)} from the consumer that reads it"
        if self.client.prefix != "$JS.API":
            text += (
                f'; through "{self.client.prefix}" the other account must also export what its '
                "consumers deliver: connect as a user of that account to read there"
            )
        return RequestFailed(f"{self.stream}: {text}")

    def _on_block(self, block: bytes, messages: list[BlockMessage]) -> None:
        self._has_received_message = True
        if (
            self._arrived_bytes > _MAX_UNREAD_BYTES
            or len(self._arrived_messages) > _MAX_UNREAD_MSGS
        ):
            self._is_buffer_full = True
            return
        for subject, reply, start, header_bytes, size_bytes in messages:
            self._arrived_bytes += size_bytes
            payload_start = start + header_bytes
            data = block[payload_start : start + size_bytes]
            self._arrived_messages.append(
                ReceivedMessage(subject, reply, block[start:payload_start], data)
            )
        self._arrival_event.set()

    async def _create_consumer(self, policy: str, from_seq: int | None) -> int:
        self._arrived_messages, self._last_consumer_seq, self._remaining_msgs = deque(), 0, None
        self._arrived_bytes, self._is_buffer_full = 0, False
        self._reconnects_count = self.client.nc.stats["reconnects"]
        inbox = self.client.nc.new_inbox()
        self._subscription = await self.client.subscribe(inbox, _ignore_message)
        self._consumer_name = f"natstui-{uuid.uuid4().hex[:12]}"
        self.client.nc.deliver_blocks(self._subscription, self._on_block)
        config: dict[str, Any] = {
            "name": self._consumer_name,
            "deliver_subject": inbox,
            "deliver_policy": policy,
            "filter_subjects": list(self.filter_subjects),
            "ack_policy": "none",
            "max_deliver": 1,
            "mem_storage": True,
            "num_replicas": 1,
            "inactive_threshold": _INACTIVE_THRESHOLD_S * _SECOND_NS,
            "headers_only": self.headers_only,
            "flow_control": True,
            "idle_heartbeat": _HEARTBEAT_S * _SECOND_NS,
        }
        if self.from_time is not None and not self._last_seq:
            if is_version_in(self.client.link.server_version, VERSIONS_WITH_START_TIME_SKIPPING):
                from_seq = await find_sequence_since(self.client, self.stream, self.from_time)
            else:
                config |= {"deliver_policy": "by_start_time", "opt_start_time": self.from_time}
        if from_seq is not None:
            config |= {"deliver_policy": "by_start_sequence", "opt_start_seq": from_seq}
        verb, body = consumer_request(self.stream, self._consumer_name, config, "create")
        consumer = read_consumer(await self.client.request(verb, body))
        self._remaining_msgs = consumer.num_pending
        if config["deliver_policy"] in ("new", "last") or (
            config["deliver_policy"] == "last_per_subject" and not self._remaining_msgs
        ):
            # What is stored until another consumer starts is after this one, and not before it.
            self._start_seq = consumer.delivered.stream_seq + 1
        return self._remaining_msgs

    async def _recreate_consumer(self) -> None:
        """Create another consumer that starts after the last message read, or where the first
        one started.

        Waits for a connection, and for the stream to have a leader.
        """
        from_seq = self._last_seq + 1 if self._last_seq else self._start_seq or self.from_seq
        self.restarts_count += 1
        while True:
            # Also that of a failed attempt, which would deliver every message once more.
            await self._delete_consumer()
            try:
                pending_msgs = await self._create_consumer(self.policy, from_seq)
                await self.check_stream()
                self._has_ended = self.reads_stored_only and not pending_msgs
                return
            except (ConnectionLost, RequestTimedOut, JetStreamUnavailable):
                self._check_progress()
                # After a restart of the server, the stream has no leader at first.
                await asyncio.sleep(_RETRY_INTERVAL_S)

    async def check_stream(self) -> None:
        """Raise Conflict if the stream was recreated or lost its newest messages since the start.

        Raises NotFound if it was deleted, and the request errors.
        """
        if self.created_at_us is None:
            return
        deleted_part_text = lost_part_text = "nothing was read"
        if self._last_seq:
            read_part_text = f"what was read up to sequence {self._last_seq:,} is"
            deleted_part_text = (
                f"{read_part_text} of the deleted stream, and its other messages are deleted"
            )
            lost_part_text = f"{read_part_text} lost, and new messages up to there were not read"
        try:
            info = await self.client.stream_info(self.stream)
        except NotFound as error:
            raise NotFound(
                f"{self.stream} was deleted while it was read: {deleted_part_text}"
            ) from error
        if info.created_at_us != self.created_at_us:
            raise Conflict(
                f"{self.stream} was deleted and recreated while it was read: {deleted_part_text}"
            )
        last_known_seq = self._last_seq or (self._start_seq or 1) - 1
        if await has_lost_newest(
            self.client, self.stream, info.state, last_known_seq, self._last_stored_at_us
        ):
            raise Conflict(f"{lost_newest_text(self.stream)}: {lost_part_text}")

    async def _delete_consumer(self) -> None:
        """Delete the consumer; without a connection, the server does so a minute later."""
        await self._unsubscribe()
        if self.client.link.state != "connected":
            return
        try:
            await self.client.request(f"CONSUMER.DELETE.{self.stream}.{self._consumer_name}")
        except (NotFound, PermissionDenied, ConnectionLost, RequestTimedOut, JetStreamUnavailable):
            return  # the server deletes it when nobody is subscribed

    async def _unsubscribe(self) -> None:
        """End the subscription, also while disconnected: else the next connection renews it."""
        subscription, self._subscription = self._subscription, None
        if subscription is not None:
            self.client.nc.deliver_blocks(subscription, None)
            if not self.client.nc.is_closed:
                await subscription.unsubscribe()
