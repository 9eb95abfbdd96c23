"""What watching costs a real server: 1,000 streams and 5,000 consumers at the default interval."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

import nats
from nats.aio.client import Client

from natstui.jetstream.testbed.broker import Broker
from natstui.lines import decode_record, encode_command
from natstui.model.live.snapshot import Snapshot
from natstui.model.live.state import State
from natstui.model.records.record import Record, Watch

STREAMS_COUNT = 1000
CONSUMERS_PER_STREAM_COUNT = 5
SECONDS = 30


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


class _Engine:
    """An engine, read as fast as it writes."""

    def __init__(self, url: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "natstui", "engine", "--server", url],
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
        self.process.stdin.write(encode_command(Watch(1, (), in_view)))
        self.process.stdin.flush()

    def end(self) -> None:
        """End it as the viewer does."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait(10)


async def _measure(broker: Broker) -> None:
    nc = await nats.connect(broker.url)
    await fill(nc, STREAMS_COUNT)
    engine = _Engine(broker.url)
    await asyncio.sleep(3)
    engine.watch()
    await asyncio.sleep(2)
    before, count = await _api(nc, "INFO"), len(engine.records)
    server_s, engine_s, started_s = cpu_s(broker.pid), cpu_s(engine.process.pid), time.monotonic()
    await asyncio.sleep(SECONDS)
    elapsed_s = time.monotonic() - started_s
    server_s, engine_s = cpu_s(broker.pid) - server_s, cpu_s(engine.process.pid) - engine_s
    after = await _api(nc, "INFO")
    polls = [r for r in engine.records[count:] if isinstance(r, Snapshot)]
    engine.end()
    requests = after["api"]["total"] - before["api"]["total"]
    state = State()
    for record in engine.records:
        state = state.after(record)
    print(f"streams listed           {len(state.streams)} of {STREAMS_COUNT}")
    print(f"consumers after {elapsed_s + 5:.0f} s     {len(state.consumers)}")
    print(f"API requests             {requests / elapsed_s:.1f}/s")
    print(f"server                   {100 * server_s / elapsed_s:.1f} % of a core")
    print(f"engine                   {100 * engine_s / elapsed_s:.1f} % of a core")
    print(f"polls                    {len(polls) / elapsed_s:.2f}/s")
    slowest = max(poll.cost.interval_us for poll in polls) / 1e6
    print(f"longest pause            {slowest:.2f} s")
    await nc.close()


def main() -> None:
    """Print requests a second and shares of a core."""
    with Broker() as broker:
        asyncio.run(_measure(broker))


if __name__ == "__main__":
    main()
