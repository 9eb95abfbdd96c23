"""Receives messages of a consumer, one after the other, until stopped or enough came."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from nats.aio.msg import Msg

from natstui.errors import NatstuiError, NotFound, RequestFailed, RequestTimedOut, ServerGone
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.nats_client import status_of
from natstui.jetstream.connection.storing import check_ack_consumer
from natstui.jetstream.connection.writer import Config, JournalDraft, Writer
from natstui.jetstream.messages.pull import delivered, next_message
from natstui.model.assets.subjects import is_flow_control
from natstui.model.records.messages import PulledMessage, PullNext

_PULL_S = 5.0
_AGAIN_S = 0.5
_PASSING = (404, 408)
"""Status codes of a pull without a message in its time."""


@dataclass
class Receiver:
    """Receives from one consumer; one message at a time is requested, so none is left unseen."""

    stream: str
    consumer: str
    config: Config
    """Configuration of the consumer."""
    acknowledges: bool
    most_count: int | None
    most_s: float | None
    show: Callable[[PulledMessage], None]
    listening: Callable[[], None]
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    received_count: int = 0
    acknowledged_count: int = 0
    foreign_count: int = 0
    """Messages on the deliver subject that this consumer did not send."""
    unseen_count: int = 0
    """Messages delivered to us at the end, and not printed."""
    _failed: BaseException | None = None

    async def receive(
        self, writer: Writer, confirmed_name: str | None, loses: str | None = None
    ) -> None:
        """Receive until stopped, and journal the count; raises the error that ended it.

        `loses` is what that takes from other clients.
        """
        if self.acknowledges:
            await check_ack_consumer(writer.client, self.stream, self.consumer)
        journalled = {"received": True, "acknowledges": self.acknowledges}
        doubt = "messages may still have been delivered"
        draft = JournalDraft("pull", self.stream, self.consumer, journalled, doubt=doubt)
        await writer.send(
            draft,
            (self.consumer, confirmed_name),
            lambda: self._receive(writer.client),
            lambda counts: counts,
            loses,
        )
        if self._failed is not None:
            raise self._failed

    async def _receive(self, client: Client) -> dict[str, int]:
        push = self.config.get("deliver_subject")
        work = self._subscribed(client, str(push)) if push else self._pulled(client)
        working = asyncio.ensure_future(work)
        stopping = asyncio.ensure_future(self.stopped.wait())
        first_of: set[asyncio.Future[Any]] = {working, stopping}
        await asyncio.wait(first_of, timeout=self.most_s, return_when=asyncio.FIRST_COMPLETED)
        self.stopped.set()
        # What is being shown and acknowledged is done with; what waits for a message is not.
        await asyncio.wait({working}, timeout=client.connection.request_timeout_s + _AGAIN_S)
        stopping.cancel()
        working.cancel()
        try:
            await working
        except asyncio.CancelledError:
            pass
        except (NatstuiError, BrokenPipeError) as error:
            self._failed = self._failed or error
        return {"received_msgs": self.received_count, "acknowledged_msgs": self.acknowledged_count}

    async def _pulled(self, client: Client) -> None:
        self.listening()
        while not self.stopped.is_set():
            pulling = asyncio.ensure_future(self._one(client))
            stopping = asyncio.ensure_future(self.stopped.wait())
            first_of: set[asyncio.Future[Any]] = {pulling, stopping}
            try:
                await asyncio.wait(first_of, return_when=asyncio.FIRST_COMPLETED)
            finally:
                stopping.cancel()
                if not pulling.done():
                    pulling.cancel()
            with suppress(asyncio.CancelledError):
                message_pulled = await pulling
                if message_pulled is not None:
                    await self._take(client, message_pulled)

    async def _one(self, client: Client) -> PulledMessage | None:
        """Return the next message, None to repeat the pull; raises NatstuiError."""
        most_ns = int(self.config.get("max_expires") or 0)
        wait_s = min(_PULL_S, most_ns / 1e9) if most_ns else _PULL_S
        try:
            return await next_message(client, PullNext(0, self.stream, self.consumer, wait_s))
        except (RequestTimedOut, ServerGone):
            await asyncio.sleep(_AGAIN_S)
        except RequestFailed as error:
            if error.code not in _PASSING:
                await self._there_still(client, error)
        return None

    async def _there_still(self, client: Client, error: RequestFailed) -> None:
        """Wait for another leader; raises the error if it has another reason."""
        error_text = str(error).lower()
        if (
            not isinstance(error, NotFound)
            and "leadership" not in error_text
            and "shut" not in error_text
        ):
            raise error
        await asyncio.sleep(_AGAIN_S)
        with suppress(RequestTimedOut, ServerGone):
            await read_consumer(client, self.stream, self.consumer)

    async def _subscribed(self, client: Client, subject: str) -> None:
        async def take(msg: Msg) -> None:
            try:
                await self._arrived(client, msg)
            except (NatstuiError, BrokenPipeError) as error:
                self._end(error)

        group = str(self.config.get("deliver_group") or "")
        subscription = await client.subscribe(subject, take, self._end, queue=group)
        limit_s = client.connection.request_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                await (await client.nc.ping())
        except TimeoutError as error:
            raise RequestTimedOut(subject, limit_s) from error
        if self._failed is None:
            self.listening()
        await self.stopped.wait()
        if client.link.state == "connected":
            # What came until now is counted: the callback takes no more of it.
            await subscription.drain()

    async def _arrived(self, client: Client, msg: Msg) -> None:
        if status_of(msg.headers) == "100":
            # A sign of life; a consumer with flow control waits for an answer to some of them.
            flow_reply = msg.reply or str(msg.headers.get("Nats-Consumer-Stalled", ""))
            if is_flow_control(flow_reply, self.stream, self.consumer):
                await client.publish(flow_reply)
            return
        message_pulled = delivered(msg, self.stream, self.consumer)
        if message_pulled is None:
            self.foreign_count += 1
        elif self.stopped.is_set():
            self.unseen_count += 1
        else:
            await self._take(client, message_pulled)

    async def _take(self, client: Client, message_pulled: PulledMessage) -> None:
        self.show(message_pulled)
        self.received_count += 1
        if self.acknowledges:
            with suppress(ServerGone):
                await client.ack(message_pulled.reply, b"+ACK")
                self.acknowledged_count += 1
        if self.received_count == self.most_count:
            self.stopped.set()

    def _end(self, error: BaseException) -> None:
        self._failed = self._failed or error
        self.stopped.set()


async def read_consumer(client: Client, stream: str, consumer: str) -> Config:
    """Return the INFO of a consumer; raises NotFound."""
    info: Config = json.loads(await client.request(f"CONSUMER.INFO.{stream}.{consumer}"))
    return info
