"""The life of one connection: lost, restored, refused; it reports each and ends open requests."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, TypeVar
from urllib.parse import urlsplit

from nats.aio.msg import Msg

from natstui.clean import clean_line
from natstui.config import Connection
from natstui.config.servers import parse_servers
from natstui.errors import AuthenticationFailed, NatstuiError, PermissionDenied, ServerGone
from natstui.jetstream.connection.failures import explain, explain_loss, explain_refusal
from natstui.jetstream.connection.identity import Identity, link_changed
from natstui.jetstream.connection.nats_client import GuardedClient
from natstui.jetstream.connection.opening import RETRY_S, dispose, refusal_of
from natstui.jetstream.connection.permissions import Violation, read_violation
from natstui.model.records.link import LinkChanged, LinkState


class PendingRequests:
    """The open requests of one connection, by the last word of their reply subject."""

    def __init__(self) -> None:
        self._open: dict[str, tuple[str, asyncio.Future[Msg]]] = {}
        self._last = 0

    @property
    def count(self) -> int:
        """Return how many requests wait."""
        return len(self._open)

    def add(self, subject: str) -> tuple[str, asyncio.Future[Msg]]:
        """Begin to wait; return the word to end the reply subject with, and the answer to be."""
        self._last += 1
        word = str(self._last)
        future = asyncio.get_running_loop().create_future()
        self._open[word] = (subject, future)
        return word, future

    def remove(self, word: str) -> None:
        """Wait no longer."""
        _, future = self._open.pop(word, ("", None))
        if future is not None and future.done() and not future.cancelled():
            future.exception()  # or Python complains about an exception that nobody retrieved

    async def answer(self, message: Msg) -> None:
        """Give an answer to the request that waits for it, if it still does."""
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
    """Restart the client's dead inner loops at once, stuck reconnecting after `stuck_s`, for ever.

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
"""After so long without any byte, a late answer is not on its way either."""


class Link:
    """Keeps a client connected for ever, and reports each change to `on_link`."""

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
        """The server that announced lame duck mode, until there is another connection."""
        self._inbox_denied: PermissionDenied | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._read_identity: Callable[[], Awaitable[Identity]] | None = None

    @property
    def state(self) -> LinkChanged:
        """Return the present state of the link."""
        connected = bool(self.nc.is_connected)
        now: LinkState = "connected" if connected else "reconnecting"
        if self.nc.is_closed:
            now = "closed"
        reason = None if connected else self._reason
        return link_changed(self.nc, self._connection, now, reason, self.identity)

    async def begin(self, read_identity: Callable[[], Awaitable[Identity]]) -> None:
        """Keep the connection alive from now on; `read_identity` is called after each connect."""
        self._read_identity = read_identity
        urls = [address.url for address in parse_servers(self._connection.servers)]
        self.nc.keep(urls, self._on_error, self._on_lost, self._on_back, self._on_leaving)
        await self.nc.subscribe(
            f"{self.inbox}.*", cb=self.waiting.answer, pending_msgs_limit=0, pending_bytes_limit=0
        )
        self._spawn(keep_alive(self.nc, self._report_lost))
        await self._report_identity()

    def check(self) -> None:
        """Raise the reason why no request can be answered now: no link, or no inbox."""
        if not self.nc.is_connected:
            raise self.gone()
        if self._inbox_denied is not None:
            raise self._inbox_denied

    async def wait(self, answer: asyncio.Future[T], limit_s: float) -> T:
        """Return an answer that the server gives within `limit_s`, however slow the link is.

        An answer sent in that time may still be on its way, behind other answers. So a PING
        follows: its PONG arrives after everything sent before it, and is waited for as long as
        any byte comes. Raises TimeoutError.
        """
        await asyncio.wait({answer}, timeout=limit_s)
        if not answer.done() and self.nc.is_connected and self.nc.silent_s < _SILENT_S:
            pong = await self.nc.ping()
            either: set[asyncio.Future[Any]] = {answer, pong}
            while not (answer.done() or pong.done()) and self.nc.silent_s < _SILENT_S:
                await asyncio.wait(
                    either, timeout=_SILENT_S / 4, return_when=asyncio.FIRST_COMPLETED
                )
            # An answer that came just before the PONG still has to reach its future.
            await asyncio.wait({answer}, timeout=_HANDED_OVER_S)
        if not answer.done():
            raise TimeoutError
        return answer.result()

    def gone(self) -> ServerGone:
        """Return the error for an attempt to send something now."""
        return ServerGone(f"not connected at the moment: {self._reason or 'the link is closed'}")

    async def close(self) -> None:
        """End the connection, in 2 s at most; open requests fail with ServerGone."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self.waiting.fail_all(ServerGone("the connection was closed", sent=True))
        self.nc.keep((), _ignore_error, _ignore, _ignore)
        await dispose(self.nc)
        self._on_link(self.state)

    async def _on_error(self, error: Exception) -> None:
        """Take an asynchronous error of nats-py: a denied subject, or a failed reconnect."""
        violation = read_violation(str(error))
        if violation is not None:
            self._deny(violation)
        elif not self.nc.is_connected:
            tried = urlsplit(self.nc.tried_url or "")
            refusal = await refusal_of(self.nc, tried.hostname or "", tried.port or 0, error)
            reason = explain(tried.netloc, self.nc.step, error, refusal)
            reason = explain_refusal(tried.netloc, reason, self._connection)
            refused = isinstance(reason, AuthenticationFailed)
            self.nc.options["reconnect_time_wait"] = _RETRY_REFUSED_S if refused else RETRY_S
            self._report_lost(str(reason))

    async def _on_lost(self) -> None:
        """Fail every open request: its answer cannot come any more."""
        self.nc.forget_pending()
        self._inbox_denied = None
        self._report_lost(self._reason or explain_loss(self.nc.lost_by, self.leaving))
        self.waiting.fail_all(
            ServerGone(
                f"the connection was lost before the reply arrived: {self._reason}", sent=True
            )
        )

    async def _on_back(self) -> None:
        """Report that the connection is back, once our identity is known."""
        self._reason = self.leaving = None
        self._spawn(self._report_identity())

    async def _on_leaving(self) -> None:
        """Report that the server will soon stop: it takes no new clients, and closes ours."""
        name = self.nc.server_info.get("server_name") or self.nc.url or "the server"
        self.leaving = clean_line(str(name))
        reason = f"{self.leaving} is in lame duck mode: it closes its connections and then stops"
        self._on_link(link_changed(self.nc, self._connection, "connected", reason, self.identity))

    async def _report_identity(self) -> None:
        """Read our identity, then report what we are connected to."""
        if self._read_identity is not None:
            self.identity = await self._read_identity()
        if self.nc.is_connected:
            self._on_link(self.state)
            if not self.identity.jetstream and not self.identity.denied:
                self._spawn(self._report_identity_again())

    async def _report_identity_again(self) -> None:
        """Ask again while JetStream is missing: it may elect a leader, or be enabled later."""
        reconnects_count = self.nc.stats["reconnects"]
        await asyncio.sleep(_ASK_AGAIN_S)
        if self.nc.is_connected and self.nc.stats["reconnects"] == reconnects_count:
            await self._report_identity()

    def _deny(self, violation: Violation) -> None:
        """Fail at once the request or subscription that the server refused."""
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
        """Report why there is no link, unless that was reported last."""
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
    """Ignore what happens while closing."""
