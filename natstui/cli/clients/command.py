"""`natstui connections`: the connections of the account, on all servers of the cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from natstui.cli.options import connection_options, reading_seconds
from natstui.cli.sections import command

if TYPE_CHECKING:
    from natstui.cli.clients.rows import Rates
    from natstui.config import Connection
    from natstui.config.settings import Settings
    from natstui.model.clients.connection import Connections


@command()
@click.option(
    "--closed", is_flag=True, help="Those that ended, as far as servers remember, and why."
)
@click.option(
    "--for", "for_text", metavar="TIME",
    help="Read twice, so long apart, and print the rates between.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@connection_options
def connections(
    settings: Settings, connection: Connection, closed: bool, for_text: str | None, as_json: bool
) -> None:
    """List the connections of the account.

    Of every server, with what they send and receive. IN is what a client sent, OUT what it
    received. SLOW says that a client did not read fast enough: publishers had to wait for it,
    or the server cut it off. No system account is needed.
    """
    from natstui.cli.clients.rows import connection_lines, connections_json
    from natstui.cli.connected import waited_for
    from natstui.cli.text_table import stdout_width

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
    from natstui.jetstream.connection.client import connect
    from natstui.jetstream.system.asking import Servers
    from natstui.jetstream.system.connections import read_connections
    from natstui.model.clients.connection import traffic_between

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
