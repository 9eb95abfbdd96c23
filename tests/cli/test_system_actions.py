"""Kick, scale, move, the leader of the meta group, both kinds of peer-remove, on one cluster."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client as NatsClient
from nats.aio.msg import Msg
from textual.widgets import Static

from natstui.jetstream.system import meta as meta_group
from natstui.jetstream.system import requests
from natstui.jetstream.testbed.cluster import Cluster
from natstui.model.records.actions import CATALOGUE, IRREVERSIBLE_ACTIONS
from tests.cli.rewriting import speaking
from tests.cli.test_connections import run
from tests.jetstream.flushing import flushed
from tests.jetstream.test_connections import as_user
from tests.tui.test_servers_screen import SYSTEM
from tests.tui.viewer import Viewer, viewing


def test_what_cannot_be_taken_back_is_asked_for_by_name() -> None:
    wanted = {"kick_connection", "remove_server", "remove_peer_stream"}
    assert wanted <= IRREVERSIBLE_ACTIONS
    assert [CATALOGUE[name].command for name in sorted(wanted)] == [  # type: ignore[index]
        "kick", "stream peer-remove", "meta peer-remove",
    ]  # fmt: skip


async def members(nc: NatsClient, stream: str) -> list[str]:
    """Return the servers that have a whole copy of a stream."""
    reply = json.loads((await nc.request(f"$JS.API.STREAM.INFO.{stream}", b"", 30)).data)
    cluster = reply.get("cluster") or {}
    whole = [one["name"] for one in cluster.get("replicas") or () if one.get("current")]
    return sorted({*whole, *filter(None, [cluster.get("leader")])})


async def connection(url: str, folder: Path, name: str) -> dict[str, Any] | None:
    """Return what `natstui connections` tells of a client."""
    told = json.loads((await run(url, folder, "connections", "--json")).stdout)
    return next((row for row in told["connections"] if row["name"] == name), None)


@pytest.mark.cluster
async def test_streams_go_elsewhere_clients_are_kicked_and_a_lost_server_is_removed(
    nats_cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All three reply at once.
    monkeypatch.setattr(requests, "_QUIET_S", 0.5)
    url = ",".join(as_user(one, "app") for one in nats_cluster.urls)
    urls = [as_user(one, "app") for one in nats_cluster.urls]
    nc = await nats.connect(urls[0], name="watcher")
    js = nc.jetstream(timeout=30)
    await js.add_stream(name="S", subjects=["s"])
    for _ in range(20):
        await js.publish("s", b"x")
    await _replicas(nc, url, tmp_path)
    for words in (("kick", "n1", "1", "--yes"), ("meta", "step-down")):
        refused = await run(url, tmp_path, *words)
        assert refused.returncode == 2 and "[system]" in refused.stderr
    leader = await _meta_group(nats_cluster, tmp_path, monkeypatch)
    for name, value in SYSTEM.items():
        monkeypatch.setenv(name, value)
    await _kick(url, urls[1], tmp_path)
    lost = "n3" if leader == "n2" else "n2"
    async with viewing(urls[0], environ=SYSTEM, size=(160, 50)) as viewer:
        await _kick_on_the_screen(viewer, urls[1])
        running = await run(url, tmp_path, "meta", "peer-remove", lost, "--yes")
        assert running.returncode == 5 and f"{lost} still replies" in running.stderr
        await _as_system_user(nats_cluster, tmp_path, monkeypatch, leader)
        nats_cluster.node(lost).kill()
        await _remove_on_the_screen(viewer, lost)
    journal = (await run(urls[0], tmp_path, "journal")).stdout
    for said in ("remove a peer of stream S", "kick connection victim"):
        assert said in journal
    await nc.close()


async def _replicas(nc: NatsClient, url: str, folder: Path) -> None:
    """Scale a stream, give up a copy, move it: nothing is lost."""
    done = await run(url, folder, "stream", "scale", "S", "2")
    assert done.returncode == 0 and "it is current on" in done.stdout, done.stderr
    before = await members(nc, "S")
    assert len(before) == 2
    nobody = await run(url, folder, "stream", "peer-remove", "S", "--peer", "nope", "--yes")
    assert nobody.returncode == 2 and "has no copy of S" in nobody.stderr
    asked = await run(url, folder, "stream", "peer-remove", "S", "--peer", before[0])
    assert asked.returncode == 5
    assert f"the copy on {before[0]} (20 messages" in asked.stderr
    assert "only on" not in asked.stderr, "no consumer is"
    assert await members(nc, "S") == before
    await _consumers_with_one_replica(nc, url, folder)
    done = await run(url, folder, "stream", "peer-remove", "S", "--peer", before[0], "--yes")
    assert done.returncode == 0, done.stderr
    assert f"{before[0]} has no copy any more; it is current on" in done.stdout
    after = await members(nc, "S")
    assert len(after) == 2 and before[0] not in after
    for words in (("scale", "S", "1"), ("edit", "S", "--replicas", "1")):
        asked = await run(url, folder, "stream", *words)
        assert (
            asked.returncode == 5 and "1 of 2 copies is removed: one server then" in asked.stderr
        )
    assert await members(nc, "S") == after
    done = await run(url, folder, "stream", "scale", "S", "1", "--yes")
    assert done.returncode == 0, done.stderr
    only = await run(
        url, folder, "stream", "peer-remove", "S", "--peer", (await members(nc, "S"))[0]
    )
    assert only.returncode == 2 and "the only copy of S" in only.stderr
    # Each node's name is its tag.
    done = await run(url, folder, "stream", "move", "S", "--tag", before[0])
    # A busy machine needs longer than it waits, and then it says so.
    assert done.returncode == (0 if "it is current on" in done.stdout else 4), done.stderr
    async with asyncio.timeout(60):
        while await members(nc, "S") != [before[0]]:
            await asyncio.sleep(0.2)
    state = json.loads((await nc.request("$JS.API.STREAM.INFO.S", b"", 30)).data)["state"]
    assert state["messages"] == 20


async def _consumers_with_one_replica(nc: NatsClient, url: str, folder: Path) -> None:
    """What only one server has of consumers is named before its copy is removed."""
    for name in ("durable_name", "name"):
        config = {name: "only", "num_replicas": 1, "ack_policy": "explicit"}
        body = json.dumps({"stream_name": "S", "config": config}).encode()
        created = json.loads((await nc.request("$JS.API.CONSUMER.CREATE.S.only", body, 30)).data)
        server = created["cluster"]["leader"]
        asked = await run(url, folder, "stream", "peer-remove", "S", "--peer", server)
        loss = "their delivery state is lost" if name == "durable_name" else "they are deleted"
        assert asked.returncode == 5 and f"only on {server}, so {loss}: only" in asked.stderr
        await nc.request("$JS.API.CONSUMER.DELETE.S.only", b"", 30)


async def _kick(url: str, home: str, folder: Path) -> None:
    """Kick a client by its number, and nobody else who has that number later."""
    victim = await leaves_for_good(home, "victim")
    row = None
    while row is None:
        row = await connection(url, folder, "victim")
    words = ("kick", row["server_name"], str(row["connection_id"]))
    asked = await run(url, folder, *words)
    assert asked.returncode == 5 and "this will kick victim (app, " in asked.stderr
    assert (await run(url, folder, *words, "--yes", "--read-only")).returncode == 5
    assert victim.is_connected
    done = await run(url, folder, *words, "--yes")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith(f"victim is not connected to {row['server_name']} any more")
    async with asyncio.timeout(60):
        while not victim.is_closed:
            await asyncio.sleep(0.05)


async def leaves_for_good(home: str, name: str) -> NatsClient:
    """Connect a client that does not come back once it was kicked.

    Such a one does not try again either where a busy server gives its first try up.
    """
    async with asyncio.timeout(60):
        while True:
            with suppress(OSError, nats.errors.Error):
                return await nats.connect(home, name=name, allow_reconnect=False)
            await asyncio.sleep(0.5)


def question(viewer: Viewer) -> str:
    """Return what is asked; empty where nothing is."""
    found = viewer.app.screen.query("#question").results(Static)
    return " ".join(str(one.render()) for one in found)


async def _kick_on_the_screen(viewer: Viewer, home: str) -> None:
    """Kick the client under the cursor, after its name was typed."""
    victim = await leaves_for_good(home, "prey")
    await viewer.press("6")
    await viewer.until(lambda: "prey" in viewer.rows(), "its connection")
    order = list(viewer.rows())
    viewer.table.table.move(order.index("prey"))
    await viewer.press("K")
    await viewer.until(lambda: "This will kick prey" in question(viewer), "the question")
    assert "the client may reconnect by itself" in question(viewer)
    await viewer.press(*"pray", "enter")
    await viewer.until(lambda: "That is not prey" in question(viewer), "another name")
    assert victim.is_connected
    await viewer.press("backspace", "backspace", *"ey", "enter")
    await viewer.until(lambda: victim.is_closed, "kicked")
    await viewer.until(lambda: "prey is not connected to" in viewer.words, "it is said")


async def _as_system_user(
    cluster: Cluster, folder: Path, monkeypatch: pytest.MonkeyPatch, leader: str
) -> None:
    """Ask and step down as a user of the system account, where nothing names that account."""
    with monkeypatch.context() as without:
        for name in SYSTEM:
            without.delenv(name)
        home = as_user(cluster.urls[0], "sys")
        nobody = await run(home, folder, "meta", "peer-remove", "nope")
        assert nobody.returncode == 5 and "its members are n1, n2, n3" in nobody.stderr
        same = await run(home, folder, "meta", "step-down", "--preferred", leader)
        assert same.stdout == f"LAB is led by {leader} already: nothing was changed\n", same.stderr


async def _meta_group(cluster: Cluster, folder: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let another server lead the meta group, and the first one again, which is returned."""
    home, system = as_user(cluster.urls[0], "app"), as_user(cluster.urls[0], "sys")
    with monkeypatch.context() as own:
        for name, value in SYSTEM.items():
            own.setenv(name, value)
        [meta] = json.loads((await run(home, folder, "servers", "--json")).stdout)["metas"]
        other, leader = meta["peers"][0]["name"], str(meta["leader"])
        reading = await run(home, folder, "meta", "step-down", "--read-only")
        assert reading.returncode == 5
        done = await run(home, folder, "meta", "step-down", "--preferred", other)
        assert done.stdout == f"LAB is led by {other} now\n", done.stderr
        assert "step down meta LAB" in (await run(home, folder, "journal")).stdout
    # Whoever is a user of the system account needs no [system] beside it.
    done = await run(system, folder, "meta", "step-down", "--preferred", leader)
    assert done.stdout == f"LAB is led by {leader} now\n", done.stderr
    found = json.loads((await run(system, folder, "servers", "--json")).stdout)
    assert (len(found["servers"]), found["source"]) == (3, "system")
    assert found["metas"][0]["leader"] == leader
    with monkeypatch.context() as own:
        own.setattr(meta_group, "_CHANGE_TIMEOUT_S", 1.0)
        await _a_leader_that_stays_has_not_stepped_down(system, folder, leader)
    return leader


async def _a_leader_that_stays_has_not_stepped_down(url: str, folder: Path, leader: str) -> None:
    nc = await nats.connect(url)
    kind = "io.nats.jetstream.api.v1.meta_leader_stepdown_response"
    success = json.dumps({"type": kind, "success": True}).encode()

    async def reply(msg: Msg) -> None:
        await msg.respond(success)

    # The request goes to somebody who replies as the server does, and does nothing.
    there = "META.LEADER.STEPDOWN"
    await nc.subscribe(f"LIE.API.{there}", cb=reply)
    await flushed(nc)
    with speaking(url, f"LIE.API.{there}".encode(), f"$JS.API.{there}".encode()) as lying:
        done = await run(lying, folder, "meta", "step-down")
    await nc.close()
    assert done.returncode == 4, done
    assert f"LAB is led by {leader}: no other server took over within 1 s" in done.stderr


async def _remove_on_the_screen(viewer: Viewer, lost: str) -> None:
    """Remove the server that was killed: only such a one is offered."""
    await viewer.press("4")
    await viewer.until(lambda: "META GROUP" in viewer.words, "the servers")

    async def is_offered() -> bool:
        await viewer.press("ctrl+d")
        return "Which server will not come back?" in viewer.words

    async with asyncio.timeout(90):
        while not await is_offered():
            await viewer.pilot.pause(1.0)
    assert lost in viewer.text
    await viewer.press("enter")
    await viewer.until(lambda: f"This will remove server {lost}" in question(viewer), "question")
    assert "LAB then has 2 members, of which 2 must be up" in question(viewer)
    await viewer.press(*lost, "enter")
    await viewer.until(
        lambda: f"{lost} is not a member of LAB any more" in viewer.words, "it is out"
    )
