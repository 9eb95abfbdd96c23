"""The API audit: counts the requests to the account's JetStream API for a limited time.

While there is a subscriber, the server publishes each request with its complete reply, including
those of natstui's own polling. So an audit runs only when a user wants it, and natstui sends no
requests during it.
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
    MAX_AUDITED_BYTES,
    MAX_AUDITED_MSGS,
    MAX_AUDITED_PER_S,
    ApiAudit,
    AuditedRequests,
)
from natstui.units import duration_text

_AUDIT_SUBJECT = "$JS.EVENT.ADVISORY.API"
_API_PREFIX = "$JS.API."
_MAX_GROUPS_COUNT = 1_000
_MAX_LISTED_GROUPS = 100
_ERROR_SEARCH_CHARACTERS = 300
"""Characters of a reply searched for an error: `type` and `error` come first in every reply."""
_CHECK_INTERVAL_S = 0.25


class _ClientInfo(msgspec.Struct):
    id: int = 0
    name: str | None = None
    host: str | None = None
    user: str | None = None
    server: str | None = None
    """Name of the server to which the client is connected; `id` is unique only on this server."""


class _ApiAdvisory(msgspec.Struct):
    subject: str
    client: _ClientInfo | None = None
    response: str = ""


class _ApiError(msgspec.Struct):
    code: int = 0
    err_code: int | None = None
    description: str = ""


class _ErrorResponse(msgspec.Struct):
    error: _ApiError | None = None


class _RequestGroup(NamedTuple):
    """The properties of a request; requests with equal properties are counted together."""

    request: str
    client: str
    user: str | None
    err_code: int | None
    error: str | None


async def read_api_audit(client: Client, for_s: float) -> ApiAudit:
    """Return the API requests that other clients of the account send within `for_s`.

    Raises PermissionDenied if the user may not subscribe, and what `request` raises.
    """
    # Requests are published a little after their replies: those of the last polls may still come.
    counter = _RequestCounter(client.nc.client_id, client.nc.server_info.get("server_name"))
    reconnects_count = client.nc.stats["reconnects"]
    subscription = await client.subscribe(_AUDIT_SUBJECT, counter.add, counter.deny)
    try:
        # The reply arrives after any denial of the subscription.
        await client.request("INFO")
        if counter.denial is not None:
            raise counter.denial
        start_s = time.monotonic()
        while counter.end_text is None:
            left_s = start_s + for_s - time.monotonic()
            if left_s <= 0:
                counter.end(f"natstui read for {duration_text(for_s)}")
            elif client.nc.stats["reconnects"] != reconnects_count:
                counter.end("the connection was lost: requests of that time are missing")
            else:
                with suppress(TimeoutError):
                    async with asyncio.timeout(min(_CHECK_INTERVAL_S, left_s)):
                        await counter.end_event.wait()
        return counter.make_audit(time.monotonic() - start_s)
    finally:
        await unsubscribe(subscription)


class _RequestCounter:
    """Counts requests by their properties, until too many arrive."""

    def __init__(self, own_client_id: int | None, own_server: str | None) -> None:
        self.denial: PermissionDenied | None = None
        self.end_text: str | None = None
        self.end_event = asyncio.Event()
        self._own_client = (own_client_id, own_server)
        self._request_groups: Counter[_RequestGroup] = Counter()
        self._errors_count = self._left_out_count = 0
        self._read_msgs = self._read_bytes = 0
        self._current_second, self._current_second_msgs = 0, 0

    def deny(self, error: PermissionDenied) -> None:
        """Store the denial of the subscription."""
        self.denial = error

    def end(self, reason: str) -> None:
        """Stop counting, and store the reason."""
        self.end_text = f"ended: {reason}"
        self.end_event.set()

    async def add(self, message: Msg) -> None:
        """Count one request."""
        if self.end_text is not None:
            return
        self._read_msgs += 1
        self._read_bytes += len(message.data)
        try:
            self._count_request(read(_AUDIT_SUBJECT, message.data, _ApiAdvisory))
        except RequestFailed:
            # Other clients may publish on this subject: such a message is only counted.
            self._left_out_count += 1
        second = int(time.monotonic())
        self._current_second_msgs = (
            self._current_second_msgs + 1 if second == self._current_second else 1
        )
        self._current_second = second
        if self._current_second_msgs >= MAX_AUDITED_PER_S:
            self.end(f"more than {MAX_AUDITED_PER_S:,} requests arrived in one second")
        elif self._read_msgs >= MAX_AUDITED_MSGS or self._read_bytes >= MAX_AUDITED_BYTES:
            self.end("the limit of messages to read was reached")

    def _count_request(self, advisory: _ApiAdvisory) -> None:
        request = advisory.subject.removeprefix(_API_PREFIX)
        client_info = advisory.client or _ClientInfo()
        if (client_info.id, client_info.server) == self._own_client:
            return
        error = None
        if '"error"' in advisory.response[:_ERROR_SEARCH_CHARACTERS]:
            error = read(_AUDIT_SUBJECT, advisory.response.encode(), _ErrorResponse).error
        self._errors_count += error is not None
        group = _RequestGroup(
            request, client_info.name or client_info.host or "a client", client_info.user,
            None if error is None else error.err_code or error.code,
            None if error is None else error.description,
        )  # fmt: skip
        if group in self._request_groups or len(self._request_groups) < _MAX_GROUPS_COUNT:
            self._request_groups[group] += 1
        else:
            self._left_out_count += 1

    def make_audit(self, elapsed_s: float) -> ApiAudit:
        """Return the counts as an audit."""
        groups = self._request_groups.most_common()
        requests = tuple(AuditedRequests(*group, count) for group, count in groups)
        listed_requests = requests[:_MAX_LISTED_GROUPS]
        grouped_count = sum(request.times_count for request in requests)
        left_out_count = (
            self._left_out_count
            + grouped_count
            - sum(request.times_count for request in listed_requests)
        )
        return ApiAudit(
            elapsed_s, self.end_text or "", listed_requests, grouped_count + self._left_out_count,
            self._errors_count, left_out_count, self._read_msgs, self._read_bytes,
        )  # fmt: skip
