"""`natstui consumer clients` and `natstui stream publishers` on a real server."""

from __future__ import annotations

import asyncio
import json
import signal
import urllib.request
from pathlib import Path

import nats
import pytest

from natstui.jetstream.testbed.broker import Broker
from tests.cli.beside import Begin, run_beside, stop
from tests.cli.test_connections import HOSTILE, run
from tests.cli.test_core import connected
from tests.jetstream.flushing import flushed
from tests.jetstream.test_holders import at_work, consumer, people, pull

pytestmark = [pytest.mark.server, pytest.mark.usefixtures("lone_server")]


async def test_the_clients_of_a_pull_consumer_are_named_with_what_the_tap_cost(
    nats_server: Broker, tmp_path: Path
) -> None:
    clients = ("consumer", "clients", "S", "C")
    async with people([nats_server.url], "worker", HOSTILE) as (worker, other):
        await consumer(worker)
        none = await run(nats_server.url, tmp_path, *clients)
        empty = await run(nats_server.url, tmp_path, *clients, "--for", "200ms")
        async with at_work(*(asyncio.ensure_future(pull(nc, 5)) for nc in (worker, other))):
            table = await run(nats_server.url, tmp_path, *clients, "--for", "2s")
            whole = await run(nats_server.url, tmp_path, *clients, "--for", "2s", "--json")
    assert none.returncode == 0 and "--for 30s" in none.stdout
    assert "no client was found" in empty.stdout
    head, titles, *rows, cost = table.stdout.splitlines()
    assert "an idle client is listed only once its pull expires" in head
    assert titles.split() == [
        "NAME", "USER", "ADDRESS", "CLIENT", "SERVER", "PULLS", "DELIVERED", "BATCH",
        "LAST", "SEEN",
    ]  # fmt: skip
    assert len(rows) == 2 and any(row.startswith("worker ") for row in rows)
    assert cost.startswith("natstui read for 2s; it cost ") and "to the servers" in cost
    assert not {letter for letter in table.stdout if letter < " "} - {"\n"}
    found = json.loads(whole.stdout)
    assert {one["connection"]["name"] for one in found["clients"]} == {"worker", HOSTILE}
    assert all(one["batches"] == ["5"] for one in found["clients"])
    assert sum(one["pulls_count"] for one in found["clients"]) == found["read_msgs"]


async def test_the_clients_of_a_push_consumer_are_named_at_once(
    nats_server: Broker, tmp_path: Path
) -> None:
    clients = ("consumer", "clients", "S", "C")
    async with people([nats_server.url], "worker") as (worker,):
        await consumer(worker, deliver_subject="to.workers", deliver_group="G")
        nobody = await run(nats_server.url, tmp_path, *clients)
        await worker.subscribe("to.workers", queue="G")
        await flushed(worker)
        table = await run(nats_server.url, tmp_path, *clients)
        whole = await run(nats_server.url, tmp_path, *clients, "--json")
    assert nobody.stdout == 'no client of this account subscribes to "to.workers" in the group G\n'
    head, _, row = table.stdout.splitlines()
    assert head.startswith("1 client of") and row.startswith("worker ")
    found = json.loads(whole.stdout)
    assert [one["connection"]["name"] for one in found["clients"]] == ["worker"]
    missing = await run(nats_server.url, tmp_path, "consumer", "clients", "S", "NONE")
    assert missing.returncode == 4 and missing.stdout == ""


async def test_publishers_are_named_by_the_answers_that_they_wait_for(
    nats_server: Broker, tmp_path: Path
) -> None:
    async def publish(nc: nats.NATS, subject: str) -> None:
        while True:
            await nc.jetstream().publish(subject, b"x" * 10)
            await asyncio.sleep(0.05)

    async def publish_plainly(nc: nats.NATS) -> None:
        while True:
            await nc.publish("s.plain", b"x")
            await flushed(nc)
            await asyncio.sleep(0.05)

    asked = ("stream", "publishers", "S", "--for", "2s")
    async with people([nats_server.url], "one", "two", "plain") as (one, two, plain):
        await consumer(one)
        tasks = [publish(one, "s.one"), publish(two, "s.two"), publish_plainly(plain)]
        async with at_work(*map(asyncio.ensure_future, tasks)):
            table = await run(nats_server.url, tmp_path, *asked)
            whole = await run(nats_server.url, tmp_path, *asked, "--json")
            few = await run(nats_server.url, tmp_path, *asked, "--most", "5")
        await one.jetstream().add_stream(name="M", mirror=nats.js.api.StreamSource(name="S"))
        mirror = await run(nats_server.url, tmp_path, "stream", "publishers", "M")
    for done in (table, whole, few):
        assert (done.returncode, done.stderr) == (0, ""), done
    _, *rows, plainly, cost = table.stdout.splitlines()
    assert {row.split()[0] for row in rows} == {"one", "two"}
    assert "the client cannot be identified" in plainly and "it cost" in cost
    found = json.loads(whole.stdout)
    assert {(one["connection"]["name"], *one["subjects"]) for one in found["publishers"]} == {
        ("one", "s.one"), ("two", "s.two"),
    }  # fmt: skip
    published = sum(one["published_msgs"] for one in found["publishers"])
    assert found["anonymous_msgs"] > 0 and found["gone_msgs"] == 0
    assert published + found["anonymous_msgs"] == found["read_msgs"]
    assert "it read 5 messages" in few.stdout
    assert mirror.returncode == 4 and "its messages come from S" in mirror.stderr


def is_tapped(server: Broker) -> bool:
    with urllib.request.urlopen(f"{server.monitoring_url}/connz?subs=1") as answer:
        return b"CONSUMER.MSG.NEXT.S.C" in answer.read()


def test_what_a_tap_read_until_it_is_stopped_is_told(nats_server: Broker) -> None:
    async def work(begin: Begin) -> None:
        async with people([nats_server.url], "worker") as (worker,):
            await consumer(worker)
            async with at_work(asyncio.ensure_future(pull(worker, 5))):
                begin()
                async with connected(nats_server.url) as nc:
                    while not await asyncio.to_thread(is_tapped, nats_server):
                        await asyncio.sleep(0.1)
                    pulls = await nc.subscribe("$JS.API.CONSUMER.MSG.NEXT.S.C")
                    for _ in range(3):
                        await pulls.next_msg(60)
                stop(signal.SIGINT)

    words = ("consumer", "clients", "S", "C", "--for", "5m", "--json")
    done = run_beside(work, *words, "--server", nats_server.url)
    assert done.returncode == 130
    found = json.loads(done.stdout)
    assert found["ended"] == "reading was stopped"
    assert [one["connection"]["name"] for one in found["clients"]] == ["worker"]
