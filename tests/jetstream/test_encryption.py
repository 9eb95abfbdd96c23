from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from natstui.config import Connection, Secret
from natstui.errors import ConnectionFailed, UsageError
from natstui.jetstream.connection import opening
from natstui.jetstream.connection.client import connect
from natstui.jetstream.testbed.broker import Broker, ReservedPorts
from natstui.model.records.record import LinkChanged
from natstui.values import replace
from tests.jetstream.certificates import Files, make_files, write_encrypted_key
from tests.serving import serving

pytestmark = [pytest.mark.server, pytest.mark.xdist_group("encryption")]

Factory = Callable[..., Broker]


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make_files(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module")
def strangers(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return make_files(tmp_path_factory.mktemp("tls") / "theirs")


async def link_of(url: str, **settings: Any) -> LinkChanged:
    """Connect, prove that JetStream answers, and return what the link says."""
    changes: list[LinkChanged] = []
    client = await connect(Connection(servers=(url,), **settings), on_link=changes.append)
    await client.request("INFO")
    await client.close()
    return changes[0]


@pytest.fixture
def short_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wait a second for each step of a connection: what is there answers at once."""
    monkeypatch.setattr(opening, "_ATTEMPT_TIMEOUT_S", 1.0)


async def failure_of(url: str, **settings: Any) -> str:
    """Return why no connection is made, which must be known in time."""
    before = time.monotonic()
    with pytest.raises(ConnectionFailed) as caught:
        await connect(Connection(servers=(url,), **settings))
    assert time.monotonic() - before < 30
    return str(caught.value)


def place_of(url: str) -> str:
    return url.partition("://")[2]


async def test_a_server_is_trusted_by_its_authority(
    nats_server_factory: Factory, files: Files
) -> None:
    url = nats_server_factory(files.server_config()).url
    link = await link_of(url, ca=files.ca)
    assert link.tls is True


async def test_an_encrypted_connection_that_is_lost_is_told_of_and_comes_back(
    nats_server_factory: Factory, files: Files
) -> None:
    server = nats_server_factory(files.server_config())
    changes: list[LinkChanged] = []
    settings = Connection(servers=(server.url,), ca=files.ca)
    client = await connect(settings, on_link=changes.append)
    for _ in range(2):
        changes.clear()
        server.kill()
        async with asyncio.timeout(30):
            while not changes:
                await asyncio.sleep(0.05)
            await asyncio.to_thread(server.start)
            while changes[-1].state != "connected":
                await asyncio.sleep(0.05)
        assert changes[0].state == "reconnecting"
        assert changes[-1].tls is True
        await client.request("INFO")
    await client.close()


async def test_a_wrong_authority_is_named(
    nats_server_factory: Factory, files: Files, strangers: Files
) -> None:
    url = nats_server_factory(files.server_config()).url
    assert await failure_of(url, ca=strangers.ca) == (
        f"TLS: the certificate of {place_of(url)} is not trusted "
        "(unable to get local issuer certificate)"
    )
    assert "is not trusted" in await failure_of(url)


async def test_a_name_the_certificate_does_not_have_is_named(
    nats_server_factory: Factory, files: Files
) -> None:
    elsewhere = replace(files, server_cert=files.elsewhere_cert, server_key=files.elsewhere_key)
    url = nats_server_factory(elsewhere.server_config()).url
    reason = await failure_of(url, ca=files.ca)
    assert reason.startswith(f"TLS: the certificate of {place_of(url)} is not trusted (")
    assert "mismatch" in reason


async def test_a_client_certificate_connects_and_its_absence_is_named(
    nats_server_factory: Factory, files: Files, strangers: Files
) -> None:
    url = nats_server_factory(files.server_config("verify: true")).url
    link = await link_of(url, ca=files.ca, cert=files.cert, key=files.key)
    assert link.tls is True
    for missing in ({}, {"cert": strangers.cert, "key": strangers.key}):
        reason = await failure_of(url, ca=files.ca, **missing)
        assert "client certificate" in reason
        assert place_of(url) in reason


@pytest.mark.usefixtures("short_steps")
async def test_the_handshake_can_come_first(nats_server_factory: Factory, files: Files) -> None:
    url = nats_server_factory(files.server_config("handshake_first: true")).url
    link = await link_of(url, ca=files.ca, tls_first=True)
    assert link.tls is True
    assert await failure_of(url, ca=files.ca) == (
        f"greeting: {place_of(url)} does not greet as a NATS server does; "
        "it begins with a TLS handshake: set tls_first"
    )


async def test_a_handshake_first_that_the_server_does_not_expect_is_named(
    nats_server_factory: Factory, files: Files
) -> None:
    url = nats_server_factory(files.server_config()).url
    reason = await failure_of(url, ca=files.ca, tls_first=True)
    assert reason == (
        f"TLS: {place_of(url)} does not begin with a TLS handshake: tls:// in the address instead "
        "of tls_first expects TLS after the greeting, and refuses to connect without it"
    )


async def test_an_offer_to_encrypt_is_taken_when_it_is_wanted(
    nats_server_factory: Factory, files: Files
) -> None:
    url = nats_server_factory(files.server_config() + "allow_non_tls: true\n").url
    assert (await link_of(url, ca=files.ca)).tls is True
    assert (await link_of(url)).tls is False


@asynccontextmanager
async def plain_server() -> AsyncIterator[tuple[str, bytearray]]:
    """A server that offers no TLS and keeps every byte it is sent."""
    heard = bytearray()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"server_id":"X","version":"2.15.1","headers":true}\r\n')
        heard.extend(await reader.read(4096))

    async with serving(greet) as port:
        yield f"127.0.0.1:{port}", heard


@pytest.mark.parametrize(
    ("scheme", "settings"),
    [("tls", {}), ("nats", {"tls_required": True}), ("nats", {"ca": "CA"})],
)
async def test_no_password_is_sent_in_clear_where_tls_was_asked_for(
    files: Files, scheme: str, settings: dict[str, Any]
) -> None:
    if "ca" in settings:
        settings = {"ca": files.ca}
    async with plain_server() as (place, heard):
        secret = Secret("very-secret")
        reason = await failure_of(f"{scheme}://{place}", user="a", password=secret, **settings)
        await asyncio.sleep(0.1)
    assert reason == (f"TLS: {place} offers no TLS, but TLS is required: nothing was sent to it")
    assert bytes(heard) == b""


async def test_tls_files_that_are_missing_or_wrong_are_named(tmp_path: Path, files: Files) -> None:
    url = "nats://127.0.0.1:1"
    wrong = tmp_path / "wrong.pem"
    wrong.write_text("hello\n")
    with pytest.raises(UsageError, match=r"none\.pem cannot be read: No such file"):
        await connect(Connection(servers=(url,), ca=str(tmp_path / "none.pem")))
    with pytest.raises(UsageError, match="is not a file with PEM certificates"):
        await connect(Connection(servers=(url,), ca=str(wrong)))
    with pytest.raises(UsageError, match="are not a certificate and its key"):
        await connect(Connection(servers=(url,), cert=files.cert, key=files.server_key))
    encrypted = write_encrypted_key(tmp_path / "encrypted.key", b"secret")
    with pytest.raises(UsageError, match=r"encrypted\.key is encrypted"):
        await connect(Connection(servers=(url,), cert=files.cert, key=str(encrypted)))


@pytest.mark.usefixtures("short_steps")
async def test_a_port_that_speaks_http_is_named(nats_server_factory: Factory) -> None:
    broker = nats_server_factory()
    place = broker.monitoring_url.partition("://")[2]
    assert await failure_of(f"nats://{place}") == (
        f"greeting: {place} does not greet as a NATS server does; "
        "it speaks HTTP: is this its monitoring port, or one for ws://?"
    )


@pytest.mark.usefixtures("short_steps")
async def test_the_scheme_that_a_port_for_websockets_wants_is_named(
    nats_server_factory: Factory, files: Files, held_ports: ReservedPorts
) -> None:
    plain, secure = (f"127.0.0.1:{port}" for port in held_ports.numbers)
    listens = 'websocket {{ listen: "{}", {} }}'
    nats_server_factory(listens.format(plain, "no_tls: true"))
    broker = nats_server_factory(listens.format(secure, files.server_config()))
    asked = {
        f"wss://{plain}": "it speaks HTTP without TLS, so that nothing would be encrypted",
        f"ws://{secure}": "it begins with a TLS handshake: use wss://",
        f"nats://{secure}": "it speaks HTTPS: is this its monitoring port, or one for wss://?",
        broker.url.replace("nats", "wss"): "it speaks NATS without WebSocket: use tls://",
        broker.monitoring_url.replace("http", "ws"): (
            "it speaks HTTP without WebSocket: is this its monitoring port?"
        ),
    }
    told = dict(zip(asked, await asyncio.gather(*map(failure_of, asked)), strict=True))
    assert {url: reason.rpartition("; ")[2] for url, reason in told.items()} == asked


@pytest.fixture
def held_ports() -> Iterator[ReservedPorts]:
    with ReservedPorts(2) as ports:
        yield ports


@pytest.mark.usefixtures("short_steps")
async def test_a_port_that_says_nothing_is_named() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        place = f"127.0.0.1:{silent.getsockname()[1]}"
        assert await failure_of(f"nats://{place}") == (
            f"greeting: {place} accepts the connection, but does not greet as a NATS server does"
        )
