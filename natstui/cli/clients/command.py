"""`natstui connections` and `kick`: the connections of the account, and how one is closed."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import click

from natstui.clean import clean_line
from natstui.cli.clients.rows import Rates, connection_lines, connections_json
from natstui.cli.connected import waited_for
from natstui.cli.manage.writing import change_flags, confirmation, refuse_read_only
from natstui.cli.options import SEQUENCE, connection_options, reading_seconds
from natstui.cli.sections import command
from natstui.cli.text_table import stdout_width
from natstui.config import Connection
from natstui.errors import NotFound, UsageError
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.journal import Journal
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.system.asking import Servers
from natstui.jetstream.system.connections import read_connection_there, read_connections
from natstui.jetstream.system.kicking import kick as kick_seen
from natstui.jetstream.system.source import System
from natstui.model.clients.connection import ClientConnection, Connections, traffic_between
from natstui.model.clients.words import kick_question
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
    for_s = None if for_text is None else reading_seconds(for_text, "--for")
    seen, rates = asyncio.run(waited_for(_look(connection, for_s, closed=closed)))
    if as_json:
        click.echo(connections_json(seen, rates))
        return
    for line in connection_lines(seen, rates, closed=closed, width_cells=stdout_width()):
        click.echo(line)


async def _look(
    connection: Connection, for_s: float | None, *, closed: bool
) -> tuple[Connections, Rates | None]:
    client = await connect(connection)
    try:
        servers = Servers(client)
        first = await read_connections(client, servers, closed=closed)
        if for_s is None:
            return first, None
        await asyncio.sleep(for_s)
        then = await read_connections(client, servers, closed=closed)
        return then, traffic_between(first, then)
    finally:
        await client.close()


@command()
@click.argument("node", metavar="SERVER")
@click.argument("number", type=SEQUENCE)
@change_flags
@connection_options
def kick(connection: Connection, node: str, number: int, **words: Any) -> None:
    """Close one client connection.

    NUMBER is the connection on SERVER (a name or id); `natstui connections --json` prints both.
    Needs the system account. The client may reconnect by itself.
    """
    refuse_read_only(connection, words["read_only"])
    click.echo(clean_line(asyncio.run(_kick(connection, node, number, words))))


async def _kick(connection: Connection, server: str, number: int, words: dict[str, Any]) -> str:
    system = System(connection)
    try:
        client = await system.client()
        one = await _found(client, server, number)
        question = clean_line(kick_question(one))
        confirmed = await asyncio.to_thread(
            confirmation, connection, one.called, question,
            yes=words["yes"], confirm=words["confirm"],
        )  # fmt: skip
        asked = KickConnection(0, one.server_id, number, one.started_at_us, confirmed)
        return await kick_seen(Writer(client, Journal()), None, asked)
    finally:
        await system.close()


async def _found(client: Client, server: str, number: int) -> ClientConnection:
    """Return the connection that is meant; raises UsageError for an unknown server."""
    answers = await Servers(client).ask("$SYS.REQ.SERVER.PING.STATSZ", {})
    named = [answer for answer in answers if server in (answer.name, answer.server_id)]
    if len(named) != 1:
        known = ", ".join(sorted(answer.name for answer in answers))
        why = (
            "is the name of several servers: use the server id" if named else f"is none of {known}"
        )
        raise UsageError(f"{server} {why}")
    one = await read_connection_there(Servers(client), named[0].server_id, number)
    if one is None or one.stopped_at_us is not None:
        raise NotFound(f"{server} has no connection {number}")
    return one
