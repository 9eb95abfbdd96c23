"""How soon all of a big server is seen, how old rows grow, and what that costs the server.

2,000 streams with 5 consumers each on a real server; a part of them moves. Seen by an engine, as
a screen shows it, and by `natstui watch --json`. Then 10,000 streams, with the system account,
with the monitoring port, and without either; and how soon a viewer of them answers a key.

`python -m benchmarks.whole_view many` does the second half alone, `… many system` one of its
three ways: `system`, `port`, `lists`.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import nats

from benchmarks.server_share import (
    ACCOUNTS,
    CONSUMERS_PER_STREAM_COUNT,
    STREAMS_COUNT,
    cpu_s,
    fill,
    move,
)
from benchmarks.viewer import drain, in_terminal, key_to_frame_ms
from natstui.jetstream.testbed.broker import Broker
from natstui.lines import decode_record
from natstui.model.live.snapshot import Snapshot
from natstui.model.live.state import State
from tests.jetstream.slow_link import SlowLink, Wire

MANY_COUNT = 10_000
SECONDS = 60
SETTLE_S = 60
THIN = Wire(bytes_per_s=20_000, latency_s=0.05)
THIN_MINUTES_COUNT = 4
ALONE_S = 125
"""A server collects its garbage every two minutes at least, and a big one needs seconds for it:
one such collection is in each window."""
THEN_S = 250
VIEWED_S = 45
WAYS = ("system", "port", "lists")


@dataclass
class Seen:
    """What was seen, and when, since the command was started."""

    streams_count: int = STREAMS_COUNT
    connected_s: float | None = None
    complete_s: float | None = None
    oldest_s: float = 0.0
    """The age of the oldest row at any moment after everything was seen."""
    row_at_s: dict[tuple[str, ...], float] = field(default_factory=dict)
    slowed: Counter[str] = field(default_factory=Counter)
    """Why polls were further apart than wanted, and how often."""

    @property
    def rows_count(self) -> int:
        """How many rows there are to be seen."""
        return self.streams_count * (1 + CONSUMERS_PER_STREAM_COUNT)

    def connected(self, at_s: float) -> None:
        """Note that there is a connection."""
        if self.connected_s is None:
            self.connected_s = at_s

    def look(self, at_s: float) -> None:
        """Note how complete and how old everything is."""
        if self.complete_s is None and len(self.row_at_s) == self.rows_count:
            self.complete_s = at_s
        if self.complete_s is not None:
            self.oldest_s = max(self.oldest_s, at_s - min(self.row_at_s.values()))


class Watched:
    """A command at work, whose lines are read as fast as it writes them."""

    def __init__(
        self,
        url: str,
        words: tuple[str, ...],
        take: Callable[[Seen, bytes], None],
        streams_count: int = STREAMS_COUNT,
        **variables: str,
    ) -> None:
        self.seen = Seen(streams_count)
        self.process = subprocess.Popen(
            [sys.executable, "-m", "natstui", *words, "--server", url],
            env=os.environ | variables,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        self._take = take
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._take(self.seen, line)

    def end(self) -> None:
        """End it and wait for that."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.terminate()
        self.process.wait(10)


def _engine_line() -> Callable[[Seen, bytes], None]:
    state = State()

    def take(seen: Seen, line: bytes) -> None:
        nonlocal state
        record = decode_record(line)
        state = state.after(record)
        if not isinstance(record, Snapshot):
            return
        now_s = time.monotonic()
        seen.connected(now_s)
        seen.slowed.update(filter(None, [record.cost.backoff_reason]))
        # What was on the screen until now is at its oldest.
        seen.look(now_s)
        streams, consumers = record.streams, record.consumers
        for name, at_us in zip(streams.name, streams.sampled_mono_us, strict=True):
            seen.row_at_s[name,] = at_us / 1e6
        names = zip(consumers.stream, consumers.name, strict=True)
        for key, at_us in zip(names, consumers.sampled_mono_us, strict=True):
            seen.row_at_s[key] = at_us / 1e6
        seen.look(now_s)

    return take


def _watch_line(seen: Seen, line: bytes) -> None:
    row = json.loads(line)
    now_s = time.monotonic()
    if row["kind"] == "server":
        seen.connected(now_s)
        seen.slowed.update(filter(None, [row["backoff_reason"]]))
        seen.look(now_s)
    elif row["kind"] == "stream":
        seen.row_at_s[row["name"],] = now_s
    elif row["kind"] == "consumer":
        seen.row_at_s[row["stream"], row["name"]] = now_s
    if seen.complete_s is None:
        seen.look(now_s)


async def _share_alone(broker: Broker) -> float:
    """Return what of a core the server takes while only the load is there."""
    used_s, began_s = cpu_s(broker.pid), time.monotonic()
    await asyncio.sleep(ALONE_S)
    return (cpu_s(broker.pid) - used_s) / (time.monotonic() - began_s)


async def _measure(
    broker: Broker,
    name: str,
    watched: Callable[[], Watched],
    url: str | None = None,
    streams_count: int = STREAMS_COUNT,
) -> None:
    moving_nc = await nats.connect(url or broker.url)
    moving = asyncio.create_task(move(moving_nc, streams_count))
    await asyncio.sleep(2)
    before_share = await _share_alone(broker)
    used_s, began_s = cpu_s(broker.pid), time.monotonic()
    watching = watched()
    while watching.seen.complete_s is None and time.monotonic() < began_s + SECONDS:
        await asyncio.sleep(0.1)
    complete_used_s, complete_at_s = cpu_s(broker.pid), time.monotonic()
    await asyncio.sleep(began_s + SECONDS - time.monotonic())
    first_share = (cpu_s(broker.pid) - used_s) / SECONDS
    await asyncio.sleep(complete_at_s + THEN_S - time.monotonic())
    now_s = time.monotonic()
    then_share = (cpu_s(broker.pid) - complete_used_s) / (now_s - complete_at_s)
    elapsed_s = now_s - began_s
    ours_s = cpu_s(watching.process.pid)
    watching.end()
    await asyncio.sleep(2)
    after_share = await _share_alone(broker)
    alone_share = min(before_share, after_share)
    moving.cancel()
    await moving_nc.close()
    seen = watching.seen
    complete = "never"
    if seen.complete_s is not None and seen.connected_s is not None:
        complete = f"{seen.complete_s - seen.connected_s:.1f} s after the first poll"
        complete += f", {seen.complete_s - began_s:.1f} s after the start"
    print(f"{name}")
    print(f"  rows seen              {len(seen.row_at_s)} of {seen.rows_count}")
    print(f"  complete               {complete}")
    print(f"  oldest row afterwards  {seen.oldest_s:.1f} s")
    print(f"  server, first minute   {100 * (first_share - alone_share):.1f} % of a core")
    print(f"  from then on           {100 * (then_share - alone_share):.1f} % of a core")
    told = f"{100 * before_share:.1f} % before, {100 * after_share:.1f} % after"
    print(f"  without us, left out   {told}: the less of both")
    for reason, count in seen.slowed.most_common(3):
        print(f"  {count} polls came later    {reason}")
    print(f"  natstui                {100 * ours_s / elapsed_s:.1f} % of a core", flush=True)


async def _both(broker: Broker) -> None:
    nc = await nats.connect(broker.url)
    await fill(nc, STREAMS_COUNT)
    await nc.close()
    # What making so much has left in the server's memory is collected in the minutes after it.
    await asyncio.sleep(SETTLE_S)
    await _measure(
        broker, "engine (screen)", lambda: Watched(broker.url, ("engine",), _engine_line())
    )
    await _measure(
        broker,
        "natstui watch --json",
        lambda: Watched(broker.url, ("watch", "--json"), _watch_line),
    )
    await _over_a_thin_wire(broker)


async def _many(broker: Broker, ways: Sequence[str]) -> None:
    """See all of a bigger server: with one answer for everything, and with lists."""
    url = broker.url.replace("://", "://app:app@")
    nc = await nats.connect(url)
    await fill(nc, MANY_COUNT)
    await nc.close()
    await asyncio.sleep(SETTLE_S)
    variables_of = {
        "system": {"NATSTUI_SYSTEM_USER": "sys", "NATSTUI_SYSTEM_PASSWORD": "sys"},
        "port": {"NATSTUI_CONNECTION_MONITORING": broker.monitoring_url},
        "lists": {},
    }
    for way in ways:

        def watched(variables: dict[str, str] = variables_of[way]) -> Watched:
            return Watched(url, ("engine",), _engine_line(), MANY_COUNT, **variables)

        await _measure(broker, f"10,000 streams, by {way}", watched, url, MANY_COUNT)
        await asyncio.to_thread(_keys, url, variables_of[way])


def _keys(url: str, variables: Mapping[str, str]) -> None:
    """Print how soon a viewer of so much answers a key, and what it takes meanwhile."""
    words = [sys.executable, "-m", "natstui", "--server", url]
    pid, fd = in_terminal(["/usr/bin/env", *(f"{k}={v}" for k, v in variables.items()), *words])
    drain(fd, VIEWED_S)
    for key, name in ((b"1", "streams"), (b"2", "consumers")):
        os.write(fd, key)
        drain(fd, 3)
        used_s, began_s = cpu_s(pid), time.monotonic()
        times = key_to_frame_ms(fd, b"j", b"k")
        share = (cpu_s(pid) - used_s) / (time.monotonic() - began_s)
        p95 = times[int(len(times) * 0.95) - 1]
        print(
            f"  a key on {name:13} {statistics.median(times):.1f} ms (p95 {p95:.1f}), "
            f"viewer {100 * share:.1f} % of a core meanwhile",
            flush=True,
        )
    os.kill(pid, signal.SIGTERM)
    drain(fd, 2)
    os.waitpid(pid, 0)
    os.close(fd)


async def _over_a_thin_wire(broker: Broker) -> None:
    """See how far a screen comes over 20 kB/s, and whether it stays connected."""
    link = SlowLink(broker.url, THIN)
    async with link.listening() as url:
        watching = Watched(url, ("engine",), _engine_line())
        print(f"engine over {THIN.bytes_per_s // 1000} kB/s, {1000 * THIN.latency_s:.0f} ms")
        for minute in range(1, THIN_MINUTES_COUNT + 1):
            await asyncio.sleep(60)
            keys = list(watching.seen.row_at_s)
            streams_count = sum(len(key) == 1 for key in keys)
            print(
                f"  after {minute} min, connected {link.joined_count} times"
                f"  streams {streams_count}, consumers {len(keys) - streams_count}"
                f"  carried {link.carried_bytes / (60_000 * minute):.1f} kB/s",
                flush=True,
            )
        for reason, count in watching.seen.slowed.most_common(3):
            print(f"  {count} polls came later    {reason}")
        watching.end()


def main() -> None:
    """Print when everything was seen, how old rows grew, and shares of a core."""
    words = sys.argv[1:]
    alone = words[:1] == ["many"]
    if not alone:
        with Broker() as broker:
            asyncio.run(_both(broker))
    ways = words[1:] if alone else []
    with Broker(config_text=ACCOUNTS) as broker:
        asyncio.run(_many(broker, ways or WAYS))


if __name__ == "__main__":
    main()
