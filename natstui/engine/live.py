"""The live sources of an engine: the connection, the poller and the server's announcements."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from natstui.config import Connection
from natstui.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    PermissionDenied,
    RequestFailed,
    ServerGone,
)
from natstui.feed import Sink
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.link import OnLink
from natstui.jetstream.events.subscriptions import listen
from natstui.jetstream.managing.silences import follow_silences
from natstui.jetstream.polling.control import PollControl
from natstui.jetstream.polling.poller import poll
from natstui.jetstream.system.bulk import BulkAnswers
from natstui.model.records.record import LinkChanged, Unavailable

_RETRY_S = 1.0
_RETRY_REFUSED_S = 3.0
_USER_INFO = "USER.INFO"


async def watch_server(
    connection: Connection,
    control: PollControl,
    sink: Sink,
    requests_per_s: float | None,
    on_client: Callable[[Client], None],
) -> None:
    """Connect, for as long as it takes, then poll and listen until cancelled.

    `on_client` gets the connection once there is one. Raises UsageError for a connection that
    cannot even be tried.
    """
    on_connected: list[Callable[[], None]] = []

    def on_link(change: LinkChanged) -> None:
        sink.add(change)
        if change.state == "connected":
            for call in on_connected:
                call()

    # Outside the group, which would wrap the error of a connection that cannot be tried.
    client = await _connect(connection, sink, on_link)
    try:
        on_client(client)
        async with asyncio.TaskGroup() as tasks:

            def connected_again() -> None:
                control.poll_soon()
                tasks.create_task(_report_permissions(client, sink))

            on_connected.append(connected_again)
            try:
                tasks.create_task(_report_permissions(client, sink))
                tasks.create_task(listen(client, sink))
                tasks.create_task(follow_silences(client, sink))
                await poll(client, control, sink, requests_per_s, BulkAnswers(client))
            finally:
                on_connected.clear()
    finally:
        await client.close()


async def _connect(connection: Connection, sink: Sink, on_link: OnLink) -> Client:
    """Try until there is a connection; report each new reason why there is none."""
    sink.add(LinkChanged(_now_us(), "connecting", None))
    reason = None
    while True:
        try:
            return await connect(connection, on_link=on_link)
        except ConnectionFailed as error:
            if str(error) != reason:
                reason = str(error)
                sink.add(LinkChanged(_now_us(), "failed", reason))
            refused = isinstance(error, AuthenticationFailed)
        await asyncio.sleep(_RETRY_REFUSED_S if refused else _RETRY_S)


async def _report_permissions(client: Client, sink: Sink) -> None:
    """Report what the user may do, or that the user may not ask for it."""
    try:
        sink.add(await client.permissions())
    except (RequestFailed, ServerGone) as error:
        denied = error.subject if isinstance(error, PermissionDenied) else None
        sink.add(Unavailable(_now_us(), _USER_INFO, str(error), denied))


def _now_us() -> int:
    return time.time_ns() // 1000
