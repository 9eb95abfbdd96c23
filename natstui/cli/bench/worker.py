"""`natstui bench worker --join URL`: lets this machine work for benchmarks run elsewhere."""

from __future__ import annotations

import asyncio
import signal
import time
from typing import TYPE_CHECKING

import click

from natstui.clean import clean_line
from natstui.cli.json_line import print_json
from natstui.cli.options import connection_options
from natstui.errors import Refused
from natstui.units import parse_duration_ns

if TYPE_CHECKING:
    from natstui.config import Connection
    from natstui.config.settings import Settings


@click.command("worker")
@click.option("--join", metavar="URL", help="The NATS system to join; the same as --server.")
@click.option("--clock-ahead", metavar="TIME", hidden=True)
@click.option("--json", "-j", "as_json", is_flag=True, help="One JSON object for what happens.")
@connection_options
def worker(
    *, join: str | None, clock_ahead: str | None, as_json: bool, settings: Settings,
    connection: Connection,
) -> None:  # fmt: skip
    """Start workers on this machine for natstui bench … --machines N, until Ctrl-C.

    The machines are found over NATS, and their clocks compared.
    """
    from dataclasses import replace

    if connection.read_only:
        raise Refused("this connection is read-only: a benchmark writes")
    if join is not None:
        connection = replace(connection, servers=tuple(join.split(",")))
    skew_ns = parse_duration_ns(clock_ahead) if clock_ahead else 0
    asyncio.run(_serve(connection, skew_ns, as_json=as_json))


async def _serve(connection: Connection, skew_ns: int, *, as_json: bool) -> None:
    from natstui.bench.worker.agent import Agent

    stopping = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stopping.set)

    def tell(text: str) -> None:
        if as_json:
            print_json({"at_us": time.time_ns() // 1000, "text": text})
        else:
            click.echo(clean_line(text), err=True)

    await Agent(connection, tell, skew_ns).run(stopping)
