"""A run is true on every way to the server: TLS, WebSockets with and without it, leaf nodes."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import nats
import nats.errors
import pytest

from natstui.bench.run.controller import Benchmark
from natstui.config.connection import Connection
from natstui.jetstream.testbed.broker import Broker
from natstui.model.bench.plan import Payload, RateSegment, Role, StreamPlan
from tests.bench.here import run_here
from tests.bench.observer import Observer, prove
from tests.bench.running import Records, plan
from tests.jetstream.certificates import make_files

pytestmark = pytest.mark.server

Factory = Callable[..., Broker]
MIB = 1 << 20
LARGE = "max_payload: 2MB\n"
EXISTING = StreamPlan("TRUTH", create=False)
WAYS = (*(pytest.param(way, marks=pytest.mark.long) for way in ("tls", "ws", "leaf", "wss")),)
"""Each part of the first two is in a WebSocket with TLS, and test_identities.py has TLS alone."""


@dataclass
class Way:
    """How workers connect, and how somebody does who looks at the same server."""

    connection: Connection
    observer_url: str
    observer_tls: ssl.SSLContext | None = None


def websocket(factory: Factory, port: int, scheme: str, security: str, **identity: str) -> Way:
    broker = factory(
        f'{LARGE}websocket {{ listen: "127.0.0.1:{port}", {security} }}'  # newline separates
    )
    url = f"{scheme}://127.0.0.1:{port}"
    return Way(Connection(servers=(url,), **identity), broker.url)  # type: ignore[arg-type]


def make_way(name: str, factory: Factory, port: int, folder: Path) -> Way:
    files = make_files(folder / "tls")
    if name == "tls":
        url = factory(LARGE + files.server_config()).url.replace("nats://", "tls://")
        trusted = ssl.create_default_context(cafile=files.ca)
        return Way(Connection(servers=(url,), ca=files.ca), url, trusted)
    if name == "ws":
        return websocket(factory, port, "ws", "no_tls: true")
    if name == "wss":
        return websocket(factory, port, "wss", files.server_config(), ca=files.ca)
    # Without a domain of its own, no JetStream passes from a leaf node to its hub.
    hub = factory(
        f'{LARGE}jetstream {{ domain: hub }}\nleafnodes {{ listen: "127.0.0.1:{port}" }}'
    )
    remote = f'leafnodes {{ remotes: [ {{ url: "nats://127.0.0.1:{port}" }} ] }}'
    leaf = factory(LARGE + remote, jetstream=False)
    return Way(Connection(servers=(leaf.url,), domain="hub"), hub.url)


async def joined(leaf: Way) -> None:
    """Wait until the leaf node reaches its hub."""
    nc = await nats.connect(leaf.connection.servers[0])
    while True:
        with suppress(nats.errors.NoRespondersError):
            await nc.request("$JS.hub.API.INFO", timeout=5)
            break
        await asyncio.sleep(0.05)
    await nc.close()


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def way(name: str, nats_server_factory: Factory, held_port: int, tmp_path: Path) -> Way:
    made = make_way(name, nats_server_factory, held_port, tmp_path)
    if name == "leaf":
        await joined(made)
    return made


@pytest.mark.parametrize("name", ["leaf"], indirect=True)
async def test_acks_over_a_leaf_node_without_a_jetstream_reach_its_hub_alone(way: Way) -> None:
    observer = Observer()
    await observer.begin(way.observer_url)
    what = plan(Role("subs", "js-consume", consumer="shared"), stream=EXISTING)
    await Benchmark(what, way.connection, Records(), "shared").check()
    await observer.nc.close()


@pytest.mark.parametrize("name", WAYS, indirect=True)
async def test_what_a_run_tells_is_what_somebody_else_saw(way: Way) -> None:
    observer = Observer()
    await observer.begin(way.observer_url, way.observer_tls)
    await prove(way.connection, observer)


# It has what the ways without WebSockets or without TLS have.
@pytest.mark.parametrize(
    "name", ["wss", pytest.param("leaf", marks=pytest.mark.long)], indirect=True
)
async def test_a_mebibyte_with_headers_comes_whole_and_once(way: Way) -> None:
    payload = Payload(size_bytes=MIB, headers=(("Kind", "test"),))
    total, rate = 20, (RateSegment(None, 50, 50),)

    def role(name: str, pattern: str, **others: object) -> Role:
        return Role(name, pattern, 1, payload=payload, **others)  # type: ignore[arg-type]

    stored = StreamPlan("LARGE", subjects=("large",))
    what = plan(
        role("consumers", "js-consume", subject="large", batch_msgs=4),
        role("subs", "subscribe", subject="core"),
        role("serve", "serve", subject="ask"),
        role("pubs", "js-publish-async", subject="large", total_msgs=total, window_msgs=4),
        role("core", "publish", subject="core", total_msgs=total, schedule=rate),
        role("asks", "request", subject="ask", total_msgs=total),
        stream=stored,
    )
    result = await run_here(way.connection, what)
    assert result.verdict == "ok", result.notes
    for worker in result.workers:
        counts = worker.counts
        assert counts.received_bytes == counts.received_msgs * MIB, worker.role
        assert counts.sent_bytes == counts.sent_msgs * MIB, worker.role
        assert counts.sent_msgs + counts.received_msgs in (total, 2 * total), worker.role
    books = result.accounting
    assert (books.stored_msgs, books.lost_msgs, books.duplicate_msgs) == (total, 0, 0)
