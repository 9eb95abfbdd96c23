"""The workers of a plan in this process: what is about their programs needs none of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

from natstui.bench.job.job import Job
from natstui.bench.job.protocol import StartCommand
from natstui.bench.job.schedule import Schedule
from natstui.bench.job.tally import Tally
from natstui.bench.result.accounting import ConsumerSpan, WorkerCounts
from natstui.bench.result.run_result import RunOutcome, WorkerEnd, make_result
from natstui.bench.run.assets import RunAssets, new_run_id
from natstui.bench.run.orders import all_orders
from natstui.bench.wire.link import WireLink
from natstui.bench.worker import Program, build_program
from natstui.config.connection import Connection
from natstui.jetstream.connection.client import connect
from natstui.model.bench.counts import merge_latencies
from natstui.model.bench.plan import BenchmarkPlan
from natstui.model.bench.result import BenchmarkResult
from tests.bench.running import check_accounts
from tests.ending import ended

WITHIN_S = 60.0
Meanwhile = Callable[["Workers"], Coroutine[None, None, None]]


@dataclass
class Worker:
    """What a worker process has, without the process."""

    job: Job
    link: WireLink
    program: Program

    @property
    def ends_by_itself(self) -> bool:
        """Whether it has a number of messages, or a time, after which it is done."""
        role = self.job.orders.role
        return role.total_msgs is not None or (
            role.traits.has_own_end and self.job.end_ns is not None
        )

    async def work(self) -> None:
        """Do what a worker does after GO; raises the error that would end the run."""
        await self.job.sleep((self.job.start_ns - time.monotonic_ns()) / 1e9)
        await self.program.run()
        self.link.end_subscriptions()
        if self.link.failure.done():
            raise self.link.failure.result()

    def end(self) -> WorkerEnd:
        """Return what it would have reported."""
        for collect in self.job.flush_callbacks:
            collect()
        counts, latencies = self.job.tally.pop_new()
        assert counts == self.job.tally.totals()
        orders, tally = self.job.orders, self.job.tally
        book = WorkerCounts(
            name=f"{orders.role.name}/{orders.worker_id}",
            role=orders.role,
            worker_id=orders.worker_id,
            publisher_id=orders.publisher_id,
            has_stamps=orders.received_payload is not None,
            reported_counts=counts,
            totals=counts,
            received_sequences=tally.received_sequences.dump(),
        )
        return WorkerEnd(book, tally.times(), None, "done", latencies)


@dataclass
class Workers:
    """The workers of a run, and its assets."""

    plan: BenchmarkPlan
    assets: RunAssets
    all: list[Worker] = field(default_factory=list)

    def sum(self, count: str, role: str | None = None) -> int:
        """Return the sum of a count, of a role or of all."""
        return sum(
            worker.job.tally.count(count)
            for worker in self.all
            if role in (None, worker.job.orders.role.name)
        )

    async def start(self, connection: Connection, stack: AsyncExitStack) -> None:
        """Connect every worker and let it begin, one after the other as processes do."""
        await self.assets.create()
        for orders in all_orders(self.plan, self.assets, connection.to_json_line()):
            client = await connect(connection)
            stack.push_async_callback(client.close)
            link = WireLink(client.nc)
            stack.push_async_callback(link.close)
            link.replace_parser()
            schedule = Schedule(orders.role.schedule, orders.worker_index, orders.workers_count)
            job = Job(orders, client, Tally(), schedule)
            program = build_program(job, link)
            await program.begin()
            self.all.append(Worker(job, link, program))

    async def run(self, meanwhile: Meanwhile | None = None) -> BenchmarkResult:
        """Let all work until the senders are done and everything has come; return the result."""
        started_at_us, now_ns = time.time_ns() // 1000, time.monotonic_ns()
        end_s = self.plan.duration_s
        end_ns = None if end_s is None else now_ns + round(end_s * 1e9)
        for worker in self.all:
            worker.job.begin(
                StartCommand(start_ns=now_ns, steady_ns=now_ns, end_ns=end_ns, run_start_ns=now_ns)
            )
        working = [(worker, asyncio.ensure_future(worker.work())) for worker in self.all]
        ending = [task for worker, task in working if worker.ends_by_itself]
        if meanwhile is not None:
            ending.append(asyncio.ensure_future(meanwhile(self)))
        tasks = {*ending, *(task for _, task in working)}
        try:
            async with asyncio.timeout(WITHIN_S):
                while not (all(task.done() for task in ending) and await self._has_all()):
                    for task in tasks:
                        if task.done():
                            task.result()
                    await asyncio.sleep(0.01)
                for worker in self.all:
                    worker.job.stopping.set()
                await asyncio.gather(*tasks)
        finally:
            await ended(*tasks)
        ends = await self.assets.read_consumer_figures()
        workers = [worker.end() for worker in self.all]
        stored_msgs = await self.assets.read_stored_msgs()
        outcome = RunOutcome(
            plan=self.plan,
            started_at_us=started_at_us,
            steady_ns=now_ns,
            ended_ns=time.monotonic_ns(),
            workers=workers,
            latencies=merge_latencies(worker.latencies for worker in workers),
            stored_msgs=stored_msgs,
            waiting_msgs=self.assets.waiting_msgs if self.assets.stream else None,
            was_stopped=False,
            failure=None,
            consumers={
                name: ConsumerSpan(self.assets.start_figures_by_role[name], ends[name])
                for name in ends
            },
        )
        result = make_result(outcome)
        check_accounts(result)
        return result

    async def _has_all(self) -> bool:
        """Return whether every receiver that does not end by itself has what it should get."""
        stored_msgs = await self.assets.read_stored_msgs() or 0
        if any(await self.assets.read_pending() or ()):
            return False
        for role in self.plan.roles:
            if not role.traits.receives or role.traits.has_shared_consumer or role.total_msgs:
                continue
            expected = self.assets.deliverable_msgs(role, stored_msgs) or 0
            if not role.traits.consumes:
                subjects = (role.subject, f"{role.subject}.*")
                expected = sum(
                    self.sum("sent_msgs", sender.name)
                    for sender in self.plan.roles
                    if sender.traits.sends and sender.subject in subjects
                )
            copies = 1 if role.queue or role.traits.replies else role.workers_count
            came_msgs = self.sum("received_msgs", role.name) + self.sum("foreign_msgs", role.name)
            if came_msgs < expected * copies:
                return False
        return True

    def sent(self) -> dict[str, int]:
        """Return how many messages were published, for the removal of what was created."""
        sent_msgs = self.sum("sent_msgs") + self.sum("retried_msgs")
        return dict.fromkeys(self.assets.created_streams, sent_msgs)


@asynccontextmanager
async def workers_of(connection: Connection, what: BenchmarkPlan) -> AsyncIterator[Workers]:
    """Yield the workers of a plan, ready to work; what was created for them is removed."""
    async with AsyncExitStack() as stack:
        client = await connect(connection)
        stack.push_async_callback(client.close)
        workers = Workers(what, RunAssets(client, what, new_run_id()))
        try:
            await workers.start(connection, stack)
            yield workers
        finally:
            await workers.assets.remove(workers.sent())


async def run_here(
    connection: Connection,
    what: BenchmarkPlan,
    meanwhile: Meanwhile | None = None,
) -> BenchmarkResult:
    """Run a plan in this process and return its result; `meanwhile` is awaited while it runs."""
    async with workers_of(connection, what) as workers:
        return await workers.run(meanwhile)
