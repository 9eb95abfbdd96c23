"""Latencies are those that somebody in between sees, with a clock of his own."""

from __future__ import annotations

import asyncio
import contextlib
import re
import statistics
import struct
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import pytest

from natstui.bench.result.named_figures import metrics
from natstui.config.connection import Connection
from natstui.jetstream.testbed.broker import Broker
from natstui.model.bench.plan import RateSegment, Role
from natstui.model.bench.result import BenchmarkResult
from tests.bench.here import run_here
from tests.bench.running import plan
from tests.ending import ended
from tests.serving import serving

pytestmark = pytest.mark.server

DELAY_S = 0.5
"""A twentieth of it is more than a busy machine takes to wake somebody, most of the time."""
QUARTER = 25
"""The percentile compared: of four messages, one at least is not kept waiting by others' work."""
WITHIN = 0.05
RUNS_AT_MOST = 8
STAMP_BYTES = 24
SENT = re.compile(rb"PUB bench 128\r\n(.{24})", re.DOTALL)
CAME = re.compile(rb"MSG bench \d+ 128\r\n(.{24})", re.DOTALL)


class Between:
    """Passes the protocol on, keeps deliveries back for a while, and notes when it saw what."""

    def __init__(self, host: str, port: int) -> None:
        self._server = (host, port)
        self.sent_ns: dict[int, int] = {}
        self.came_ns: dict[int, int] = {}

    async def meet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self._server)
        ways = (
            self._pass(reader, back, SENT, self.sent_ns, 0.0),
            self._pass(there, writer, CAME, self.came_ns, DELAY_S),
        )
        tasks = [asyncio.create_task(way) for way in ways]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            back.transport.abort()
            await ended(*tasks)

    async def _pass(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        wanted: re.Pattern[bytes],
        seen_ns: dict[int, int],
        delay_s: float,
    ) -> None:
        rest = b""
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                if delay_s and wanted.search(rest + data):
                    await asyncio.sleep(delay_s)
                now_ns = time.monotonic_ns()
                for found in wanted.finditer(rest + data):
                    seen_ns.setdefault(struct.unpack_from("<q", found[1], 8)[0], now_ns)
                # Of a frame that is cut the beginning is looked at again.
                rest = (rest + data)[-STAMP_BYTES - 64 :]
                writer.write(data)
                await writer.drain()


@asynccontextmanager
async def between(broker: Broker) -> AsyncIterator[tuple[str, Between]]:
    place = urlsplit(broker.url)
    one = Between(place.hostname or "", place.port or 0)
    async with serving(one.meet) as port:
        yield f"nats://127.0.0.1:{port}", one


def _quarter_s(found: Callable[[int], int], keys: set[int]) -> float:
    return statistics.quantiles([found(key) for key in keys], n=100 // QUARTER)[0] / 1e9


async def _measured(broker: Broker) -> tuple[BenchmarkResult, float, float]:
    """Return the result of a run, and the latency in seconds by the clock between and by ours."""
    # Slower than a message is kept back, so that none waits for the one before it.
    rate = (RateSegment(None, 1.6, 1.6),)
    async with between(broker) as (url, seen):
        what = plan(
            Role("subs", "subscribe"), Role("pubs", "publish", schedule=rate), duration_s=4.0
        )
        result = await run_here(Connection(servers=(url,)), what)
    both = seen.sent_ns.keys() & seen.came_ns.keys()
    assert len(both) == result.counts.received_msgs == result.latencies.e2e.total_count
    theirs_s = _quarter_s(lambda key: seen.came_ns[key] - seen.sent_ns[key], both)
    ours_s = (result.latencies.e2e_uncorrected.percentile_ns(QUARTER) or 0) / 1e9
    return result, theirs_s, ours_s


async def test_latencies_are_those_of_an_independent_clock_within_a_twentieth(
    broker: Broker,
) -> None:
    # A busy machine may wake everybody late: another run then, not another rule.
    for left in reversed(range(RUNS_AT_MOST)):
        result, theirs_s, ours_s = await _measured(broker)
        assert theirs_s > DELAY_S
        if abs(ours_s / theirs_s - 1) < WITHIN:
            break
        assert left, f"between: {theirs_s * 1e3:.2f} ms, benchmark: {ours_s * 1e3:.2f} ms"
    # What is sent at a rate has a due time, and a sender's own lateness with it.
    figures = metrics(result)
    assert result.latencies.late.total_count == result.counts.sent_msgs
    assert figures["late.p50"] is not None and 0 <= figures["late.p50"] < figures["e2e.p50"]
