"""Keeps one connection alive: reports when it is lost, restored or refused, and fails open
requests.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
import nats.errors
from msgspec import Struct
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from natstui.clean import clean_line
from natstui.clock import steady_us
from natstui.config import Connection
from natstui.config.servers import parse_servers
from natstui.errors import (
    AuthenticationFailed,
    ConnectionLost,
    JetStreamUnavailable,
    NatstuiError,
    PermissionDenied,
)
from natstui.jetstream.connection.failures import (
    explain_failed_attempt,
    explain_lost_connection,
    explain_refusal,
)
from natstui.jetstream.connection.nats_client import GuardedClient
from natstui.jetstream.connection.opening import RECONNECT_INTERVAL_S, dispose, find_refusal
from natstui.jetstream.connection.permissions import PermissionViolation, UserInfo, read_violation
from natstui.model.records.link import LinkChanged, LinkState
from natstui.values import replace

_ACCOUNT_WITHOUT_JETSTREAM_CODE = 10039


class _ApiInfo(msgspec.Struct):
    level: int | None = None


class AccountInfo(msgspec.Struct):
    """The fields of the reply of `$JS.API.INFO` that the link needs."""

    domain: str | None = None
    api: _ApiInfo = msgspec.field(default_factory=_ApiInfo)


class Identity(Struct, frozen=True):
    """Our user and account and their JetStream, as reported by the server; None if unknown."""

    jetstream: bool | None = None
    reason: str | None = None
    """Reason why there is no JetStream, or why that is unknown."""
    api_level: int | None = None
    domain: str | None = None
    user: UserInfo | None = None
    is_info_denied: bool = False
    """Whether the user may not request INFO, so that repeating it is pointless."""
    is_user_reply_missing: bool = False
    """Whether no reply about our user came in time."""


def make_link_record(
    client: GuardedClient,
    connection: Connection,
    state: LinkState,
    reason: str | None,
    identity: Identity,
) -> LinkChanged:
    """Return the record of a state of the link, without secrets."""
    info = client.server_info
    user = identity.user
    return LinkChanged(
        at_us=time.time_ns() // 1000,
        state=state,
        reason=reason or identity.reason,
        server_name=info.get("server_name"),
        server_version=info.get("version"),
        server_url=client.url,
        cluster=info.get("cluster"),
        user=(user.user if user else None) or connection.user,
        account=user.account if user else None,
        tls=client.encryption is not None,
        jetstream=identity.jetstream,
        api_level=identity.api_level,
        domain=identity.domain,
        max_payload_bytes=info.get("max_payload"),
    )


def make_identity(reply: AccountInfo | BaseException, user: UserInfo | None) -> Identity:
    """Return our identity from the reply to the first INFO of JetStream, or from its error."""
    if isinstance(reply, AccountInfo):
        # Servers before 2.11 have no level.
        level = reply.api.level or 0
        return Identity(jetstream=True, api_level=level, domain=reply.domain, user=user)
    if not isinstance(reply, JetStreamUnavailable):
        is_denied = isinstance(reply, PermissionDenied)
        return Identity(reason=str(reply), user=user, is_info_denied=is_denied)
    reason = str(reply)
    if reply.err_code == _ACCOUNT_WITHOUT_JETSTREAM_CODE and user is not None:
        reason = f"JetStream is not enabled for the account {user.account!r}"
    return Identity(jetstream=False, reason=reason, user=user)


class PendingRequests:
    """The open requests of one connection, by the last token of their reply subjects."""

    def __init__(self) -> None:
        self._subject_and_reply_by_token: dict[str, tuple[str, asyncio.Future[Msg]]] = {}
        self._last_token_number = 0

    @property
    def count(self) -> int:
        """Return the number of open requests."""
        return len(self._subject_and_reply_by_token)

    def add(self, subject: str) -> tuple[str, asyncio.Future[Msg]]:
        """Add a request; return the last token of its reply subject, and its reply's future."""
        self._last_token_number += 1
        token = str(self._last_token_number)
        reply = asyncio.get_running_loop().create_future()
        self._subject_and_reply_by_token[token] = (subject, reply)
        return token, reply

    def remove(self, token: str) -> None:
        """Remove a request that has its reply, or that nobody awaits any more."""
        _, future = self._subject_and_reply_by_token.pop(token, ("", None))
        if future is not None and future.done() and not future.cancelled():
            future.exception()  # or Python complains about an exception that nobody retrieved

    async def resolve(self, message: Msg) -> None:
        """Set a message as the reply of its request, if the request is still open."""
        _, future = self._subject_and_reply_by_token.get(
            message.subject.rpartition(".")[2], ("", None)
        )
        if future is not None and not future.done():
            future.set_result(message)

    def deny(self, violation: PermissionViolation) -> None:
        """Fail every open request on the denied subject, whatever its case."""
        for subject, future in list(self._subject_and_reply_by_token.values()):
            if subject.lower() == violation.subject and not future.done():
                future.set_exception(PermissionDenied(subject))

    def fail_all(self, error: NatstuiError) -> None:
        """Fail every open request."""
        for _, future in list(self._subject_and_reply_by_token.values()):
            if not future.done():
                future.set_exception(error)


_CHECK_INTERVAL_S = 0.5
_STUCK_RECONNECT_S = 30.0


async def keep_alive(
    client: GuardedClient, on_fault: Callable[[str], None], stuck_s: float = _STUCK_RECONNECT_S
) -> None:
    """Reconnect whenever a loop of nats-py has ended, or reconnecting is stuck for `stuck_s`.

    `on_fault` is called with one sentence before each restart.
    """
    loop = asyncio.get_running_loop()
    attempts_count, last_attempt_s = client.attempts_count, loop.time()
    while True:
        await asyncio.sleep(_CHECK_INTERVAL_S)
        if client.attempts_count != attempts_count or not client.is_reconnecting:
            attempts_count, last_attempt_s = client.attempts_count, loop.time()
        if (name := client.ended_loop) is not None:
            on_fault(f"the {name} loop of the connection ended unexpectedly")
        elif client.has_reconnecting_ended:
            on_fault("reconnecting ended unexpectedly")
        elif client.is_reconnecting and loop.time() - last_attempt_s > stuck_s:
            on_fault("reconnecting was stuck")
        else:
            continue
        await client.reconnect_now()
        attempts_count, last_attempt_s = client.attempts_count, loop.time()


T = TypeVar("T")
OnLink = Callable[[LinkChanged], None]
OnDenied = Callable[[PermissionDenied], None]
OnDropped = Callable[[str, str], None]
"""Called with the subject and reply subject of a message that nats-py dropped."""

_REFUSED_RETRY_INTERVAL_S = 1.5
"""Interval of attempts to connect to a server that refuses the user."""
_IDENTITY_RETRY_S = 4.0
_MAX_CALLBACK_DELAY_S = 0.1
"""Maximum time until a received message reaches its future."""
_MAX_MESSAGE_SILENCE_S = 2.0
"""Time without any byte of a message after which a delayed reply is no longer in flight."""
_MAX_REPLY_DELAY_S = 120.0
"""Maximum wait for a delayed reply while bytes of other messages arrive."""


class Link:
    """Keeps a client connected until `close`, and reports each change to `on_link`."""

    def __init__(self, connection: Connection, nc: GuardedClient, on_link: OnLink) -> None:
        self.nc = nc
        self.inbox = nc.new_inbox()
        self.pending_requests = PendingRequests()
        self.identity = Identity()
        self.on_denied_by_subject: dict[str, tuple[str, OnDenied]] = {}
        """Lower-cased subject of a subscription → the subject, and its callback for a denial."""
        self.on_dropped_by_subscription: dict[Subscription, OnDropped] = {}
        self._connection = connection
        self._on_link = on_link
        self._lost_reason: str | None = None
        self.lame_duck_server: str | None = None
        """Name of the server that announced lame duck mode; None after the next connect."""
        self._inbox_denial: PermissionDenied | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._read_identity: Callable[[], Awaitable[Identity]] | None = None

    @property
    def state(self) -> LinkChanged:
        """Return the current state of the connection, and our user and account."""
        is_connected = bool(self.nc.is_connected)
        state: LinkState = "connected" if is_connected else "reconnecting"
        if self.nc.is_closed:
            state = "closed"
        reason = None if is_connected else self._lost_reason
        return make_link_record(self.nc, self._connection, state, reason, self.identity)

    async def begin(self, read_identity: Callable[[], Awaitable[Identity]]) -> None:
        """Keep the connection alive from now on; `read_identity` is called after each connect."""
        self._read_identity = read_identity
        urls = [address.url for address in parse_servers(self._connection.servers)]
        self.nc.keep_connected(
            urls, self._on_error, self._on_lost, self._on_reconnected, self._on_lame_duck
        )
        await self.nc.subscribe(
            f"{self.inbox}.*",
            cb=self.pending_requests.resolve,
            pending_msgs_limit=0,
            pending_bytes_limit=0,
        )
        self._spawn(keep_alive(self.nc, self._report_lost))
        await self._report_identity()

    def check_can_request(self) -> None:
        """Raise ConnectionLost while disconnected, PermissionDenied if replies are denied."""
        if not self.nc.is_connected:
            raise self.make_connection_lost()
        if self._inbox_denial is not None:
            raise self._inbox_denial

    async def wait_for_reply(self, reply: asyncio.Future[T], limit_s: float, subject: str) -> T:
        """Return a reply that the server sends within `limit_s`, however slow the link is.

        A reply that was sent in time may still be in flight, behind other replies. So a PING is
        sent: its PONG arrives after everything that was sent before it. The PONG is awaited while
        bytes of the reply to `subject` arrive, and for up to two minutes while bytes of other
        messages arrive. Bytes of other lines, such as INFO, do not count. Raises TimeoutError.
        """
        await asyncio.wait({reply}, timeout=limit_s)
        if not reply.done() and self.nc.is_connected and self.nc.silent_s < _MAX_MESSAGE_SILENCE_S:
            pinged_mono_us = steady_us()
            pong = await self.nc.ping()
            awaited_futures: set[asyncio.Future[Any]] = {reply, pong}
            while not (reply.done() or pong.done()) and self._may_arrive(subject, pinged_mono_us):
                await asyncio.wait(
                    awaited_futures,
                    timeout=_MAX_MESSAGE_SILENCE_S / 4,
                    return_when=asyncio.FIRST_COMPLETED,
                )
            # A reply that came just before the PONG still has to reach its future.
            await asyncio.wait({reply}, timeout=_MAX_CALLBACK_DELAY_S)
        if not reply.done():
            raise TimeoutError
        return reply.result()

    def _may_arrive(self, subject: str, pinged_mono_us: int) -> bool:
        """Return whether a delayed reply to `subject` may still be in flight."""
        waited_s = (steady_us() - pinged_mono_us) / 1e6
        if min(waited_s, self.nc.message_silent_s) >= _MAX_MESSAGE_SILENCE_S:
            return False
        return waited_s < _MAX_REPLY_DELAY_S or self.nc.is_arriving(subject)

    def make_connection_lost(self) -> ConnectionLost:
        """Return the error for a request while disconnected, with the reason of the loss."""
        reason = self._lost_reason or "the link is closed"
        return ConnectionLost(f"not connected at the moment: {reason}", reason=reason)

    async def close(self) -> None:
        """End the connection, within 2 s; open requests fail with ConnectionLost."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self.pending_requests.fail_all(
            ConnectionLost("the connection was closed", is_request_sent=True)
        )
        self.nc.keep_connected((), _ignore_error, _ignore_event, _ignore_event)
        await dispose(self.nc)
        self._on_link(self.state)

    async def _on_error(self, error: Exception) -> None:
        """Report a dropped message, a denied subject or a failed reconnect, from an asynchronous
        error of nats-py.
        """
        if isinstance(error, nats.errors.SlowConsumerError):
            if (on_dropped := self.on_dropped_by_subscription.get(error.sub)) is not None:
                on_dropped(error.subject, error.reply)
            return
        violation = read_violation(str(error))
        if violation is not None:
            self._deny(violation)
        elif not self.nc.is_connected:
            tried_url = urlsplit(self.nc.tried_url or "")
            refusal = await find_refusal(
                self.nc, tried_url.hostname or "", tried_url.port or 0, error
            )
            reason = explain_failed_attempt(tried_url.netloc, self.nc.step, error, refusal)
            reason = explain_refusal(tried_url.netloc, reason, self._connection)
            is_refused = isinstance(reason, AuthenticationFailed)
            self.nc.options["reconnect_time_wait"] = (
                _REFUSED_RETRY_INTERVAL_S if is_refused else RECONNECT_INTERVAL_S
            )
            self._report_lost(str(reason))

    async def _on_lost(self) -> None:
        """Report the loss, and fail every open request: its reply cannot arrive any more."""
        self.nc.drop_unsent()
        self._inbox_denial = None
        self._report_lost(
            self._lost_reason or explain_lost_connection(self.nc.loss_error, self.lame_duck_server)
        )
        self.pending_requests.fail_all(
            ConnectionLost(
                f"the connection was lost before the reply arrived: {self._lost_reason}",
                is_request_sent=True,
                reason=self._lost_reason or "",
            )
        )

    async def _on_reconnected(self) -> None:
        """Read our identity and report that the connection is restored."""
        self._lost_reason = self.lame_duck_server = None
        self._spawn(self._report_identity())

    async def _on_lame_duck(self) -> None:
        """Report that the server is in lame duck mode: it will close our connection."""
        name = clean_line(
            str(self.nc.server_info.get("server_name") or self.nc.url or "the server")
        )
        self.lame_duck_server = name
        reason = f"{name} is in lame duck mode: it closes its connections and then stops"
        self._on_link(
            make_link_record(self.nc, self._connection, "connected", reason, self.identity)
        )

    async def _report_identity(self) -> None:
        """Read our identity, then report the link.

        While no reply about our user comes, the user of the last reply is kept.
        """
        previous_user = self.identity.user
        if self._read_identity is not None:
            self.identity = await self._read_identity()
        if self.identity.is_user_reply_missing:
            self.identity = replace(self.identity, user=previous_user)
        if self.nc.is_connected:
            self._on_link(self.state)
            may_have_jetstream = not self.identity.jetstream and not self.identity.is_info_denied
            if may_have_jetstream or (
                self.identity.is_user_reply_missing and previous_user is not None
            ):
                self._spawn(self._report_identity_again())

    async def _report_identity_again(self) -> None:
        """Read and report our identity again after 4 s: a part of it may be available then."""
        reconnects_count = self.nc.stats["reconnects"]
        await asyncio.sleep(_IDENTITY_RETRY_S)
        if self.nc.is_connected and self.nc.stats["reconnects"] == reconnects_count:
            await self._report_identity()

    def _deny(self, violation: PermissionViolation) -> None:
        """Fail the requests that a violation denies, or report the subscription that it denies."""
        if violation.kind == "publish":
            self.pending_requests.deny(violation)
        elif violation.subject.startswith(self.inbox.lower()):
            subject = self.inbox.rpartition(".")[0] + ".>"
            self._inbox_denial = PermissionDenied(subject, "subscribe")
            self.pending_requests.fail_all(self._inbox_denial)
        elif violation.subject in self.on_denied_by_subject:
            subject, on_denied = self.on_denied_by_subject[violation.subject]
            on_denied(PermissionDenied(subject, "subscribe"))

    def _report_lost(self, reason: str) -> None:
        """Report why the connection is lost, unless the last report was the same."""
        if reason != self._lost_reason:
            self._lost_reason = reason
            self._on_link(
                make_link_record(self.nc, self._connection, "reconnecting", reason, self.identity)
            )

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _ignore_error(_error: Exception) -> None:
    """Ignore an error: the connection is being closed."""


async def _ignore_event() -> None:
    """Ignore an event: the connection is being closed."""
