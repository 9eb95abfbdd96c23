"""The servers screen on a real cluster, and on a server that tells little."""

from __future__ import annotations

import asyncio
from pathlib import Path

import nats
import pytest

from natstui.jetstream.testbed.broker import Broker
from natstui.jetstream.testbed.cluster import Cluster
from natstui.tui.servers import screen as servers_screen
from tests.jetstream.test_connections import as_user
from tests.session.making import made
from tests.session.scenario import Scenario
from tests.tui.viewer import replaying, viewing

SYSTEM = {"NATSTUI_SYSTEM_USER": "sys", "NATSTUI_SYSTEM_PASSWORD": "sys"}


@pytest.mark.parametrize("source", ["system", "monitoring", "account"])
async def test_each_server_stands_there_with_what_its_source_tells(
    nats_cluster: Cluster, source: str
) -> None:
    urls = [as_user(url, "app") for url in nats_cluster.urls]
    nc = await nats.connect(urls[0])
    js = nc.jetstream()
    for number in range(4):
        await js.add_stream(name=f"S{number}", subjects=[f"s{number}"], num_replicas=3)
    ports = ",".join(node.monitoring_url for node in nats_cluster.nodes)
    environ = {
        "system": SYSTEM,
        "monitoring": {"NATSTUI_CONNECTION_MONITORING": ports},
        "account": {},
    }[source]
    async with viewing(",".join(urls), environ=environ) as viewer:
        await viewer.press("4")
        await viewer.until(lambda: {"n1", "n2", "n3"} == viewer.rows().keys(), "the servers")
        await viewer.until(lambda: viewer.rows()["n1"]["in_s"] not in ("–", ""), "rates")
        rows = viewer.rows()
        assert {row["cluster"] for row in rows.values()} == {"LAB"}
        assert sum(int(row["streams_led"]) for row in rows.values()) == 4
        assert "STREAMS LED, of" in viewer.text
        # What is ours stands beside it, as it always did.
        assert "COST OF MONITORING" in viewer.text and "PERMISSIONS" in viewer.text
        if source == "account":
            assert {row["cpu"] for row in rows.values()} == {"–"}
            assert "$SYS.REQ.SERVER.PING.VARZ" in viewer.text
            assert "http_port" in viewer.words
        else:
            assert [row["meta"] for row in rows.values()].count("leader") == 1
            assert all(float(row["cpu"]) >= 0 for row in rows.values())
            assert "META GROUP" in viewer.text and "3 members" in viewer.words
            assert "NOT TOLD" not in viewer.text
    await nc.close()


async def test_a_rolling_restart_is_seen_and_over_when_it_is_over(
    nats_cluster: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(servers_screen, "_RENEWED_AFTER_S", 1.0)
    urls = [as_user(url, "app") for url in nats_cluster.urls]
    async with viewing(",".join(urls), environ=SYSTEM, size=(200, 50)) as viewer:
        await viewer.press("4")
        await viewer.until(lambda: {"n1", "n2", "n3"} == viewer.rows().keys(), "the servers")
        for name in ("n2", "n3"):
            node = nats_cluster.node(name)
            await asyncio.to_thread(node.stop)
            await viewer.until(lambda one=name: f"no answer from {one}" in viewer.words, name)
            assert name not in viewer.rows()
            await asyncio.to_thread(node.start)
            # It has another id now: nobody waits for the one before, and none is missed.
            await viewer.until(
                lambda one=name: one in viewer.rows() and "no answer" not in viewer.words, name
            )
            assert viewer.rows()[name]["uptime"] not in ("", "–")
        await viewer.until(lambda: "3 members" in viewer.words, "the meta group")


async def test_p_stops_the_looks_at_servers(nats_server: Broker) -> None:
    async with viewing(nats_server.url) as viewer:
        await viewer.press("4")
        await viewer.until(lambda: len(viewer.rows()) == 1, "the server")
        await viewer.press("p")
        await viewer.until(lambda: "paused (p)" in viewer.words, "that it is paused")


async def test_a_recording_shows_what_it_has_of_the_server(tmp_path: Path) -> None:
    scenario = Scenario(streams=1, consumers=1)
    folder = made(tmp_path, [*scenario.beginning(), scenario.poll(1)])
    async with replaying(folder) as viewer:
        await viewer.press("4")
        await viewer.until(lambda: "there is no server behind it" in viewer.words, "the reason")
        assert "CONNECTION" in viewer.text
