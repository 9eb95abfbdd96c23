"""`natstui bench vs`: the same pattern with natstui, nats-py and `nats bench`, in turns."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import click

from natstui.clean import clean_json, clean_line
from natstui.cli.options import connection_options
from natstui.errors import NatstuiError, Refused
from natstui.units import parse_count

if TYPE_CHECKING:
    from natstui.bench.versus.rows import Row
    from natstui.config import Connection
    from natstui.config.settings import Settings


@click.command("vs")
@click.argument("words", nargs=-1, metavar="[PATTERN]...")
@click.option(
    "--rounds", "rounds_count", type=click.IntRange(1, 100), default=5, show_default=True
)
@click.option("--msgs", metavar="N", help="Messages of each run; nats-py gets a part of them.")
@click.option("--list", "only_list", is_flag=True, help="List the patterns.")
@click.option("--json", "as_json", is_flag=True, help="One list of objects on stdout.")
@connection_options
def versus(
    *,
    words: tuple[str, ...],
    rounds_count: int,
    msgs: str | None,
    only_list: bool,
    as_json: bool,
    settings: Settings,
    connection: Connection,
) -> None:
    """Compare natstui, nats-py and, where `nats` is on the PATH, `nats bench`.

    Runs every pattern that has PATTERN in its name, or all of them, with each client in turns, on
    streams of its own; prints rates with their intervals, the ratios and the server's CPU.
    """
    from natstui.bench.versus.rows import chosen
    from natstui.bench.versus.table import objects, table_text

    rows = chosen(words)
    if only_list:
        for row in rows:
            click.echo(row.name)
        return
    if connection.read_only:
        raise Refused("this connection is read-only: a benchmark writes")
    compared = asyncio.run(_measured(connection, rows, rounds_count, msgs))
    if as_json:
        click.echo(clean_json(json.dumps(objects(compared))))
    else:
        click.echo(table_text(compared))
    failed = [f"{one.row.name}, {who}" for one in compared for who in one.errors]
    if failed:
        raise NatstuiError(f"not everything could be measured: {'; '.join(failed)}")


async def _measured(
    connection: Connection, rows: tuple[Row, ...], rounds_count: int, msgs: str | None
) -> Any:
    from natstui.bench.versus.measure import Rounds

    def tell(text: str) -> None:
        click.echo(clean_line(text), err=True)

    wanted = None if msgs is None else parse_count(msgs)
    return await Rounds(connection, rows, tell, wanted).run(rounds_count)
