from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from natstui.config import Connection, Secret
from natstui.errors import JetStreamUnavailable, PermissionDenied, RequestFailed
from natstui.jetstream.connection import link
from natstui.jetstream.connection.client import Client, connect
from natstui.jetstream.connection.journal import Journal
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.messages.browse import browse
from natstui.jetstream.messages.pull import pull_next
from natstui.jetstream.testbed.broker import Broker
from natstui.model.live.permissions import READ_API_VERBS, may_publish
from natstui.model.records.messages import BrowseMessages, PullNext
from natstui.model.records.record import LinkChanged
from tests.jetstream.accounts import MONITOR

pytestmark = pytest.mark.server

Factory = Callable[..., Broker]


async def client_of(url: str, name: str, **settings: Any) -> Client:
    return await connect(Connection(servers=(url,), user=name, password=Secret(name), **settings))


async def denial_of(client: Client, verb: str) -> PermissionDenied:
    """Return the denial of a request, which must come long before its time-out."""
    before = time.monotonic()
    with pytest.raises(PermissionDenied) as caught:
        await client.request(verb, timeout_s=20)
    assert time.monotonic() - before < 15
    return caught.value


async def test_a_least_privilege_user_reads_everything(nats_server_factory: Factory) -> None:
    url = nats_server_factory(MONITOR).url
    app = await client_of(url, "app")
    await app.request("STREAM.CREATE.S", {"name": "S", "subjects": ["s"]})
    await app.request("CONSUMER.CREATE.S.C", {"stream_name": "S", "config": {"name": "C"}})
    await app.close()
    monitor = await client_of(url, "mon", inbox_prefix="_INBOX_mon")
    verbs = ("INFO", "STREAM.LIST", "STREAM.NAMES", "STREAM.INFO.S", "CONSUMER.LIST.S")
    for verb in (*verbs, "CONSUMER.NAMES.S", "CONSUMER.INFO.S.C"):
        assert await monitor.request(verb)
    assert monitor.link.account == "APP"
    permitted = await monitor.permissions()
    assert all(may_publish(permitted, f"$JS.API.{verb}") for verb in READ_API_VERBS)
    assert not may_publish(permitted, "$JS.API.STREAM.PURGE.*")
    await monitor.close()


async def test_a_denied_request_names_its_subject_at_once(nats_server_factory: Factory) -> None:
    client = await client_of(nats_server_factory(MONITOR).url, "mon", inbox_prefix="_INBOX_mon")
    denial = await denial_of(client, "STREAM.PURGE.Orders")
    assert denial.subject == "$JS.API.STREAM.PURGE.Orders"
    assert str(denial) == (
        'the user has no permission to publish to "$JS.API.STREAM.PURGE.Orders"'
    )
    await client.close()


async def test_what_has_many_answers_is_denied_at_once_too(
    nats_server_factory: Factory, tmp_path: Path
) -> None:
    server = nats_server_factory(MONITOR)
    app = await client_of(server.url, "app")
    config = {"name": "S", "subjects": ["s"], "allow_direct": True}
    await app.request("STREAM.CREATE.S", config)
    await app.close()
    settings = {"inbox_prefix": "_INBOX_mon", "request_timeout_s": 20.0}
    client = await client_of(server.url, "mon", **settings)
    writer = Writer(client, Journal(tmp_path / "journal.jsonl"))
    before = time.monotonic()
    with pytest.raises(PermissionDenied, match=r"DIRECT\.GET\.S"):
        await browse(client, BrowseMessages(1, "S"))
    with pytest.raises(PermissionDenied, match=r"CONSUMER\.MSG\.NEXT\.S\.C"):
        await pull_next(writer, PullNext(1, "S", "C", wait_s=20))
    assert time.monotonic() - before < 30
    assert [entry.outcome for entry in writer.journal.entries()] == ["failed"]
    await client.close()


async def test_many_denied_requests_at_once_each_get_their_own_denial(
    nats_server_factory: Factory,
) -> None:
    client = await client_of(nats_server_factory(MONITOR).url, "mute")
    denials = await asyncio.gather(*(denial_of(client, f"STREAM.INFO.S{i}") for i in range(50)))
    assert [denial.subject for denial in denials] == [
        f"$JS.API.STREAM.INFO.S{i}" for i in range(50)
    ]
    await client.close()


async def test_an_inbox_the_user_may_not_use_is_named_before_any_time_out(
    nats_server_factory: Factory,
) -> None:
    client = await client_of(nats_server_factory(MONITOR).url, "mon")
    for _ in range(2):
        denial = await denial_of(client, "INFO")
        assert (denial.kind, denial.subject) == ("subscribe", "_INBOX.>")
    link = client.link
    assert link.jetstream is None
    assert link.reason == 'the user has no permission to subscribe to "_INBOX.>"'
    await client.close()


async def test_a_denied_subscription_is_told(nats_server_factory: Factory) -> None:
    client = await client_of(nats_server_factory(MONITOR).url, "mon", inbox_prefix="_INBOX_mon")
    denied: asyncio.Future[PermissionDenied] = asyncio.get_running_loop().create_future()

    async def ignore(_message: object) -> None:
        pass

    await client.subscribe("$JS.EVENT.METRIC.>", ignore, denied.set_result)
    assert (await asyncio.wait_for(denied, 10)).subject == "$JS.EVENT.METRIC.>"
    await client.close()


async def test_an_account_without_jetstream_is_connected_and_says_so(
    nats_server_factory: Factory,
) -> None:
    client = await client_of(nats_server_factory(MONITOR).url, "plain")
    with pytest.raises(JetStreamUnavailable):
        await client.request("STREAM.NAMES")
    link = client.link
    assert link.jetstream is False
    assert link.reason == "JetStream is not enabled for the account 'PLAIN'"
    await client.close()


async def test_a_server_without_jetstream_is_connected_and_says_so(
    nats_server_factory: Factory,
) -> None:
    changes: list[LinkChanged] = []
    broker = nats_server_factory(jetstream=False)
    client = await connect(Connection(servers=(broker.url,)), on_link=changes.append)
    await client.close()
    assert changes[0].jetstream is False
    assert changes[0].reason == "the server 'server1' runs without JetStream"


async def test_jetstream_that_is_enabled_later_is_noticed(
    nats_server_factory: Factory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(link, "_IDENTITY_RETRY_S", 0.5)
    without = (
        "server_name: server1\naccounts { A: { users: [ { user: plain, password: plain } ] } }\n"
    )
    broker = nats_server_factory(without)
    changes: list[LinkChanged] = []
    client = await connect(
        Connection(servers=(broker.url,), user="plain", password=Secret("plain")),
        on_link=changes.append,
    )
    assert changes[-1].jetstream is False
    config = broker._config_file
    config.write_text(config.read_text().replace("A: {", "A: { jetstream: enabled, "))
    os.kill(broker.pid, signal.SIGHUP)
    async with asyncio.timeout(60):
        while not changes[-1].jetstream:
            await asyncio.sleep(0.05)
    assert changes[-1].reason is None
    assert client.api_level is not None
    await client.close()


async def test_a_wrong_domain_or_prefix_is_named(nats_server_factory: Factory) -> None:
    broker = nats_server_factory()
    for settings in ({"domain": "hub"}, {"api_prefix": "$JS.hub.API"}):
        client = await connect(Connection(servers=(broker.url,), **settings))
        assert client.link.reason == (
            'no reply at "$JS.hub.API": is the domain or API prefix right?'
        )
        await client.close()


async def test_a_domain_is_reached(nats_server_factory: Factory) -> None:
    broker = nats_server_factory("jetstream { domain: hub }\n")
    client = await connect(Connection(servers=(broker.url,), domain="hub"))
    assert client.prefix == "$JS.hub.API"
    assert client.link.domain == "hub"
    await client.close()


async def test_a_subject_or_payload_that_cannot_be_sent_is_refused_here(
    nats_server_factory: Factory,
) -> None:
    broker = nats_server_factory()
    client = await connect(Connection(servers=(broker.url,)))
    with pytest.raises(RequestFailed, match="not valid"):
        await client.request("STREAM.INFO.with space")
    with pytest.raises(RequestFailed, match="bytes are more than"):
        await client.request_subject("big", b"x" * 2_000_000)
    await client.close()
