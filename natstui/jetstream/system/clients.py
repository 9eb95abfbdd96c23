"""Who holds a consumer and who publishes to a stream, in one answer for a screen."""

from __future__ import annotations

import asyncio

from natstui.jetstream.connection.client import Client
from natstui.jetstream.system.asking import Servers
from natstui.jetstream.system.publishers import publishers, read_subjects
from natstui.jetstream.system.pulls import pull_clients, push_clients, read_consumer
from natstui.model.clients.holding import ClientsFound
from natstui.model.records.system import ReadClients

_MOST_PUBLISHED_MSGS = 10_000


async def read_clients(client: Client, asked: ReadClients, stop: asyncio.Event) -> ClientsFound:
    """Return who is found until the time of the command is over, or `stop`.

    Raises NotFound, PermissionDenied, and what `Servers.ask` raises.
    """
    servers = Servers(client)
    if asked.consumer is None:
        subjects = await read_subjects(client, asked.stream)
        heard = await publishers(
            client, servers, asked.stream, subjects, asked.for_s, _MOST_PUBLISHED_MSGS, stop
        )
        return ClientsFound(None, heard=heard)
    consumer = await read_consumer(client, asked.stream, asked.consumer)
    if consumer.deliver_subject is not None:
        found = await push_clients(servers, consumer.deliver_subject, consumer.deliver_group)
        return ClientsFound(consumer, tuple(found))
    heard = await pull_clients(client, servers, asked.stream, asked.consumer, asked.for_s, stop)
    # Who is pinned may have changed meanwhile.
    return ClientsFound(await read_consumer(client, asked.stream, asked.consumer), heard=heard)
