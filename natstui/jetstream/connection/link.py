"""Keeps one connection alive: reports when it is lost, restored or refused, and fails open
requests.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlsplit

import msgspec
from nats.aio.msg import Msg

from natstui.clean import clean_line
from natstui.clock import steady_us
from natstui.config import Connection
from natstui.config.servers import parse_servers
from natstui.errors import (
    AuthenticationFailed,
    JetStreamUnavailable,
    NatstuiError,
    PermissionDenied,
    ServerGone,
)
from natstui.jetstream.connection.failures import explain, explain_loss, explain_refusal
from natstui.jetstream.connection.nats_client import GuardedClient
from natstui.jetstream.connection.opening import RETRY_S, dispose, refusal_of
from natstui.jetstream.connection.permissions import UserInfo, Violation, read_violation
from natstui.model.records.link import LinkChanged, LinkState

_NOT_FOR_ACCOUNT = 10039


class _Api(msgspec.Struct):
    level: int | None = None


class AccountInfo(msgspec.Struct):
    """The fields of the reply of `$JS.API.INFO` that the link needs."""

    domain: str | None = None
    api: _Api = msgspec.field(default_factory=_Api)


@dataclass(frozen=True, slots=True)
class Identity:
    """Our user and account and their JetStream, as reported by the server; None if unknown."""

    jetstream: bool | None = None
    reason: str | None = None
    """Why there is no JetStream, or why it is unknown."""
    api_level: int | None = None
    domain: str | None = None
    user: UserInfo | None = None
    denied: bool = False
    """Whether the user may not request INFO, so that repeating it is pointless."""


def link_changed(
    client: GuardedClient,
    connection: Connection,
    state: LinkState,
    reason: str | None,
    identity: Identity,
) -> LinkChanged:
    """Return the record of the link's current state, without secrets."""
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


def identity_of(reply: AccountInfo | BaseException, user: UserInfo | None) -> Identity:
    """Return our identity from the reply to the first INFO of JetStream, or from its error."""
    if isinstance(reply, AccountInfo):
        # Servers before 2.11 have no level.
        level = reply.api.level or 0
        return Identity(jetstream=True, api_level=level, domain=reply.domain, user=user)
    if not isinstance(reply, JetStreamUnavailable):
        is_denied = isinstance(reply, PermissionDenied)
        return Identity(reason=str(reply), user=user, denied=is_denied)
    reason = str(reply)
    if reply.err_code == _NOT_FOR_ACCOUNT and user is not None:
        reason = f"JetStream is not enabled for the account {user.account!r}"
    return Identity(jetstream=False, reason=reason, user=user)


class PendingRequests:
    """The open requests of one connection, by the last token of their reply subject."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, asyncio.Future[Msg]]] = {}
        self._last = 0

    @property
    def count(self) -> int:
        """Return the number of open requests."""
        return len(self._open)

    def add(self, subject: str) -> tuple[str, asyncio.Future[Msg]]:
        """Add a request; return the last token of its reply subject, and the future reply."""
        self._last += 1
        token = str(self._last)
        future = asyncio.get_running_loop().create_future()
        self._open[token] = (subject, future)
        return token, future

    def remove(self, token: str) -> None:
        """Remove a request."""
        _, future = self._open.pop(token, ("", None))
        if future is not None and future.done() and not future.cancelled():
            future.exception()  # or Python complains about an exception that nobody retrieved

    async def answer(self, message: Msg) -> None:
        """Set a message as the reply of its request, if that is still open."""
        _, future = self._open.get(message.subject.rpartition(".")[2], ("", None))
        if future is not None and not future.done():
            future.set_result(message)

    def deny(self, violation: Violation) -> None:
        """Fail every request on a subject the server refused (compared without case)."""
        for subject, future in list(self._open.values()):
            if subject.lower() == violation.subject and not future.done():
                future.set_exception(PermissionDenied(subject))

    def fail_all(self, error: NatstuiError) -> None:
        """Fail every open request."""
        for _, future in list(self._open.values()):
            if not future.done():
                future.set_exception(error)


_LOOK_S = 0.5
_STUCK_S = 30.0


async def keep_alive(
    client: GuardedClient, on_fault: Callable[[str], None], stuck_s: float = _STUCK_S
) -> None:
    """Restart the client's dead inner loops at once, stuck reconnecting after `stuck_s`, forever.

    `on_fault` gets one sentence before each restart.
    """
    loop = asyncio.get_running_loop()
    attempts, since = client.attempts_count, loop.time()
    while True:
        await asyncio.sleep(_LOOK_S)
        if client.attempts_count != attempts or not client.is_reconnecting:
            attempts, since = client.attempts_count, loop.time()
        if (name := client.ended_loop) is not None:
            on_fault(f"the {name} loop of the connection ended unexpectedly")
        elif client.reconnect_ended:
            on_fault("reconnecting ended unexpectedly")
        elif client.is_reconnecting and loop.time() - since > stuck_s:
            on_fault("reconnecting was stuck")
        else:
            continue
        await client.reconnect_now()
        attempts, since = client.attempts_count, loop.time()


T = TypeVar("T")
OnLink = Callable[[LinkChanged], None]
OnDenied = Callable[[PermissionDenied], None]

# A server that refuses us is not tried twice a second.
_RETRY_REFUSED_S = 1.5
_ASK_AGAIN_S = 4.0
_HANDED_OVER_S = 0.1
_SILENT_S = 2.0
"""Time without any byte of a message after which a late reply is not in flight any more."""
_BEHIND_OTHERS_S = 120.0
"""How long a late reply is waited for behind other messages."""


class Link:
    """Keeps a client connected forever, and reports each change to `on_link`."""

    def __init__(self, connection: Connection, nc: GuardedClient, on_link: OnLink) -> None:
        self.nc = nc
        self.inbox = nc.new_inbox()
        self.waiting = PendingRequests()
        self.identity = Identity()
        self.denials: dict[str, tuple[str, OnDenied]] = {}
        """Lower-cased subject of a subscription → the subject, and its callback for a denial."""
        self._connection = connection
        self._on_link = on_link
        self._reason: str | None = None
        self.leaving: str | None = None
        """The server that announced lame duck mode, until the next connection."""
        self._inbox_denied: PermissionDenied | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._read_identity: Callable[[], Awaitable[Identity]] | None = None

    @property
    def state(self) -> LinkChanged:
        """Return the current state of the link."""
        is_connected = bool(self.nc.is_connected)
        now: LinkState = "connected" if is_connected else "reconnecting"
        if self.nc.is_closed:
            now = "closed"
        reason = None if is_connected else self._reason
        return link_changed(self.nc, self._connection, now, reason, self.identity)

    async def begin(self, read_identity: Callable[[], Awaitable[Identity]]) -> None:
        """Start keeping the connection alive; `read_identity` is called after each connect."""
        self._read_identity = read_identity
        urls = [address.url for address in parse_servers(self._connection.servers)]
        self.nc.keep(urls, self._on_error, self._on_lost, self._on_back, self._on_leaving)
        await self.nc.subscribe(
            f"{self.inbox}.*", cb=self.waiting.answer, pending_msgs_limit=0, pending_bytes_limit=0
        )
        self._spawn(keep_alive(self.nc, self._report_lost))
        await self._report_identity()

    def check(self) -> None:
        """Raise the reason why no request can be sent now: no link, or no inbox."""
        if not self.nc.is_connected:
            raise self.gone()
        if self._inbox_denied is not None:
            raise self._inbox_denied

    async def wait(self, reply: asyncio.Future[T], limit_s: float, subject: str) -> T:
        """Return a reply that the server sends within `limit_s`, however slow the link is.

        A reply sent in that time may still be in flight, behind other replies. So a PING follows:
        its PONG arrives after everything sent before it. It is waited for while bytes of the reply
        to `subject` come, and for two minutes while those of other messages do: other lines, as
        INFO, are never in front of a reply for long. Raises TimeoutError.
        """
        await asyncio.wait({reply}, timeout=limit_s)
        if not reply.done() and self.nc.is_connected and self.nc.silent_s < _SILENT_S:
            pinged_mono_us = steady_us()
            pong = await self.nc.ping()
            first_of: set[asyncio.Future[Any]] = {reply, pong}
            while not (reply.done() or pong.done()) and self._may_come(subject, pinged_mono_us):
                await asyncio.wait(
                    first_of, timeout=_SILENT_S / 4, return_when=asyncio.FIRST_COMPLETED
                )
            # An answer that came just before the PONG still has to reach its future.
            await asyncio.wait({reply}, timeout=_HANDED_OVER_S)
        if not reply.done():
            raise TimeoutError
        return reply.result()

    def _may_come(self, subject: str, pinged_mono_us: int) -> bool:
        """Return whether a late reply to `subject` may still be in flight."""
        waited_s = (steady_us() - pinged_mono_us) / 1e6
        if min(waited_s, self.nc.message_silent_s) >= _SILENT_S:
            return False
        return waited_s < _BEHIND_OTHERS_S or self.nc.is_arriving(subject)

    def gone(self) -> ServerGone:
        """Return the error for an attempt to send something now."""
        reason = self._reason or "the link is closed"
        return ServerGone(f"not connected at the moment: {reason}", reason=reason)

    async def close(self) -> None:
        """End the connection, in 2 s at most; open requests fail with ServerGone."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self.waiting.fail_all(ServerGone("the connection was closed", is_sent=True))
        self.nc.keep((), _ignore_error, _ignore, _ignore)
        await dispose(self.nc)
        self._on_link(self.state)

    async def _on_error(self, error: Exception) -> None:
        """Handle an asynchronous error of nats-py: a denied subject, or a failed reconnect."""
        violation = read_violation(str(error))
        if violation is not None:
            self._deny(violation)
        elif not self.nc.is_connected:
            tried_url = urlsplit(self.nc.tried_url or "")
            refusal = await refusal_of(
                self.nc, tried_url.hostname or "", tried_url.port or 0, error
            )
            reason = explain(tried_url.netloc, self.nc.step, error, refusal)
            reason = explain_refusal(tried_url.netloc, reason, self._connection)
            is_refused = isinstance(reason, AuthenticationFailed)
            self.nc.options["reconnect_time_wait"] = _RETRY_REFUSED_S if is_refused else RETRY_S
            self._report_lost(str(reason))

    async def _on_lost(self) -> None:
        """Fail every open request: its reply cannot come any more."""
        self.nc.forget_pending()
        self._inbox_denied = None
        self._report_lost(self._reason or explain_loss(self.nc.lost_by, self.leaving))
        self.waiting.fail_all(
            ServerGone(
                f"the connection was lost before the reply arrived: {self._reason}",
                is_sent=True,
                reason=self._reason or "",
            )
        )

    async def _on_back(self) -> None:
        """Report that the connection is restored, once our identity is known."""
        self._reason = self.leaving = None
        self._spawn(self._report_identity())

    async def _on_leaving(self) -> None:
        """Report that the server is in lame duck mode: it accepts no new clients, and
        closes ours.
        """
        name = self.nc.server_info.get("server_name") or self.nc.url or "the server"
        self.leaving = clean_line(str(name))
        reason = f"{self.leaving} is in lame duck mode: it closes its connections and then stops"
        self._on_link(link_changed(self.nc, self._connection, "connected", reason, self.identity))

    async def _report_identity(self) -> None:
        """Read our identity, then report the link."""
        if self._read_identity is not None:
            self.identity = await self._read_identity()
        if self.nc.is_connected:
            self._on_link(self.state)
            if not self.identity.jetstream and not self.identity.denied:
                self._spawn(self._report_identity_again())

    async def _report_identity_again(self) -> None:
        """Repeat that while JetStream is missing: it may elect a leader, or be enabled later."""
        reconnects_count = self.nc.stats["reconnects"]
        await asyncio.sleep(_ASK_AGAIN_S)
        if self.nc.is_connected and self.nc.stats["reconnects"] == reconnects_count:
            await self._report_identity()

    def _deny(self, violation: Violation) -> None:
        """Fail the request or subscription that the server refused."""
        if violation.kind == "publish":
            self.waiting.deny(violation)
        elif violation.subject.startswith(self.inbox.lower()):
            subject = self.inbox.rpartition(".")[0] + ".>"
            self._inbox_denied = PermissionDenied(subject, "subscribe")
            self.waiting.fail_all(self._inbox_denied)
        elif violation.subject in self.denials:
            subject, on_denied = self.denials[violation.subject]
            on_denied(PermissionDenied(subject, "subscribe"))

    def _report_lost(self, reason: str) -> None:
        """Report why there is no link, unless the last report was the same."""
        if reason != self._reason:
            self._reason = reason
            self._on_link(
                link_changed(self.nc, self._connection, "reconnecting", reason, self.identity)
            )

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _ignore_error(_error: Exception) -> None:
    """Ignore errors of a connection that is being closed."""


async def _ignore() -> None:
    """Ignore events while closing."""
