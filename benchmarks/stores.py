"""A bucket of 100,000 keys: how long until they are listed, and what each key pressed takes.

Wall time says what a user waits for on an idle machine; processor time says what it costs.
"""

from __future__ import annotations

import asyncio
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from textual.pilot import Pilot

from natstui.config import Connection
from natstui.jetstream.connection.client import connect
from natstui.jetstream.testbed.broker import Broker
from natstui.model.assets.buckets import BucketOptions, bucket_config
from natstui.tui.app.app import NatstuiApp
from natstui.tui.app.link import Link
from natstui.tui.stores.buckets import BucketsScreen
from natstui.tui.stores.keys import KeysScreen

COUNT = 100_000
ROUNDS = 5
KEYS = (("down", 200), ("pagedown", 100), ("pageup", 50), ("end", 1), ("up", 100), ("home", 1))
_PATIENCE_S = 60.0


async def fill(url: str) -> None:
    """Put a value under every key."""
    client = await connect(Connection(servers=(url,)))
    await client.request("STREAM.CREATE.KV_BIG", bucket_config("BIG", BucketOptions()))
    for number in range(COUNT):
        subject = f"$KV.BIG.user.{number:06}.profile"
        value = b'{"id": %d, "name": "somebody", "active": true}' % number
        if number % 5000 == 4999:  # its acknowledgement is that of all before it
            await client.request_subject(subject, value, timeout_s=60)
        else:
            await client.nc.publish(subject, value)
    await client.close()


def cpu_s(pid: int | str) -> float:
    """Return the processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def print_times(what: str, walls: list[float], cpus: list[float], unit: str = "s") -> None:
    """Print the median and the best of several rounds."""
    print(
        f"  {what:36} wall median {statistics.median(walls):6.2f} {unit}, least "
        f"{min(walls):6.2f} {unit}; cpu median {statistics.median(cpus):6.2f} {unit}",
        flush=True,
    )


def headless(url: str, server: int) -> None:
    """Time `natstui kv keys`, from its start to its end."""
    argv = (sys.executable, "-P", "-m", "natstui", "kv", "keys", "BIG", "--server", url)
    walls, cpus, served = [], [], []
    for _ in range(ROUNDS):
        before, at, of_server = os.times(), time.perf_counter(), cpu_s(server)
        out = subprocess.run(argv, capture_output=True, check=True).stdout
        walls.append(time.perf_counter() - at)
        after = os.times()
        cpus.append(after.children_user + after.children_system - before.children_user
                    - before.children_system)  # fmt: skip
        served.append(cpu_s(server) - of_server)
        assert out.count(b"\n") == COUNT
    print_times("natstui kv keys, whole process", walls, cpus)
    print(f"  {'of the server meanwhile':36} cpu median {statistics.median(served):6.2f} s")


class Stand:
    """The keys on the screen of the real app."""

    def __init__(self, app: NatstuiApp, pilot: Pilot[int], engine: int) -> None:
        self.app, self.pilot, self.engine = app, pilot, engine

    def cpu_s(self) -> float:
        """Return the processor time of viewer and engine."""
        return time.process_time() + cpu_s(self.engine)

    async def until_all(self) -> None:
        """Wait until every key is in the table and the first are drawn."""
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                screen = self.app.screen
                rows = screen.rows if isinstance(screen, KeysScreen) else None
                if rows is not None and len(rows.order) == COUNT:
                    screen._compositor.render_strips()
                    return
                await asyncio.sleep(0.005)

    async def until_bucket(self) -> None:
        """Wait until the bucket stands in the table of buckets, and enter can open it."""
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                screen = self.app.screen
                rows = screen.rows if isinstance(screen, BucketsScreen) else None
                if rows is not None and rows.order:
                    return
                await asyncio.sleep(0.05)

    async def open(self) -> tuple[float, float]:
        """Open the bucket; return wall and processor seconds until its keys stand there."""
        at, cpu = time.perf_counter(), self.cpu_s()
        self.app.simulate_key("enter")
        await self.until_all()
        return time.perf_counter() - at, self.cpu_s() - cpu

    async def key_ms(self, key: str) -> tuple[float, float]:
        """Press a key; return wall and processor milliseconds until the screen is drawn."""
        table = self.app.screen.query_one("BigTable")
        drawn = asyncio.Event()
        at, cpu = time.perf_counter(), time.process_time()
        self.app.simulate_key(key)
        self.app.call_later(table.call_after_refresh, drawn.set)
        await drawn.wait()
        self.app.screen._compositor.render_strips()
        return 1000 * (time.perf_counter() - at), 1000 * (time.process_time() - cpu)


async def on_screen(url: str) -> None:
    """Time the way from a bucket to its keys, and the keys that scroll."""
    argv = (sys.executable, "-P", "-m", "natstui", "engine", "--server", url)
    link = Link(argv)
    app = NatstuiApp(link.wait_started(), lambda *words: Link((*argv, *words)), link)
    try:
        async with app.run_test(size=(120, 40)) as pilot:
            assert link.pid is not None
            stand = Stand(app, pilot, link.pid)
            async with asyncio.timeout(_PATIENCE_S):
                while not app.state.streams.roster.keys:
                    await asyncio.sleep(0.05)
            await pilot.press("7")
            opened = []
            for _ in range(ROUNDS):
                await stand.until_bucket()
                await pilot.pause(1.0)
                opened.append(await stand.open())
                await pilot.pause(0.5)
                if len(opened) < ROUNDS:
                    await pilot.press("escape")
                    await pilot.pause(0.5)
            print_times("screen: all keys listed", *map(list, zip(*opened, strict=True)))
            await scroll(stand)
    finally:
        link.close()


async def scroll(stand: Stand) -> None:
    """Press keys at the pace of a held one, and print what each took."""
    every: list[tuple[float, float]] = []
    for key, count in KEYS:
        took = []
        for _ in range(count):
            took.append(await stand.key_ms(key))
            await asyncio.sleep(0.03)
        every += took
        if count > 1:
            print_percentiles(f"screen: {key} {count}×", took)
    print_percentiles("screen: every key", every)


def print_percentiles(what: str, took: list[tuple[float, float]]) -> None:
    """Print the median and the 95th percentile."""
    walls, cpus = (sorted(values) for values in zip(*took, strict=True))
    p95 = int(0.95 * (len(walls) - 1))
    print(
        f"  {what:36} wall median {statistics.median(walls):5.1f} ms, p95 {walls[p95]:5.1f} ms; "
        f"cpu median {statistics.median(cpus):5.1f} ms, p95 {cpus[p95]:5.1f} ms",
        flush=True,
    )


def main() -> None:
    """Measure one bucket, headless and on the screen."""
    # What is installed has its modules compiled.
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    print(f"  load of this machine: {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores")
    with tempfile.TemporaryDirectory() as folder, Broker(store=Path(folder)) as broker:
        asyncio.run(fill(broker.url))
        found = json.dumps({"keys": COUNT})
        print(f"  {found} stored", flush=True)
        headless(broker.url, broker.pid)
        asyncio.run(on_screen(broker.url))


if __name__ == "__main__":
    main()
