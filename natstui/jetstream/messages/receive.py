"""Receives messages of a consumer, one after the other, until stopped or enough arrived."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from nats.aio.msg import Msg

from natstui.errors import ConnectionLost, NatstuiError, NotFound, RequestFailed, RequestTimedOut
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.decode.consumers import ConsumerRow
from natstui.jetstream.connection.nats_client import status_of
from natstui.jetstream.connection.storing import check_ack_consumer
from natstui.jetstream.connection.writer import Asset, JournalDraft, Writer
from natstui.jetstream.messages.pull import pull_without_journal, read_delivered
from natstui.model.assets.subjects import is_flow_control
from natstui.model.records.messages import PulledMessage, PullNext

_PULL_EXPIRES_S = 5.0
_RETRY_S = 0.5
_NO_MESSAGE_CODES = (404, 408)
"""Status codes of a pull that got no message in time."""


@dataclass
class Receiver:
    """Receives the messages of one consumer; it pulls one at a time, so that none is left unread.

    `on_listening` is called when messages can arrive, and `show_message` with each message.
    """

    stream: str
    consumer: str
    info: ConsumerRow
    acknowledges: bool
    max_count: int | None
    max_duration_s: float | None
    show_message: Callable[[PulledMessage], None]
    on_listening: Callable[[], None]
    stop_event: asyncio.Event = field(default_factory=asyncio.Event)
    received_count: int = 0
    acknowledged_count: int = 0
    foreign_messages_count: int = 0
    """Messages on the deliver subject that this consumer did not send."""
    unseen_messages_count: int = 0
    """Messages that arrived after the stop, and were not shown."""
    dropped_messages_count: int = 0
    """Messages that found too many others waiting to be shown, and were dropped."""
    _error: BaseException | None = None

    async def receive(
        self, writer: Writer, confirmed_name: str | None, loss_text: str | None = None
    ) -> None:
        """Receive messages until stopped, and journal the counts; raises the error that ended it.

        `confirmed_name` is the name that the user typed to confirm, if any; `loss_text` is what
        other clients lose by it, as a sentence. Raises Conflict if the consumer or the loss is not
        the confirmed one.
        """
        writer.check_loss(self.consumer, loss_text)
        if self.acknowledges:
            await check_ack_consumer(writer.client, self.stream, self.consumer)
        journal_fields = {"received": True, "acknowledges": self.acknowledges}
        doubt = "messages may still have been delivered"
        target = Asset({}, self.info.created_at_us)
        draft = JournalDraft(
            "pull", self.stream, self.consumer, journal_fields, target=target, doubt=doubt
        )
        await writer.send(
            draft,
            (self.consumer, confirmed_name),
            lambda: self._receive_messages(writer.client),
            lambda counts: counts,
            loss_text,
        )
        if self._error is not None:
            raise self._error

    async def _receive_messages(self, client: Client) -> dict[str, int]:
        deliver_subject = self.info.read_config().get("deliver_subject")
        receive_coroutine = (
            self._receive_pushed(client, str(deliver_subject))
            if deliver_subject
            else self._receive_pulled(client)
        )
        work_task = asyncio.ensure_future(receive_coroutine)
        stop_task = asyncio.ensure_future(self.stop_event.wait())
        awaited_tasks: set[asyncio.Future[Any]] = {work_task, stop_task}
        await asyncio.wait(
            awaited_tasks, timeout=self.max_duration_s, return_when=asyncio.FIRST_COMPLETED
        )
        self.stop_event.set()
        # A message that is being shown and acknowledged is finished; a wait for one is cancelled.
        await asyncio.wait({work_task}, timeout=client.connection.request_timeout_s + _RETRY_S)
        stop_task.cancel()
        work_task.cancel()
        try:
            await work_task
        except asyncio.CancelledError:
            pass
        except (NatstuiError, OSError) as error:
            self._error = self._error or error
        return {"received_msgs": self.received_count, "acknowledged_msgs": self.acknowledged_count}

    async def _receive_pulled(self, client: Client) -> None:
        self.on_listening()
        while not self.stop_event.is_set():
            pull_task = asyncio.ensure_future(self._pull_message(client))
            stop_task = asyncio.ensure_future(self.stop_event.wait())
            awaited_tasks: set[asyncio.Future[Any]] = {pull_task, stop_task}
            try:
                await asyncio.wait(awaited_tasks, return_when=asyncio.FIRST_COMPLETED)
            finally:
                stop_task.cancel()
                if not pull_task.done():
                    pull_task.cancel()
            with suppress(asyncio.CancelledError):
                message = await pull_task
                if message is not None:
                    await self._show_and_acknowledge(client, message)

    async def _pull_message(self, client: Client) -> PulledMessage | None:
        """Return the next message; None if none arrived, or after an outage: pull again then.

        Raises NotFound if the consumer was deleted, and RequestFailed for any other error.
        """
        max_expires_ns = int(self.info.read_config().get("max_expires") or 0)
        wait_s = min(_PULL_EXPIRES_S, max_expires_ns / 1e9) if max_expires_ns else _PULL_EXPIRES_S
        try:
            return await pull_without_journal(
                client, PullNext(0, self.stream, self.consumer, wait_s)
            )
        except (RequestTimedOut, ConnectionLost):
            await asyncio.sleep(_RETRY_S)
        except RequestFailed as error:
            if error.code not in _NO_MESSAGE_CODES:
                await self._check_consumer_exists(client, error)
        return None

    async def _check_consumer_exists(self, client: Client, error: RequestFailed) -> None:
        """Wait 0.5 s after an error that a lost leader may cause, and check the consumer exists.

        Raises `error` if it has another cause, and NotFound if the consumer was deleted.
        """
        error_text = str(error).lower()
        if (
            not isinstance(error, NotFound)
            and "leadership" not in error_text
            and "shut" not in error_text
        ):
            raise error
        await asyncio.sleep(_RETRY_S)
        with suppress(RequestTimedOut, ConnectionLost):
            await client.consumer_info(self.stream, self.consumer)

    async def _receive_pushed(self, client: Client, subject: str) -> None:
        async def on_message(msg: Msg) -> None:
            try:
                await self._on_message(client, msg)
            except (NatstuiError, OSError) as error:
                # Also of a stdout that cannot be written: nats-py would drop the error.
                self._end_with_error(error)

        group = str(self.info.read_config().get("deliver_group") or "")
        subscription = await client.subscribe(
            subject, on_message, self._end_with_error, queue=group, on_dropped=self._count_dropped
        )
        limit_s = client.connection.request_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                await (await client.nc.ping())
        except TimeoutError as error:
            raise RequestTimedOut(subject, limit_s) from error
        if self._error is None:
            self.on_listening()
        await self.stop_event.wait()
        if client.link.state == "connected":
            # Messages that arrived until now are counted as unseen.
            await subscription.drain()

    def _count_dropped(self, _subject: str, reply_subject: str) -> None:
        # Others are heartbeats, flow control messages, or of other senders.
        self.dropped_messages_count += reply_subject.startswith("$JS.ACK.")

    async def _on_message(self, client: Client, msg: Msg) -> None:
        if status_of(msg.headers) == "100":
            # A heartbeat, or a flow control message, to which the consumer waits for a reply.
            flow_control_reply = msg.reply or str(msg.headers.get("Nats-Consumer-Stalled", ""))
            if is_flow_control(flow_control_reply, self.stream, self.consumer):
                await client.publish(flow_control_reply)
            return
        message = read_delivered(msg, self.stream, self.consumer)
        if message is None:
            self.foreign_messages_count += 1
        elif self.stop_event.is_set():
            self.unseen_messages_count += 1
        else:
            await self._show_and_acknowledge(client, message)

    async def _show_and_acknowledge(self, client: Client, message: PulledMessage) -> None:
        self.show_message(message)
        self.received_count += 1
        if self.acknowledges:
            with suppress(ConnectionLost):
                await client.ack(message.reply, b"+ACK")
                self.acknowledged_count += 1
        if self.received_count == self.max_count:
            self.stop_event.set()

    def _end_with_error(self, error: BaseException) -> None:
        self._error = self._error or error
        self.stop_event.set()
