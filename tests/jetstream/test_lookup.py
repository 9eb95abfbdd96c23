from __future__ import annotations

import socket
import threading
import time
from typing import Any

import pytest

from natstui.config import Connection
from natstui.errors import ConnectionFailed
from natstui.jetstream.connection import opening
from natstui.jetstream.connection.client import connect
from natstui.jetstream.connection.transport import lookup
from natstui.jetstream.testbed.broker import Broker


async def test_an_address_is_its_own_answer() -> None:
    assert await lookup("127.0.0.1", 4222) == ["127.0.0.1"]


@pytest.mark.parametrize("host", ["no.such.host.invalid", "x" * 70 + ".invalid"])
async def test_a_host_that_is_not_known_is_named(host: str) -> None:
    with pytest.raises(ConnectionFailed, match=f"^address: the host '{host}' is not known"):
        await connect(Connection(servers=(host,)))


@pytest.mark.slow
async def test_a_resolver_that_does_not_answer_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    over = threading.Event()

    def never(*_: Any, **__: Any) -> list[Any]:
        over.wait(60)
        return []

    monkeypatch.setattr(socket, "getaddrinfo", never)
    monkeypatch.setattr(opening, "_ATTEMPT_TIMEOUT_S", 0.5)
    begin = time.monotonic()
    with pytest.raises(ConnectionFailed, match=r"the host 'slow\.example' takes too long"):
        await connect(Connection(servers=("slow.example",)))
    assert time.monotonic() - begin < 30
    over.set()


@pytest.mark.server
async def test_the_next_address_of_a_host_is_tried_when_the_first_is_dead(
    nats_server: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    port = int(nats_server.url.rpartition(":")[2])

    def two(*_: Any, **__: Any) -> list[Any]:
        places = [("127.0.0.9", port), ("127.0.0.1", port)]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", place) for place in places]

    monkeypatch.setattr(socket, "getaddrinfo", two)
    client = await connect(Connection(servers=(f"two.example:{port}",)))
    assert client.nc.is_connected
    await client.close()
