"""A connection to NATS that returns JetStream's raw JSON, or raises errors of natstui."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import msgspec
import nats.errors
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from natstui.clock import steady_us
from natstui.config import Connection
from natstui.decoding import decoder_of
from natstui.errors import NatstuiError, NotFound, RequestFailed, RequestTimedOut
from natstui.jetstream.connection.link import (
    AccountInfo,
    Identity,
    Link,
    OnDenied,
    OnLink,
    identity_of,
)
from natstui.jetstream.connection.nats_client import GuardedClient, status_of, unsubscribe
from natstui.jetstream.connection.opening import open_client
from natstui.jetstream.connection.permissions import USER_INFO, UserInfo, read_user_info
from natstui.jetstream.connection.replies import (
    News,
    check_reply,
    no_responders,
    read,
    read_page,
)
from natstui.jetstream.connection.shapes import check_shape
from natstui.jetstream.connection.transport import Arrival
from natstui.model.assets.subjects import is_literal
from natstui.model.records.link import LinkChanged, Permitted

T = TypeVar("T")
OnMessage = Callable[[Msg], Awaitable[None]]

_IDENTITY_S = 2.0
_HANDED_OVER_S = 0.1
_LONGEST_SUBJECTS = 4000


@dataclass(frozen=True, slots=True)
class Answer:
    """A raw JSON reply, with the times of request and reply."""

    data: bytes
    asked_mono_us: int
    arrival: Arrival


async def connect(connection: Connection, *, on_link: OnLink | None = None) -> Client:
    """Connect, and stay connected until `close()`.

    `on_link` is called for every change of the link, the first connection included, with the
    watched account, which may be another than the user's. Takes at most `connect_timeout_s` plus 2
    s. Raises ConnectionFailed, AuthenticationFailed or UsageError.
    """
    return await client_of(connection, await open_client(connection), on_link)


async def client_of(connection: Connection, nc: GuardedClient, on_link: OnLink | None) -> Client:
    """Return the client of an open connection."""

    def told(change: LinkChanged) -> None:
        if on_link is not None:
            watched_account = connection.account
            on_link(
                change if watched_account is None else replace(change, account=watched_account)
            )

    client = Client(connection, Link(connection, nc, told))
    await client.begin()
    return client


class _Event(msgspec.Struct):
    domain: str = ""


class Client:
    """A live connection. Requests fail at once when there is no link; nothing is sent later."""

    def __init__(self, connection: Connection, link: Link) -> None:
        self.connection = connection
        self.prefix = connection.js_api_prefix
        self._link = link

    @property
    def nc(self) -> GuardedClient:
        """Return the client of nats-py, for subscriptions; it lives as long as this one."""
        return self._link.nc

    @property
    def link(self) -> LinkChanged:
        """Return the current state of the link."""
        return self._link.state

    def is_of_other_domain(self, event: bytes) -> bool:
        """Return whether a JetStream event is of another domain: leaf nodes pass them on.

        One that names no domain, or cannot be read, is taken for our own.
        """
        try:
            domain = decoder_of(_Event).decode(event).domain
        except (msgspec.DecodeError, RecursionError):
            return False
        return bool(domain and self.link.jetstream) and domain != self.link.domain

    @property
    def leaving(self) -> str | None:
        """Return our server's name while it is in lame duck mode."""
        return self._link.leaving

    @property
    def api_level(self) -> int | None:
        """Return the JetStream API level: 0 before 2.11, then 1, 3 (2.12), 4, 5 (2.15)."""
        return self._link.identity.api_level

    async def begin(self) -> None:
        """Read our identity, and keep the link alive; `connect` calls this."""
        await self._link.begin(self._read_identity)

    async def request(
        self,
        verb: str,
        body: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
    ) -> bytes:
        """Return the JSON reply of `<prefix>.<verb>`, as `STREAM.INFO.ORDERS`, its shape checked.

        Raises what `answer` raises, and RequestFailed for a reply that is not as documented.
        """
        data = (await self.answer(verb, body, timeout_s)).data
        check_shape(verb, data, body)
        return data

    async def answer(
        self,
        verb: str,
        body: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
    ) -> Answer:
        """Return the JSON reply of `<prefix>.<verb>` unchecked, with its times.

        The caller must check its shape while decoding.

        The time-out is for the server: the time that a slow link needs is not counted. Raises
        PermissionDenied (at once), NotFound, Conflict, JetStreamUnavailable, RequestTimedOut,
        ServerGone (not sent, or lost before the reply), else RequestFailed.
        """
        # A name in it may come from elsewhere: with a wildcard it would mean more than one asset.
        # Only what follows the name of a new consumer is a filter, and may have one.
        tokens = verb.split(".")
        names = ".".join(tokens[:4]) if tokens[:2] == ["CONSUMER", "CREATE"] else verb
        if not is_literal(names):
            raise RequestFailed(f"{verb!r} is not valid: a name has a space or a wildcard")
        payload = b"" if body is None else json.dumps(body).encode()
        limit_s = self.connection.request_timeout_s
        if ".LIST" in verb:
            limit_s = max(limit_s, self.connection.list_timeout_s)
        asked_mono_us = steady_us()
        reply = await self.ask(f"{self.prefix}.{verb}", payload, timeout_s=timeout_s or limit_s)
        if status_of(reply.headers) == "503":
            raise no_responders(verb, self.prefix, self.nc.server_info)
        data: bytes = reply.data
        check_reply(verb, data)
        return Answer(data, asked_mono_us, self.nc.arrival_of(reply))

    async def ask(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        timeout_s: float | None = None,
        headers: dict[str, str] | None = None,
    ) -> Msg:
        """Return the first reply to a request on any subject, with its headers and status.

        Raises PermissionDenied, RequestTimedOut, ServerGone or RequestFailed.
        """
        self._link.check()
        token, answer = self._link.waiting.add(subject)
        limit_s = timeout_s or self.connection.request_timeout_s
        try:
            reply = f"{self._link.inbox}.{token}"
            await self.publish(subject, payload, reply=reply, headers=headers)
            return await self._link.wait(answer, limit_s, reply)
        except TimeoutError as error:
            raise RequestTimedOut(subject, limit_s) from error
        finally:
            self._link.waiting.remove(token)

    async def answers(
        self,
        subject: str,
        payload: bytes,
        *,
        timeout_s: float,
        quiet_s: float | None = None,
        headers: dict[str, str] | None = None,
    ) -> AsyncGenerator[Msg, None]:
        """Yield every reply to a request, status messages included, until it is closed.

        `timeout_s` is the time-out of each. With `quiet_s`, it is that of the first: the others
        end when none comes within `quiet_s`. Raises what `ask` raises.
        """
        self._link.check()
        token, failure = self._link.waiting.add(subject)
        inbox = self.nc.new_inbox()
        messages: asyncio.Queue[Msg | None] = asyncio.Queue()
        failure.add_done_callback(lambda _: messages.put_nowait(None))
        subscription = await self.nc.subscribe(
            inbox, cb=messages.put, pending_msgs_limit=0, pending_bytes_limit=0
        )
        try:
            await self.publish(subject, payload, reply=inbox, headers=headers)
            limit_s, many = timeout_s, False
            while True:
                try:
                    message = await self._next(messages, limit_s, inbox)
                except TimeoutError as error:
                    if many:
                        return
                    raise RequestTimedOut(subject, timeout_s) from error
                yield failure.result() if message is None else message
                if quiet_s is not None:
                    limit_s, many = quiet_s, True
        finally:
            self._link.waiting.remove(token)
            await unsubscribe(subscription)

    async def _next(self, messages: asyncio.Queue[T], timeout_s: float, inbox: str) -> T:
        if not messages.empty():
            return messages.get_nowait()
        getting = asyncio.ensure_future(messages.get())
        try:
            return await self._link.wait(getting, timeout_s, inbox)
        finally:
            getting.cancel()

    async def publish(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        reply: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        """Send one message now, or fail: it is never queued.

        Raises ServerGone or RequestFailed. A denied subject is not noticed here: use `ask`.
        """
        if len(subject) + len(reply) > _LONGEST_SUBJECTS:
            # A server hangs up at a line of the protocol that is longer than 4096 bytes.
            raise RequestFailed(
                f"{subject[:40]!r}… is not valid: servers do not accept such a subject"
            )
        try:
            await self.nc.publish(subject, payload, reply=reply, headers=headers)
        except (nats.errors.OutboundBufferLimitError, nats.errors.ConnectionClosedError) as error:
            raise self._link.gone() from error
        except nats.errors.MaxPayloadError as error:
            limit_text = f"the {self.nc.max_payload} the server accepts"
            raise RequestFailed(f"{len(payload)} bytes are more than {limit_text}") from error
        except (nats.errors.BadSubjectError, nats.errors.BadHeaderError) as error:
            raise RequestFailed(f"{subject!r} or its headers are not valid") from error

    async def ack(self, subject: str, payload: bytes) -> None:
        """Answer a message of a consumer, and wait until that is confirmed.

        Raises NotFound when nothing receives it, and what `ask` raises.
        """
        reply = await self.ask(subject, payload)
        if status_of(reply.headers) == "503":
            raise NotFound(
                "the message is not acknowledged: its consumer is gone, or one of an account to "
                "which acks are not exported",
                code=503,
            )

    async def tell(self, subject: str, payload: bytes = b"") -> None:
        """Send one message without a reply, and wait until the server has received it.

        Raises what `telling` and `publish` raise.
        """
        async with self.telling(subject):
            await self.publish(subject, payload)

    @asynccontextmanager
    async def telling(self, subject: str) -> AsyncIterator[None]:
        """Let the block publish to a subject; at the end the server has received all messages.

        The server sends errors before its reply to a ping. Raises PermissionDenied and
        RequestTimedOut.
        """
        self._link.check()
        token, refusal = self._link.waiting.add(subject)
        limit_s = self.connection.request_timeout_s
        try:
            yield
            sign = await self.nc.ping()
            first_of: set[asyncio.Future[Any]] = {refusal, sign}
            await asyncio.wait(first_of, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            # What was refused came before the sign, but is handed over a moment after it.
            await asyncio.wait({refusal}, timeout=_HANDED_OVER_S)
            if refusal.done():
                refusal.result()
            elif not sign.done():
                raise RequestTimedOut(subject, limit_s)
        finally:
            self._link.waiting.remove(token)

    async def pages(
        self, verb: str, body: Mapping[str, Any] | None = None, timeout_s: float | None = None
    ) -> AsyncIterator[bytes]:
        """Yield the replies of a list, page after page until its `total` is reached.

        The next page begins after `limit` rows, not after the rows received: a server leaves out
        rows it cannot reach. Raises what `request` raises, and RequestFailed for a list without
        end: many pages without a new row.
        """
        offset, news = 0, News(verb)
        while True:
            data = await self.request(verb, {**(body or {}), "offset": offset}, timeout_s)
            page = read_page(verb, data)
            yield data
            offset += page.limit
            if page.limit <= 0 or offset >= page.total:
                return
            news.check(page.names, page.total)

    async def subscribe(
        self,
        subject: str,
        on_message: OnMessage,
        on_denied: OnDenied | None = None,
        *,
        queue: str = "",
    ) -> Subscription:
        """Subscribe, also after every reconnect; `on_denied` is called when the user may not.

        With a queue group, each message comes to one of its members: here, or elsewhere. Raises
        ServerGone, or RequestFailed for an invalid subject or group.
        """
        self._link.check()
        if on_denied is not None:
            self._link.denials[subject.lower()] = (subject, on_denied)
        try:
            return await self.nc.subscribe(subject, queue=queue, cb=on_message)
        except nats.errors.BadSubjectError as error:
            problem = f"{subject!r} is not a subject"
            problem += f", or {queue!r} is not a queue group" if queue else ""
            raise RequestFailed(problem) from error

    async def permissions(self) -> Permitted:
        """Return the user's permissions; raises PermissionDenied if they may not be read."""
        return (await self._user_info(None)).permitted

    async def close(self) -> None:
        """End the connection; takes 2 s at most. Open requests fail with ServerGone."""
        await self._link.close()

    async def _user_info(self, timeout_s: float | None) -> UserInfo:
        """Return our user by the reply of our own server: those of leaf nodes reply as well."""
        limit_s = timeout_s or self.connection.request_timeout_s
        own_id = self.nc.server_info.get("server_id")
        async with aclosing(self.answers(USER_INFO, b"", timeout_s=limit_s)) as replies:
            async for reply in replies:
                if status_of(reply.headers) == "503":
                    raise RequestFailed(f'no reply on "{USER_INFO}"', code=503)
                user_info = read_user_info(reply.data)
                if user_info.server_id in (None, own_id):
                    return user_info
        raise RequestTimedOut(USER_INFO, limit_s)

    async def _read_identity(self) -> Identity:
        """Request our user and account, and JetStream's INFO."""
        user, info = await asyncio.gather(
            self._user_info(_IDENTITY_S),
            _account_info(self),
            return_exceptions=True,
        )
        for reply in (user, info):
            if isinstance(reply, BaseException) and not isinstance(reply, NatstuiError):
                raise reply
        return identity_of(info, user if isinstance(user, UserInfo) else None)


async def _account_info(client: Client) -> AccountInfo:
    return read("INFO", await client.request("INFO", timeout_s=_IDENTITY_S), AccountInfo)
