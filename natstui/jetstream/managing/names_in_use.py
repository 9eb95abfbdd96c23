"""Reads the names, subjects, servers and templates that a configuration is checked against."""

from __future__ import annotations

import json

from natstui.config.template_files import load_templates
from natstui.errors import RequestFailed
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.nats_client import status_of
from natstui.model.assets.consumer_rules import consumer_warnings
from natstui.model.assets.differences import AssetKind
from natstui.model.assets.fields import Config
from natstui.model.assets.rules import NamesInUse, OtherStream
from natstui.model.assets.stream_rules import stream_warnings


async def read_names_in_use(client: Client, stream: str | None) -> NamesInUse:
    """Return the account's streams, and the consumers of `stream`; raises the request errors."""
    other_streams = [
        OtherStream(row.name, tuple(row.read_config().get("subjects") or ()))
        async for row in client.stream_rows()
    ]
    filters_by_consumer = await _read_filters(client, stream) if stream else {}
    servers_count = await _count_servers(client)
    return NamesInUse(
        tuple(other_streams),
        servers_count,
        client.api_level,
        filters_by_consumer,
        load_templates(),
        True,
    )


async def find_warnings(
    client: Client, kind: AssetKind, stream: str, consumer: str | None, config: Config
) -> tuple[str, ...]:
    """Return the warnings about a configuration that is not written yet.

    A missing permission to read the other streams or consumers is a warning too.
    """
    try:
        names_in_use = await read_names_in_use(client, None)
        stream_exists = kind == "consumer" or stream in {
            stream_in_use.name for stream_in_use in names_in_use.streams
        }
        filters_by_consumer = await _read_filters(client, stream) if stream_exists else {}
        if kind == "stream":
            filters_in_use = [
                subject_filter
                for consumer_filters in filters_by_consumer.values()
                for subject_filter in consumer_filters
            ]
            return stream_warnings(config, names_in_use, filters_in_use)
        stream_config = (await client.stream_info(stream)).read_config()
    except RequestFailed as error:
        return (f"it was not checked against the other streams and consumers: {error}",)
    return consumer_warnings(
        config,
        stream_config,
        {name: filters for name, filters in filters_by_consumer.items() if name != consumer},
    )


async def _read_filters(client: Client, stream: str) -> dict[str, tuple[str, ...]]:
    filters_by_consumer: dict[str, tuple[str, ...]] = {}
    async for row in client.consumer_rows(stream):
        config = row.read_config()
        filter_subject = config.get("filter_subject")
        filters = config.get("filter_subjects") or ([filter_subject] if filter_subject else [])
        filters_by_consumer[config.get("name") or row.name] = tuple(filters)
    return filters_by_consumer


async def _count_servers(client: Client) -> int | None:
    """Return the number of servers of our cluster, which can have replicas; None if unknown."""
    info = client.nc.server_info
    if not info.get("cluster"):
        return 1
    try:
        reply = await client.request_subject("$SYS.REQ.SERVER.PING.STATSZ", timeout_s=1.0)
    except RequestFailed:
        return None
    if status_of(reply.headers):
        return None
    active_servers_count = json.loads(reply.data).get("statsz", {}).get("active_servers")
    return int(active_servers_count) if isinstance(active_servers_count, int) else None
