"""Workers work with TLS and with every kind of identity."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import nkeys
import pytest

from natstui.config.connection import Connection, Secret
from natstui.jetstream.testbed.broker import Broker
from natstui.model.bench.plan import Role, StreamPlan
from tests.bench.running import plan, run_plan
from tests.jetstream.certificates import make_files
from tests.jetstream.operator_jwts import Operator, Signer, write_creds

pytestmark = pytest.mark.server

Factory = Callable[..., Broker]
STREAM = StreamPlan("IDENTITY", subjects=("bench",))


async def prove(url: str, **identity: Any) -> None:
    """Publish and consume with an identity, acknowledged twice."""
    connection = Connection(servers=(url,), **identity)
    roles = (
        Role("subs", "js-consume", 1, acks="double"),
        Role("pubs", "js-publish-sync", 1, total_msgs=50),
    )
    result, _ = await run_plan(connection, plan(*roles, stream=STREAM))
    assert result.verdict == "ok", result.notes
    assert (result.accounting.stored_msgs, result.accounting.lost_msgs) == (50, 0)


@pytest.mark.long
async def test_tls_with_a_client_certificate_and_a_token_that_no_command_line_has(
    nats_server_factory: Factory, tmp_path: Path
) -> None:
    files, secret = make_files(tmp_path / "tls"), "only-by-stdin-91"
    config = f'{files.server_config("verify: true")}\nauthorization {{ token: "{secret}" }}'
    url = nats_server_factory(config).url
    looking = asyncio.create_task(_secrets_seen(secret))
    await prove(url, ca=files.ca, cert=files.cert, key=files.key, token=Secret(secret))
    looked, found = await looking
    assert looked
    assert not found


@pytest.mark.long
async def test_user_and_password(nats_server_factory: Factory) -> None:
    url = nats_server_factory('authorization { user: ann, password: "p w" }').url
    await prove(url, user="ann", password=Secret("p w"))


@pytest.mark.long
async def test_an_nkey(nats_server_factory: Factory) -> None:
    user = Signer.make(nkeys.PREFIX_BYTE_USER)
    url = nats_server_factory(f"authorization {{ users: [ {{ nkey: {user.public} }} ] }}").url
    await prove(url, nkey=Secret(user.seed))


@pytest.mark.long
async def test_a_creds_file_and_a_jwt(nats_server_factory: Factory, tmp_path: Path) -> None:
    operator = Operator()
    url = nats_server_factory(operator.server_config).url
    jwt, seed = operator.user()
    await prove(url, creds_file=str(write_creds(tmp_path / "u.creds", jwt, seed)))
    await prove(url, user_jwt=Secret(jwt), user_seed=Secret(seed))


async def _secrets_seen(secret: str) -> tuple[bool, bool]:
    """Look at every worker for a while."""
    looked = found = False
    for _ in range(30):
        for folder in Path("/proc").glob("[0-9]*"):
            try:
                command = (folder / "cmdline").read_bytes()
                if b"natstui.bench.worker" in command:
                    looked = True
                    found |= secret.encode() in command + (folder / "environ").read_bytes()
            except (FileNotFoundError, PermissionError, ProcessLookupError):
                continue
        await asyncio.sleep(0.05)
    return looked, found
