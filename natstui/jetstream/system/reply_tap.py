"""Taps requests: receives them for a limited time, and finds the clients of their reply inboxes.

A tap never subscribes to an inbox: messages would then be delivered although the client has
disconnected. But a tap counts as a responder of the subject: a request without another responder
waits for its timeout instead of failing at once. So a tap is short, and only on subjects of
existing consumers and streams.
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
from natstui.errors import ConnectionLost, PermissionDenied, RequestFailed
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.nats_client import unsubscribe
from natstui.jetstream.system.connections import CONNZ, read_subscribers
from natstui.jetstream.system.requests import ServerRequests
from natstui.model.clients.connection import ClientConnection
from natstui.model.clients.recipients import listeners_of
from natstui.model.clients.requests import Requester, TappedRequests
from natstui.units import bytes_text, duration_text

MAX_TAP_MSGS = 100_000
_MAX_READ_BYTES = 64 * 1024 * 1024
_MAX_UNMATCHED_INBOXES = 5_000
"""Limit of inboxes without a known client; requests with further inboxes have no client."""
_MAX_KEPT_VALUES_COUNT = 20
_SEARCH_INTERVAL_S = 0.1
"""Minimum interval of searches: with thousands of connections, each costs a server some ms."""
_LAST_SEARCHES_COUNT = 50
_RETRIED_INBOXES_COUNT = 20
_IMPORTED_REPLY_PREFIX = "_R_."
"""Start of the reply subject that a server writes for a request of another account."""
_REQUEST_INFO_HEADER = "Nats-Request-Info"


class TappedRequest(NamedTuple):
    """The fields of a request that are counted."""

    subject_or_batch: str
    """Subject of a message, or number of messages that a pull requests."""
    pinned_client_id: str | None = None
    wait_s: float | None = None


@dataclass(slots=True)
class _Tally:
    """Counts of the requests with one inbox, or of one client."""

    requests_count: int = 0
    request_bytes: int = 0
    last_at_us: int = 0
    longest_wait_s: float | None = None
    count_by_subject_or_batch: dict[str, int] = field(default_factory=dict)
    pins: set[str] = field(default_factory=set)
    delivered_msgs: int | None = None
    """Messages delivered to the client's inboxes since they were found; None if unknown."""

    def add(self, request: TappedRequest, size_bytes: int, at_us: int) -> None:
        """Count a request."""
        self.requests_count += 1
        self.request_bytes += size_bytes
        self.last_at_us = at_us
        self._add_fields(
            {request.subject_or_batch: 1},
            {request.pinned_client_id} if request.pinned_client_id else set(),
            request.wait_s,
        )

    def add_tally(self, other_tally: _Tally) -> None:
        """Add the counts of another tally."""
        self.requests_count += other_tally.requests_count
        self.request_bytes += other_tally.request_bytes
        self.last_at_us = max(self.last_at_us, other_tally.last_at_us)
        self._add_fields(
            other_tally.count_by_subject_or_batch, other_tally.pins, other_tally.longest_wait_s
        )

    def _add_fields(
        self, new_counts: dict[str, int], pins: set[str], wait_s: float | None
    ) -> None:
        for subject_or_batch, count in new_counts.items():
            if (
                subject_or_batch in self.count_by_subject_or_batch
                or len(self.count_by_subject_or_batch) < _MAX_KEPT_VALUES_COUNT
            ):
                self.count_by_subject_or_batch[subject_or_batch] = (
                    self.count_by_subject_or_batch.get(subject_or_batch, 0) + count
                )
        if len(self.pins) < _MAX_KEPT_VALUES_COUNT:
            self.pins |= pins
        if wait_s is not None:
            self.longest_wait_s = max(wait_s, self.longest_wait_s or 0.0)

    def make_requester(
        self, connection: ClientConnection | None, account: str | None
    ) -> Requester:
        """Return a requester with these counts: a connection, or another account than ours."""
        frequent_subjects_or_batches = sorted(
            self.count_by_subject_or_batch,
            key=lambda subject_or_batch: -self.count_by_subject_or_batch[subject_or_batch],
        )
        return Requester(
            connection=connection,
            account=account,
            requests_count=self.requests_count,
            request_bytes=self.request_bytes,
            last_at_us=self.last_at_us,
            about=tuple(frequent_subjects_or_batches),
            pins=tuple(sorted(self.pins)),
            longest_wait_s=self.longest_wait_s,
            delivered_msgs=self.delivered_msgs,
        )


class _FoundInbox(NamedTuple):
    """An inbox whose clients were found."""

    inbox: str
    delivered_by_client: dict[tuple[str, int], int]
    """Client → number of messages that were delivered to it when it was found."""


class ReplyTap:
    """Receives the requests on some subjects, and finds the connections that sent them."""

    def __init__(
        self,
        subjects: Sequence[str],
        read_request: Callable[[Msg], TappedRequest],
        *,
        for_s: float,
        max_msgs: int = MAX_TAP_MSGS,
        deletion_subject: str | None = None,
        stop: asyncio.Event | None = None,
    ) -> None:
        """Create a tap of at most `for_s` seconds and `max_msgs` requests.

        `read_request` decodes a request. A message on `deletion_subject` shows that the tapped
        stream or consumer was deleted; `stop` ends the tap early.
        """
        self._subjects = subjects
        self._read_request = read_request
        self._max_duration_s = for_s
        self._max_msgs = max_msgs
        self._deletion_subject = deletion_subject
        self._subscriptions: list[Subscription] = []
        self._denied_error: PermissionDenied | None = None
        self._lost_connections_count: Callable[[], int] = int
        self._stop_event = stop or asyncio.Event()
        self._ended_event = asyncio.Event()
        self._end_reason: str | None = None
        self._read_msgs = self._read_bytes = self._anonymous_msgs = self._untallied_msgs = 0
        self._new_tallies: dict[str, _Tally] = {}
        self._unmatched_tallies: dict[str, _Tally] = {}
        """Inbox that was searched without finding a subscriber → its counts."""
        self._clients_by_subject: dict[str, tuple[tuple[str, int], ...]] = {}
        """Subscribed subject → its clients."""
        self._found_inboxes: dict[str, _FoundInbox] = {}
        """Subscribed subject → one of its inboxes."""
        self._clients: dict[tuple[str, int], tuple[ClientConnection, _Tally]] = {}
        self._accounts: dict[str, _Tally] = {}

    async def begin(self, client: Client, servers: ServerRequests) -> None:
        """Subscribe to the requests; from now on, each one is counted.

        Raises what `ServerRequests.request_all` raises.
        """
        # A missing permission to read connections must be reported before the tap begins.
        await servers.request_all(CONNZ, {"limit": 1})
        stats = client.nc.stats
        reconnects_before_count = stats["reconnects"]

        async def on_deleted(message: Msg) -> None:
            if not client.is_of_other_domain(message.data):
                self._end_tap("it was deleted")

        self._lost_connections_count = lambda: int(stats["reconnects"] - reconnects_before_count)
        try:
            for subject in self._subjects:
                subscription = await client.subscribe(subject, self._on_request, self._on_denial)
                # The server ends the subscription by itself, even if it cannot be unsubscribed
                # later.
                await subscription.unsubscribe(limit=2 * self._max_msgs)
                self._subscriptions.append(subscription)
            if self._deletion_subject is not None:
                # Without permission for it, the tap ends when the time is over.
                subscription = await client.subscribe(self._deletion_subject, on_deleted)
                self._subscriptions.append(subscription)
            # Its reply comes after all that the server reports about the subscriptions.
            await servers.request_all(CONNZ, {"limit": 1})
            if self._denied_error is not None:
                raise self._denied_error
        except BaseException:
            await self._unsubscribe()
            raise

    async def run(self, servers: ServerRequests) -> TappedRequests:
        """Receive requests until the time is over or a limit is reached; return their clients."""
        begun_s = time.monotonic()
        try:
            while self._end_reason is None:
                left_s = begun_s + self._max_duration_s - time.monotonic()
                if left_s <= 0:
                    self._end_tap(f"natstui read for {duration_text(self._max_duration_s)}")
                    break
                if self._stop_event.is_set():
                    self._end_tap("reading was stopped")
                elif self._lost_connections_count():
                    self._end_tap("the connection was lost: messages of that time are missing")
                await self._search_newest_inbox(servers)
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(_SEARCH_INTERVAL_S, left_s)):
                        await self._ended_event.wait()
            elapsed_s = time.monotonic() - begun_s
        finally:
            await self._unsubscribe()
        # A server that was too slow to reply may reply now.
        inboxes_by_requests_count = sorted(
            self._unmatched_tallies,
            key=lambda inbox: self._unmatched_tallies[inbox].requests_count,
        )
        self._new_tallies |= {
            inbox: self._unmatched_tallies.pop(inbox)
            for inbox in inboxes_by_requests_count[-_RETRIED_INBOXES_COUNT:]
        }
        for _ in range(_LAST_SEARCHES_COUNT):
            if not await self._search_newest_inbox(servers):
                break
        await self._count_delivered(servers)
        return self._make_result(elapsed_s, servers)

    async def _count_delivered(self, servers: ServerRequests) -> None:
        """Search the newest inboxes again, and count the messages delivered since then."""
        for subject in list(self._found_inboxes)[-_LAST_SEARCHES_COUNT:]:
            inbox, delivered_before_by_client = self._found_inboxes[subject]
            try:
                connections = await read_subscribers(servers, inbox)
            except (RequestFailed, ConnectionLost):
                # Without a reply the count is unknown; the other results stay valid.
                return
            for subscriber in listeners_of(connections.rows, inbox):
                key = subscriber.connection.key
                if key in delivered_before_by_client and subscriber.by.subject == subject:
                    tally = self._clients[key][1]
                    newly_delivered_msgs = max(
                        0, subscriber.by.delivered_msgs - delivered_before_by_client[key]
                    )
                    tally.delivered_msgs = (tally.delivered_msgs or 0) + newly_delivered_msgs

    async def _search_newest_inbox(self, servers: ServerRequests) -> bool:
        """Search the client of the newest inbox whose client is unknown.

        Returns False if there is no such inbox, or the search failed.
        """
        if not self._new_tallies:
            return False
        # The newest: some clients use an inbox for one request only.
        inbox = next(reversed(self._new_tallies))
        try:
            connections = await read_subscribers(servers, inbox)
        except (ConnectionLost, RequestFailed) as error:
            self._end_tap(str(error))
            return False
        subscribers = listeners_of(connections.rows, inbox)
        for subscriber in subscribers:
            self._clients.setdefault(subscriber.connection.key, (subscriber.connection, _Tally()))
            client_keys = self._clients_by_subject.get(subscriber.by.subject, ())
            if subscriber.connection.key not in client_keys:
                self._clients_by_subject[subscriber.by.subject] = (
                    *client_keys,
                    subscriber.connection.key,
                )
                _, delivered_by_client = self._found_inboxes.setdefault(
                    subscriber.by.subject, _FoundInbox(inbox, {})
                )
                delivered_by_client[subscriber.connection.key] = subscriber.by.delivered_msgs
        if not subscribers and inbox in self._new_tallies:
            self._unmatched_tallies[inbox] = self._new_tallies.pop(inbox)
        for tallies in (self._new_tallies, self._unmatched_tallies):
            for name in list(tallies):
                self._move_tally(tallies, name)
        return True

    def _move_tally(self, tallies: dict[str, _Tally], inbox: str) -> None:
        """Move the counts of an inbox to its client, if that is known."""
        client = self._find_client(inbox)
        if client is not None:
            self._clients[client][1].add_tally(tallies.pop(inbox))

    def _find_client(self, inbox: str) -> tuple[str, int] | None:
        """Return the client of an inbox, if a subscription that covers the inbox is known."""
        if not self._clients_by_subject:
            return None
        tokens = inbox.split(".")
        covering_subjects = [inbox, ".".join((*tokens[:-1], "*"))]
        covering_subjects += [
            ".".join((*tokens[:count], ">")) for count in range(len(tokens) - 1, 0, -1)
        ]
        client_keys = next(
            (
                self._clients_by_subject[covering_subject]
                for covering_subject in covering_subjects
                if covering_subject in self._clients_by_subject
            ),
            None,
        )
        return None if client_keys is None else client_keys[0]

    def _end_tap(self, reason: str) -> None:
        if self._end_reason is None:
            self._end_reason = reason
            self._ended_event.set()

    def _on_denial(self, error: PermissionDenied) -> None:
        self._denied_error = error

    async def _on_request(self, message: Msg) -> None:
        if self._end_reason is not None:
            return
        size_bytes = len(message.subject) + len(message.reply) + len(message.data)
        self._read_msgs += 1
        self._read_bytes += size_bytes
        if self._read_msgs >= self._max_msgs:
            self._end_tap(f"it read {self._max_msgs:,} messages")
        elif self._read_bytes >= _MAX_READ_BYTES:
            self._end_tap(f"it read {bytes_text(_MAX_READ_BYTES)}")
        if not message.reply:
            self._anonymous_msgs += 1
            return
        tally = self._find_tally(message)
        if tally is None:
            self._untallied_msgs += 1
        else:
            tally.add(self._read_request(message), size_bytes, time.time_ns() // 1000)

    def _find_tally(self, message: Msg) -> _Tally | None:
        """Return the tally of a request; None if there are too many inboxes."""
        inbox = message.reply
        if inbox.startswith(_IMPORTED_REPLY_PREFIX):
            account = _read_account(message)
            if account in self._accounts or len(self._accounts) < _MAX_UNMATCHED_INBOXES:
                return self._accounts.setdefault(account, _Tally())
            return None
        client = self._find_client(inbox)
        if client is not None:
            return self._clients[client][1]
        if inbox in self._unmatched_tallies:
            return self._unmatched_tallies[inbox]
        if (
            inbox not in self._new_tallies
            and len(self._new_tallies) + len(self._unmatched_tallies) >= _MAX_UNMATCHED_INBOXES
        ):
            return None
        return self._new_tallies.setdefault(inbox, _Tally())

    def _make_result(self, elapsed_s: float, servers: ServerRequests) -> TappedRequests:
        requesters = [
            tally.make_requester(connection, None) for connection, tally in self._clients.values()
        ]
        requesters += [
            tally.make_requester(None, account) for account, tally in self._accounts.items()
        ]
        unmatched_tallies = [*self._new_tallies.values(), *self._unmatched_tallies.values()]
        return TappedRequests(
            elapsed_s=elapsed_s,
            ended=self._end_reason or "",
            read_msgs=self._read_msgs,
            read_bytes=self._read_bytes,
            questions_count=servers.sent_count,
            requesters=tuple(sorted(requesters, key=lambda requester: -requester.requests_count)),
            anonymous_msgs=self._anonymous_msgs,
            gone_msgs=self._untallied_msgs
            + sum(tally.requests_count for tally in unmatched_tallies),
        )

    async def _unsubscribe(self) -> None:
        await unsubscribe(*self._subscriptions)
        self._subscriptions = []


class _RequestInfo(msgspec.Struct):
    acc: str = ""


def _read_account(message: Msg) -> str:
    """Return the account of a request; empty if the server does not send it."""
    try:
        info = decoder_of(_RequestInfo).decode(
            (message.headers or {}).get(_REQUEST_INFO_HEADER, "{}")
        )
    except (msgspec.DecodeError, RecursionError):
        return ""
    return info.acc
