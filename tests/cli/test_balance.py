"""`natstui balance`, and step-downs to a chosen server, on a real cluster."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import nats
import pytest
from nats.aio.client import Client as NatsClient

from tests.accounts import ClusterAccount
from tests.cli.beside import Begin, run_beside, stop, written_to
from tests.cli.rewriting import just_before
from tests.cli.test_connections import run
from tests.cli.test_manage import Shell
from tests.cli.test_recreated_meanwhile import request

pytestmark = pytest.mark.cluster

STREAMS = 6


async def asked(nc: NatsClient, verb: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
    payload = json.dumps(body).encode() if body else b""
    found: dict[str, Any] = json.loads((await nc.request(f"$JS.API.{verb}", payload, 30)).data)
    assert "error" not in found, (verb, found)
    return found


async def leaders(nc: NatsClient) -> Counter[str]:
    """Return who leads how many streams."""
    rows = (await asked(nc, "STREAM.LIST"))["streams"]
    return Counter(row["cluster"].get("leader") or "" for row in rows)


async def lopsided(nc: NatsClient, count: int) -> None:
    """Make streams of three replicas, and let n1 lead them all."""
    js = nc.jetstream(timeout=30)
    for number in range(count):
        await js.add_stream(name=f"S{number}", subjects=[f"s.{number}"], num_replicas=3)
    await n1_leads(nc, count)


async def n1_leads(nc: NatsClient, count: int) -> None:
    """Let n1 lead all of so many streams."""
    async with asyncio.timeout(120):
        while (await leaders(nc))["n1"] < count:
            for row in (await asked(nc, "STREAM.LIST"))["streams"]:
                name, leader = row["config"]["name"], row["cluster"].get("leader")
                if leader not in ("n1", None):
                    body = {"placement": {"preferred": "n1"}}
                    await asked(nc, f"STREAM.LEADER.STEPDOWN.{name}", body)
            await asyncio.sleep(0.5)


async def balanced(url: str, tmp_path: Path) -> str:
    """Balance, again where servers elected others by themselves; return what the last told."""
    async with asyncio.timeout(300):
        while True:
            done = await run(url, tmp_path, "balance", "--yes", "--pause", "10ms")
            assert done.returncode in (0, 1), done.stderr
            now = re.findall(r"(?:leaders|leaders now): (n1 .*)", done.stdout)
            counts = [int(count) for count in re.findall(r"n\d (\d+)", now[-1])]
            if done.returncode == 0 and max(counts) <= STREAMS / 3 + 1:
                return done.stdout


async def test_a_lopsided_cluster_is_balanced_while_publishing_goes_on(
    cluster_account: ClusterAccount, tmp_path: Path
) -> None:
    url = cluster_account.url
    nc = await nats.connect(url)
    await lopsided(nc, STREAMS)
    js, stored, ended = nc.jetstream(timeout=30), Counter[str](), asyncio.Event()

    async def publish() -> None:
        while not ended.is_set():
            for number in range(STREAMS):
                try:
                    await js.publish(f"s.{number}", b"x", timeout=5)
                except (nats.js.errors.NoStreamResponseError, nats.errors.TimeoutError):
                    continue  # nobody leads for a moment, or who did went without an answer
                stored[f"S{number}"] += 1
                # A load that goes on, and leaves the servers the time to elect.
                await asyncio.sleep(0.01)

    publishing = asyncio.create_task(publish())
    while True:
        await n1_leads(nc, STREAMS)
        plan = await run(url, tmp_path, "balance", "--dry-run")
        assert plan.returncode == 1, plan.stderr
        # On a busy machine servers miss heartbeats, and elect somebody else by themselves.
        if "leaders: n1 6, n2 0, n3 0" in plan.stdout:
            break
    assert "S0: n1 → n2, because n1 leads 6 streams and n2 leads 0" in plan.stdout
    assert "afterwards: n1 2, n2 2, n3 2" in plan.stdout
    journal = await run(url, tmp_path, "journal", "--json")
    assert "step_down" not in journal.stdout, "a plan moves nothing"
    closed = await run(url, tmp_path, "balance")
    assert closed.returncode == 5 and "use --yes" in closed.stderr
    other = await run(url, tmp_path, "balance", "--confirm", "other")
    assert other.returncode == 5 and "'other' is not " in other.stderr
    done = await balanced(url, tmp_path)
    assert "0 left to do" in done or "nothing to move" in done
    ended.set()
    await publishing
    assert min(stored.values()) > 0 and len(stored) == STREAMS
    for row in (await asked(nc, "STREAM.LIST"))["streams"]:
        # What was stored without its answer coming back is there as well.
        assert row["state"]["messages"] >= stored[row["config"]["name"]]
    async with asyncio.timeout(300):
        while "nothing to move" not in await balanced(url, tmp_path):
            pass
    journal = await run(url, tmp_path, "journal", "--json")
    assert journal.stdout.count('"step_down_stream"') >= 4
    await nc.close()


def test_stopped_half_way_it_says_what_was_done(
    cluster_account: ClusterAccount, tmp_path: Path
) -> None:
    url = cluster_account.url
    shell = Shell(url, tmp_path)

    async def again() -> None:
        nc = await nats.connect(url)
        await n1_leads(nc, 3)
        await nc.close()

    async def n1_count() -> int:
        nc = await nats.connect(url)
        count = (await leaders(nc))["n1"]
        await nc.close()
        return count

    async def begin_lopsided() -> None:
        nc = await nats.connect(url)
        await lopsided(nc, 3)
        await nc.close()

    async def work(begin: Begin) -> None:
        begin()
        while not re.search(r"is led by n[23] now", written_to(sys.stdout)):
            await asyncio.sleep(0.02)
        stop(signal.SIGINT)

    def stopped() -> str:
        words = ("balance", "--yes", "--pause", "60s")
        done = run_beside(work, *words, environment=shell.environment)
        assert done.returncode == 130, done.stderr
        return done.stdout

    asyncio.run(begin_lopsided())
    # On a busy machine servers miss heartbeats, and elect somebody else by themselves.
    while "leaders now: n1 2," not in (printed := stopped()):
        asyncio.run(again())
    assert "stopped: 1 move done, 1 left to do" in printed, printed
    assert asyncio.run(n1_count()) == 2


async def test_a_leader_goes_to_the_server_that_was_named(
    cluster_account: ClusterAccount, tmp_path: Path
) -> None:
    url = cluster_account.url
    nc = await nats.connect(url)
    await lopsided(nc, 1)
    await nc.jetstream(timeout=30).add_consumer("S0", durable_name="C", ack_policy="explicit")
    for name in ("n3", "n2"):
        done = await run(url, tmp_path, "stream", "step-down", "S0", "--preferred", name)
        assert done.stdout == f"S0 is led by {name} now\n", done.stderr
        done = await run(url, tmp_path, "consumer", "step-down", "S0", "C", "--preferred", name)
        assert f"C on S0 is led by {name}" in done.stdout, done.stderr
    for words in (("stream", "info", "S0"), ("consumer", "info", "S0", "C")):
        shown = (await run(url, tmp_path, *words)).stdout
        assert re.search(r"^Leader +n2$", shown, re.MULTILINE), shown
        for name in ("n1", "n3"):
            replica = rf"^Replica {name} +(current|behind), lag \d+, (no|last) contact "
            assert re.search(replica, shown, re.MULTILINE), shown
    done = await run(url, tmp_path, "stream", "step-down", "S0", "--preferred", "nope")
    assert done.returncode == 2 and "nope has no copy of S0" in done.stderr
    await nc.close()


async def test_what_was_recreated_just_before_its_leader_steps_down_is_named(
    cluster_account: ClusterAccount, tmp_path: Path
) -> None:
    url = cluster_account.url
    nc = await nats.connect(url)
    await lopsided(nc, 1)
    await nc.close()
    create = ("$JS.API.STREAM.CREATE.S0", {"name": "S0", "subjects": ["s"], "num_replicas": 3})

    def recreate() -> None:
        request(url, ("$JS.API.STREAM.DELETE.S0", {}), create)

    with just_before(url, b"STREAM.LEADER.STEPDOWN.S0", recreate) as there:
        done = await run(there, tmp_path, "stream", "step-down", "S0")
    assert done.returncode == 4, done
    assert "the stream S0 of now is another one: it was recreated meanwhile" in done.stderr
