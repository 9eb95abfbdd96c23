"""`natstui connections` and `kick`: list the connections of the account, and close one."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from natstui.clean import clean_line
from natstui.cli.clients.rows import (
    TrafficByServerAndConnectionId,
    connection_lines,
    connections_json,
)
from natstui.cli.connected import await_with_progress
from natstui.cli.manage.writing import change_system
from natstui.cli.options import SEQUENCE, change_flags, connection_options, parse_reading_seconds
from natstui.cli.sections import command
from natstui.cli.text_table import stdout_width
from natstui.config import Connection
from natstui.errors import NotFound, UsageError
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.system.connections import read_connection_on_server, read_connections
from natstui.jetstream.system.kicking import kick as kick_connection
from natstui.jetstream.system.requests import ServerRequests
from natstui.jetstream.system.source import SystemConnection
from natstui.model.clients.connection import ClientConnection, Connections, traffic_between
from natstui.model.records.system import KickConnection

if TYPE_CHECKING:
    from natstui.config.settings import Settings


@command()
@click.option(
    "--closed",
    is_flag=True,
    help="List closed connections, as far as servers remember them, and why they closed.",
)
@click.option(
    "--for", "for_text", metavar="TIME",
    help="Read twice with this pause, and print the rates.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@connection_options
def connections(
    settings: Settings, connection: Connection, closed: bool, for_text: str | None, as_json: bool
) -> None:
    """List the connections of the account.

    Lists all servers, with the messages each client sent (IN) and received (OUT). SLOW marks a
    client that did not read fast enough: publishers had to wait, or the server closed the
    connection. No system account is needed.
    """
    for_s = None if for_text is None else parse_reading_seconds(for_text, "--for")
    connections_read, rates = asyncio.run(
        await_with_progress(_read_connections(connection, for_s, closed=closed))
    )
    if as_json:
        click.echo(connections_json(connections_read, rates))
        return
    for line in connection_lines(
        connections_read, rates, closed=closed, width_cells=stdout_width()
    ):
        click.echo(line)


async def _read_connections(
    connection: Connection, for_s: float | None, *, closed: bool
) -> tuple[Connections, TrafficByServerAndConnectionId | None]:
    client = await connect(connection)
    try:
        servers = ServerRequests(client)
        first_reading = await read_connections(client, servers, closed=closed)
        if for_s is None:
            return first_reading, None
        await asyncio.sleep(for_s)
        second_reading = await read_connections(client, servers, closed=closed)
        return second_reading, traffic_between(first_reading, second_reading)
    finally:
        await client.close()


@command()
@click.argument("node", metavar="SERVER")
@click.argument("connection_id", metavar="NUMBER", type=SEQUENCE)
@change_flags
@connection_options
def kick(connection: Connection, node: str, connection_id: int, **flags: Any) -> None:
    """Close one client connection.

    NUMBER is the connection on SERVER (a name or id); `natstui connections --json` prints both.
    Needs the system account. The client may reconnect by itself.
    """
    kicked_connection: ClientConnection | None = None

    async def work(writer: Writer, _: SystemConnection, confirmed_name: str | None) -> str:
        nonlocal kicked_connection
        # The number may be another connection's when the name is typed.
        if kicked_connection is None:
            kicked_connection = await _find_connection(writer.client, node, connection_id)
        server_id, started_at_us = kicked_connection.server_id, kicked_connection.started_at_us
        kick_command = KickConnection(0, server_id, connection_id, started_at_us, confirmed_name)
        return await kick_connection(writer, None, kick_command)

    click.echo(clean_line(change_system(connection, flags, work)))


async def _find_connection(client: Client, server: str, connection_id: int) -> ClientConnection:
    """Return the connection with an id on a server.

    Raises UsageError for an unknown or ambiguous server, NotFound for an unknown or closed
    connection.
    """
    replies = await ServerRequests(client).request_all("$SYS.REQ.SERVER.PING.STATSZ", {})
    matching_replies = [reply for reply in replies if server in (reply.name, reply.server_id)]
    if len(matching_replies) != 1:
        server_names = ", ".join(sorted(reply.name for reply in replies))
        reason = (
            "is the name of several servers: use the server id"
            if matching_replies
            else f"is none of {server_names}"
        )
        raise UsageError(f"{server} {reason}")
    client_connection = await read_connection_on_server(
        ServerRequests(client), matching_replies[0].server_id, connection_id
    )
    if client_connection is None or client_connection.stopped_at_us is not None:
        raise NotFound(f"{server} has no connection {connection_id}")
    return client_connection
