"""`natstui servers`: every server of the system, as far as we may know."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from natstui.clean import clean_line
from natstui.cli.options import connection_options, reading_seconds
from natstui.cli.sections import command
from natstui.cli.text_table import Column, hanging, stdout_width, table
from natstui.errors import RequestFailed
from natstui.model.servers.server import ServerRates, Servers, ServerSeen, Storage
from natstui.model.servers.words import account_text, meta_role, meta_text, peer_text, summary
from natstui.units import UNKNOWN, bytes_text, count_text, duration_text, rate_text

if TYPE_CHECKING:
    from natstui.config import Connection
    from natstui.config.settings import Settings


Rates = Mapping[str, ServerRates]

_FIRST = (
    Column("NAME", numeric=False, shrinks=True),
    Column("VERSION", numeric=False, drop_order=3),
    Column("CLUSTER", numeric=False, shrinks=True, drop_order=4),
    Column("UPTIME", drop_order=2),
    Column("CPU", drop_order=1),
    Column("MEMORY", drop_order=1),
    Column("CONNS"),
    Column("SUBS", drop_order=6),
    Column("SLOW", drop_order=2),
    Column("ROUTES", drop_order=8),
)
_TOTALS = (
    Column("IN MSGS", drop_order=7),
    Column("IN BYTES", drop_order=9),
    Column("OUT MSGS", drop_order=7),
    Column("OUT BYTES", drop_order=9),
)
_RATES = (
    Column("IN/S", drop_order=3),
    Column("IN B/S", drop_order=7),
    Column("OUT/S", drop_order=3),
    Column("OUT B/S", drop_order=7),
)
_JETSTREAM = (
    Column("FILE", drop_order=2),
    Column("RESERVED", drop_order=6),
    Column("FREE", drop_order=2),
    Column("MEM STORE", drop_order=8),
    Column("MEM FREE", drop_order=9),
    Column("HA", drop_order=5),
    Column("STREAMS LED", drop_order=1),
    Column("CONSUMERS LED", drop_order=1),
    Column("API IN FLIGHT", drop_order=6),
    Column("API ERRORS", drop_order=7),
    Column("META", numeric=False, drop_order=2),
)


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

    for_s = None if for_text is None else reading_seconds(for_text, "--for")
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


def server_lines(seen: Servers, rates: Rates | None, width_cells: int | None) -> list[str]:
    """Return what was seen as lines: a sentence, the servers, the meta groups, the accounts."""
    columns = (*_FIRST, *(_TOTALS if rates is None else _RATES), *_JETSTREAM)
    rows = [_cells(seen, row, rates) for row in seen.rows]
    lines = [clean_line(summary(seen)), *table(columns, rows, width_cells)]
    for meta in seen.metas:
        text = meta_text(meta, answers=seen.leader_answers(meta))
        lines += ["", clean_line(f"META GROUP of {meta.cluster}: {text}")]
        lines += [clean_line(f"  {peer.name}: {peer_text(peer)}") for peer in meta.peers]
    if seen.accounts:
        lines += ["", "ACCOUNTS"]
        lines += [
            clean_line(f"  {account.name}: {account_text(account)}") for account in seen.accounts
        ]
    if seen.missing:
        lines += ["", "NOT AVAILABLE"]
        for it in seen.missing:
            lines.append(hanging(clean_line(f"  {it.what}: {it.reason}"), width_cells, 4))
    return lines


def _cells(seen: Servers, one: ServerSeen, rates: Rates | None) -> Sequence[str]:
    cpu = UNKNOWN if one.cpu_percent is None else f"{one.cpu_percent:g}%"
    cells = [
        one.name,
        one.version or UNKNOWN,
        one.cluster or UNKNOWN,
        duration_text(one.uptime_s),
        cpu,
        bytes_text(one.memory_bytes),
        *map(count_text, (one.connections_count, one.subscriptions_count)),
        *map(count_text, (one.slow_consumers_count, one.routes_count)),
    ]
    if rates is None:
        cells += [count_text(one.in_msgs), bytes_text(one.in_bytes)]
        cells += [count_text(one.out_msgs), bytes_text(one.out_bytes)]
    else:
        cells += _rate_cells(rates.get(one.server_id))
    return [*cells, *_jetstream_cells(seen, one)]


def _rate_cells(rates: ServerRates | None) -> list[str]:
    if rates is None:
        return [UNKNOWN] * len(_RATES)
    return [
        rate_text(rates.in_msgs_per_s),
        bytes_text(rates.in_bytes_per_s),
        rate_text(rates.out_msgs_per_s),
        bytes_text(rates.out_bytes_per_s),
    ]


def _jetstream_cells(seen: Servers, one: ServerSeen) -> list[str]:
    it = one.jetstream
    if it is None:
        return [UNKNOWN] * len(_JETSTREAM)
    return [
        bytes_text(it.file.used_bytes),
        bytes_text(it.file.reserved_bytes),
        bytes_text(it.file.free_bytes),
        bytes_text(it.memory.used_bytes),
        bytes_text(it.memory.free_bytes),
        count_text(it.ha_assets_count),
        count_text(it.streams_led_count),
        count_text(it.consumers_led_count),
        count_text(it.api_inflight_count),
        count_text(it.api_errors_count),
        meta_role(seen.meta_of(one), one.name),
    ]


def servers_json(seen: Servers, rates: Rates | None) -> str:
    """Return one JSON object, of printable ASCII only; times are UTC microseconds."""
    rows = []
    for row in seen.rows:
        fields = asdict(row) | {"uptime_s": row.uptime_s}
        if row.jetstream is not None:
            for store in ("memory", "file"):
                held: Storage = getattr(row.jetstream, store)
                fields["jetstream"][store]["free_bytes"] = held.free_bytes
        if rates is not None:
            known = rates.get(row.server_id)
            names = ServerRates.__dataclass_fields__
            fields |= asdict(known) if known is not None else dict.fromkeys(names)
        rows.append(fields)
    whole = asdict(seen) | {"rows": rows}
    whole["servers"] = whole.pop("rows")
    return json.dumps({"schema": 1, **whole}).replace("\x7f", "\\u007f")
