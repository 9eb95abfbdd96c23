"""Replies to requests on a subject until stopped, or until enough requests got a reply."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import nats.errors
from msgspec import Struct
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from natstui.errors import (
    ConnectionLost,
    NatstuiError,
    PermissionDenied,
    RequestFailed,
    RequestTimedOut,
)
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.nats_client import HeaderPairs
from natstui.jetstream.connection.writer import JournalDraft, Writer
from natstui.jetstream.messages.decode import read_headers
from natstui.jetstream.messages.pull import describe_listening_loss
from natstui.model.assets.buckets import bucket_change_text
from natstui.model.assets.subjects import overlap

_LAST_REPLY_TIMEOUT_S = 2.0
"""Maximum time for which a running reply command may continue after the stop."""


class Reply(Struct, frozen=True):
    """The payload and headers of a reply."""

    payload: bytes
    headers: tuple[tuple[str, str], ...] = ()


class ReceivedRequest(Struct, frozen=True):
    """A request that a `Responder` received; `number` counts the requests from 1."""

    number: int
    subject: str
    headers: tuple[tuple[str, str], ...]
    payload: bytes


MakeReply = Callable[[ReceivedRequest], Awaitable[Reply]]


def _find_refusal(reply_subject: str) -> str:
    """Return why no reply is sent to a reply subject; "" if one is sent."""
    if not reply_subject:
        return "it requests no reply"
    if overlap(reply_subject, "$JS.>") or overlap(reply_subject, "$SYS.>"):
        return "its reply would go to the server itself"
    return "its reply would change a bucket" if bucket_change_text(reply_subject) else ""


@dataclass
class Responder:
    """Replies to requests on one subject, one after the other.

    `report` is called with a sentence for each request that gets no reply, and `on_listening` when
    the subscription is active.
    """

    subject: str
    queue: str
    max_count: int | None
    make_reply: MakeReply
    report: Callable[[str], None]
    on_listening: Callable[[], None]
    confirmed: str | None = None
    replies_count: int = 0
    stop_event: asyncio.Event = field(default_factory=asyncio.Event)
    _reply_lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    _requests_count: int = 0
    _finished_requests_count: int = 0
    _dropped_requests_count: int = 0
    """Requests that found too many others waiting."""
    _dropped_messages_count: int = 0
    """Those requests, and other messages that found too many requests waiting."""
    _error: BaseException | None = None
    _reply_task: asyncio.Future[Reply] | None = None

    @property
    def requests_without_reply_count(self) -> int:
        """Return how many requests got no reply, without those beyond `max_count`."""
        requests_count = self._requests_count + self._dropped_requests_count
        if self.max_count is not None:
            requests_count = min(requests_count, self.max_count)
        return requests_count - self.replies_count

    @property
    def _server_limit_msgs(self) -> int | None:
        """Return after how many messages the server ends the subscription; None without a
        limit.

        The other members of the group get the requests beyond it.
        """
        return self.max_count if self.queue else None

    async def serve(self, writer: Writer) -> None:
        """Reply until stopped, with a journal entry; raises ActionRefusal and the request errors.

        Raises RequestFailed for a subject of the server's API: servers reply on it themselves.
        """
        if overlap(self.subject, "$JS.>") or overlap(self.subject, "$SYS.>"):
            raise RequestFailed(
                f"servers also reply to requests on {self.subject}: use a narrower subject"
            )
        journal_fields = {"subject": self.subject, **({"queue": self.queue} if self.queue else {})}
        try:
            loss_text = await describe_listening_loss(writer.client, [self.subject], self.queue)
        except RequestFailed as error:
            self.report(f"unknown whether push consumers lose messages: {error}")
            loss_text = None
        draft = JournalDraft(
            "reply", "", None, journal_fields, doubt="some requests may have got a reply"
        )
        await writer.send(
            draft,
            (self.subject, self.confirmed),
            lambda: self._serve(writer.client),
            lambda count: {"replies_count": count},
            loss_text,
        )

    async def _serve(self, client: Client) -> int:
        subscriptions: list[Subscription] = []
        reconnects_count = client.nc.stats["reconnects"]

        async def on_message(msg: Msg) -> None:
            if reason := _find_refusal(msg.reply):
                self.report(f"no reply to a message on {msg.subject}: {reason}")
                await subscribe_once()
                return
            number = self._requests_count = self._requests_count + 1
            async with self._reply_lock:
                if not self.stop_event.is_set():
                    await self._reply(client, msg, number)

        async def subscribe_once() -> None:
            """Subscribe for one more message, as one was no request but counted for the server's
            limit; a reconnect ended the limit.
            """
            has_reconnected = client.nc.stats["reconnects"] != reconnects_count
            if self._server_limit_msgs is None or has_reconnected or self.stop_event.is_set():
                return

            async def on_only_message(msg: Msg) -> None:
                subscriptions.remove(subscription)
                await on_message(msg)

            with suppress(ConnectionLost):
                subscription = await client.subscribe(
                    self.subject, on_only_message, queue=self.queue
                )
                subscriptions.append(subscription)
                await subscription.unsubscribe(limit=1)

        subscription = await client.subscribe(
            self.subject, on_message, self._end_with_error, queue=self.queue,
            on_dropped=self._count_dropped,
        )  # fmt: skip
        subscriptions.append(subscription)
        if self._server_limit_msgs is not None:
            await client.nc.limit_subscription(subscription, self._server_limit_msgs)
        limit_s = client.connection.request_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                await (await client.nc.ping())
        except TimeoutError as error:
            raise RequestTimedOut(self.subject, limit_s) from error
        if self._error is None:
            self.on_listening()
        await self.stop_event.wait()
        # The reply that is being made has some time left.
        try:
            async with asyncio.timeout(_LAST_REPLY_TIMEOUT_S), self._reply_lock:
                pass
        except TimeoutError:
            if self._reply_task is not None:
                self._reply_task.cancel()
        # The requests that wait for it to end are only counted then.
        async with self._reply_lock:
            pass
        if client.link.state == "connected":
            # A connection that is lost now cannot bring any more.
            with suppress(TimeoutError, nats.errors.Error):
                async with asyncio.timeout(limit_s):
                    await asyncio.gather(*(subscription.drain() for subscription in subscriptions))
        if self._error is not None:
            raise self._error
        return self.replies_count

    def _count_dropped(self, subject: str, reply_subject: str) -> None:
        self._dropped_messages_count += 1
        if not _find_refusal(reply_subject):
            self._dropped_requests_count += 1
            self.report(f"no reply to a request on {subject}: too many requests wait")
        self._stop_at_max_count()

    def _stop_at_max_count(self) -> None:
        """Stop after `max_count` requests; the limit also counts dropped messages."""
        count = self._finished_requests_count
        count += self._dropped_messages_count if self._server_limit_msgs is not None else 0
        if count == self.max_count:
            self.stop_event.set()

    async def _reply(self, client: Client, msg: Msg, number: int) -> None:
        received_request = ReceivedRequest(
            number, msg.subject, read_headers(msg.headers), msg.data
        )
        self._reply_task = asyncio.ensure_future(self.make_reply(received_request))
        try:
            try:
                await asyncio.wait({self._reply_task})
            finally:
                self._reply_task.cancel()
            if self._reply_task.cancelled():
                self.report(f"no reply to a request on {msg.subject}: natstui was stopped")
                return
            await self._send(client, msg.reply, self._reply_task.result())
        except PermissionDenied as error:
            self._end_with_error(error)
        except NatstuiError as error:
            self.report(f"no reply to a request on {msg.subject}: {error}")
        else:
            self.replies_count += 1
        self._finished_requests_count += 1
        self._stop_at_max_count()

    async def _send(self, client: Client, reply_subject: str, reply: Reply) -> None:
        headers = HeaderPairs(reply.headers) or None
        if self.replies_count:
            await client.publish(reply_subject, reply.payload, headers=headers)
            return
        # If the first reply is not denied, none is: a check of each one would take time.
        async with client.flush_after(reply_subject):
            await client.publish(reply_subject, reply.payload, headers=headers)

    def _end_with_error(self, error: BaseException) -> None:
        self._error = error
        self.stop_event.set()
