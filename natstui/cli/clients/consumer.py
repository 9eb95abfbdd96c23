"""`natstui consumer clients`: who holds a consumer."""

from __future__ import annotations

import asyncio
import json
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click

from natstui.clean import clean_line
from natstui.cli.clients.rows import (
    COST,
    asker_json,
    asker_lines,
    connection_json,
    place_cells,
    place_columns,
)
from natstui.cli.complete import consumer_name, on_stream
from natstui.cli.connected import waited_for
from natstui.cli.manage.names import given_name
from natstui.cli.options import connection_options, reading_seconds
from natstui.cli.sections import command
from natstui.cli.text_table import Column, stdout_width, table
from natstui.engine.stopping import stopped_by_signal
from natstui.jetstream.connection.client import connect
from natstui.jetstream.system.asking import Servers
from natstui.jetstream.system.clients import pull_clients, push_clients, read_consumer
from natstui.model.clients.holding import ConsumerToHold, Listener
from natstui.model.clients.requests import TappedRequests
from natstui.model.clients.words import IDLE, cost_text, idle_text
from natstui.units import count_text, counted, duration_text

if TYPE_CHECKING:
    from natstui.config import Connection

_ONLY_ASKING = "only their pulls show the clients of a pull consumer: --for 30s reads pulls"


@command()
@on_stream
@consumer_name
@click.option(
    "--for", "for_text", metavar="TIME",
    help="For a pull consumer: read its pulls for this time. natstui receives a copy of each "
        "pull. Ends early if the consumer is deleted.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON.")
@connection_options
def clients(
    connection: Connection, stream: str, name: str, for_text: str | None, as_json: bool,
    **_words: Any,
) -> None:  # fmt: skip
    """List the clients that use a consumer.

    NAME is a consumer on STREAM. For a push consumer: the subscribers of its deliver subject. For
    a pull consumer: the clients that pull during --for, how often and how much; an idle client is
    listed only once its pull expires. DELIVERED counts the messages sent to a client since natstui
    found it.
    """
    for_s = None if for_text is None else reading_seconds(for_text, "--for")
    names = given_name(stream), given_name(name)
    consumer, found = asyncio.run(waited_for(_look(connection, names, for_s)))
    if as_json:
        click.echo(_json(names, consumer, found))
        return
    for line in _lines(consumer, found):
        click.echo(line)


Found = list[Listener] | TappedRequests | None
"""Of a push consumer, of a pull consumer that was read, and of one that was not."""


async def _look(
    connection: Connection, names: tuple[str, str], for_s: float | None
) -> tuple[ConsumerToHold, Found]:
    client = await connect(connection)
    try:
        consumer = await read_consumer(client, *names)
        servers = Servers(client)
        if consumer.deliver_subject is not None:
            subject, group = consumer.deliver_subject, consumer.deliver_group
            return consumer, await push_clients(servers, subject, group)
        if for_s is None:
            return consumer, None
        heard = await pull_clients(client, servers, *names, for_s, stopped_by_signal())
        # Who is pinned may have changed meanwhile.
        return await read_consumer(client, *names), heard
    finally:
        await client.close()


def _lines(consumer: ConsumerToHold, found: Found) -> list[str]:
    if isinstance(found, list):
        return _push_lines(consumer, found)
    waiting = f"{counted(consumer.waiting_count, 'pull')} open"
    pinned = [clean_line(f"pinned: {pin}") for pin in consumer.pins]
    if found is None:
        return ["; ".join([waiting, *pinned, _ONLY_ASKING])]
    lines = ["; ".join([waiting, idle_text(found)])]
    lines += asker_lines(found, "PULLS", "BATCH", pins=consumer.pins)
    seen = {pin for asker in found.askers for pin in asker.pins}
    lines += [
        f"{text}: sent no pull during this time"
        for pin, text in zip(consumer.pins, pinned, strict=True)
        if pin not in seen
    ]
    return [*lines, cost_text(found, "pull")]


def _push_lines(consumer: ConsumerToHold, found: list[Listener]) -> list[str]:
    group = f" in the group {consumer.deliver_group}" if consumer.deliver_group else ""
    where = clean_line(f'"{consumer.deliver_subject}"{group}')
    if not found:
        return [f"no client of this account subscribes to {where}"]
    columns = (*place_columns(), Column("DELIVERED"), Column("IDLE"))
    rows = [
        (
            *place_cells(one.connection),
            count_text(one.by.delivered_msgs),
            duration_text(one.connection.idle_s),
        )
        for one in found
    ]
    head = f"{counted(len(found), 'client')} of {where}"
    return [head, *table(columns, rows, stdout_width())]


def _json(names: tuple[str, str], consumer: ConsumerToHold, found: Found) -> str:
    whole: dict[str, object] = {"schema": 1, "stream": names[0], "consumer": names[1]}
    whole |= asdict(consumer)
    if isinstance(found, list):
        whole["clients"] = [
            {
                "connection": connection_json(one.connection),
                "delivered_msgs": one.by.delivered_msgs,
            }
            for one in found
        ]
    elif found is None:
        whole |= {"clients": None, "note": _ONLY_ASKING}
    else:
        whole["clients"] = [asker_json(asker, "pulls_count", "batches") for asker in found.askers]
        whole |= {name: getattr(found, name) for name in COST} | {"note": IDLE}
    return json.dumps(whole).replace("\x7f", "\\u007f")
