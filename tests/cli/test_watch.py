"""`natstui watch` prints what plain nats-py sees, and nothing a terminal would obey."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import time
from collections.abc import Callable, Iterable
from itertools import pairwise
from typing import Any

import click
import nats
import pytest
from nats.aio.client import Client as Nats
from nats.js.api import ConsumerConfig, StreamConfig

from natstui.cli.watch.run import Row, WatchCollector, watch_until_cancelled
from natstui.cli.watch.server import ServerRow
from natstui.clock import steady_s
from natstui.config import Connection
from natstui.jetstream.connection.client import connect
from natstui.jetstream.testbed.broker import Broker
from tests.accounts import Account
from tests.cli.processes import NatstuiProcess
from tests.cli.watching import watch, watch_once
from tests.ending import ended
from tests.jetstream.demo_watch import ask
from tests.jetstream.flushing import flushed
from tests.jetstream.slow_link import SlowLink, Wire
from tests.tui.terminals import OnTerminal

pytestmark = pytest.mark.server

MAIN = """
import sys
from natstui.__main__ import main
try:
    main()
finally:
    assert not {"textual", "rich", "pyspark"} & set(sys.modules)
"""

FIELDS_OF_STREAM = {
    "stored_msgs": "messages",
    "stored_bytes": "bytes",
    "first_seq": "first_seq",
    "last_seq": "last_seq",
    "deleted_msgs": "num_deleted",
    "subjects_count": "num_subjects",
    "consumers_count": "consumer_count",
}
FIELDS_OF_CONSUMER = {
    "pending_msgs": "num_pending",
    "ack_pending_msgs": "num_ack_pending",
    "redelivered_msgs": "num_redelivered",
    "waiting_pulls_count": "num_waiting",
}
LEAST = """
accounts { APP { jetstream: enabled, users: [
  { user: app, password: app }
  { user: mon, password: mon, permissions {
    publish { allow: ["$JS.API.INFO", "$JS.API.STREAM.LIST", "$JS.API.STREAM.INFO.*",
      "$JS.API.CONSUMER.LIST.*", "$JS.API.CONSUMER.INFO.*.*"] }
    subscribe { allow: ["_INBOX.>"] } } }
  { user: blind, password: blind, permissions {
    publish { allow: ["$JS.API.INFO", "$JS.API.STREAM.NAMES"] }, subscribe { allow: ["_INBOX.>"] }
  } }
] } }
"""


async def busy_stream(url: str, **login: str) -> Nats:
    """Make a stream with a hole and a consumer with something in every counter."""
    nc = await nats.connect(url, **login)
    js = nc.jetstream()
    await js.add_stream(
        StreamConfig(name="ORDERS", subjects=["orders.>"], max_msgs=40, description="of a shop")
    )
    for number in range(10):
        await js.publish(f"orders.{number % 3}", b"x" * 100)
    await js.delete_msg("ORDERS", 5)
    await js.add_consumer(
        "ORDERS", ConsumerConfig(durable_name="billing", ack_wait=60, max_ack_pending=20)
    )
    pull = await js.pull_subscribe_bind("billing", "ORDERS")
    first, second, *_ = await pull.fetch(4)
    await first.ack_sync(timeout=30)
    await second.nak()
    await pull.fetch(1)
    await flushed(nc)
    return nc


async def test_every_value_of_json_is_what_plain_nats_py_sees(nats_server: Broker) -> None:
    nc = await busy_stream(nats_server.url)
    said = await asyncio.to_thread(watch_once, nats_server.url)
    info = await ask(nc, "STREAM.INFO.ORDERS")
    told = await ask(nc, "CONSUMER.INFO.ORDERS.billing")
    account = await ask(nc, "INFO")
    await nc.close()
    assert (said.code, said.err) == (0, "")
    stream = said.row("stream", "ORDERS", schema=1)
    for ours, theirs in FIELDS_OF_STREAM.items():
        assert stream[ours] == info["state"].get(theirs, 0), ours
    assert stream["subjects"] == ["orders.>"]
    assert stream["description"] == "of a shop"
    assert (stream["max_msgs"], stream["max_bytes"]) == (40, None)
    assert stream["msgs_used_percent"] == 100 * 9 / 40
    assert (stream["in_msgs_per_s"], stream["removed_msgs_per_s"]) == (0, 0)
    row = said.row("consumer", "billing", stream="ORDERS")
    for ours, theirs in FIELDS_OF_CONSUMER.items():
        assert row[ours] == told[theirs], ours
    for which in ("delivered", "ack_floor"):
        for part in ("stream", "consumer"):
            assert row[f"{which}_{part}_seq"] == told[which][f"{part}_seq"]
    assert (row["pull"], row["durable"], row["push_bound"]) == (True, True, None)
    assert row["max_ack_pending_msgs"] == 20
    assert row["delivered_msgs_per_s"] == 0
    assert row["lag_s"] > 0
    assert said.row("account", "$G")["storage_bytes"] == account["storage"]
    assert said.row("server", nats_server.name)["link"] == "connected"


async def test_rates_are_measured_between_two_polls(nats_server: Broker) -> None:
    nc = await busy_stream(nats_server.url)

    async def publish() -> None:
        while True:
            await nc.publish("orders.1", b"y" * 10)
            await asyncio.sleep(0.01)

    publishing = asyncio.create_task(publish())
    said = await asyncio.to_thread(watch_once, nats_server.url)
    publishing.cancel()
    await nc.close()
    assert 5 < said.row("stream", "ORDERS")["in_msgs_per_s"] < 200


@pytest.mark.long
async def test_302_streams_and_600_consumers_are_all_listed(nats_server: Broker) -> None:
    nc = await nats.connect(nats_server.url)

    async def create(number: int) -> None:
        name = f"S{number:03}"
        config = {"name": name, "subjects": [f"s.{number}"], "storage": "memory"}
        await nc.request(f"$JS.API.STREAM.CREATE.{name}", json.dumps(config).encode(), timeout=30)
        for consumer in range(300 if number == 0 else 1):
            body = {"stream_name": name, "config": {"durable_name": f"C{consumer}"}}
            subject = f"$JS.API.CONSUMER.CREATE.{name}.C{consumer}"
            await nc.request(subject, json.dumps(body).encode(), timeout=30)

    await asyncio.gather(*(create(number) for number in range(302)))
    await nc.close()
    said = await asyncio.to_thread(watch_once, nats_server.url)
    assert said.code == 0
    kinds = [row["kind"] for row in said.rows]
    assert kinds.count("stream") == 302
    assert kinds.count("consumer") == 300 + 301


async def test_a_least_privilege_user_sees_everything_it_may(
    nats_server_factory: Callable[..., Broker],
) -> None:
    broker = nats_server_factory(LEAST)
    nc = await busy_stream(broker.url, user="app", password="app")
    told = await ask(nc, "CONSUMER.INFO.ORDERS.billing")
    await nc.close()
    url = broker.url.replace("//", "//mon:mon@")
    said = await asyncio.to_thread(watch_once, url)
    assert (said.code, said.err) == (0, "")
    assert said.row("stream", "ORDERS")["stored_msgs"] == 9
    assert said.row("consumer", "billing")["ack_pending_msgs"] == told["num_ack_pending"]
    denied = [row["denied_subject"] for row in said.rows if row["kind"] == "unavailable"]
    assert all(subject.startswith("$JS.API.STREAM.MSG.GET.") for subject in denied)


def test_what_is_denied_is_named_and_the_code_is_4(
    nats_server_factory: Callable[..., Broker],
) -> None:
    url = nats_server_factory(LEAST).url.replace("//", "//blind:blind@")
    said = watch_once(url)
    assert said.code == 4
    (line,) = said.err.splitlines()
    assert '"$JS.API.STREAM.LIST"' in json.loads(line)["error"]


def test_each_failure_is_one_sentence_and_its_code(
    nats_server_factory: Callable[..., Broker],
) -> None:
    plain = nats_server_factory(jetstream=False)
    locked = nats_server_factory("authorization { user: a, password: b }")
    wrong = locked.url.replace("//", "//a:wrong@")
    for url, code, words in (
        ("nats://127.0.0.1:1", 3, "refused"),
        (wrong, 3, "uthorization|password|refused"),
        (plain.url, 4, "JetStream"),
    ):
        began_s = time.monotonic()
        said = watch_once(url)
        assert said.code == code, said
        assert re.search(words, said.err), said.err
        assert len(said.err.splitlines()) == 1
        assert time.monotonic() - began_s < 60
    assert watch("--once", "--interval", "soon").code == 2
    assert watch("--once", "--interval", "0").code == 2
    assert watch("--once", "--interval", "100ms").code == 2
    assert "between 200ms and 1h" in watch("--once", "--interval", "2h").err


HOSTILE = "[@click=app.quit]x[/]\x1b]52;c;aGk=\x07\x9b2J\u202eevil\u200b\x00\r\n漢字\ud800"


async def test_nothing_hostile_reaches_the_terminal(nats_server: Broker) -> None:
    nc = await nats.connect(nats_server.url)
    names = ["[@click=quit]", "E\x1b[2J", "B\u202ebidi", "W漢字", "Z\u200bzero", "C\x9b2J"]
    for name in names:
        config = json.dumps({"name": name, "description": HOSTILE, "subjects": [f"{name}.>"]})
        await nc.request(f"$JS.API.STREAM.CREATE.{name}", config.encode(), timeout=20)
    for stream in names:
        body = {"stream_name": stream, "config": {"durable_name": stream, "description": HOSTILE}}
        await nc.request(
            f"$JS.API.CONSUMER.DURABLE.CREATE.{stream}.{stream}",
            json.dumps(body).encode(),
            timeout=20,
        )
    await nc.close()
    said = await asyncio.to_thread(watch_once, nats_server.url)
    assert {row["name"] for row in said.rows if row["kind"] == "stream"} == set(names)
    assert said.out.isascii()
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f]", said.out)
    text = await asyncio.to_thread(watch, "--once", "--server", nats_server.url)
    assert text.code == 0
    assert not re.search("[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e\u200b]", text.out)
    assert "漢字" in text.out


@pytest.mark.terminal
@pytest.mark.long
async def test_tables_fit_the_terminal_and_nothing_of_the_screen_or_spark_is_loaded(
    nats_server: Broker,
) -> None:
    width = 60
    nc = await busy_stream(nats_server.url)
    await nc.close()
    with OnTerminal(MAIN, "watch", "--once", "--server", nats_server.url, width=width) as terminal:
        assert await asyncio.to_thread(terminal.wait) == 0
    lines = click.unstyle(terminal.output.decode()).replace("\r", "").splitlines()
    header, stream = [line for line in lines if re.match("│ (STREAM|ORDERS) ", line)][:2]
    assert [line for line in lines if len(line) > width] == []
    assert header.index("MSGS") + 4 == stream.index(" 9 ") + 2
    assert any("billing" in line for line in lines)


def start(url: str, *words: str) -> NatstuiProcess:
    return NatstuiProcess("watch", "--server", url, *words)


def until(process: NatstuiProcess, **wanted: object) -> dict[str, Any]:
    """Read lines until one has these values."""
    for line in process.stdout:
        row: dict[str, Any] = json.loads(line)
        if all(row.get(name) == value for name, value in wanted.items()):
            return row
    raise AssertionError(f"it ended before {wanted}")


def rows_that_grow_old_are_stale_and_then_fresh_again(
    process: NatstuiProcess, nats_server: Broker
) -> None:
    nats_server.freeze()
    for kind, name in (("stream", "ORDERS"), ("consumer", "billing")):
        old = until(process, kind=kind, name=name, stale=True)
        assert 5 < old["sampled_ago_s"] < 60
    nats_server.thaw()
    for kind, name in (("stream", "ORDERS"), ("consumer", "billing")):
        assert until(process, kind=kind, name=name, stale=False)["sampled_ago_s"] < 5


@pytest.mark.long
async def test_it_goes_on_over_a_freeze_and_a_restart_and_tells_what_is_gone(
    nats_server: Broker,
) -> None:
    nc = await busy_stream(nats_server.url)
    await nc.close()
    process = start(nats_server.url, "--json", "--interval", "300ms")
    until(process, kind="consumer", name="billing")
    rows_that_grow_old_are_stale_and_then_fresh_again(process, nats_server)
    nats_server.stop()
    lost = until(process, kind="server", link="reconnecting")
    assert lost["reason"]
    nats_server.start()
    until(process, kind="stream", name="ORDERS")
    nc = await nats.connect(nats_server.url)
    await nc.jetstream().delete_stream("ORDERS")
    until(process, kind="removed", name="ORDERS", stream=None)
    await nc.close()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")


@pytest.mark.long
async def test_streams_whose_list_takes_longer_than_a_poll_are_written_again_and_again(
    nats_server: Broker,
) -> None:
    client = await connect(Connection(servers=(nats_server.url,)))
    for number in range(201):
        name = f"S{number:03}"
        body = {"name": name, "subjects": [name], "storage": "memory"}
        await client.request(f"STREAM.CREATE.{name}", body)
    consumer = {"stream_name": "S000", "config": {"durable_name": "C", "ack_policy": "none"}}
    await client.request("CONSUMER.DURABLE.CREATE.S000.C", consumer)
    await client.close()
    async with SlowLink(nats_server.url, Wire(60_000, 0.02)).listening() as url:
        process = start(url, "--json")
        for name in ("S000", "S200", "S000", "S200", "S000"):
            await asyncio.to_thread(until, process, kind="stream", name=name)
        process.send_signal(signal.SIGINT)
        await asyncio.to_thread(process.communicate, timeout=60)


def test_a_reader_that_has_enough_ends_it_quietly(nats_server: Broker) -> None:
    process = start(nats_server.url, "--interval", "200ms")
    assert " server: " in process.stdout.readline()
    process.stdout.close()
    assert process.wait() == 0
    assert process.stderr.read() == ""
    process.stderr.close()


async def test_every_line_has_the_fields_of_its_schema(nats_server: Broker) -> None:
    nc = await busy_stream(nats_server.url)
    await nc.close()
    schema = json.loads(watch("--schema").out)
    fields = {
        it["properties"]["kind"]["enum"][0]: set(it["properties"])
        for it in schema["$defs"].values()
        if "kind" in it["properties"]
    }
    said = await asyncio.to_thread(watch_once, nats_server.url)
    assert {"server", "account", "stream", "consumer"} <= {row["kind"] for row in said.rows}
    for row in said.rows:
        # Only where several systems are watched do lines name theirs.
        assert set(row) == fields[row["kind"]] - {"system"}


@pytest.mark.long
async def test_what_is_being_written_when_it_is_stopped_is_written_to_its_end(
    nats_server: Broker,
) -> None:
    nc = await nats.connect(nats_server.url)
    js = nc.jetstream()
    # More than a pipe holds: it is in the middle of its lines while nobody reads on.
    for i in range(60):
        await js.add_stream(StreamConfig(f"S{i}", subjects=[f"s{i}"], description="d" * 2_000))
    await nc.close()
    with start(nats_server.url, "--json") as running:
        lines = [running.stdout.readline()]
        while '"S0"' not in lines[-1]:
            lines.append(running.stdout.readline())
        running.send_signal(signal.SIGTERM)
        lines += running.stdout.read().splitlines(keepends=True)
    assert running.returncode == 0
    rows = [json.loads(line) for line in lines]
    assert all(line.endswith("\n") for line in lines)
    assert len({row["name"] for row in rows if row["kind"] == "stream"}) == 60


async def test_a_poll_is_written_when_it_came_and_not_at_the_next_look_for_what_is_stale(
    account: Account,
) -> None:
    written_at_s: list[float] = []

    def write(rows: Iterable[Row]) -> None:
        if any(isinstance(row, ServerRow) for row in rows):
            written_at_s.append(steady_s())

    collector = WatchCollector()
    watching = asyncio.create_task(
        watch_until_cancelled(
            Connection(servers=(account.url,)), 0.1, None, write, only_changed_rows=False,
            collector=collector,
        )
    )  # fmt: skip
    async with asyncio.timeout(30):
        # On a busy machine most may be late, and none is before its time.
        while not any(after - before < 0.5 for before, after in pairwise(written_at_s)):
            assert not watching.done(), watching
            await asyncio.sleep(0.05)
    watching.cancel()
    await ended(watching)
