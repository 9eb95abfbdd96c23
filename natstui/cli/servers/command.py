"""`natstui servers`: every server of the system, as far as we may know."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import click

from natstui.cli.clients.options import seconds
from natstui.cli.options import connection_options
from natstui.cli.sections import command
from natstui.errors import RequestFailed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from natstui.config import Connection
    from natstui.config.settings import Settings
    from natstui.model.servers.server import ServerRates, Servers


@command()
@click.option(
    "--for", "for_text", metavar="TIME",
    help="Read twice, so long apart, and print the rates between.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="One JSON object.")
@connection_options
def servers(
    settings: Settings, connection: Connection, for_text: str | None, as_json: bool
) -> None:
    """List servers, leaders and the meta group.

    Lists the accounts, too. The system account of [system] tells everything, or the monitoring
    ports. Without them, a plain user sees the names, versions and the own account's
    connections and traffic, and which subject or address would tell more.
    """
    from natstui.cli.connected import waited_for
    from natstui.cli.servers.rows import server_lines, servers_json
    from natstui.cli.text_table import stdout_width

    for_s = None if for_text is None else seconds(for_text, "--for")
    seen, rates = asyncio.run(waited_for(_look(connection, for_s)))
    if not seen.rows:
        raise RequestFailed("; ".join(f"{it.what}: {it.reason}" for it in seen.missing))
    if as_json:
        click.echo(servers_json(seen, rates))
        return
    for line in server_lines(seen, rates, stdout_width()):
        click.echo(line)


async def _look(
    connection: Connection, for_s: float | None
) -> tuple[Servers, Mapping[str, ServerRates] | None]:
    from natstui.jetstream.connection.client import connect
    from natstui.jetstream.system.asking import Servers as Asking
    from natstui.jetstream.system.servers import read_servers
    from natstui.jetstream.system.source import System
    from natstui.model.servers.server import rates_between

    client = await connect(connection)
    system = System(connection, client)
    try:
        asking = Asking(client)
        first = await read_servers(asking, system)
        if for_s is None:
            return first, None
        await asyncio.sleep(for_s)
        then = await read_servers(asking, system)
        return then, rates_between(first, then)
    finally:
        await system.close()
        await client.close()
