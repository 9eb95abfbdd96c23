"""A consumer whose server is down still counts for what a change of its stream removes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from natstui.config import Connection, Secret
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.decode.consumers import read_consumers
from natstui.jetstream.connection.writer import Asset
from natstui.jetstream.managing.losses import count_loss
from natstui.jetstream.managing.names_in_use import read_names_in_use
from natstui.jetstream.testbed.cluster import Cluster
from natstui.model.records.managing import Change
from tests.jetstream.polling import api

pytestmark = pytest.mark.cluster

PATIENCE_S = 60


async def consumer_elsewhere(client: Client, servers: set[str]) -> tuple[str, str]:
    """Create consumers until the only replica of one is not on one of `servers`; its name and
    server.
    """
    for number in range(40):
        name = f"C{number}"
        config = {"durable_name": name, "ack_policy": "explicit", "num_replicas": 1,
                  "filter_subject": f"s.{number}"}  # fmt: skip
        body = {"stream_name": "S", "config": config}
        reply = await api(client, f"CONSUMER.DURABLE.CREATE.S.{name}", body)
        if reply["cluster"]["leader"] not in servers:
            return name, reply["cluster"]["leader"]
        await api(client, f"CONSUMER.DELETE.S.{name}")
    raise AssertionError("each consumer is on another server")


async def test_a_consumer_that_cannot_be_reached_counts_for_a_change_of_its_stream(
    nats_cluster: Cluster,
) -> None:
    connection = Connection(servers=nats_cluster.urls, user="app", password=Secret("app"))
    client = await connect(connection)
    try:
        config: dict[str, Any] = {"name": "S", "subjects": ["s.>"], "num_replicas": 3}
        stream = await api(client, "STREAM.CREATE.S", config)
        connected_server = str(client.nc.server_info["server_name"])
        servers = {connected_server, str(stream["cluster"]["leader"])}
        name, server = await consumer_elsewhere(client, servers)
        # It tells the others that it leaves, so that they list what only it has as offline.
        nats_cluster.node(server).stop()
        async with asyncio.timeout(PATIENCE_S):
            while not (rows := [row async for row in client.consumer_rows("S")]):
                await asyncio.sleep(0.2)
        page = read_consumers(await client.request("CONSUMER.LIST.S", {"offset": 0}))
        assert [row.name for row in rows] == [name] and page.missing == (name,)
        info = await client.stream_info("S")
        limits = {"consumer_limits": {"inactive_threshold": 3600 * 10**9}}
        change = Change(1, "edit_stream", "S", body_json=json.dumps(info.read_config() | limits))
        asset = Asset(info.read_config(), info.created_at_us, info)
        loss = await count_loss(client, change, asset)
        assert "1 consumer without" in loss.text
        names_in_use = await read_names_in_use(client, "S")
        assert names_in_use.consumer_filters == {name: (f"s.{name[1:]}",)}
    finally:
        await client.close()
