"""The rounds: every client in turns, on one server, so that its moods hit all of them alike."""

from __future__ import annotations

import contextlib
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

from natstui.bench.run.assets import new_run_id, stream_config, stream_name
from natstui.bench.run.controller import Benchmark
from natstui.bench.versus.rival import Rival, why_not
from natstui.bench.versus.rows import Row, filling, made_stream, needs_stream, plan_of
from natstui.config.connection import Connection
from natstui.errors import NatstuiError, NotFound
from natstui.jetstream.connection.client import Client, connect
from natstui.model.bench.plan import BenchmarkPlan, ClientKind, StreamPlan
from natstui.model.bench.result import BenchmarkResult
from natstui.model.records.record import Record

ClientName = Literal["natstui", "nats-py", "nats bench"]
_OURS: dict[ClientName, ClientKind] = {"natstui": "wire", "nats-py": "nats-py"}


@dataclass(slots=True)
class Figures:
    """What one client reached in one row, a value for each round."""

    rates_per_s: list[float] = field(default_factory=list)
    server_cpu_ratios: list[float] = field(default_factory=list)
    """Of one core; rounds in which nobody could see the server are missing."""


@dataclass(slots=True)
class Compared:
    """One row of the table."""

    row: Row
    figures: dict[ClientName, Figures] = field(default_factory=dict)
    errors: dict[ClientName, str] = field(default_factory=dict)
    """Why a client has fewer rounds than others."""


class _Nobody:
    """A sink that forgets."""

    def add(self, record: Record) -> None:
        """Forget a record."""


class Rounds:
    """Runs the rows in turns with every client there is."""

    def __init__(
        self,
        connection: Connection,
        rows: Sequence[Row],
        tell: Callable[[str], None],
        total_msgs: int | None = None,
    ) -> None:
        """`tell` takes what a person wants to know meanwhile."""
        self.compared = [Compared(row) for row in rows]
        self._connection = connection
        self._tell = tell
        self._wanted = total_msgs
        self._filled: dict[tuple[bool, int], str] = {}
        self._name = f"NATSTUI_VS_{new_run_id()}"
        self._names = 0

    async def run(self, rounds_count: int) -> list[Compared]:
        """Measure; every stream that was made is removed, also when it ends before its time."""
        client = await connect(self._connection)
        try:
            rival = self._rival(client)
            if any(needs_stream(one.row) for one in self.compared):
                # A server that removes its last stream removes the folder of all streams, also
                # while the next one is being made there: so one stays to the end.
                own = StreamPlan(self._name, subjects=(self._name,), storage="file")
                await client.request(f"STREAM.CREATE.{own.name}", stream_config(own))
            for number in range(rounds_count):
                for one in self.compared:
                    self._tell(f"round {number + 1} of {rounds_count}: {one.row.name}")
                    await self._turn(client, one, rival, backwards=bool(number % 2))
        finally:
            try:
                for (is_bucket, _), name in self._filled.items():
                    await _remove(client, f"KV_{name}" if is_bucket else name)
                if any(needs_stream(one.row) for one in self.compared):
                    await _remove(client, self._name)
            finally:
                await client.close()
        return self.compared

    def _rival(self, client: Client) -> Rival | None:
        program = shutil.which("nats")
        if program is None:
            self._tell("nats bench is left out: there is no program `nats` on the PATH")
            return None
        reason = why_not(self._connection)
        if reason is not None:
            self._tell(f"nats bench is left out: {reason}")
            return None
        return Rival(program, self._connection, client.link.server_url)

    async def _turn(
        self, client: Client, one: Compared, rival: Rival | None, *, backwards: bool
    ) -> None:
        """Run a row once with everybody; who is first changes from round to round."""
        names = list(_clients(one.row, rival))
        for name in reversed(names) if backwards else names:
            try:
                if name == "nats bench" and rival is not None:
                    rate, cpu = await self._theirs(client, one.row, rival)
                else:
                    rate, cpu = await self._ours(one.row, _OURS[name])
            except NatstuiError as error:
                # One pattern that a server refuses must not end the table.
                one.errors[name] = str(error)
                continue
            figures = one.figures.setdefault(name, Figures())
            figures.rates_per_s.append(rate)
            if cpu is not None:
                figures.server_cpu_ratios.append(cpu)

    async def _ours(self, row: Row, client: ClientKind) -> tuple[float, float | None]:
        total = row.total_msgs(client, self._wanted)
        stream = await self._filled_stream(row, total) if row.reads else self._fresh()
        result = await self._benchmark(plan_of(row, client, total, stream))
        takes = row.reads or row.counts_beside
        rate = result.receive_per_s if takes else result.publish_per_s
        if not rate:
            raise NatstuiError("; ".join(result.notes) or "nothing was measured")
        return rate, result.server_cpu_ratio

    async def _theirs(self, client: Client, row: Row, rival: Rival) -> tuple[float, float | None]:
        total = row.total_msgs("wire", self._wanted)
        stream = await self._filled_stream(row, total) if row.reads else self._fresh()
        own = made_stream(row, stream)
        if own is not None:
            await client.request(f"STREAM.CREATE.{stream_name(own)}", stream_config(own))
        try:
            return await rival.run(row, total, stream)
        finally:
            await _tidy(client, row, stream, own)

    async def _filled_stream(self, row: Row, total: int) -> str:
        """Return a stream with messages to read, made when it is first needed."""
        key = (row.is_bucket, total)
        if key not in self._filled:
            name = self._fresh()
            self._filled[key] = name
            await self._benchmark(filling(row, total, name))
        return self._filled[key]

    async def _benchmark(self, plan: BenchmarkPlan) -> BenchmarkResult:
        benchmark = Benchmark(plan, self._connection, _Nobody())
        result = await benchmark.run()
        if benchmark.failure is not None:
            raise benchmark.failure
        if result.verdict != "ok":
            raise NatstuiError("; ".join(result.notes))
        return result

    def _fresh(self) -> str:
        # The server reads the subject with every message: everybody's is equally long.
        self._names += 1
        return f"{self._name}_{self._names:04}"


def _clients(row: Row, rival: Rival | None) -> Iterator[ClientName]:
    yield "natstui"
    if row.has_plain:
        yield "nats-py"
    if rival is not None:
        yield "nats bench"


async def _tidy(client: Client, row: Row, stream: str, own: StreamPlan | None) -> None:
    """Remove what another program left behind: `nats bench` keeps its durable consumer."""
    if own is not None:
        await _remove(client, stream_name(own))
    elif "{consumer}" in row.words:
        with contextlib.suppress(NotFound):
            await client.request(f"CONSUMER.DELETE.{stream}.nats-bench")


async def _remove(client: Client, stream: str) -> None:
    with contextlib.suppress(NotFound):
        await client.request(f"STREAM.DELETE.{stream}")
