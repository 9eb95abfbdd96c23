"""The life of one connection: lost, back, refused; who is told, and who must not wait any more."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from urllib.parse import urlsplit

from natstui.config import Connection
from natstui.errors import AuthenticationFailed, PermissionDenied, ServerGone
from natstui.jetstream.explain import explain, explain_loss, explain_refusal
from natstui.jetstream.greeting import Greeting, link_changed
from natstui.jetstream.nats_client import GuardedClient
from natstui.jetstream.open_client import RETRY_S, dispose
from natstui.jetstream.permissions import Violation, read_violation
from natstui.jetstream.servers import parse_servers
from natstui.jetstream.waiting import Waiting
from natstui.jetstream.watchdog import watch_over
from natstui.model.record import LinkChanged, LinkState

OnLink = Callable[[LinkChanged], None]
OnDenied = Callable[[PermissionDenied], None]

# A server that refuses us is not asked twice a second.
_RETRY_REFUSED_S = 1.5
_ASK_AGAIN_S = 4.0


class Link:
    """Keeps a client connected for ever, and tells `on_link` about it."""

    def __init__(self, connection: Connection, nc: GuardedClient, on_link: OnLink) -> None:
        self.nc = nc
        self.inbox = nc.new_inbox()
        self.waiting = Waiting()
        self.greeting = Greeting()
        self.denials: dict[str, tuple[str, OnDenied]] = {}
        """Lower-cased subject of a subscription → the subject, and who hears of its denial."""
        self._connection = connection
        self._on_link = on_link
        self._reason: str | None = None
        self._inbox_denied: PermissionDenied | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._greet: Callable[[], Awaitable[Greeting]] | None = None

    @property
    def state(self) -> LinkChanged:
        """Return the present state of the link."""
        connected = bool(self.nc.is_connected)
        now: LinkState = "connected" if connected else "reconnecting"
        if self.nc.is_closed:
            now = "closed"
        reason = None if connected else self._reason
        return link_changed(self.nc, self._connection, now, reason, self.greeting)

    async def begin(self, greet: Callable[[], Awaitable[Greeting]]) -> None:
        """Look after the connection from now on; `greet` asks its first questions each time."""
        self._greet = greet
        urls = [address.url for address in parse_servers(self._connection.servers)]
        self.nc.keep(urls, self._hear_error, self._hear_lost, self._hear_back)
        await self.nc.subscribe(
            f"{self.inbox}.*", cb=self.waiting.answer, pending_msgs_limit=0, pending_bytes_limit=0
        )
        self._spawn(watch_over(self.nc, self._say_lost))
        await self._introduce()

    def check(self) -> None:
        """Raise what makes every request pointless at this moment: no link, or no inbox."""
        if not self.nc.is_connected:
            raise self.gone()
        if self._inbox_denied is not None:
            raise self._inbox_denied

    def gone(self) -> ServerGone:
        """Return the error of whoever wants to send something now."""
        return ServerGone(f"not connected at the moment: {self._reason or 'the link is closed'}")

    async def close(self) -> None:
        """End the connection, in 2 s at most; open requests fail with ServerGone."""
        for task in self._tasks:
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        self.waiting.fail_all(ServerGone("the connection was closed", sent=True))
        self.nc.keep((), _hear_nothing_of, _hear_nothing, _hear_nothing)
        await dispose(self.nc)
        self._on_link(self.state)

    async def _hear_error(self, error: Exception) -> None:
        """Take an asynchronous error of nats-py: a denied subject, or a failed reconnect."""
        violation = read_violation(str(error))
        if violation is not None:
            self._deny(violation)
        elif not self.nc.is_connected:
            place = urlsplit(self.nc.tried_url or "").netloc
            reason = explain(place, self.nc.step, error, self.nc.refusal)
            reason = explain_refusal(place, reason, self._connection)
            refused = isinstance(reason, AuthenticationFailed)
            self.nc.options["reconnect_time_wait"] = _RETRY_REFUSED_S if refused else RETRY_S
            self._say_lost(str(reason))

    async def _hear_lost(self) -> None:
        """End everything that waits: its answer cannot come any more."""
        self.nc.forget_pending()
        self._inbox_denied = None
        self._say_lost(self._reason or explain_loss(self.nc.lost_by))
        self.waiting.fail_all(
            ServerGone(
                f"the connection was lost before the answer came: {self._reason}", sent=True
            )
        )

    async def _hear_back(self) -> None:
        """Say that the connection is back, once its first questions are answered."""
        self._reason = None
        self._spawn(self._introduce())

    async def _introduce(self) -> None:
        """Ask the first questions, then tell what we are connected to."""
        if self._greet is not None:
            self.greeting = await self._greet()
        if self.nc.is_connected:
            self._on_link(self.state)
            if not self.greeting.jetstream and not self.greeting.denied:
                self._spawn(self._introduce_again())

    async def _introduce_again(self) -> None:
        """Ask again while JetStream is missing: it may be electing a leader, or be enabled."""
        reconnects_count = self.nc.stats["reconnects"]
        await asyncio.sleep(_ASK_AGAIN_S)
        if self.nc.is_connected and self.nc.stats["reconnects"] == reconnects_count:
            await self._introduce()

    def _deny(self, violation: Violation) -> None:
        """Fail at once what the server refused."""
        if violation.kind == "publish":
            self.waiting.deny(violation)
        elif violation.subject.startswith(self.inbox.lower()):
            subject = self.inbox.rpartition(".")[0] + ".>"
            self._inbox_denied = PermissionDenied(subject, "subscribe")
            self.waiting.fail_all(self._inbox_denied)
        elif violation.subject in self.denials:
            subject, on_denied = self.denials[violation.subject]
            on_denied(PermissionDenied(subject, "subscribe"))

    def _say_lost(self, reason: str) -> None:
        """Tell why there is no link, unless that was the last thing told."""
        if reason != self._reason:
            self._reason = reason
            self._on_link(
                link_changed(self.nc, self._connection, "reconnecting", reason, self.greeting)
            )

    def _spawn(self, work: Coroutine[None, None, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


async def _hear_nothing_of(_error: Exception) -> None:
    """Ignore errors of a connection that is being closed."""


async def _hear_nothing() -> None:
    """Ignore what happens while closing."""
