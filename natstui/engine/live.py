"""The live sources of an engine: the connection, the poller, and readers of events and servers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine

from natstui.clean import clean_line
from natstui.config import Connection
from natstui.errors import (
    ActionRefusal,
    AuthenticationFailed,
    ConnectionFailed,
    ConnectionLost,
    PermissionDenied,
    RequestFailed,
)
from natstui.feed import Sink
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.link import OnLink
from natstui.jetstream.events.subscriptions import read_events
from natstui.jetstream.managing.silences import follow_silences
from natstui.jetstream.polling.bulk.account import poll_account
from natstui.jetstream.polling.control import PollControl
from natstui.jetstream.polling.poller import poll
from natstui.jetstream.system.bulk import JszSource
from natstui.jetstream.system.watching import watch_clients, watch_servers
from natstui.model.live.permissions import read_only_account_text
from natstui.model.records.link import LinkChanged
from natstui.model.records.managing import ManagingCommand, ReadJournal, SaveTemplate
from natstui.model.records.messages import StopTail
from natstui.model.records.record import EngineCommand, Unavailable
from natstui.model.records.system import ReadServers, StopReadingClients
from natstui.model.records.tap import StopTap

_RETRY_DELAY_S = 1.0
_RETRY_DELAY_REFUSED_S = 3.0
_USER_INFO_SUBJECT = "USER.INFO"


async def watch_server(
    connection: Connection,
    poll_control: PollControl,
    sink: Sink,
    requests_per_s: float | None,
    on_client: Callable[[Client], None],
    *,
    polls_connections: bool = False,
) -> None:
    """Connect, retrying without limit, then poll and read events until cancelled.

    `sink` receives all records. `on_client` gets the connection when it is open; with
    `polls_connections` each connection of a client is read, too. Raises UsageError for an invalid
    connection.
    """
    reconnect_callbacks: list[Callable[[], None]] = []

    def on_link(change: LinkChanged) -> None:
        sink.add(change)
        if change.state == "connected":
            for reconnect_callback in reconnect_callbacks:
                reconnect_callback()

    # Outside the group, which would wrap the error of an invalid connection.
    client = await _connect(connection, sink, on_link)
    try:
        on_client(client)
        async with asyncio.TaskGroup() as tasks:

            def on_reconnected() -> None:
                poll_control.poll_soon()
                tasks.create_task(_report_permissions(client, sink))

            reconnect_callbacks.append(on_reconnected)
            try:
                tasks.create_task(_report_permissions(client, sink))
                readers = make_background_readers(
                    client, sink, requests_per_s, polls_connections=polls_connections
                )
                for reader in readers:
                    tasks.create_task(reader)
                await make_poller(client, poll_control, sink, requests_per_s)
            finally:
                reconnect_callbacks.clear()
    finally:
        await client.close()


def make_poller(
    client: Client, poll_control: PollControl, sink: Sink, requests_per_s: float | None
) -> Coroutine[None, None, None]:
    """Return the coroutine that polls until cancelled.

    It polls the connection's own account, or the other account that the connection names.
    """
    jsz_source = JszSource(client)
    if client.connection.account is not None:
        return poll_account(client, poll_control, sink, jsz_source)
    return poll(client, poll_control, sink, requests_per_s, jsz_source)


def make_background_readers(
    client: Client,
    sink: Sink,
    requests_per_s: float | None = None,
    *,
    polls_connections: bool = False,
) -> list[Coroutine[None, None, None]]:
    """Return the coroutines that run beside the poller until cancelled.

    They read the servers and, unless the connection watches another account, also advisories, the
    findings that the user silenced, and a summary of the clients. With `polls_connections`, the
    busiest connections of clients are also reported one by one.
    """
    if client.connection.account is not None:
        return [watch_servers(client, sink, requests_per_s)]
    return [
        read_events(client, sink),
        follow_silences(client, sink),
        watch_servers(client, sink, requests_per_s),
        watch_clients(client, sink, connections=polls_connections),
    ]


_COMMANDS_WITHOUT_ACCOUNT = (
    ReadServers | ReadJournal | SaveTemplate | StopTail | StopTap | StopReadingClients
)
"""Commands that need no account: they read servers or local files, or stop something."""


def refuse_for_other_account(
    connection: Connection, command: EngineCommand | ManagingCommand
) -> None:
    """Raise ActionRefusal for a command if the connection names another account.

    The command would be executed in the connection's own account.
    """
    if connection.account is not None and not isinstance(command, _COMMANDS_WITHOUT_ACCOUNT):
        raise ActionRefusal(read_only_account_text(clean_line(connection.account)))


async def _connect(connection: Connection, sink: Sink, on_link: OnLink) -> Client:
    """Connect, retrying without limit, and return the client; report each new error to `sink`.

    `on_link` is called with each change of the connection.
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
        await asyncio.sleep(_RETRY_DELAY_REFUSED_S if is_refused else _RETRY_DELAY_S)


async def _report_permissions(client: Client, sink: Sink) -> None:
    """Add a record of the user's permissions, or of the reason why they cannot be read."""
    if client.connection.account is not None:
        # The permissions say nothing about another account.
        return
    try:
        sink.add(await client.permissions())
    except (RequestFailed, ConnectionLost) as error:
        denied_subject = error.subject if isinstance(error, PermissionDenied) else None
        sink.add(Unavailable(_now_us(), _USER_INFO_SUBJECT, str(error), denied_subject))


def _now_us() -> int:
    return time.time_ns() // 1000
