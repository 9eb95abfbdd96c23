"""A node that is down: its streams and consumers are unreachable, never zeros."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from nats.errors import NoRespondersError

from natstui.config import Secret
from natstui.jetstream.testbed.cluster import Cluster
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.record import Unavailable
from tests.jetstream.polling import Polled, api, polling, rows

pytestmark = pytest.mark.cluster


async def _stored(polled: Polled, subject: str) -> bool:
    try:
        await polled.client.nc.request(subject, b"x", timeout=5)
    except NoRespondersError:
        return False
    return True


async def _stream(polled: Polled, name: str, replicas_count: int) -> dict[str, Any]:
    words = {"name": name, "subjects": [name], "num_replicas": replicas_count}
    await api(polled.client, f"STREAM.CREATE.{name}", words)
    # The servers hear a moment later from each other who listens to a new subject.
    async with asyncio.timeout(60):
        while not await _stored(polled, name):
            await asyncio.sleep(0.05)
    body = {"stream_name": name, "config": {"durable_name": "C", "ack_policy": "explicit"}}
    await api(polled.client, f"CONSUMER.DURABLE.CREATE.{name}.C", body)
    info: dict[str, Any] = await api(polled.client, f"STREAM.INFO.{name}")
    return info


@pytest.mark.long
async def test_a_dead_nodes_streams_are_unreachable_and_keep_their_values(
    nats_cluster: Cluster,
) -> None:
    async with polling(*nats_cluster.urls, user="app", password=Secret("app")) as polled:
        polled.control.set_interval(1.0)
        await _stream(polled, "R3", 3)
        homes = [(await _stream(polled, f"R1{i}", 1))["cluster"]["leader"] for i in range(6)]
        meta = await api(polled.client, "STREAM.INFO.R3")
        connected = polled.client.nc.server_info["server_name"]
        # Another node than ours and the leader of R3, so that nothing else needs an election.
        dead = next(
            (n for n in homes if n not in (connected, meta["cluster"]["leader"])), homes[0]
        )
        lost = {f"R1{i}" for i, home in enumerate(homes) if home == dead}
        await polled.until(Snapshot, lambda s: s.consumers_complete and len(s.streams.name) == 7)
        nats_cluster.node(dead).kill()
        snapshot = await polled.until(Snapshot, lambda s: lost <= set(s.unreachable_streams))
        assert not lost & set(snapshot.streams.name)
        kept = {row["name"]: row for row in rows(polled.state.streams.columns)}
        assert len(kept) == 7
        assert all(kept[name]["stored_msgs"] == 1 for name in lost)
        # Who led them is gone: nobody leads them now.
        assert all(kept[name]["leader"] is None for name in lost)
        assert {key[:2] for key in polled.state.consumers.roster.keys} >= {(n, "C") for n in lost}
        later = [await polled.until(Snapshot) for _ in range(4)]
        # Each list of streams takes 4 s now; consumers do not wait for it.
        assert later[-1].taken_mono_us - later[0].taken_mono_us < 11_500_000
        assert all({(n, "C") for n in lost} <= set(s.unreachable_consumers) for s in later)
        replicated = await polled.until(
            Snapshot,
            lambda s: any(
                not peer.current
                for row in rows(s.streams)
                for peer in row["peers"]
                if row["name"] == "R3" and peer.name == dead
            ),
        )
        assert "R3" in replicated.streams.name
        nats_cluster.node(dead).start()
        await polled.until(Snapshot, lambda s: not s.unreachable_streams and s.streams_complete)


@pytest.mark.long
async def test_consumers_of_a_stopped_node_do_not_stop_the_reading_of_others(
    nats_cluster: Cluster,
) -> None:
    async with polling(*nats_cluster.urls, user="app", password=Secret("app")) as polled:
        polled.control.set_interval(1.0)
        leader = (await _stream(polled, "R3", 3))["cluster"]["leader"]
        connected = polled.client.nc.server_info["server_name"]
        of_node: dict[str, set[tuple[str, str]]] = {}
        while not of_node.keys() - {leader, connected}:
            name = f"D{sum(map(len, of_node.values()))}"
            config = {"durable_name": name, "ack_policy": "explicit", "num_replicas": 1}
            body = {"stream_name": "R3", "config": config}
            info = await api(polled.client, f"CONSUMER.DURABLE.CREATE.R3.{name}", body)
            of_node.setdefault(info["cluster"]["leader"], set()).add(("R3", name))
        stopped = next(iter(of_node.keys() - {leader, connected}))
        await polled.until(Snapshot, lambda s: of_node[stopped] <= _names(s))
        polled.control.set_visible((), (("R3", "C"),))
        await asyncio.to_thread(nats_cluster.node(stopped).stop)
        # From now on each request for one of them gets an error.
        await polled.until(
            Snapshot,
            lambda s: s.cost.errors_count > 0 and of_node[stopped] <= set(s.unreachable_consumers),
        )
        for _ in range(3):
            await polled.until(Snapshot, lambda s: ("R3", "C") in _names(s))
        told = [each.what for each in polled.records if isinstance(each, Unavailable)]
        assert "CONSUMER.INFO" not in told


def _names(snapshot: Snapshot) -> set[tuple[str, str]]:
    return set(zip(snapshot.consumers.stream, snapshot.consumers.name, strict=True))
