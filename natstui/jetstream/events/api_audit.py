"""The API audit: reads each request to the account's JetStream API for a bounded time.

The server publishes each request with its complete reply while there is a subscriber, including
those of our own polling: so it is read on request only, and while natstui sends no others.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from contextlib import suppress
from typing import NamedTuple

import msgspec
from nats.aio.msg import Msg

from natstui.errors import PermissionDenied, RequestFailed
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.nats_client import unsubscribe
from natstui.jetstream.connection.replies import read
from natstui.model.clients.api_audit import (
    MOST_AUDITED_BYTES,
    MOST_AUDITED_MSGS,
    MOST_AUDITED_PER_S,
    ApiAudit,
    AuditedRequests,
)
from natstui.units import duration_text

_SUBJECT = "$JS.EVENT.ADVISORY.API"
_PREFIX = "$JS.API."
_MOST_DIFFERENT = 1_000
_LISTED_COUNT = 100
_ERROR_CHARACTERS = 300
"""`type` and `error` come first in every reply, so a big one need not be read completely."""
_CHECK_S = 0.25


class _Client(msgspec.Struct):
    id: int = 0
    name: str | None = None
    host: str | None = None
    user: str | None = None
    server: str | None = None
    """The name of the server that the client is connected to: `id` is unique there only."""


class _Advisory(msgspec.Struct):
    subject: str
    client: _Client | None = None
    response: str = ""


class _Error(msgspec.Struct):
    code: int = 0
    err_code: int | None = None
    description: str = ""


class _Response(msgspec.Struct):
    error: _Error | None = None


class _Alike(NamedTuple):
    """The common properties of counted requests."""

    request: str
    client: str
    user: str | None
    err_code: int | None
    error: str | None


async def read_api_audit(client: Client, for_s: float) -> ApiAudit:
    """Return the API requests of other clients of the account within `for_s`.

    Raises PermissionDenied when the user may not subscribe, and what `request` raises.
    """
    # The server tells of requests a moment after their replies: of our last polls even now.
    reading = _Reading(client.nc.client_id, client.nc.server_info.get("server_name"))
    reconnects_count = client.nc.stats["reconnects"]
    subscription = await client.subscribe(_SUBJECT, reading.add, reading.deny)
    try:
        # The reply comes after everything that the server says of the subscription.
        await client.request("INFO")
        if reading.denied is not None:
            raise reading.denied
        begun_s = time.monotonic()
        while reading.ended is None:
            left_s = begun_s + for_s - time.monotonic()
            if left_s <= 0:
                reading.end(f"natstui read for {duration_text(for_s)}")
            elif client.nc.stats["reconnects"] != reconnects_count:
                reading.end("the connection was lost: requests of that time are missing")
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(_CHECK_S, left_s)):
                        await reading.is_over.wait()
        return reading.audit(time.monotonic() - begun_s)
    finally:
        await unsubscribe(subscription)


class _Reading:
    """Counts requests with equal properties, until too many come."""

    def __init__(self, own_id: int | None, own_server: str | None) -> None:
        self.denied: PermissionDenied | None = None
        self.ended: str | None = None
        self.is_over = asyncio.Event()
        self._own = (own_id, own_server)
        self._alike: Counter[_Alike] = Counter()
        self._errors_count = self._left_out_count = 0
        self._read_msgs = self._read_bytes = 0
        self._second, self._second_msgs = 0, 0

    def deny(self, error: PermissionDenied) -> None:
        """Store why the user may not subscribe."""
        self.denied = error

    def end(self, reason: str) -> None:
        """Stop reading."""
        self.ended = f"ended: {reason}"
        self.is_over.set()

    async def add(self, message: Msg) -> None:
        """Count one request."""
        if self.ended is not None:
            return
        self._read_msgs += 1
        self._read_bytes += len(message.data)
        try:
            self._count(read(_SUBJECT, message.data, _Advisory))
        except RequestFailed:
            # Whoever may publish there can forge one: it is counted, and not read.
            self._left_out_count += 1
        second = int(time.monotonic())
        self._second_msgs = self._second_msgs + 1 if second == self._second else 1
        self._second = second
        if self._second_msgs >= MOST_AUDITED_PER_S:
            self.end(f"more than {MOST_AUDITED_PER_S:,} requests arrived in one second")
        elif self._read_msgs >= MOST_AUDITED_MSGS or self._read_bytes >= MOST_AUDITED_BYTES:
            self.end("the limit of messages to read was reached")

    def _count(self, advisory: _Advisory) -> None:
        request = advisory.subject.removeprefix(_PREFIX)
        client_info = advisory.client or _Client()
        if (client_info.id, client_info.server) == self._own:
            return
        error = None
        if '"error"' in advisory.response[:_ERROR_CHARACTERS]:
            error = read(_SUBJECT, advisory.response.encode(), _Response).error
        self._errors_count += error is not None
        group = _Alike(
            request, client_info.name or client_info.host or "a client", client_info.user,
            None if error is None else error.err_code or error.code,
            None if error is None else error.description,
        )  # fmt: skip
        if group in self._alike or len(self._alike) < _MOST_DIFFERENT:
            self._alike[group] += 1
        else:
            self._left_out_count += 1

    def audit(self, elapsed_s: float) -> ApiAudit:
        """Return the counts as an audit."""
        frequent = self._alike.most_common()
        requests = tuple(AuditedRequests(*group, count) for group, count in frequent)
        listed_requests = requests[:_LISTED_COUNT]
        listed_count = sum(request.times_count for request in requests)
        left_out_count = (
            self._left_out_count
            + listed_count
            - sum(request.times_count for request in listed_requests)
        )
        return ApiAudit(
            elapsed_s, self.ended or "", listed_requests, listed_count + self._left_out_count,
            self._errors_count, left_out_count, self._read_msgs, self._read_bytes,
        )  # fmt: skip
