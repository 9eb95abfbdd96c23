"""One run of a benchmark: workers started, let go together, watched, counted and ended."""

from __future__ import annotations

import contextlib
import time
from dataclasses import replace

from natstui.bench import casting
from natstui.bench.consumer_span import ConsumerSpan
from natstui.bench.content import check_fits
from natstui.bench.crew import Member
from natstui.bench.floor import Floor, now_us
from natstui.bench.groups import WorkerBook
from natstui.bench.knee import Knee
from natstui.bench.outcome import Ending, WorkerEnd, conclude
from natstui.bench.progress import Watcher
from natstui.bench.protocol import Go, Pause, Rate, Resume, Stop
from natstui.bench.schedule import segment_at
from natstui.bench.server_process import ServerCpu, ServerProcess
from natstui.bench.stage import Stage, new_run_id
from natstui.config.connection import Connection
from natstui.errors import NatstuiError, NotFound
from natstui.feed import Sink
from natstui.jetstream.client import connect
from natstui.model.benchmark import BenchmarkFinished, BenchmarkPlanned
from natstui.model.benchmark_result import BenchmarkResult, EndedHow
from natstui.model.benchmark_role import SENDERS, BenchmarkPlan, Fault, RateSegment
from natstui.model.record import LinkChanged

_START_S = 30.0
_LAST_WORD_S = 20.0
_HEAD_START_NS = 60_000_000
"""From GO to the start: long enough for every worker to have read it."""


class Benchmark:
    """One run. `run()` once; the other methods may be called while it runs."""

    def __init__(self, plan: BenchmarkPlan, connection: Connection, sink: Sink) -> None:
        self.plan = plan
        self.run_id = new_run_id()
        self.link: LinkChanged | None = None
        """The server it runs against."""
        self._connection = connection
        self._floor = Floor(plan, self.run_id, sink)
        self._hired = {role.name: role.workers_count for role in plan.roles}
        self._rates = {role.name: role.schedule for role in plan.roles}

    @property
    def failure(self) -> NatstuiError | None:
        """What ended the run before its time, with its exit code."""
        return self._floor.failure

    def worker_pids(self) -> list[int]:
        """Return the process ids of the workers that live."""
        return [one.process.pid for one in self._floor.crew.members if not one.gone]

    async def run(self) -> BenchmarkResult:
        """Run to the end and return the result, a partial one when something failed on the way.

        Raises a NatstuiError when nothing could be measured: no connection, stream or worker.
        """
        floor = self._floor
        client = await connect(self._connection)
        self.link = client.link
        stage = floor.stage = Stage(client, self.plan, self.run_id)
        floor.sink.add(BenchmarkPlanned(now_us(), self.run_id, self.plan))
        floor.enter("starting")
        try:
            check_fits(self.plan, client.nc.max_payload)
            await stage.build()
            await self._assemble(stage)
            self._go()
            result = await self._measure(stage)
        finally:
            try:
                await floor.crew.dismiss()
                # A server that is gone cannot be asked to delete anything; leftovers expire.
                with contextlib.suppress(NatstuiError):
                    await stage.strike()
            finally:
                await client.close()
        floor.enter("finished")
        floor.sink.add(BenchmarkFinished(now_us(), self.run_id, result, None))
        return result

    async def _assemble(self, stage: Stage) -> None:
        """Start every worker and wait until all are there."""
        crew = self._floor.crew
        for orders in casting.cast(self.plan, stage, self._connection.to_line()):
            await crew.hire(orders)
        await self._floor.until(
            lambda: self._floor.over or all(one.ready or one.over for one in crew.members),
            _START_S,
        )
        if self._floor.failure is not None:
            raise self._floor.failure
        absent = [one.name for one in crew.members if not one.ready]
        if absent and not self._floor.stopped:
            raise NatstuiError(f"workers {', '.join(absent)} were not ready in {_START_S:g} s")

    def _go(self) -> None:
        floor, plan = self._floor, self.plan
        floor.go_ns = time.monotonic_ns() + _HEAD_START_NS
        floor.steady_ns = floor.go_ns + round((plan.warmup_s + plan.ramp_s) * 1e9)
        if plan.duration_s is not None:
            floor.end_ns = floor.steady_ns + round(plan.duration_s * 1e9)
        floor.crew.tell_all(Go(go_ns=floor.go_ns, steady_ns=floor.steady_ns, end_ns=floor.end_ns))

    async def _measure(self, stage: Stage) -> BenchmarkResult:
        floor = self._floor
        watcher = Watcher(floor, stage, self._face)
        server = ServerProcess.find(self.link.server_url if self.link else None)
        try:
            await watcher.watch()
            floor.enter("drain")
            await watcher.drain()
        except NatstuiError as error:
            floor.failure = floor.failure or error
        cpu = server.until_now()
        floor.crew.tell_all(Stop())
        await floor.until(lambda: all(one.over for one in floor.crew.members), _LAST_WORD_S)
        await floor.crew.dismiss()
        return conclude(await self._ending(stage, cpu))

    async def _ending(self, stage: Stage, cpu: ServerCpu) -> Ending:
        floor = self._floor
        stored: int | None = None
        notes: tuple[str, ...] = ()
        spans: dict[str, ConsumerSpan] = {}
        try:
            stored = await stage.stored_msgs()
            ends = await stage.figures()
            spans = {role: ConsumerSpan(stage.begun[role], end) for role, end in ends.items()}
        except NatstuiError as error:
            notes = (f"the server could not be asked what it stored: {error}",)
            floor.failure = floor.failure or error
        return Ending(
            plan=self.plan,
            started_at_us=floor.started_at_us,
            steady_ns=floor.steady_ns,
            ended_ns=time.monotonic_ns(),
            workers=[_end(member) for member in floor.crew.members],
            latencies=floor.latencies(),
            stored_msgs=stored,
            waiting_msgs=stage.waiting_msgs if stage.stream else None,
            stopped=floor.stopped,
            failure=None if floor.failure is None else str(floor.failure),
            notes=(*floor.remarks, *notes),
            consumers=spans,
            server_cpu=cpu,
        )

    def stop(self) -> None:
        """End now; the result is marked partial."""
        self._floor.stopped = True
        self._floor.crew.tell_all(Stop())
        self._floor.wake()

    def change_rate(
        self, *, factor: float | None = None, per_s: float | None = None, role: str | None = None
    ) -> str:
        """Multiply or set the rate of the senders; return a sentence. Raises NotFound."""
        chosen = [
            one
            for one in self.plan.roles
            if one.pattern in SENDERS and role in (None, one.name) and self._rates[one.name]
        ]
        if not chosen:
            raise NotFound("no role with a rate runs now: what runs is as fast as possible")
        sentences = []
        for one in chosen:
            now = segment_at(self._rates[one.name], self._floor.elapsed_s())
            rate_per_s = per_s if per_s is not None else now.end_per_s * (factor or 1)
            self._rates[one.name] = (RateSegment(None, rate_per_s, rate_per_s),)
            for member in self._of(one.name):
                member.tell(Rate(per_s=rate_per_s / one.workers_count))
            sentences.append(f"{one.name} sends {rate_per_s:g} messages per second now")
        # From here on it goes up no steps whose latencies could be told.
        self._floor.knee = Knee(replace(self.plan, roles=()))
        self._floor.log(", ".join(sentences))
        return ", ".join(sentences)

    def kill_worker(self, role: str, worker_id: int | None = None) -> str:
        """Let a worker die as in a crash; return a sentence. Raises NotFound."""
        member = self._find(role, worker_id)
        member.doom()
        self._floor.log("is killed", member)
        return f"worker {member.name} is killed"

    async def add_worker(self, role: str) -> str:
        """Start one more worker; return a sentence. Raises NotFound."""
        floor, found = self._floor, [one for one in self.plan.roles if one.name == role]
        if not found or floor.stage is None or not floor.go_ns:
            raise NotFound(f"no role {role!r} runs in this benchmark")
        one = replace(found[0], schedule=self._rates[role])
        worker_id, number = self._hired[role], len(floor.crew.members)
        self._hired[role] += 1
        line = self._connection.to_line()
        orders = casting.extra(self.plan, floor.stage, line, one, worker_id, number)
        member = await floor.crew.hire(orders)
        await floor.until(lambda: member.ready or member.over, _START_S)
        now_ns = time.monotonic_ns()
        member.tell(Go(go_ns=now_ns, steady_ns=max(now_ns, floor.steady_ns), end_ns=floor.end_ns))
        floor.log("is added", member)
        return f"worker {member.name} is added"

    async def _face(self, fault: Fault) -> None:
        """Let something go wrong on purpose."""
        if fault.kind == "kill":
            self.kill_worker(fault.role, fault.worker_id)
        elif fault.kind == "add":
            await self.add_worker(fault.role)
        else:
            member = self._find(fault.role, fault.worker_id)
            member.tell(Pause() if fault.kind == "pause" else Resume())
            self._floor.log(f"is {fault.kind}d", member)

    def _of(self, role: str) -> list[Member]:
        return [
            one
            for one in self._floor.crew.members
            if one.orders.role.name == role and not one.over
        ]

    def _find(self, role: str, worker_id: int | None) -> Member:
        for member in reversed(self._of(role)):
            if worker_id in (None, member.orders.worker_id) and not member.doomed:
                return member
        raise NotFound(f"there is no worker {role}/{'*' if worker_id is None else worker_id}")


def _end(member: Member) -> WorkerEnd:
    """Return what is known of a worker that has ended."""
    done = member.done
    book = WorkerBook(
        name=member.name,
        role=member.orders.role,
        worker_id=member.orders.worker_id,
        reported=member.counts,
        totals=None if done is None else done.counts,
        seen=None if done is None else done.seen,
    )
    return WorkerEnd(
        book=book,
        last_sent_ns=0 if done is None else done.last_sent_ns,
        last_received_ns=0 if done is None else done.last_received_ns,
        cpu_ratio=member.steady_cpu_s / member.steady_s if member.steady_s > 0.05 else None,
        ended=_how(member),
    )


def _how(member: Member) -> EndedHow:
    if member.doomed:
        return "killed"
    if member.done is None:
        return "died"
    return "done" if member.failed is None else "failed"
