"""The live sources of an engine: the connection, the poller and the server's announcements."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine

from natstui.clean import clean_line
from natstui.config import Connection
from natstui.errors import (
    AuthenticationFailed,
    ConnectionFailed,
    PermissionDenied,
    Refused,
    RequestFailed,
    ServerGone,
)
from natstui.feed import Sink
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.link import OnLink
from natstui.jetstream.events.subscriptions import listen
from natstui.jetstream.managing.silences import follow_silences
from natstui.jetstream.polling.bulk.account import poll_account
from natstui.jetstream.polling.control import PollControl
from natstui.jetstream.polling.poller import poll
from natstui.jetstream.system.bulk import BulkAnswers
from natstui.jetstream.system.watching import watch_clients, watch_servers
from natstui.model.live.permissions import only_watched
from natstui.model.records.link import LinkChanged
from natstui.model.records.managing import ManagingCommand, ReadJournal, SaveTemplate
from natstui.model.records.messages import StopTail
from natstui.model.records.record import EngineCommand, Unavailable
from natstui.model.records.system import ReadServers, StopReadingClients
from natstui.model.records.tap import StopTap

_RETRY_S = 1.0
_RETRY_REFUSED_S = 3.0
_USER_INFO = "USER.INFO"


async def watch_server(
    connection: Connection,
    control: PollControl,
    sink: Sink,
    requests_per_s: float | None,
    on_client: Callable[[Client], None],
    *,
    connections: bool = False,
) -> None:
    """Connect, for as long as it takes, then poll and listen until cancelled.

    `on_client` gets the connection once there is one; `connections` adds the clients' connections
    one by one. Raises UsageError for a connection that cannot even be tried.
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
                works = beside_polling(client, sink, requests_per_s, connections=connections)
                for work in works:
                    tasks.create_task(work)
                await polling(client, control, sink, requests_per_s)
            finally:
                on_connected.clear()
    finally:
        await client.close()


def polling(
    client: Client, control: PollControl, sink: Sink, requests_per_s: float | None
) -> Coroutine[None, None, None]:
    """Poll the connection's own account, or the other account that it names, until cancelled."""
    bulk = BulkAnswers(client)
    if client.connection.account is not None:
        return poll_account(client, control, sink, bulk)
    return poll(client, control, sink, requests_per_s, bulk)


def beside_polling(
    client: Client,
    sink: Sink,
    requests_per_s: float | None = None,
    *,
    connections: bool = False,
) -> list[Coroutine[None, None, None]]:
    """Return what runs beside the poller until cancelled: advisories and servers; none of another
    account.
    """
    if client.connection.account is not None:
        return [watch_servers(client, sink, requests_per_s)]
    return [
        listen(client, sink),
        follow_silences(client, sink),
        watch_servers(client, sink, requests_per_s),
        watch_clients(client, sink, connections=connections),
    ]


_OF_NO_ACCOUNT = ReadServers | ReadJournal | SaveTemplate | StopTail | StopTap | StopReadingClients
"""Commands that need no account: they read servers or local files, or stop something."""


def refuse_for_other_account(
    connection: Connection, command: EngineCommand | ManagingCommand
) -> None:
    """Raise Refused for a command to another account than the connection's: it would reach our
    own.
    """
    if connection.account is not None and not isinstance(command, _OF_NO_ACCOUNT):
        raise Refused(only_watched(clean_line(connection.account)))


async def _connect(connection: Connection, sink: Sink, on_link: OnLink) -> Client:
    """Retry until there is a connection, and return it; report each new reason why there is
    none.
    """
    sink.add(LinkChanged(_now_us(), "connecting", None))
    reason = None
    while True:
        try:
            return await connect(connection, on_link=on_link)
        except ConnectionFailed as error:
            if str(error) != reason:
                reason = str(error)
                sink.add(LinkChanged(_now_us(), "failed", reason))
            is_refused = isinstance(error, AuthenticationFailed)
        await asyncio.sleep(_RETRY_REFUSED_S if is_refused else _RETRY_S)


async def _report_permissions(client: Client, sink: Sink) -> None:
    """Report the user's permissions, or that the server does not show them."""
    if client.connection.account is not None:
        # It says nothing of another account.
        return
    try:
        sink.add(await client.permissions())
    except (RequestFailed, ServerGone) as error:
        denied_subject = error.subject if isinstance(error, PermissionDenied) else None
        sink.add(Unavailable(_now_us(), _USER_INFO, str(error), denied_subject))


def _now_us() -> int:
    return time.time_ns() // 1000
