"""`natstui health` while a server of a cluster is down that was down before it began."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import nats
import pytest

from natstui.jetstream.testbed.cluster import Cluster
from tests.cli.test_manage import run_here as run

# What one server replies for one that is away: test_away.py.
pytestmark = [pytest.mark.cluster, pytest.mark.long, pytest.mark.xdist_group("health_away")]


async def _made(url: str, dead: str) -> None:
    """Make two streams on the node that will die, and one on all three with consumers of one."""
    nc = await nats.connect(url, user="app", password="app")

    async def api(verb: str, body: dict[str, Any]) -> None:
        async with asyncio.timeout(30):
            while True:
                # Who is asked while a leader is elected does not answer.
                with suppress(TimeoutError):
                    payload = json.dumps(body).encode()
                    reply = await nc.request(f"$JS.API.{verb}", payload, timeout=5)
                    if "error" not in json.loads(reply.data):
                        return
                await asyncio.sleep(0.2)

    for name in ("ONE1", "ONE2"):
        await api(f"STREAM.CREATE.{name}", {"name": name, "placement": {"tags": [dead]}})
    await api("STREAM.CREATE.THREE", {"name": "THREE", "num_replicas": 3})
    for number in range(6):
        config = {"durable_name": f"C{number}", "ack_policy": "explicit", "num_replicas": 1}
        body = {"stream_name": "THREE", "config": config}
        await api(f"CONSUMER.CREATE.THREE.C{number}", body)
    await nc.close()


async def _judged_by_the_others(url: str, dead: str) -> None:
    """Wait until the stream on all nodes has a leader that hears nothing of the dead node."""
    nc = await nats.connect(url, user="app", password="app")
    async with asyncio.timeout(60):
        while True:
            with suppress(TimeoutError):
                reply = await nc.request("$JS.API.STREAM.INFO.THREE", b"", timeout=5)
                cluster = json.loads(reply.data).get("cluster") or {}
                peers = {one["name"]: one for one in cluster.get("replicas") or ()}
                if dead in peers and not peers[dead].get("current"):
                    break
            await asyncio.sleep(0.5)
    await nc.close()


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """Two nodes of three: the third was killed before anybody looked."""
    with Cluster() as cluster:
        asyncio.run(_made(cluster.urls[0], "n3"))
        cluster.node("n3").kill()
        asyncio.run(_judged_by_the_others(cluster.urls[0], "n3"))
        yield cluster.urls[0].replace("nats://", "nats://app:app@")


def test_streams_of_a_server_that_was_down_before_are_critical(address: str) -> None:
    ended = run("health", "--server", address, "--json")
    told = json.loads(ended.stdout)
    by_stream = {(one["stream"], one["code"]) for one in told["findings"]}
    assert ended.returncode == 2 and told["status"] == "critical"
    assert {("ONE1", "NT-S01"), ("ONE2", "NT-S01")} <= by_stream
    assert told["streams_count"] == 3 and told["watched_s"] < 20
    servers = [one["part"] for one in told["findings"] if one["code"] == "NT-V01"]
    assert servers == ["server n3"]
    # Its replica on that server was judged too, although each list took 4 s.
    assert ("THREE", "NT-S23") in by_stream


def test_nagios_and_a_stream_by_its_name_say_the_same(address: str) -> None:
    nagios = run("health", "--server", address, "--format", "nagios")
    assert nagios.returncode == 2
    assert nagios.stdout.startswith("CRITICAL natstui: NT-V01 server n3 server down")
    one = run("health", "--server", address, "--stream", "ONE1")
    assert one.returncode == 2 and "there is no stream" not in one.stdout
    consumer = run("stuck", "--server", address, "ONE1", "C")
    assert consumer.returncode == 3 and "cannot be reached" in consumer.stderr


def test_a_list_of_streams_names_those_that_are_away(address: str) -> None:
    ended = run("stream", "ls", "--server", address)
    assert ended.returncode == 4
    assert "natstui: not reachable: ONE1, ONE2" in ended.stderr
    assert "THREE" in ended.stdout and "ONE1" not in ended.stdout


@pytest.mark.parametrize("words", ["watch --once --json", "overview"])
def test_what_prints_a_part_says_what_is_missing_and_does_not_succeed(
    words: str, address: str
) -> None:
    ended = run(*words.split(), "--server", address)
    assert ended.returncode == 4
    assert "THREE" in ended.stdout, "what can be read is printed"
    assert "not everything could be read: not reachable: ONE1, ONE2" in ended.stderr
