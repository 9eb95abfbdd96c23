"""Replies to requests on a subject, each once, until stopped or enough came."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import nats.errors
from nats.aio.msg import Msg

from natstui.errors import NatstuiError, PermissionDenied, RequestFailed, RequestTimedOut
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.nats_client import Pairs
from natstui.jetstream.connection.writer import JournalDraft, Writer
from natstui.jetstream.messages.decode import pairs_of
from natstui.jetstream.messages.pull import listening_loss
from natstui.model.assets.buckets import bucket_change
from natstui.model.assets.subjects import overlap

_LEAVING_S = 2.0
"""How long a reply may still take after the stop."""


@dataclass(frozen=True, slots=True)
class Reply:
    """The payload and headers of a reply."""

    payload: bytes
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class ReceivedRequest:
    """A received request."""

    number: int
    subject: str
    headers: tuple[tuple[str, str], ...]
    payload: bytes


Answering = Callable[[ReceivedRequest], Awaitable[Reply]]


def _refusal(reply_subject: str) -> str:
    """Return why a request gets no reply at a subject; empty if it does."""
    if not reply_subject:
        return "it requests no reply"
    if overlap(reply_subject, "$JS.>") or overlap(reply_subject, "$SYS.>"):
        return "its reply would go to the server itself"
    return "its reply would change a bucket" if bucket_change(reply_subject) else ""


@dataclass
class Responder:
    """Replies to requests on one subject; `told` is called with a sentence for requests without a
    reply.
    """

    subject: str
    queue: str
    most_count: int | None
    answering: Answering
    told: Callable[[str], None]
    listening: Callable[[], None]
    confirmed: str | None = None
    replies_count: int = 0
    stopped: asyncio.Event = field(default_factory=asyncio.Event)
    _busy: asyncio.Lock = field(default_factory=asyncio.Lock)
    _asked_count: int = 0
    _failed: BaseException | None = None
    _answering: asyncio.Future[Reply] | None = None

    @property
    def unanswered_count(self) -> int:
        """Return how many received requests got no reply; of those behind the last one, none."""
        asked_count = self._asked_count
        if self.most_count is not None:
            asked_count = min(asked_count, self.most_count)
        return asked_count - self.replies_count

    async def serve(self, writer: Writer) -> None:
        """Reply until stopped, and journal that; raises Refused and the request errors.

        A subject of the API of the server is never answered: a reply there would be a request of
        ours, with content of another client.
        """
        if overlap(self.subject, "$JS.>") or overlap(self.subject, "$SYS.>"):
            raise RequestFailed(
                f"servers also reply to requests on {self.subject}: use a narrower subject"
            )
        journalled = {"subject": self.subject, **({"queue": self.queue} if self.queue else {})}
        try:
            loses = await listening_loss(writer.client, [self.subject], self.queue)
        except RequestFailed as error:
            self.told(f"not known whether this takes messages of push consumers: {error}")
            loses = None
        draft = JournalDraft(
            "reply", "", None, journalled, doubt="some requests may have got a reply"
        )
        await writer.send(
            draft,
            (self.subject, self.confirmed),
            lambda: self._serve(writer.client),
            lambda count: {"replies_count": count},
            loses,
        )

    async def _serve(self, client: Client) -> int:
        async def take(msg: Msg) -> None:
            if reason := _refusal(msg.reply):
                self.told(f"no reply to a message on {msg.subject}: {reason}")
                return
            self._asked_count += 1
            async with self._busy:
                if not self.stopped.is_set():
                    await self._answer(client, msg, self._asked_count)

        subscription = await client.subscribe(self.subject, take, self._end, queue=self.queue)
        limit_s = client.connection.request_timeout_s
        try:
            async with asyncio.timeout(limit_s):
                await (await client.nc.ping())
        except TimeoutError as error:
            raise RequestTimedOut(self.subject, limit_s) from error
        if self._failed is None:
            self.listening()
        await self.stopped.wait()
        # The one that is being answered has some time for its answer.
        try:
            async with asyncio.timeout(_LEAVING_S), self._busy:
                pass
        except TimeoutError:
            if self._answering is not None:
                self._answering.cancel()
        # Those that wait behind it are counted.
        async with self._busy:
            pass
        if client.link.state == "connected":
            # A connection that is lost now cannot bring any more.
            with suppress(TimeoutError, nats.errors.Error):
                async with asyncio.timeout(limit_s):
                    await subscription.drain()
        if self._failed is not None:
            raise self._failed
        return self.replies_count

    async def _answer(self, client: Client, msg: Msg, number: int) -> None:
        received = ReceivedRequest(number, msg.subject, pairs_of(msg.headers), msg.data)
        self._answering = asyncio.ensure_future(self.answering(received))
        try:
            try:
                await asyncio.wait({self._answering})
            finally:
                self._answering.cancel()
            if self._answering.cancelled():
                self.told(f"no reply to a request on {msg.subject}: natstui was stopped")
                return
            await self._send(client, msg.reply, self._answering.result())
        except PermissionDenied as error:
            self._end(error)
        except NatstuiError as error:
            self.told(f"no reply to a request on {msg.subject}: {error}")
        else:
            self.replies_count += 1
        if number == self.most_count:
            self.stopped.set()

    async def _send(self, client: Client, to: str, reply: Reply) -> None:
        headers = Pairs(reply.headers) or None
        if self.replies_count:
            await client.publish(to, reply.payload, headers=headers)
            return
        # Who may not send the first one may send none; asking each time would take its time.
        async with client.telling(to):
            await client.publish(to, reply.payload, headers=headers)

    def _end(self, error: BaseException) -> None:
        self._failed = error
        self.stopped.set()
