"""natstui, nats-py and, where `nats` is on the PATH, `nats bench`: each pattern in turns.

All three work on one server, so that its moods hit them alike, and who begins changes from round
to round. `CLIENTS_ROUNDS` (3), `CLIENTS_SCALE` (1: how many messages) and `CLIENTS_ONLY` (a part
of the pattern's name) come from the environment. nats-py gets fewer messages, to take as long.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field

import nats
import nats.errors
import nats.js.errors
import numpy as np
from nats.aio.client import Client
from nats.aio.msg import Msg
from nats.js.api import ConsumerConfig, KeyValueConfig, StorageType, StreamConfig

from natstui.bench.result.compare import compute_difference
from natstui.jetstream.testbed.broker import Broker

ROUNDS = int(os.environ.get("CLIENTS_ROUNDS", "3"))
SCALE = float(os.environ.get("CLIENTS_SCALE", "1"))
ONLY = os.environ.get("CLIENTS_ONLY", "")
PAYLOAD = bytes(128)
RUN_S = 300
BESIDE_S = 1.5
"""Until a subscriber or a service of `nats bench` is surely there; nothing says so."""
NATSTUI, NATS_PY, NATS_BENCH = "natstui", "nats-py", "nats bench"

Loop = Callable[[Client, str, int], Awaitable[None]]
"""Sends or receives so many messages with nats-py; the name is of a subject, stream or bucket."""


async def publish(nc: Client, name: str, msgs: int) -> None:
    """Publish without acknowledgement."""
    for number in range(msgs):
        await nc.publish(name, PAYLOAD)
        if not number % 100:
            await asyncio.sleep(0)
    await nc.flush(RUN_S)


async def publish_and_receive(nc: Client, name: str, msgs: int) -> None:
    """Publish on one connection and receive on another."""
    receiver, received, done = await nats.connect(nc.connected_url.geturl()), 0, asyncio.Event()

    async def receive(_message: Msg) -> None:
        nonlocal received
        received += 1
        if received == msgs:
            done.set()

    await receiver.subscribe(name, cb=receive)
    await receiver.flush()
    await publish(nc, name, msgs)
    await done.wait()
    await receiver.close()


async def publish_sync(nc: Client, name: str, msgs: int) -> None:
    """Publish to a stream and await each acknowledgement."""
    js = nc.jetstream()
    for _ in range(msgs):
        await js.publish(name, PAYLOAD)


async def publish_async(nc: Client, name: str, msgs: int) -> None:
    """Publish to a stream with many messages in flight."""
    js = nc.jetstream(publish_async_max_pending=8000)
    for _ in range(msgs):
        await js.publish_async(name, PAYLOAD, wait_stall=RUN_S)
    await js.publish_async_completed()


async def fetch(nc: Client, name: str, msgs: int) -> None:
    """Fetch stored messages and ack each."""
    js = nc.jetstream()
    consumer = await js.pull_subscribe("", durable="nats-py", stream=name)
    received = 0
    while received < msgs:
        for message in await consumer.fetch(500, timeout=10):
            await message.ack()
            received += 1
    await js.delete_consumer(name, "nats-py")


async def read_ordered(nc: Client, name: str, msgs: int) -> None:
    """Read a stream with an ordered consumer."""
    js = nc.jetstream()
    consumer = await js.subscribe(
        ">", stream=name, ordered_consumer=True, config=ConsumerConfig(description="nats-py")
    )
    for _ in range(msgs):
        await consumer.next_msg(timeout=10)
    await consumer.unsubscribe()


async def get(nc: Client, name: str, msgs: int) -> None:
    """Get stored messages one by one."""
    js = nc.jetstream()
    for number in range(msgs):
        await js.get_msg(name, seq=number + 1, direct=True)


async def put_values(nc: Client, name: str, msgs: int) -> None:
    """Put a value for each of so many keys."""
    bucket = await nc.jetstream().key_value(name)
    for number in range(msgs):
        await bucket.put(f"key.{number}", PAYLOAD)


async def request(nc: Client, name: str, msgs: int) -> None:
    """Ask a service on another connection, one request at a time."""
    server = await nats.connect(nc.connected_url.geturl())

    async def answer(message: Msg) -> None:
        await message.respond(message.data)

    await server.subscribe(name, cb=answer)
    await server.flush()
    for _ in range(msgs):
        await nc.request(name, PAYLOAD)
    await server.close()


@dataclass(slots=True)
class Row:
    """One pattern in the words of each client; `{name}` is its subject, stream or bucket."""

    name: str
    ours: str
    theirs: str
    """Of `nats bench`, by its release of July 2026."""
    loop: Loop | None
    """With nats-py; None where it has no call for it."""
    msgs: int
    plain_share: int = 20
    """nats-py gets so many times fewer messages."""
    needs: str = ""
    """What is created for each run: a stream, a bucket; or a filled stream, once for all."""
    beside: str = ""
    """What `nats bench` starts first, and whose rate counts where it ends by itself."""
    rates_per_s: dict[str, list[float]] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)


READ = "--stream {name} --consumer nats-bench --batch 500"
ROWS = (
    Row("core pub", "pub {name}", "pub {name}", publish, 3_000_000),
    Row("core 1 to 1", "pubsub {name}", "pub {name}", publish_and_receive, 1_500_000,
        beside="sub {name}"),
    Row("js pub sync", "js pub sync {name} --stream {name}", "js pub sync {name} --stream {name}",
        publish_sync, 15_000, 4, "stream"),
    Row("js pub async", "js pub async {name} --stream {name}",
        "js pub async {name} --stream {name} --batch 500", publish_async, 200_000, 20, "stream"),
    Row("js pub atomic", "js pub atomic {name} --stream {name}",
        "js pub atomic {name} --stream {name} --batch 500", None, 100_000, needs="stream"),
    Row("js pub fast", "js pub fast {name} --stream {name}",
        "js pub fast {name} --stream {name} --batch 500", None, 200_000, needs="stream"),
    Row("js consume", "js consume --stream {name}", f"js consume {READ} --acks explicit",
        fetch, 200_000, 1, "filled"),
    Row("js fetch", "js fetch --stream {name}", f"js fetch {READ} --acks explicit",
        fetch, 200_000, 1, "filled"),
    Row("js ordered", "js ordered --stream {name}", "js ordered --stream {name} --batch 500",
        read_ordered, 200_000, 1, "filled"),
    Row("js get sync", "js get --stream {name}", "js get sync --stream {name}",
        get, 15_000, 4, "filled"),
    Row("js get batch", "js get-batch --stream {name}",
        "js get batch --stream {name} --batch 500", None, 200_000, needs="filled"),
    Row("kv put", "kv put --bucket {name}", "kv put --bucket {name}", put_values, 15_000, 4,
        "bucket"),
    Row("request", "request {name}", "service request {name}", request, 15_000, 4,
        beside="service serve {name}"),
)  # fmt: skip


class Failed(Exception):
    """A client did not say how fast it was."""


def run_natstui(url: str, row: Row, name: str, msgs: int) -> float:
    """Return the rate of `natstui bench`. Raises Failed."""
    words = [*row.ours.format(name=name).split(), "--json", "--no-save", "--server", url]
    if "consume" not in row.ours and "fetch" not in row.ours and "ordered" not in row.ours:
        words += ["--msgs", str(msgs)]
    done = subprocess.run(
        [sys.executable, "-m", "natstui", "bench", *words],
        capture_output=True, text=True, check=False, timeout=RUN_S,
    )  # fmt: skip
    if done.returncode:
        raise Failed(done.stderr.strip().splitlines()[-1])
    figures = json.loads(done.stdout)["metrics"]
    rate: float | None = figures["receive_rate"] or figures["publish_rate"]
    if rate is None:
        raise Failed("nothing was measured")
    return rate


def run_nats_bench(url: str, row: Row, name: str, msgs: int) -> float:
    """Return the rate that `nats bench` prints. Raises Failed."""

    def start(words: str) -> subprocess.Popen[str]:
        numbers = ["--msgs", str(msgs), "--size", str(len(PAYLOAD)), "--no-progress"]
        return subprocess.Popen(
            ["nats", "--server", url, "bench", *words.format(name=name).split(), *numbers],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    beside = start(row.beside) if row.beside else None
    try:
        if beside is not None:
            time.sleep(BESIDE_S)
        text = start(row.theirs).communicate(timeout=RUN_S)[0]
        if beside is not None and row.beside.startswith("sub"):
            text = beside.communicate(timeout=RUN_S)[0]
    finally:
        if beside is not None and beside.poll() is None:
            beside.kill()
            beside.wait()
    return rate_in(text)


def rate_in(text: str) -> float:
    """Return the rate in the output of `nats bench`, of several clients the sum. Raises Failed."""
    found = re.search(r"aggregated stats: ([\d,]+) msgs/sec", text)
    found = found or re.search(r"([\d,]+) msgs/sec", text)
    if found is None:
        raise Failed((text.strip().splitlines() or ["it printed nothing"])[-1])
    return float(found[1].replace(",", ""))


async def run_nats_py(nc: Client, row: Row, name: str, msgs: int) -> float:
    """Return the rate of a plain loop with nats-py. Raises Failed."""
    assert row.loop is not None
    began_s = time.monotonic()
    try:
        await row.loop(nc, name, msgs)
    except (nats.errors.Error, TimeoutError) as error:
        raise Failed(repr(error)) from error
    return msgs / (time.monotonic() - began_s)


async def prepare(nc: Client, row: Row, name: str, msgs: int) -> None:
    """Create what a run needs, filled where it is read."""
    js = nc.jetstream()
    if row.needs == "bucket":
        await js.create_key_value(KeyValueConfig(bucket=name, storage=StorageType.FILE))
    elif row.needs:
        config = StreamConfig(
            name=name, subjects=[name], storage=StorageType.FILE, allow_direct=True,
            allow_atomic=True, allow_batched=True,
        )  # fmt: skip
        await js.add_stream(config)
    if row.needs == "filled":
        await publish_async(nc, name, msgs)


async def measure(nc: Client, row: Row, client: str, number: int) -> float:
    """Run a pattern once on assets of its own. Raises Failed."""
    url, msgs = nc.connected_url.geturl(), max(round(row.msgs * SCALE), 1000)
    if client == NATS_PY:
        msgs = max(msgs // row.plain_share, 1000)
    # The server reads the subject with every message: everybody's is equally long.
    name = f"CLIENTS_{number:06}"
    await prepare(nc, row, name, msgs)
    try:
        if client == NATS_PY:
            return await run_nats_py(nc, row, name, msgs)
        run = run_natstui if client == NATSTUI else run_nats_bench
        return await asyncio.to_thread(run, url, row, name, msgs)
    finally:
        if row.needs:
            kind = "KV_" if row.needs == "bucket" else ""
            with suppress(nats.js.errors.NotFoundError):
                await nc.jetstream().delete_stream(f"{kind}{name}")


async def compare(url: str, rows: list[Row]) -> None:
    """Run every row with every client, in turns."""
    nc, number = await nats.connect(url), 0
    clients = [NATSTUI, NATS_PY, *([NATS_BENCH] if shutil.which("nats") else [])]
    if NATS_BENCH not in clients:
        print("nats bench is left out: no program `nats` on the PATH", file=sys.stderr)
    for round_ in range(ROUNDS):
        for row in rows:
            print(f"round {round_ + 1} of {ROUNDS}: {row.name}", file=sys.stderr, flush=True)
            for client in reversed(clients) if round_ % 2 else clients:
                if client == NATS_PY and row.loop is None:
                    continue
                number += 1
                try:
                    rate = await measure(nc, row, client, number)
                except (Failed, subprocess.TimeoutExpired) as error:
                    row.errors[client] = str(error)
                else:
                    row.rates_per_s.setdefault(client, []).append(rate)
    await nc.close()


def print_table(rows: list[Row]) -> None:
    """Print medians, and natstui's ratio to each of the others with its 95 % interval."""
    print(f"{'pattern':<16}{'client':<12}{'msgs/s':>11}{'natstui is':>12}{'95 %':>14}")
    ratios: dict[str, list[float]] = {}
    for row in rows:
        ours = row.rates_per_s.get(NATSTUI, [])
        for client, rates in row.rates_per_s.items():
            line = f"{row.name:<16}{client:<12}{np.median(rates):>11,.0f}"
            if client != NATSTUI and ours:
                found = compute_difference("publish_rate", np.array(rates), np.array(ours))
                ratios.setdefault(client, []).append(1 + found.change_ratio)
                line += f"{1 + found.change_ratio:>11.2f}×"
                if found.low_ratio is not None and found.high_ratio is not None:
                    line += f"{1 + found.low_ratio:>8.2f}–{1 + found.high_ratio:.2f}"
            print(line)
        for client, error in row.errors.items():
            print(f"{row.name:<16}{client}: {error}")
    for client, values in ratios.items():
        mean = float(np.exp(np.mean(np.log(values))))
        print(f"geometric mean of the ratios to {client}: {mean:.2f}")


def main() -> None:
    """Measure and print."""
    rows = [row for row in ROWS if ONLY in row.name]
    with Broker() as broker:
        asyncio.run(compare(broker.url, rows))
    print_table(rows)
