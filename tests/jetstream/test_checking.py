from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from natstui.config import Connection, Secret
from natstui.jetstream.connection.check import CheckStep, check_connection
from natstui.jetstream.testbed.broker import Broker
from tests.jetstream.accounts import MONITOR

pytestmark = pytest.mark.server

Factory = Callable[..., Broker]


async def steps_of(connection: Connection) -> list[CheckStep]:
    return [step async for step in check_connection(connection)]


def names_of(steps: list[CheckStep]) -> list[str]:
    return [f"{step.name}{'!' if step.error else ''}" for step in steps]


async def test_a_good_connection_passes_every_step(nats_server: Broker) -> None:
    steps = await steps_of(Connection(servers=(nats_server.url,)))
    way = ["address", "TCP", "greeting", "TLS", "authentication"]
    assert names_of(steps) == [*way, "account", "JetStream", "permissions"]
    assert steps[-1].text == "may read all streams and consumers"


async def test_the_failing_step_is_the_last_one(nats_server: Broker) -> None:
    closed = await steps_of(Connection(servers=("127.0.0.1:1",)))
    assert names_of(closed) == ["address", "TCP!"] and closed[0].text == "127.0.0.1"
    missing = await steps_of(Connection(servers=("no.such.host.invalid",)))
    assert names_of(missing) == ["address!"]
    plain = Connection(servers=(nats_server.url,), tls_required=True)
    steps = await steps_of(plain)
    assert names_of(steps) == ["address", "TCP", "greeting", "TLS!"]
    assert [step.text for step in steps[1:3]] == ["connected", "passed"]


async def test_a_refused_user_fails_at_authentication(nats_server_factory: Factory) -> None:
    url = nats_server_factory(MONITOR).url
    steps = await steps_of(Connection(servers=(url,), user="app", password=Secret("x")))
    assert names_of(steps)[-1] == "authentication!"
    assert steps[-1].error is not None
    assert steps[-1].error.exit_code == 3


async def test_an_account_without_jetstream_fails_at_jetstream(
    nats_server_factory: Factory,
) -> None:
    url = nats_server_factory(MONITOR).url
    steps = await steps_of(Connection(servers=(url,), user="plain", password=Secret("plain")))
    assert names_of(steps)[-2:] == ["account", "JetStream!"]
    assert steps[-1].text == "JetStream is not enabled for the account 'PLAIN'"


async def test_what_is_denied_of_some_consumers_is_named(nats_server_factory: Factory) -> None:
    url = nats_server_factory("""
      jetstream: enabled
      authorization { users: [ { user: a, password: a,
        permissions: { publish: { deny: ["$JS.API.CONSUMER.LIST.HID", "other"] } } } ] }
    """).url
    steps = await steps_of(Connection(servers=(url,), user="a", password=Secret("a")))
    assert [step.text for step in steps if step.name == "permissions"] == [
        'the user has no permission to publish to "$JS.API.CONSUMER.LIST.HID"'
    ]
    assert steps[-1].error is not None


async def test_missing_permissions_are_named_one_by_one(nats_server_factory: Factory) -> None:
    config = MONITOR.replace('"$JS.API.STREAM.NAMES",', "").replace(
        '"$JS.API.CONSUMER.INFO.*.*",', ""
    )
    url = nats_server_factory(config).url
    connection = Connection(
        servers=(url,), user="mon", password=Secret("mon"), inbox_prefix="_INBOX_mon"
    )
    steps = await steps_of(connection)
    assert [step.text for step in steps if step.error] == [
        'the user has no permission to publish to "$JS.API.STREAM.NAMES"',
        'the user has no permission to publish to "$JS.API.CONSUMER.INFO.*.*"',
    ]


async def test_every_address_of_a_list_is_tried(nats_server: Broker) -> None:
    steps = await steps_of(Connection(servers=("127.0.0.1:1", nats_server.url)))
    assert names_of(steps)[:2] == ["address", "TCP!"]
    assert names_of(steps)[-1] == "permissions"


async def test_a_frozen_server_does_not_hold_the_check_up(nats_server: Broker) -> None:
    nats_server.freeze()
    begin = time.monotonic()
    steps = await steps_of(Connection(servers=(nats_server.url,), connect_timeout_s=1.0))
    assert time.monotonic() - begin < 30
    assert names_of(steps) == ["address", "TCP", "greeting!"]
    nats_server.thaw()
