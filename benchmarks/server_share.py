"""What watching costs a real server: 2,000 streams, 10,000 consumers and 200 clients.

Its processor time alone, watched by an engine with the system account at the default interval, and
with only what an engine requests beside its polls: the servers every 2 s, the clients every 30 s.
"""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import nats
from nats.aio.client import Client

from natstui.config import Connection, Secret
from natstui.feed import Feed
from natstui.jetstream.connection.client import connect
from natstui.jetstream.system.watching import watch_clients, watch_servers
from natstui.jetstream.testbed.broker import Broker
from natstui.lines import decode_record, encode_command
from natstui.model.live.polling_limit import SERVER_SHARE
from natstui.model.live.snapshot import Snapshot
from natstui.model.live.state import State
from natstui.model.records.record import Record, SetViewedRows

ACCOUNTS = """
accounts {
  SYS: { users: [ { user: sys, password: sys } ] }
  APP: { jetstream: enabled, users: [ { user: app, password: app } ] }
}
system_account: SYS
"""
STREAMS_COUNT = 2_000
CONSUMERS_PER_STREAM_COUNT = 5
CLIENTS_COUNT = 200
SUBSCRIPTIONS_PER_CLIENT_COUNT = 20
"""So many that it is just still read who subscribes to what."""
MOVING_COUNT = 100
"""Streams that get a message a second."""
SETTLE_S = 60
"""What filling a server left in its memory is collected, and a first view is saved again."""
SECONDS = 125
"""A server collects its garbage every two minutes at least: once in each measurement."""


def cpu_s(pid: int) -> float:
    """Return the processor time a process has used."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as file:
        words = file.read().rsplit(")", 1)[1].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


async def _api(nc: Client, verb: str, body: Mapping[str, Any] | None = None) -> Any:
    payload = json.dumps(body).encode() if body else b""
    return json.loads((await nc.request(f"$JS.API.{verb}", payload, timeout=30)).data)


async def fill(nc: Client, streams_count: int) -> None:
    """Make streams with their consumers, and a message in each stream."""

    async def one(number: int) -> None:
        name = f"S{number:04}"
        words = {"name": name, "subjects": [f"{name}.>"], "storage": "memory"}
        await _api(nc, f"STREAM.CREATE.{name}", words)
        for consumer in range(CONSUMERS_PER_STREAM_COUNT):
            config = {"durable_name": f"C{consumer}", "name": f"C{consumer}"}
            config |= {"ack_policy": "explicit"}
            body = {"stream_name": name, "config": config}
            await _api(nc, f"CONSUMER.CREATE.{name}.C{consumer}", body)
        await nc.publish(f"{name}.a", b"x" * 100)

    for start in range(0, streams_count, 50):
        await asyncio.gather(*(one(number) for number in range(start, start + 50)))


async def move(nc: Client, streams_count: int) -> None:
    """Have some streams change all the time."""
    while True:
        for number in range(MOVING_COUNT):
            await nc.publish(f"S{number * 17 % streams_count:04}.a", b"x" * 100)
        await asyncio.sleep(1)


class _Engine:
    """An engine, read as fast as it writes."""

    def __init__(self, url: str) -> None:
        account = {"NATSTUI_SYSTEM_USER": "sys", "NATSTUI_SYSTEM_PASSWORD": "sys"}
        self.process = subprocess.Popen(
            [sys.executable, "-m", "natstui", "engine", "--server", url],
            env=os.environ | account,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self.records: list[Record] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.records.append(decode_record(line))

    def watch(self) -> None:
        """Look at forty consumers, as a screen does."""
        assert self.process.stdin is not None
        in_view = tuple((f"S{number:04}", "C0") for number in range(0, 400, 10))
        self.process.stdin.write(encode_command(SetViewedRows(1, (), in_view)))
        self.process.stdin.flush()

    def end(self) -> None:
        """End it as the viewer does."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(10)


async def _share(pid: int) -> float:
    """Return what of a core a process takes from now on, for a while."""
    used_s, began_s = cpu_s(pid), time.monotonic()
    await asyncio.sleep(SECONDS)
    return (cpu_s(pid) - used_s) / (time.monotonic() - began_s)


async def _watched_share(broker: Broker, nc: Client, url: str) -> float:
    """Return what of a core the server takes while an engine watches it."""
    engine = _Engine(url)
    await asyncio.sleep(SETTLE_S / 2)
    engine.watch()
    await asyncio.sleep(SETTLE_S / 2)
    before, count = await _api(nc, "INFO"), len(engine.records)
    server, own = await asyncio.gather(_share(broker.pid), _share(engine.process.pid))
    after = await _api(nc, "INFO")
    requests_count = after["api"]["total"] - before["api"]["total"]
    polls = [r for r in engine.records[count:] if isinstance(r, Snapshot)]
    engine.end()
    state = State()
    for record in engine.records:
        state = state.after(record)
    print(f"streams listed           {len(state.streams)} of {STREAMS_COUNT}")
    print(f"consumers                {len(state.consumers)}")
    print(f"API requests             {requests_count / SECONDS:.1f}/s")
    print(f"polls                    {len(polls) / SECONDS:.2f}/s")
    slowest = max(poll.cost.interval_us for poll in polls) / 1e6
    print(f"longest pause            {slowest:.2f} s")
    reasons = Counter(poll.cost.backoff_reason for poll in polls if poll.cost.backoff_reason)
    for reason, count in reasons.most_common(3):
        print(f"  {count} polls came later    {reason}")
    print(f"engine                   {100 * own:.1f} % of a core")
    return server


async def _beside_share(broker: Broker) -> float:
    """Return what of a core the server takes with only the requests beside polls."""
    system = Connection(servers=(broker.url,), user="sys", password=Secret("sys"))
    connection = Connection(
        servers=(broker.url,), user="app", password=Secret("app"), system=system
    )
    client, nobody = await connect(connection), Feed()
    tasks = [
        asyncio.create_task(watch_servers(client, nobody)),
        asyncio.create_task(watch_clients(client, nobody)),
    ]
    try:
        return await _share(broker.pid)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.wait(tasks)
        await client.close()


async def _measure(broker: Broker) -> None:
    url = broker.url.replace("://", "://app:app@")
    nc = await nats.connect(url)
    await fill(nc, STREAMS_COUNT)
    clients = [await nats.connect(url) for _ in range(CLIENTS_COUNT)]
    for client in clients:
        for number in range(SUBSCRIPTIONS_PER_CLIENT_COUNT):
            await client.subscribe(f"requests.{number}")
    moving = asyncio.create_task(move(nc, STREAMS_COUNT))
    await asyncio.sleep(SETTLE_S)
    before = await _share(broker.pid)
    watched = await _watched_share(broker, nc, url)
    await asyncio.sleep(SETTLE_S)
    beside = await _beside_share(broker)
    after = await _share(broker.pid)
    moving.cancel()
    for client in (*clients, nc):
        await client.close()
    alone = min(before, after)
    print(
        f"server alone             {100 * before:.2f} % of a core, {100 * after:.2f} % at the end"
    )
    print(f"server watched           {100 * watched:.2f} % of a core")
    print(f"  of that, watching      {100 * (watched - alone):.2f} %")
    print(f"  beside the polls       {100 * (beside - alone):.2f} %, requested by themselves")
    print(f"budget                   {100 * SERVER_SHARE:.2f} % of a core")
    print(f"watching to budget       {(watched - alone) / SERVER_SHARE:.2f}")


def main() -> None:
    """Print what of a core the server takes, watched and not, and its ratio to the budget."""
    with Broker(config_text=ACCOUNTS) as broker:
        asyncio.run(_measure(broker))


if __name__ == "__main__":
    main()
