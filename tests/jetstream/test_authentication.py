from __future__ import annotations

import asyncio
import socket
import struct
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import quote

import nkeys
import pytest

from natstui.config import Connection, Secret
from natstui.errors import AuthenticationFailed, ConnectionFailed, UsageError
from natstui.jetstream.connection.client import connect
from natstui.jetstream.testbed.broker import Broker
from natstui.model.records.record import LinkChanged
from tests.jetstream.operator_jwts import Operator, Signer, write_creds
from tests.serving import serving

pytestmark = pytest.mark.server

Factory = Callable[..., Broker]

PASSWORD = "p@ss:w/ö%rd?"
SILENT = (
    "closes the connection before it accepts the user: it was stopped, or it requires a client "
    "certificate (cert, key)"
)
USER = f'authorization {{ user: "ann@x", password: "{PASSWORD}" }}'


async def link_of(url: str, **settings: Any) -> LinkChanged:
    """Connect, prove that JetStream answers, and return what the link says."""
    client = await connect(Connection(servers=(url,), **settings))
    await client.request("INFO")
    await client.close()
    return client.link


async def failure_of(url: str, **settings: Any) -> ConnectionFailed:
    """Return why no connection is made, which must be known in time."""
    before = time.monotonic()
    with pytest.raises(ConnectionFailed) as caught:
        await connect(Connection(servers=(url,), **settings))
    assert time.monotonic() - before < 30
    return caught.value


async def test_user_and_password_connect(nats_server_factory: Factory) -> None:
    url = nats_server_factory(USER).url
    link = await link_of(url, user="ann@x", password=Secret(PASSWORD))
    assert link.user == "ann@x"


async def test_a_password_in_the_address_is_decoded(nats_server_factory: Factory) -> None:
    url = nats_server_factory(USER).url
    who = f"{quote('ann@x', safe='')}:{quote(PASSWORD, safe='')}@"
    link = await link_of(url.replace("://", f"://{who}"))
    assert link.user == "ann@x"
    assert link.server_url == url


async def test_a_wrong_password_is_named(nats_server_factory: Factory) -> None:
    url = nats_server_factory(USER).url
    failure = await failure_of(url, user="ann@x", password=Secret("wrong"))
    place = url.removeprefix("nats://")
    assert isinstance(failure, AuthenticationFailed)
    assert str(failure) == (
        f"authentication: {place} does not accept this user, password, token or key "
        "(authorization violation)"
    )


async def test_a_token_connects_as_a_setting_and_in_the_address(
    nats_server_factory: Factory,
) -> None:
    url = nats_server_factory('authorization { token: "t:k/n" }').url
    await link_of(url, token=Secret("t:k/n"))
    await link_of(url.replace("://", "://t%3Ak%2Fn@"))
    assert isinstance(await failure_of(url), AuthenticationFailed)


async def test_an_nkey_connects_even_when_its_file_is_decorated(
    nats_server_factory: Factory, tmp_path: Path
) -> None:
    user = Signer.make(nkeys.PREFIX_BYTE_USER)
    url = nats_server_factory(f"authorization {{ users: [ {{ nkey: {user.public} }} ] }}").url
    file = tmp_path / "user.nk"
    file.write_bytes(
        f"-----BEGIN USER NKEY SEED-----\r\n{user.seed}\r\n------END------\r\n".encode()
    )
    await link_of(url, nkey_file=str(file))
    await link_of(url, nkey=Secret(user.seed))
    other = Signer.make(nkeys.PREFIX_BYTE_USER)
    assert isinstance(await failure_of(url, nkey=Secret(other.seed)), AuthenticationFailed)


@pytest.mark.parametrize("newline", ["\n", "\r\n"])
async def test_creds_connect_also_with_windows_line_ends(
    nats_server_factory: Factory, tmp_path: Path, newline: str
) -> None:
    operator = Operator()
    url = nats_server_factory(operator.server_config).url
    file = write_creds(tmp_path / "user.creds", *operator.user(), newline=newline)
    link = await link_of(url, creds_file=str(file))
    assert link.account == operator.account.public
    await link_of(url, creds=Secret(file.read_text()))


async def test_a_jwt_connects_with_its_seed_and_a_bearer_jwt_without(
    nats_server_factory: Factory,
) -> None:
    operator = Operator()
    url = nats_server_factory(operator.server_config).url
    jwt, seed = operator.user()
    await link_of(url, user_jwt=Secret(jwt), user_seed=Secret(seed))
    assert isinstance(await failure_of(url, user_jwt=Secret(jwt)), AuthenticationFailed)
    bearer, _ = operator.user(bearer=True)
    await link_of(url, user_jwt=Secret(bearer))


async def test_an_expired_jwt_is_said_to_be_expired(
    nats_server_factory: Factory, tmp_path: Path
) -> None:
    operator = Operator()
    url = nats_server_factory(operator.server_config).url
    jwt, seed = operator.user(exp=int(time.time()) - 3660)
    file = write_creds(tmp_path / "user.creds", jwt, seed)
    failure = await failure_of(url, creds_file=str(file))
    assert isinstance(failure, AuthenticationFailed)
    place = url.removeprefix("nats://")
    assert str(failure) == (
        f"authentication: {place} refuses the connection: the JWT in {file} expired 1h01m ago"
    )


async def test_a_jwt_that_expires_is_said_so_and_a_renewed_one_is_used(
    nats_server_factory: Factory, tmp_path: Path
) -> None:
    operator = Operator()
    url = nats_server_factory(operator.server_config).url
    jwt, seed = operator.user(exp=int(time.time()) + 3)
    file = write_creds(tmp_path / "user.creds", jwt, seed)
    changes: list[LinkChanged] = []
    client = await connect(
        Connection(servers=(url,), creds_file=str(file)), on_link=changes.append
    )
    async with asyncio.timeout(60):
        while not any("expired" in (change.reason or "") for change in changes):
            await asyncio.sleep(0.05)
    assert changes[-1].state == "reconnecting"
    write_creds(file, *operator.user())
    async with asyncio.timeout(60):
        while changes[-1].state != "connected":
            await asyncio.sleep(0.05)
    assert await client.request("INFO")
    await client.close()


async def test_a_server_that_is_full_says_so(nats_server_factory: Factory) -> None:
    url = nats_server_factory("max_connections: 1\n").url
    first = await connect(Connection(servers=(url,)))
    place = url.removeprefix("nats://")
    assert str(await failure_of(url)) == (
        f"authentication: {place} refuses the connection (maximum connections exceeded)"
    )
    await first.close()


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        (
            b"-ERR 'maximum connections exceeded'\r\n",
            "refuses the connection (maximum connections exceeded)",
        ),
        # To listen without a word is what it complains of here.
        (b"-ERR 'Authentication Timeout'\r\n", SILENT),
        (b"-ERR '" + b"x" * 100_000, SILENT),
        (b"", SILENT),
    ],
    ids=["full", "timeout", "endless", "nothing"],
)
async def test_what_a_server_said_is_told_when_its_reset_lost_it(said: bytes, reason: str) -> None:
    connected_count = 0

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal connected_count
        connected_count += 1
        writer.write(b'INFO {"server_id":"X","version":"2.15.1","headers":true}\r\n')
        if connected_count == 1:
            # It closes while we write: a reset, and what it said is not there to be read.
            await reader.readline()
            linger = struct.pack("ii", 1, 0)
            writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
            writer.transport.abort()
        else:
            writer.write(said)

    async with serving(greet) as port:
        place = f"127.0.0.1:{port}"
        failure = await failure_of(f"nats://{place}")
    assert str(failure) == f"authentication: {place} {reason}"
    assert connected_count == 2


async def test_files_that_are_missing_or_wrong_are_named(tmp_path: Path) -> None:
    url = "nats://127.0.0.1:1"
    with pytest.raises(UsageError, match=r"none\.creds cannot be read: No such file"):
        await connect(Connection(servers=(url,), creds_file=str(tmp_path / "none.creds")))
    wrong = tmp_path / "wrong.txt"
    wrong.write_text("hello\n")
    with pytest.raises(UsageError, match="it is not a creds file"):
        await connect(Connection(servers=(url,), creds_file=str(wrong)))
    with pytest.raises(UsageError, match="has no nkey seed"):
        await connect(Connection(servers=(url,), nkey_file=str(wrong)))
    seed = Signer.make(nkeys.PREFIX_BYTE_USER).seed
    # One seed of 256 ends so by itself, and would not be damaged.
    broken = seed[:-2] + ("BA" if seed.endswith("AA") else "AA")
    with pytest.raises(UsageError, match="is damaged"):
        await connect(Connection(servers=(url,), nkey=Secret(broken)))
