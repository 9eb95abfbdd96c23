"""A tap of requests: reads requests for a bounded time, and finds the clients of their reply
inboxes.

It never subscribes to an inbox: a message would then be delivered there although its client is
gone. But it counts as a responder of the subject: a request without another responder waits for
its time-out instead of failing at once. So a tap is short, and only on existing consumers and
streams.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import NamedTuple

import msgspec
from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from natstui.decoding import decoder_of
from natstui.errors import PermissionDenied, RequestFailed, ServerGone
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.nats_client import unsubscribe
from natstui.jetstream.system.asking import ServerRequests
from natstui.jetstream.system.connections import CONNZ, listeners
from natstui.model.clients.connection import ClientConnection
from natstui.model.clients.holding import listeners_of
from natstui.model.clients.requests import Requester, TappedRequests
from natstui.units import bytes_text, duration_text

MOST_MSGS = 100_000
_MOST_BYTES = 64 * 1024 * 1024
_MOST_INBOXES = 5_000
"""Limit of inboxes that wait to be searched; further ones count as gone."""
_MOST_ABOUT = 20
_ASK_EVERY_S = 0.1
"""Minimum interval of searches: a filtered request costs a server some ms at thousands of
connections.
"""
_LAST_QUESTIONS = 50
_AGAIN_COUNT = 20
_IMPORTED = "_R_."
"""Start of the server's own reply subject for a request of another account."""
_INFO = "Nats-Request-Info"


class TappedRequest(NamedTuple):
    """The stored fields of a request."""

    about: str
    pin: str | None = None
    wait_s: float | None = None


@dataclass(slots=True)
class _Tally:
    """The requests with one inbox, or of one client."""

    requests_count: int = 0
    request_bytes: int = 0
    last_at_us: int = 0
    longest_wait_s: float | None = None
    about: dict[str, int] = field(default_factory=dict)
    pins: set[str] = field(default_factory=set)
    delivered_msgs: int | None = None
    """Messages sent to its inboxes since they were found."""

    def add(self, request: TappedRequest, size_bytes: int, at_us: int) -> None:
        """Count a request."""
        self.requests_count += 1
        self.request_bytes += size_bytes
        self.last_at_us = at_us
        self._mark({request.about: 1}, {request.pin} if request.pin else set(), request.wait_s)

    def take(self, other_tally: _Tally) -> None:
        """Add the counts of another tally."""
        self.requests_count += other_tally.requests_count
        self.request_bytes += other_tally.request_bytes
        self.last_at_us = max(self.last_at_us, other_tally.last_at_us)
        self._mark(other_tally.about, other_tally.pins, other_tally.longest_wait_s)

    def _mark(self, about_counts: dict[str, int], pins: set[str], wait_s: float | None) -> None:
        for subject, count in about_counts.items():
            if subject in self.about or len(self.about) < _MOST_ABOUT:
                self.about[subject] = self.about.get(subject, 0) + count
        if len(self.pins) < _MOST_ABOUT:
            self.pins |= pins
        if wait_s is not None:
            self.longest_wait_s = max(wait_s, self.longest_wait_s or 0.0)

    def asker(self, connection: ClientConnection | None, account: str | None) -> Requester:
        """Return the counts as a value."""
        frequent = sorted(self.about, key=lambda subject: -self.about[subject])
        return Requester(
            connection=connection,
            account=account,
            requests_count=self.requests_count,
            request_bytes=self.request_bytes,
            last_at_us=self.last_at_us,
            about=tuple(frequent),
            pins=tuple(sorted(self.pins)),
            longest_wait_s=self.longest_wait_s,
            delivered_msgs=self.delivered_msgs,
        )


class ReplyTap:
    """Reads the requests on some subjects, and finds the connections that sent them."""

    def __init__(
        self,
        subjects: Sequence[str],
        note: Callable[[Msg], TappedRequest],
        *,
        for_s: float,
        most_msgs: int = MOST_MSGS,
        ends_on: str | None = None,
        stop: asyncio.Event | None = None,
    ) -> None:
        """Create a tap; a message on `ends_on` reports that the tapped asset is deleted; `stop`
        ends it early.
        """
        self._subjects = subjects
        self._note = note
        self._for_s = for_s
        self._most_msgs = most_msgs
        self._ends_on = ends_on
        self._subscriptions: list[Subscription] = []
        self._denied: PermissionDenied | None = None
        self._lost_count: Callable[[], int] = int
        self._stop_wanted = stop or asyncio.Event()
        self._ended = asyncio.Event()
        self._why: str | None = None
        self._read_msgs = self._read_bytes = self._anonymous_msgs = self._crowded_msgs = 0
        self._fresh: dict[str, _Tally] = {}
        self._tried: dict[str, _Tally] = {}
        """Inboxes that were searched, without a subscriber."""
        self._known: dict[str, tuple[tuple[str, int], ...]] = {}
        """Subscription → its clients."""
        self._inboxes: dict[str, tuple[str, dict[tuple[str, int], int]]] = {}
        """Subscription → one of its inboxes, and the delivered count of each client when it was
        found.
        """
        self._clients: dict[tuple[str, int], tuple[ClientConnection, _Tally]] = {}
        self._accounts: dict[str, _Tally] = {}

    async def begin(self, client: Client, servers: ServerRequests) -> None:
        """Subscribe; the tap is exact from here on. Raises what `ServerRequests.ask` raises."""
        # Who may not ask for connections shall be told before anything is read.
        await servers.ask(CONNZ, {"limit": 1})
        stats = client.nc.stats
        before_count = stats["reconnects"]

        async def deleted(message: Msg) -> None:
            if not client.is_of_other_domain(message.data):
                self._stop("it was deleted")

        self._lost_count = lambda: int(stats["reconnects"] - before_count)
        try:
            for subject in self._subjects:
                subscription = await client.subscribe(subject, self._take, self._deny)
                # The server stops by itself, also when nobody can tell it to any more.
                await subscription.unsubscribe(limit=2 * self._most_msgs)
                self._subscriptions.append(subscription)
            if self._ends_on is not None:
                # Who may not hear it reads until the time is over.
                subscription = await client.subscribe(self._ends_on, deleted)
                self._subscriptions.append(subscription)
            # Its answer comes after everything that the server says of the subscriptions.
            await servers.ask(CONNZ, {"limit": 1})
            if self._denied is not None:
                raise self._denied
        except BaseException:
            await self._end()
            raise

    async def run(self, servers: ServerRequests) -> TappedRequests:
        """Read until the time is over or enough came, and return the clients."""
        begun_s = time.monotonic()
        try:
            while self._why is None:
                left_s = begun_s + self._for_s - time.monotonic()
                if left_s <= 0:
                    self._stop(f"natstui read for {duration_text(self._for_s)}")
                    break
                if self._stop_wanted.is_set():
                    self._stop("reading was stopped")
                elif self._lost_count():
                    self._stop("the connection was lost: messages of that time are missing")
                await self._match_newest(servers)
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(_ASK_EVERY_S, left_s)):
                        await self._ended.wait()
            elapsed_s = time.monotonic() - begun_s
        finally:
            await self._end()
        # A server that was too slow to answer may answer now.
        often = sorted(self._tried, key=lambda inbox: self._tried[inbox].requests_count)
        self._fresh |= {inbox: self._tried.pop(inbox) for inbox in often[-_AGAIN_COUNT:]}
        for _ in range(_LAST_QUESTIONS):
            if not await self._match_newest(servers):
                break
        await self._count_delivered(servers)
        return self._heard(elapsed_s, servers)

    async def _count_delivered(self, servers: ServerRequests) -> None:
        """Search the newest inboxes again: what was delivered to each since it was found."""
        for subject in list(self._inboxes)[-_LAST_QUESTIONS:]:
            inbox, before = self._inboxes[subject]
            try:
                connections = await listeners(servers, inbox)
            except (RequestFailed, ServerGone):
                # Without an answer it is not known, and what was read stays true.
                return
            for subscriber in listeners_of(connections.rows, inbox):
                key = subscriber.connection.key
                if key in before and subscriber.by.subject == subject:
                    tally = self._clients[key][1]
                    got_msgs = max(0, subscriber.by.delivered_msgs - before[key])
                    tally.delivered_msgs = (tally.delivered_msgs or 0) + got_msgs

    async def _match_newest(self, servers: ServerRequests) -> bool:
        """Search the client of the newest request's inbox, if there is one to search."""
        if not self._fresh:
            return False
        # The newest: some clients use an inbox for one request only.
        inbox = next(reversed(self._fresh))
        try:
            connections = await listeners(servers, inbox)
        except ServerGone as gone:
            self._stop(str(gone))
            return False
        except RequestFailed as failed:
            self._stop(str(failed))
            return False
        subscribers = listeners_of(connections.rows, inbox)
        for subscriber in subscribers:
            self._clients.setdefault(subscriber.connection.key, (subscriber.connection, _Tally()))
            keys = self._known.get(subscriber.by.subject, ())
            if subscriber.connection.key not in keys:
                self._known[subscriber.by.subject] = (*keys, subscriber.connection.key)
                _, delivered_by_client = self._inboxes.setdefault(
                    subscriber.by.subject, (inbox, {})
                )
                delivered_by_client[subscriber.connection.key] = subscriber.by.delivered_msgs
        if not subscribers and inbox in self._fresh:
            self._tried[inbox] = self._fresh.pop(inbox)
        for waiting in (self._fresh, self._tried):
            for name in list(waiting):
                self._hand_over(waiting, name)
        return True

    def _hand_over(self, waiting: dict[str, _Tally], inbox: str) -> None:
        owner = self._owner_of(inbox)
        if owner is not None:
            self._clients[owner][1].take(waiting.pop(inbox))

    def _owner_of(self, inbox: str) -> tuple[str, int] | None:
        """Return the client of an inbox, if the servers reported it or one beside it."""
        if not self._known:
            return None
        tokens = inbox.split(".")
        forms = [inbox, ".".join((*tokens[:-1], "*"))]
        forms += [".".join((*tokens[:count], ">")) for count in range(len(tokens) - 1, 0, -1)]
        keys = next((self._known[form] for form in forms if form in self._known), None)
        return None if keys is None else keys[0]

    def _stop(self, reason: str) -> None:
        if self._why is None:
            self._why = reason
            self._ended.set()

    def _deny(self, error: PermissionDenied) -> None:
        self._denied = error

    async def _take(self, message: Msg) -> None:
        if self._why is not None:
            return
        size_bytes = len(message.subject) + len(message.reply) + len(message.data)
        self._read_msgs += 1
        self._read_bytes += size_bytes
        if self._read_msgs >= self._most_msgs:
            self._stop(f"it read {self._most_msgs:,} messages")
        elif self._read_bytes >= _MOST_BYTES:
            self._stop(f"it read {bytes_text(_MOST_BYTES)}")
        if not message.reply:
            self._anonymous_msgs += 1
            return
        tally = self._tally_of(message)
        if tally is None:
            self._crowded_msgs += 1
        else:
            tally.add(self._note(message), size_bytes, time.time_ns() // 1000)

    def _tally_of(self, message: Msg) -> _Tally | None:
        """Return the tally of a request; None when there are too many inboxes."""
        inbox = message.reply
        if inbox.startswith(_IMPORTED):
            account = _account_of(message)
            if account in self._accounts or len(self._accounts) < _MOST_INBOXES:
                return self._accounts.setdefault(account, _Tally())
            return None
        owner = self._owner_of(inbox)
        if owner is not None:
            return self._clients[owner][1]
        if inbox in self._tried:
            return self._tried[inbox]
        if inbox not in self._fresh and len(self._fresh) + len(self._tried) >= _MOST_INBOXES:
            return None
        return self._fresh.setdefault(inbox, _Tally())

    def _heard(self, elapsed_s: float, servers: ServerRequests) -> TappedRequests:
        requesters = [
            tally.asker(connection, None) for connection, tally in self._clients.values()
        ]
        requesters += [tally.asker(None, account) for account, tally in self._accounts.items()]
        unmatched_tallies = [*self._fresh.values(), *self._tried.values()]
        return TappedRequests(
            elapsed_s=elapsed_s,
            ended=self._why or "",
            read_msgs=self._read_msgs,
            read_bytes=self._read_bytes,
            questions_count=servers.asked_count,
            requesters=tuple(sorted(requesters, key=lambda requester: -requester.requests_count)),
            anonymous_msgs=self._anonymous_msgs,
            gone_msgs=self._crowded_msgs
            + sum(tally.requests_count for tally in unmatched_tallies),
        )

    async def _end(self) -> None:
        await unsubscribe(*self._subscriptions)
        self._subscriptions = []


class _RequestInfo(msgspec.Struct):
    acc: str = ""


def _account_of(message: Msg) -> str:
    """Return the account of a request; empty when the server does not send it."""
    try:
        info = decoder_of(_RequestInfo).decode((message.headers or {}).get(_INFO, "{}"))
    except (msgspec.DecodeError, RecursionError):
        return ""
    return info.acc
