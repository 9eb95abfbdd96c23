"""The load engine, interleaved on one server: wire, nats-py and, where found, `nats bench`.

Prints medians of three rounds in messages per second, the ratio of wire to the others, and the
server's CPU. `NATSTUI_BENCH_SCALE=0.1` makes everything a tenth as long.
"""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, replace
from statistics import median

from benchmarks.server_share import cpu_s
from natstui.bench.run.controller import Benchmark
from natstui.config.connection import Connection
from natstui.jetstream.testbed.broker import Broker
from natstui.model.bench.plan import BenchmarkPlan, ClientKind, Pattern, Role, StreamPlan
from natstui.model.records.record import Record
from natstui.units import rate_text

ROUNDS = 3
SCALE = float(os.environ.pop("NATSTUI_BENCH_SCALE", "1"))
CORE_MSGS, STORED_MSGS, SYNC_MSGS = 1_000_000, 500_000, 20_000
PLAIN_RATIO = 20
"""A nats-py run sends so many times less, to take about as long."""
OWN = StreamPlan("ENGINE", subjects=("bench",), allow_batches=True)
FULL = StreamPlan("FULL", create=False)
FULL_FILE = StreamPlan("FULL-FILE", create=False)
LITTLE = StreamPlan("LITTLE", create=False)

Make = Callable[[ClientKind, int], tuple[Role, ...]]


class Nobody:
    """A sink that forgets."""

    def add(self, record: Record) -> None:
        """Forget a record."""


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    name: str
    make: Make
    total: int
    receives: bool
    stream: StreamPlan | None = None
    plain: bool = True
    target: float = 0.0
    """What wire must reach."""
    words: str = ""
    """Of `nats bench`."""


def core(subs: int) -> Make:
    """Return a publisher and subscribers."""

    def make(client: ClientKind, total: int) -> tuple[Role, ...]:
        receivers = (Role("subs", "subscribe", subs, client),) if subs else ()
        return (*receivers, Role("pubs", "publish", 1, client, total_msgs=total))

    return make


def alone(pattern: Pattern, **settings: object) -> Make:
    """Return one worker of a pattern."""

    def make(client: ClientKind, total: int) -> tuple[Role, ...]:
        role = Role("only", pattern, 1, client, **settings)  # type: ignore[arg-type]
        sends = pattern.startswith(("js-publish", "js-get"))
        return (replace(role, total_msgs=total) if sends else role,)

    return make


FILE = replace(OWN, storage="file")
ROWS = (
    Row("core publish, nobody subscribed", core(0), CORE_MSGS, False, None, True, 3.2e6,
        "pub bench --msgs 1000000"),
    Row("core 1 → 1, latency of every message", core(1), CORE_MSGS, True, None, True, 1.1e6),
    Row("core 1 → 4, received in total", core(4), CORE_MSGS, True, None, True, 1.6e6),
    Row("publish async, file", alone("js-publish-async"), STORED_MSGS, False, FILE, True, 0.15e6),
    Row("publish async, memory", alone("js-publish-async"), STORED_MSGS, False, OWN, True, 0.18e6),
    Row("publish sync, one worker", alone("js-publish-sync"), SYNC_MSGS, False, OWN, True, 9e3),
    Row("publish atomic batch", alone("js-publish-atomic"), STORED_MSGS, False, OWN, False),
    Row("publish fast batch", alone("js-publish-fast", window_msgs=1500), STORED_MSGS, False, OWN,
        False, 0.16e6),
    Row("pull, explicit ack", alone("js-consume"), STORED_MSGS, True, FULL, True, 0.125e6,
        "js consume --stream FULL --msgs 500000 --acks explicit"),
    Row("pull, no ack", alone("js-consume", acks="none"), STORED_MSGS, True, FULL, True, 0.25e6,
        "js consume --stream FULL --msgs 500000 --acks none"),
    Row("fetch, explicit ack", alone("js-fetch"), STORED_MSGS, True, FULL, True, 0.115e6,
        "js fetch --stream FULL --msgs 500000 --acks explicit"),
    Row("ordered", alone("js-ordered", acks="none"), STORED_MSGS, True, FULL, True, 0.2e6,
        "js ordered --stream FULL --msgs 500000"),
    # For every request the memory store walks the whole stream to count what is left.
    Row("direct get, batch, file", alone("js-get-batch"), STORED_MSGS, True, FULL_FILE, False,
        0.15e6, "js get batch --stream FULL-FILE --msgs 500000"),
    Row("direct get, batch, memory", alone("js-get-batch", batch_msgs=5000), STORED_MSGS, True,
        FULL, False),
)  # fmt: skip


async def run(broker: Broker, row: Row, client: ClientKind) -> tuple[float, float]:
    """Run a row once; return messages per second and the server's share of a core."""
    ratio = 1 if client == "wire" else PLAIN_RATIO
    if client == "nats-py" and row.name.startswith("publish sync"):
        ratio = 4
    total = max(round(row.total * SCALE / ratio), 100)
    stream = row.stream
    if stream is FULL:
        stream = FULL if client == "wire" else LITTLE
    plan = BenchmarkPlan(row.name, "", row.make(client, total), stream, None, drain_s=60)
    before_s = cpu_s(broker.pid)
    result = await Benchmark(plan, Connection(servers=(broker.url,)), Nobody()).run()
    used_s = cpu_s(broker.pid) - before_s
    if result.verdict != "ok":
        raise SystemExit(f"{row.name} ({client}): {result.notes}")
    rate = result.receive_per_s if row.receives else result.publish_per_s
    return rate or 0.0, used_s / result.duration_s


def nats_bench(executable: str, broker: Broker, row: Row) -> float | None:
    """Run `nats bench` once; None for rows it has no words for."""
    if not row.words:
        return None
    words = [executable, "bench", *row.words.split(), "--no-progress", "--server", broker.url]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    found = re.findall(r"([\d,]+) msgs/sec", done.stdout)
    return float(found[-1].replace(",", "")) if found else None


async def measure() -> None:
    """Run every row in every round, then print the table."""
    executable = shutil.which("nats")
    figures: dict[tuple[str, str], list[float]] = {}
    busy: dict[str, list[float]] = {}
    with Broker() as broker:
        for filled, ratio in ((FULL, 1), (FULL_FILE, 1), (LITTLE, PLAIN_RATIO)):
            total, name = round(STORED_MSGS * SCALE / ratio), filled.name
            storage = FILE.storage if filled is FULL_FILE else OWN.storage
            kept = replace(OWN, name=name, storage=storage, keep=True, subjects=(f"bench.{name}",))
            role = Role("p", "js-publish-async", subject=f"bench.{name}", total_msgs=total)
            plan = BenchmarkPlan("fill", "", (role,), kept, None)
            await Benchmark(plan, Connection(servers=(broker.url,)), Nobody()).run()
        for _ in range(ROUNDS):
            for row in ROWS:
                rate, share = await run(broker, row, "wire")
                figures.setdefault((row.name, "wire"), []).append(rate)
                busy.setdefault(row.name, []).append(share)
                if row.plain:
                    rate, _ = await run(broker, row, "nats-py")
                    figures.setdefault((row.name, "nats-py"), []).append(rate)
                if executable and (rival := nats_bench(executable, broker, row)):
                    figures.setdefault((row.name, "nats"), []).append(rival)
    print(
        f"{'pattern':<38}{'wire':>8}{'must':>8}{'nats-py':>9}{'ratio':>7}{'nats':>8}  server CPU"
    )
    for row in ROWS:
        _print(row, figures, median(busy[row.name]))


def _print(row: Row, figures: dict[tuple[str, str], list[float]], share: float) -> None:
    wire = median(figures[row.name, "wire"])
    plain, rival = (
        median(found) if (found := figures.get((row.name, kind))) else None
        for kind in ("nats-py", "nats")
    )
    ratio = f"{wire / plain:.1f}×" if plain else "–"
    print(
        f"{row.name:<38}{rate_text(wire):>8}{rate_text(row.target or None):>8}"
        f"{rate_text(plain):>9}{ratio:>7}{rate_text(rival):>8}  {share:.0%}"
    )


def main() -> None:
    """Measure and print."""
    asyncio.run(measure())
