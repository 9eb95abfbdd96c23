"""`natstui health --audit`: which client requests what of the API, on a real server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator

import nats
import pytest
from nats.aio.client import Client as Nats
from nats.js.api import ConsumerConfig, StreamConfig

from natstui.config.connection import Connection
from natstui.jetstream.connection.client import connect
from natstui.jetstream.events.api_audit import read_api_audit
from natstui.jetstream.testbed.broker import Broker
from tests.cli.test_manage import run_here as run

pytestmark = pytest.mark.server

_USERS = """
accounts { APP: { jetstream: enabled, users: [
  {user: app, password: app}
  {user: deaf, password: deaf, permissions: { subscribe: { deny: ["$JS.EVENT.>"] } } }
] } }
"""
_FORGED = (
    b"[" * 20_000,
    b"not json",
    json.dumps({"subject": "$JS.API.\x1b]0;PWN\x07", "client": {"name": "\x9b31m"}}).encode(),
)


@pytest.fixture(scope="module")
def server() -> Iterator[Broker]:
    """A server with a stream, a consumer, and a user who may not read advisories."""
    with Broker(config_text=_USERS) as broker:
        asyncio.run(_filled(broker.url))
        yield broker


def _as(broker: Broker, user: str) -> str:
    return broker.url.replace("nats://", f"nats://{user}:{user}@")


async def _filled(url: str) -> None:
    client = await nats.connect(url, user="app", password="app")
    stream = client.jetstream()
    await stream.add_stream(StreamConfig(name="ORDERS", subjects=["orders.>"]))
    await stream.add_consumer("ORDERS", ConsumerConfig(durable_name="billing"))
    await client.close()


async def _audited(broker: Broker, *command: str) -> tuple[int, str]:
    """Return what a command prints while a client requests a consumer that does not exist."""
    client = await nats.connect(broker.url, user="app", password="app", name="billing-7")
    requesting = asyncio.create_task(_request(client))
    try:
        done = await asyncio.to_thread(run, *command, "--server", _as(broker, "app"))
    finally:
        requesting.cancel()
        await client.close()
    return done.returncode, done.stdout + done.stderr


async def _request(client: Nats) -> None:
    while True:
        await client.request("$JS.API.CONSUMER.INFO.ORDERS.nope", b"", timeout=10)
        await client.request("$JS.API.STREAM.INFO.ORDERS", b"", timeout=10)
        for forged in _FORGED:
            await client.publish("$JS.EVENT.ADVISORY.API", forged)
        await asyncio.sleep(0.05)


def test_requests_are_counted_by_client_and_error_without_those_of_natstui(
    server: Broker,
) -> None:
    code, told = asyncio.run(
        _audited(server, "health", "--for", "200ms", "--audit", "2s", "--json")
    )
    audit = json.loads(told)["audit"]
    assert code in (0, 1) and audit["ended"] == "ended: natstui read for 2s"
    by_name = {one["request"]: one for one in audit["requests"]}
    missing, there = by_name["CONSUMER.INFO.ORDERS.nope"], by_name["STREAM.INFO.ORDERS"]
    assert (missing["client"], missing["user"]) == ("billing-7", "app")
    assert (missing["err_code"], missing["error"]) == (10014, "consumer not found")
    assert there["err_code"] is None and there["error"] is None
    assert audit["errors_count"] == missing["times_count"] > 1
    # What is forged is counted; nothing of our own polling is among it.
    assert not any("LIST" in name or name == "INFO" for name in by_name)
    assert audit["requests_count"] < audit["read_msgs"]
    assert audit["read_bytes"] > 20_000


async def test_requests_of_our_own_connection_are_not_counted(server: Broker) -> None:
    client = await connect(Connection(servers=(_as(server, "app"),)))
    requests = ("STREAM.LIST", "CONSUMER.LIST.ORDERS", "STREAM.NAMES")

    async def polled() -> None:
        while True:
            await asyncio.gather(*map(client.request, requests))

    polling = asyncio.create_task(polled())
    try:
        audit = await read_api_audit(client, 0.5)
    finally:
        polling.cancel()
        await client.close()
    assert audit.read_msgs > 3
    assert (audit.requests_count, audit.requests) == (0, ())


def test_stuck_writes_it_for_people_and_no_name_controls_the_terminal(server: Broker) -> None:
    command = ("stuck", "ORDERS", "billing", "--for", "200ms", "--audit", "1s")
    _, told = asyncio.run(_audited(server, *command))
    head, _, rows = told.partition("API audit: ")
    assert head.startswith("ORDERS > billing: ")
    assert "polling was paused; natstui read " in rows
    assert "CONSUMER.INFO.ORDERS.nope" in rows and "10014 consumer not found" in rows
    assert "\x1b" not in told and "\x9b" not in told and "\x07" not in told


def test_who_may_not_read_it_and_a_wrong_time_are_one_sentence(server: Broker) -> None:
    denied = run("health", "--server", _as(server, "deaf"), "--audit", "1s")
    assert denied.returncode == 3 and "$JS.EVENT.ADVISORY.API" in denied.stderr
    for words in (
        ("--audit", "soon"), ("--audit", "0s"), ("--audit", "1h"),
        ("--audit", "1s", "--format", "nagios"),
    ):  # fmt: skip
        ended = run("health", "--server", server.url, *words)
        assert ended.returncode == 3
        assert ended.stderr.startswith("natstui: --audit") and ended.stderr.count("\n") == 1
