"""`natstui consumer clients`: lists the clients of a consumer."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from natstui.clean import clean_line
from natstui.cli.clients.rows import (
    READING_STATISTICS_FIELDS,
    client_cells,
    client_columns,
    connection_json,
    requester_json,
    requester_lines,
)
from natstui.cli.complete import consumer_argument, stream_of_consumer_argument
from natstui.cli.connected import await_with_progress
from natstui.cli.manage.names import parse_name
from natstui.cli.options import connection_options, parse_reading_seconds
from natstui.cli.sections import command
from natstui.cli.text_table import TextColumn, stdout_width, table
from natstui.engine.stopping import StopEvent, make_stop_event
from natstui.jetstream.connection.client import connect
from natstui.jetstream.system.clients import read_consumer, read_pull_clients, read_push_clients
from natstui.jetstream.system.requests import ServerRequests
from natstui.model.clients.recipients import ConsumerDelivery, Listener
from natstui.model.clients.requests import TappedRequests
from natstui.model.clients.text import IDLE_NOTE, idle_text, tap_summary_text
from natstui.units import count_text, counted, duration_text

if TYPE_CHECKING:
    from natstui.config import Connection

_PULLS_NOT_READ_TEXT = (
    "only their pulls show the clients of a pull consumer: --for 30s reads pulls"
)


@command()
@stream_of_consumer_argument
@consumer_argument
@click.option(
    "--for", "for_text", metavar="TIME",
    help="For a pull consumer: read its pulls for this time. natstui receives a copy of each "
        "pull. Ends early if the consumer is deleted.",
)  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@connection_options
def clients(
    connection: Connection, stream: str, name: str, for_text: str | None, as_json: bool,
    **_flags: Any,
) -> None:  # fmt: skip
    """List the clients that use a consumer.

    NAME is a consumer on STREAM. For a push consumer: the subscribers of its deliver subject. For
    a pull consumer: the clients that pull during --for, how often and how much; an idle client is
    listed only once its pull expires. DELIVERED counts the messages sent to a client since natstui
    found it.
    """
    for_s = None if for_text is None else parse_reading_seconds(for_text, "--for")
    stream_and_consumer = parse_name(stream), parse_name(name)
    consumer, consumer_clients, stop_event = asyncio.run(
        await_with_progress(_read_clients(connection, stream_and_consumer, for_s))
    )
    if as_json:
        click.echo(_clients_json(stream_and_consumer, consumer, consumer_clients))
    else:
        click.echo("\n".join(_client_lines(consumer, consumer_clients)))
    if stop_event is not None:
        stop_event.check("reading")


ConsumerClients = list[Listener] | TappedRequests | None
"""Subscribers of a push consumer; requests of a pull consumer, None if they were not read."""


async def _read_clients(
    connection: Connection, stream_and_consumer: tuple[str, str], for_s: float | None
) -> tuple[ConsumerDelivery, ConsumerClients, StopEvent | None]:
    client = await connect(connection)
    try:
        consumer = await read_consumer(client, *stream_and_consumer)
        servers = ServerRequests(client)
        if consumer.deliver_subject is not None:
            subject, group = consumer.deliver_subject, consumer.deliver_group
            return consumer, await read_push_clients(servers, subject, group), None
        if for_s is None:
            return consumer, None, None
        stop_event = make_stop_event()
        requests = await read_pull_clients(
            client, servers, *stream_and_consumer, for_s, stop_event
        )
        # Who is pinned may have changed meanwhile.
        return await read_consumer(client, *stream_and_consumer), requests, stop_event
    finally:
        await client.close()


def _client_lines(consumer: ConsumerDelivery, consumer_clients: ConsumerClients) -> list[str]:
    if isinstance(consumer_clients, list):
        return _push_client_lines(consumer, consumer_clients)
    open_pulls_text = f"{counted(consumer.waiting_count, 'pull')} open"
    pinned_lines = [clean_line(f"pinned: {pin}") for pin in consumer.pins]
    if consumer_clients is None:
        return ["; ".join([open_pulls_text, *pinned_lines, _PULLS_NOT_READ_TEXT])]
    lines = ["; ".join([open_pulls_text, idle_text(consumer_clients)])]
    lines += requester_lines(consumer_clients, "PULLS", "BATCH", pins=consumer.pins)
    pins_of_requests = {pin for requester in consumer_clients.requesters for pin in requester.pins}
    lines += [
        f"{text}: sent no pull during this time"
        for pin, text in zip(consumer.pins, pinned_lines, strict=True)
        if pin not in pins_of_requests
    ]
    return [*lines, tap_summary_text(consumer_clients, "pull")]


def _push_client_lines(consumer: ConsumerDelivery, consumer_clients: list[Listener]) -> list[str]:
    group_text = f" in the group {consumer.deliver_group}" if consumer.deliver_group else ""
    subject_text = clean_line(f'"{consumer.deliver_subject}"{group_text}')
    if not consumer_clients:
        return [f"no client of this account subscribes to {subject_text}"]
    columns = (*client_columns(), TextColumn("DELIVERED"), TextColumn("IDLE"))
    rows = [
        (
            *client_cells(subscriber.connection),
            count_text(subscriber.by.delivered_msgs),
            duration_text(subscriber.connection.idle_s),
        )
        for subscriber in consumer_clients
    ]
    heading = f"{counted(len(consumer_clients), 'client')} of {subject_text}"
    return [heading, *table(columns, rows, stdout_width())]


def _clients_json(
    stream_and_consumer: tuple[str, str],
    consumer: ConsumerDelivery,
    consumer_clients: ConsumerClients,
) -> str:
    json_fields: dict[str, object] = {
        "schema": 1,
        "stream": stream_and_consumer[0],
        "consumer": stream_and_consumer[1],
    }
    json_fields |= to_builtins(consumer)
    if isinstance(consumer_clients, list):
        json_fields["clients"] = [
            {
                "connection": connection_json(subscriber.connection),
                "delivered_msgs": subscriber.by.delivered_msgs,
            }
            for subscriber in consumer_clients
        ]
    elif consumer_clients is None:
        json_fields |= {"clients": None, "note": _PULLS_NOT_READ_TEXT}
    else:
        json_fields["clients"] = [
            requester_json(requester, "pulls_count", "batches")
            for requester in consumer_clients.requesters
        ]
        json_fields |= {
            name: getattr(consumer_clients, name) for name in READING_STATISTICS_FIELDS
        } | {"note": IDLE_NOTE}
    return json.dumps(json_fields).replace("\x7f", "\\u007f")
