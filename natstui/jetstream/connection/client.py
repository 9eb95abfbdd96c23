"""A connection to NATS that returns JetStream's raw JSON, or raises errors of natstui."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Mapping
from contextlib import aclosing, asynccontextmanager
from typing import Any, TypeVar

import msgspec
import nats.errors
from msgspec import Struct
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from natstui.clock import steady_us
from natstui.config import Connection
from natstui.decoding import decoder_of
from natstui.errors import (
    ConnectionLost,
    NatstuiError,
    NotFound,
    RequestFailed,
    RequestTimedOut,
)
from natstui.jetstream.connection.decode.consumers import (
    ConsumerRow,
    read_consumer,
    read_consumers,
)
from natstui.jetstream.connection.decode.streams import StreamRow, read_stream, read_streams
from natstui.jetstream.connection.link import (
    AccountInfo,
    Identity,
    Link,
    OnDenied,
    OnDropped,
    OnLink,
    make_identity,
)
from natstui.jetstream.connection.nats_client import GuardedClient, status_of, unsubscribe
from natstui.jetstream.connection.opening import open_client
from natstui.jetstream.connection.permissions import USER_INFO, UserInfo, read_user_info
from natstui.jetstream.connection.replies import (
    EndlessListCheck,
    check_reply,
    make_no_responders_error,
    read,
    read_page,
)
from natstui.jetstream.connection.shapes import check_shape
from natstui.jetstream.connection.transport import Arrival
from natstui.model.assets.subjects import is_literal
from natstui.model.records.link import LinkChanged, Permitted
from natstui.values import replace

T = TypeVar("T")
OnMessage = Callable[[Msg], Awaitable[None]]

_IDENTITY_TIMEOUT_S = 2.0
_MAX_CALLBACK_DELAY_S = 0.1
"""Maximum time until a received message reaches its future."""
_MAX_SUBJECT_AND_REPLY_BYTES = 4000


class TimedReply(Struct, frozen=True):
    """A raw JSON reply, with the times of request and reply."""

    data: bytes
    requested_mono_us: int
    arrival: Arrival


async def connect(connection: Connection, *, on_link: OnLink | None = None) -> Client:
    """Return a client that is connected, and reconnects until `close()`.

    `on_link` is called for every change of the link, the first connection included. The account
    that it receives is the watched one, which may be another than the user's. Takes at most
    `connect_timeout_s` plus 2 s. Raises ConnectionFailed, AuthenticationFailed or UsageError.
    """
    return await make_client(connection, await open_client(connection), on_link)


async def make_client(connection: Connection, nc: GuardedClient, on_link: OnLink | None) -> Client:
    """Return the client of an open connection, after reading its user and account."""

    def report_link(change: LinkChanged) -> None:
        if on_link is not None:
            watched_account = connection.account
            on_link(
                change if watched_account is None else replace(change, account=watched_account)
            )

    client = Client(connection, Link(connection, nc, report_link))
    await client.begin()
    return client


class _EventDomain(msgspec.Struct):
    domain: str = ""


class Client:
    """A connection that reconnects; while it is lost, requests fail at once and are not queued."""

    def __init__(self, connection: Connection, link: Link) -> None:
        self.connection = connection
        self.prefix = connection.js_api_prefix
        self._link = link

    @property
    def nc(self) -> GuardedClient:
        """Return the client of nats-py, for subscriptions; it lives as long as this client."""
        return self._link.nc

    @property
    def link(self) -> LinkChanged:
        """Return the current state of the connection (the link), and our user and account."""
        return self._link.state

    def is_of_other_domain(self, event: bytes) -> bool:
        """Return whether a JetStream event is of another domain: leaf nodes forward these.

        False for an event that names no domain or cannot be read.
        """
        try:
            domain = decoder_of(_EventDomain).decode(event).domain
        except (msgspec.DecodeError, RecursionError):
            return False
        return bool(domain and self.link.jetstream) and domain != self.link.domain

    @property
    def lame_duck_server(self) -> str | None:
        """Return our server's name while it is in lame duck mode; None otherwise."""
        return self._link.lame_duck_server

    @property
    def api_level(self) -> int | None:
        """Return the JetStream API level; None if it is unknown.

        0 for servers before 2.11, then 1, 3 (2.12), 4, 5 (2.15).
        """
        return self._link.identity.api_level

    async def begin(self) -> None:
        """Read our user and account, and keep the link alive; `connect` calls this."""
        await self._link.begin(self._read_identity)

    async def request(
        self,
        verb: str,
        body: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
    ) -> bytes:
        """Return the JSON reply of `<prefix>.<verb>`, for example of `$JS.API.STREAM.INFO.ORDERS`.

        Its shape is checked: raises RequestFailed for another shape, and what `request_timed`
        raises.
        """
        data = (await self.request_timed(verb, body, timeout_s)).data
        check_shape(verb, data, body)
        return data

    async def stream_info(
        self,
        stream: str,
        body: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
    ) -> StreamRow:
        """Return the decoded reply to STREAM.INFO; raises what `request` raises."""
        return read_stream(await self.request(f"STREAM.INFO.{stream}", body, timeout_s))

    async def consumer_info(
        self, stream: str, consumer: str, timeout_s: float | None = None
    ) -> ConsumerRow:
        """Return the decoded reply to CONSUMER.INFO; raises what `request` raises."""
        verb = f"CONSUMER.INFO.{stream}.{consumer}"
        return read_consumer(await self.request(verb, None, timeout_s))

    async def stream_rows(self, body: Mapping[str, Any] | None = None) -> AsyncIterator[StreamRow]:
        """Yield all rows of STREAM.LIST; those of unreachable streams have only configuration,
        creation time and replicas. Raises what `pages` raises.
        """
        async for page in self.pages("STREAM.LIST", body):
            for row in read_streams(page).all_rows:
                yield row

    async def consumer_rows(self, stream: str) -> AsyncIterator[ConsumerRow]:
        """Yield all rows of CONSUMER.LIST; those of unreachable consumers have only
        configuration, creation time and replicas. Raises what `pages` raises.
        """
        async for page in self.pages(f"CONSUMER.LIST.{stream}"):
            for row in read_consumers(page).all_rows:
                yield row

    async def request_timed(
        self,
        verb: str,
        body: Mapping[str, Any] | None = None,
        timeout_s: float | None = None,
    ) -> TimedReply:
        """Return the JSON reply of `<prefix>.<verb>` with its times; its shape is not checked.

        The caller must check it while decoding.

        The timeout is for the server: the time that a slow link needs is not counted. Raises
        PermissionDenied (at once), NotFound, Conflict, JetStreamUnavailable, RequestTimedOut,
        ConnectionLost (not sent, or lost before the reply), else RequestFailed.
        """
        # A name in it may come from elsewhere: with a wildcard it would mean more than one asset.
        # Only what follows the name of a new consumer is a filter, and may have one.
        tokens = verb.split(".")
        verb_without_filter = (
            ".".join(tokens[:4]) if tokens[:2] == ["CONSUMER", "CREATE"] else verb
        )
        if not is_literal(verb_without_filter):
            raise RequestFailed(f"{verb!r} is not valid: a name has a space or a wildcard")
        payload = b"" if body is None else json.dumps(body).encode()
        limit_s = self.connection.request_timeout_s
        if ".LIST" in verb:
            limit_s = max(limit_s, self.connection.list_timeout_s)
        requested_mono_us = steady_us()
        reply = await self.request_subject(
            f"{self.prefix}.{verb}", payload, timeout_s=timeout_s or limit_s
        )
        if status_of(reply.headers) == "503":
            raise make_no_responders_error(verb, self.prefix, self.nc.server_info)
        data: bytes = reply.data
        check_reply(verb, data)
        return TimedReply(data, requested_mono_us, self.nc.arrival_of(reply))

    async def request_subject(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        timeout_s: float | None = None,
        headers: dict[str, str] | None = None,
    ) -> Msg:
        """Return the first reply to a request on any subject, with its headers and status.

        Raises PermissionDenied, RequestTimedOut, ConnectionLost or RequestFailed.
        """
        self._link.check_can_request()
        token, reply = self._link.pending_requests.add(subject)
        limit_s = timeout_s or self.connection.request_timeout_s
        try:
            inbox = f"{self._link.inbox}.{token}"
            await self.publish(subject, payload, reply=inbox, headers=headers)
            return await self._link.wait_for_reply(reply, limit_s, inbox)
        except TimeoutError as error:
            raise RequestTimedOut(subject, limit_s) from error
        finally:
            self._link.pending_requests.remove(token)

    async def request_many(
        self,
        subject: str,
        payload: bytes,
        *,
        timeout_s: float,
        quiet_s: float | None = None,
        headers: dict[str, str] | None = None,
    ) -> AsyncGenerator[Msg, None]:
        """Yield every reply to a request, status messages included, until the generator is closed.

        `timeout_s` is the timeout of each reply. With `quiet_s` it is that of the first only, and
        the replies end when none arrives for `quiet_s`. Raises what `request_subject` raises.
        """
        self._link.check_can_request()
        token, failure_future = self._link.pending_requests.add(subject)
        inbox = self.nc.new_inbox()
        messages: asyncio.Queue[Msg | None] = asyncio.Queue()
        failure_future.add_done_callback(lambda _: messages.put_nowait(None))
        subscription = await self.nc.subscribe(
            inbox, cb=messages.put, pending_msgs_limit=0, pending_bytes_limit=0
        )
        try:
            await self.publish(subject, payload, reply=inbox, headers=headers)
            limit_s, has_first_reply = timeout_s, False
            while True:
                try:
                    message = await self._next_message(messages, limit_s, inbox)
                except TimeoutError as error:
                    if has_first_reply:
                        return
                    raise RequestTimedOut(subject, timeout_s) from error
                yield failure_future.result() if message is None else message
                if quiet_s is not None:
                    limit_s, has_first_reply = quiet_s, True
        finally:
            self._link.pending_requests.remove(token)
            await unsubscribe(subscription)

    async def _next_message(self, messages: asyncio.Queue[T], timeout_s: float, inbox: str) -> T:
        if not messages.empty():
            return messages.get_nowait()
        get_task = asyncio.ensure_future(messages.get())
        try:
            return await self._link.wait_for_reply(get_task, timeout_s, inbox)
        finally:
            get_task.cancel()

    async def publish(
        self,
        subject: str,
        payload: bytes = b"",
        *,
        reply: str = "",
        headers: dict[str, str] | None = None,
    ) -> None:
        """Send one message now, or fail: it is never queued.

        Raises ConnectionLost or RequestFailed. A denied subject is not noticed here, but by
        `request_subject`.
        """
        if len(subject) + len(reply) > _MAX_SUBJECT_AND_REPLY_BYTES:
            # A server hangs up at a line of the protocol that is longer than 4096 bytes.
            raise RequestFailed(
                f"{subject[:40]!r}… is not valid: servers do not accept such a subject"
            )
        try:
            await self.nc.publish(subject, payload, reply=reply, headers=headers)
        except (nats.errors.OutboundBufferLimitError, nats.errors.ConnectionClosedError) as error:
            raise self._link.make_connection_lost() from error
        except nats.errors.MaxPayloadError as error:
            limit_text = f"the {self.nc.max_payload} the server accepts"
            raise RequestFailed(f"{len(payload)} bytes are more than {limit_text}") from error
        except (nats.errors.BadSubjectError, nats.errors.BadHeaderError) as error:
            raise RequestFailed(f"{subject!r} or its headers are not valid") from error

    async def ack(self, subject: str, payload: bytes) -> None:
        """Send an ack of a message, and wait until the consumer confirms it.

        Raises NotFound when nothing receives the ack, and what `request_subject` raises.
        """
        reply = await self.request_subject(subject, payload)
        if status_of(reply.headers) == "503":
            raise NotFound(
                "the message is not acknowledged: its consumer is deleted, or of an account to "
                "which acks are not exported",
                code=503,
            )

    async def publish_and_flush(self, subject: str, payload: bytes = b"") -> None:
        """Send one message without a reply, and wait until the server has received it.

        Raises what `flush_after` and `publish` raise.
        """
        async with self.flush_after(subject):
            await self.publish(subject, payload)

    @asynccontextmanager
    async def flush_after(self, subject: str) -> AsyncIterator[None]:
        """Wait at the end of the block until the server has received all messages to a subject.

        The server receives them before a PING, and reports a denied subject before the PONG.
        Raises PermissionDenied and RequestTimedOut.
        """
        self._link.check_can_request()
        token, denial = self._link.pending_requests.add(subject)
        limit_s = self.connection.request_timeout_s
        try:
            yield
            pong = await self.nc.ping()
            awaited_futures: set[asyncio.Future[Any]] = {denial, pong}
            await asyncio.wait(
                awaited_futures, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED
            )
            # A denial arrives before the PONG, but is passed to its future a moment after it.
            await asyncio.wait({denial}, timeout=_MAX_CALLBACK_DELAY_S)
            if denial.done():
                denial.result()
            elif not pong.done():
                raise RequestTimedOut(subject, limit_s)
        finally:
            self._link.pending_requests.remove(token)

    async def pages(
        self, verb: str, body: Mapping[str, Any] | None = None, timeout_s: float | None = None
    ) -> AsyncIterator[bytes]:
        """Yield the replies of a list, page after page until its `total` is reached.

        The next page begins after `limit` rows, not after the rows received: a server leaves out
        rows it cannot reach. Raises what `request` raises, and RequestFailed for a list without
        end: many pages without a new row.
        """
        offset, list_check = 0, EndlessListCheck(verb)
        while True:
            data = await self.request(verb, {**(body or {}), "offset": offset}, timeout_s)
            page = read_page(verb, data)
            yield data
            offset += page.limit
            if page.limit <= 0 or offset >= page.total:
                return
            list_check.check(page.names, page.total)

    async def subscribe(
        self,
        subject: str,
        on_message: OnMessage,
        on_denied: OnDenied | None = None,
        *,
        queue: str = "",
        on_dropped: OnDropped | None = None,
    ) -> Subscription:
        """Subscribe, also after every reconnect; `on_denied` is called if the server denies it.

        With a queue group, only one of its members receives each message. `on_dropped` is called
        for each message that is dropped, because 128 MiB or 524,288 messages already wait for
        `on_message`. Raises ConnectionLost, or RequestFailed for an invalid subject or group.
        """
        self._link.check_can_request()
        if on_denied is not None:
            self._link.on_denied_by_subject[subject.lower()] = (subject, on_denied)
        try:
            subscription = await self.nc.subscribe(subject, queue=queue, cb=on_message)
        except nats.errors.BadSubjectError as error:
            problem = f"{subject!r} is not a subject"
            problem += f", or {queue!r} is not a queue group" if queue else ""
            raise RequestFailed(problem) from error
        if on_dropped is not None:
            self._link.on_dropped_by_subscription[subscription] = on_dropped
        return subscription

    async def permissions(self) -> Permitted:
        """Return the user's permissions; raises PermissionDenied if they may not be read."""
        return (await self._user_info(None)).permitted

    async def close(self) -> None:
        """End the connection; takes 2 s at most. Open requests fail with ConnectionLost."""
        await self._link.close()

    async def _user_info(self, timeout_s: float | None) -> UserInfo:
        """Return our user from the reply of our own server; servers of leaf nodes reply too."""
        limit_s = timeout_s or self.connection.request_timeout_s
        own_server_id = self.nc.server_info.get("server_id")
        async with aclosing(self.request_many(USER_INFO, b"", timeout_s=limit_s)) as replies:
            async for reply in replies:
                if status_of(reply.headers) == "503":
                    raise RequestFailed(f'no reply on "{USER_INFO}"', code=503)
                user_info = read_user_info(reply.data)
                if user_info.server_id in (None, own_server_id):
                    return user_info
        raise RequestTimedOut(USER_INFO, limit_s)

    async def _read_identity(self) -> Identity:
        """Return our user, account and JetStream, after requesting them from the server."""
        user, info = await asyncio.gather(
            self._user_info(_IDENTITY_TIMEOUT_S),
            _read_account_info(self),
            return_exceptions=True,
        )
        for reply in (user, info):
            if isinstance(reply, BaseException) and not isinstance(reply, NatstuiError):
                raise reply
        identity = make_identity(info, user if isinstance(user, UserInfo) else None)
        is_user_reply_missing = isinstance(user, RequestTimedOut | ConnectionLost)
        return replace(identity, is_user_reply_missing=is_user_reply_missing)


async def _read_account_info(client: Client) -> AccountInfo:
    return read("INFO", await client.request("INFO", timeout_s=_IDENTITY_TIMEOUT_S), AccountInfo)
