"""Publishing to a stream without a leader: sent again until it has one, and then refused."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import nats
import pytest
from nats.aio.client import Client
from nats.errors import NoRespondersError
from nats.errors import TimeoutError as NoReply

from natstui.config import Connection
from natstui.errors import RequestFailed
from natstui.jetstream.connection import storing
from natstui.jetstream.connection.client import connect
from natstui.jetstream.testbed.broker import Broker
from natstui.jetstream.testbed.cluster import Cluster
from tests.cli.test_core import PATIENCE_S, connected, run
from tests.cli.test_manage import Shell
from tests.jetstream.test_connections import as_user

_MAY_NOT_LIST = """accounts { APP: { jetstream: enabled, users: [
  { user: app, password: app }
  { user: few, password: few, permissions: { publish: { deny: "$JS.API.STREAM.NAMES" } } }
] } }"""


@pytest.mark.server
async def test_a_message_is_sent_again_until_a_stream_stores_it_or_refused_in_time(
    nats_server_factory: Callable[..., Broker], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who may not list streams does not know whether there is one that has no leader."""
    broker = nats_server_factory(_MAY_NOT_LIST)
    client = await connect(Connection(servers=(as_user(broker.url, "few"),)))
    storing_late = asyncio.create_task(storing.store(client, "late", b"x"))
    sent_before = client.nc.stats["out_msgs"]
    async with connected(as_user(broker.url, "app")) as nc, asyncio.timeout(PATIENCE_S):
        # Each attempt sends two messages at most.
        while client.nc.stats["out_msgs"] < sent_before + 4:
            await asyncio.sleep(0.01)
        assert not storing_late.done()
        await nc.jetstream().add_stream(name="LATE", subjects=["late"])
        assert (await storing_late).stream == "LATE"
        assert (await nc.jetstream().stream_info("LATE")).state.messages == 1
    monkeypatch.setattr(storing, "LEADERLESS_TIMEOUT_S", 0.5)
    sentence = (
        'nothing stores "never": no stream has this subject, or its stream elected no leader'
    )
    with pytest.raises(RequestFailed, match=f"^{sentence} within 0.5 s$"):
        await storing.store(client, "never", b"x")
    await client.close()


@pytest.mark.long
@pytest.mark.cluster
async def test_a_message_is_stored_once_a_leader_is_elected_or_refused_in_a_true_sentence(
    nats_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nc = await nats.connect(as_user(nats_cluster.urls[0], "app"))
    await nc.jetstream().add_stream(name="R3", subjects=["r3.>"], num_replicas=3)
    info = await nc.request("$JS.API.STREAM.INFO.R3", b"", timeout=30)
    node = nats_cluster.node(json.loads(info.data)["cluster"]["leader"])
    # On the node that is killed, so that nobody can lead it then.
    placed = {"tags": [node.name]}
    body = {"name": "R1", "subjects": ["r1.>"], "num_replicas": 1, "placement": placed}
    await nc.request("$JS.API.STREAM.CREATE.R1", json.dumps(body).encode(), timeout=30)
    await nc.close()
    near = next(other for other in nats_cluster.nodes if other is not node)
    shell = Shell(as_user(near.url, "app"), tmp_path)
    async with connected(as_user(near.url, "app")) as nc:
        node.kill()
        await until_nobody_receives(nc, "r3.x")
    done = await run(shell, "pub", "r3.x", "hello", "-J", "--count", "3")
    assert done.returncode == 0, done.stderr
    monkeypatch.setattr(storing, "LEADERLESS_TIMEOUT_S", 0.5)
    refused = await run(shell, "pub", "r1.x", "hello", "-J")
    assert refused.returncode == 4, refused
    assert (
        'nothing stores "r1.x": no stream has this subject, or its stream elected no leader'
        in refused.stderr
    )
    nobody = await run(shell, "pub", "nowhere", "hello", "-J")
    assert nobody.returncode == 4 and 'no stream stores "nowhere"' in nobody.stderr


async def until_nobody_receives(nc: Client, subject: str) -> None:
    """Return once the server replies that nobody receives a message."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            try:
                await nc.request(subject, b"lost", timeout=0.5)
            except NoRespondersError:
                return
            except NoReply:
                continue
