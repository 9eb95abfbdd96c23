"""JWTs that expire, few permissions and missing files: one sentence each, and the engine goes on.

Every other reason of a failed connection is tested where it is found: in tests/jetstream.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import pytest

from natstui.config import Connection, Secret
from natstui.jetstream.connection.client import connect
from natstui.jetstream.testbed.broker import Broker
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.record import LinkChanged, Unavailable
from tests.cli.test_manage import run_here
from tests.engine.engine_process import EngineProcess
from tests.jetstream.accounts import MONITOR
from tests.jetstream.operator_jwts import Operator, write_creds

pytestmark = pytest.mark.server

Factory = Callable[..., Broker]
NOTICED_S = 30


def with_user(url: str, name: str, password: str | None = None) -> str:
    return url.replace("://", f"://{name}:{password or name}@")


def failure_of(engine: EngineProcess) -> str:
    """Return the sentence the engine tells about a connection that is not made."""
    failed = engine.next(LinkChanged, lambda change: change.state == "failed", s=NOTICED_S)
    assert failed.reason
    return failed.reason


@pytest.mark.long
def test_a_jwt_that_expires_under_way_is_one_sentence_and_a_new_one_goes_on(
    nats_server_factory: Factory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operator = Operator()
    broker = nats_server_factory(operator.server_config)
    creds = tmp_path / "user.creds"
    write_creds(creds, *operator.user(exp=int(time.time()) - 3600))
    monkeypatch.setenv("NATS_URL", broker.url)
    monkeypatch.setenv("NATS_CREDS", str(creds))
    with EngineProcess() as engine:
        assert f"refuses the connection: the JWT in {creds} expired 1h" in failure_of(engine)
        # The engine runs by now, and tries again every few seconds.
        write_creds(creds, *operator.user(exp=int(time.time()) + 15))
        engine.next(LinkChanged, lambda change: change.state == "connected")
        lost = engine.next(LinkChanged, lambda change: change.state == "reconnecting", s=45)
        assert lost.reason == "the server ended the connection (user authentication expired)"
        refused = engine.next(LinkChanged)
        assert refused.reason is not None
        assert f"refuses the connection: the JWT in {creds} expired" in refused.reason
        write_creds(creds, *operator.user())
        engine.next(LinkChanged, lambda change: change.state == "connected")
        engine.next(Snapshot)


@pytest.mark.long
async def test_a_user_of_least_privilege_sees_everything_and_each_denial_names_its_subject(
    nats_server_factory: Factory, tmp_path: Path
) -> None:
    broker = nats_server_factory(MONITOR)
    app = await connect(Connection(servers=(broker.url,), user="app", password=Secret("app")))
    await app.request("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
    # Durable: an ephemeral one is deleted before an engine on a busy machine has seen it.
    config = {"name": "C", "durable_name": "C"}
    await app.request("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": config})
    await app.request_subject("s", b"a message")
    await app.close()
    settings = tmp_path / "config.toml"
    settings.write_text("[connection]\ninbox_prefix = '_INBOX_mon'\n")
    arguments = ("--server", with_user(broker.url, "mon"), "--config", str(settings))
    with EngineProcess(*arguments) as engine:
        engine.next(Snapshot, lambda snapshot: "C" in snapshot.consumers.name)
        engine.next(Snapshot)
        missing = [record for record in engine.records if isinstance(record, Unavailable)]
    assert all(record.denied_subject for record in missing), missing
    assert not {record.denied_subject for record in missing} & {
        f"$JS.API.{verb}" for verb in ("INFO", "STREAM.LIST", "CONSUMER.LIST.S")
    }


def test_a_file_that_is_missing_ends_the_engine_with_one_sentence(tmp_path: Path) -> None:
    config = tmp_path / "config.toml"
    config.write_text(f"[connection]\ncreds = '{tmp_path}/none.creds'\n")
    done = run_here("engine", "--config", str(config))
    assert done.returncode == 2
    sentence = f"natstui: {tmp_path}/none.creds cannot be read: No such file or directory\n"
    assert (done.stdout, done.stderr) == ("", sentence)
