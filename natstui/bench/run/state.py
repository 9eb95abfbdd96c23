"""The state of a running benchmark: who works, what they reported, which phase it is."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace

from natstui.bench.job.protocol import Log, Report, Up, WorkerFailure
from natstui.bench.result.outcome import steady_published_msgs, steady_received_msgs
from natstui.bench.run.assets import RunAssets
from natstui.bench.run.knee import Knee
from natstui.bench.run.worker_processes import WorkerPool, WorkerProcess
from natstui.errors import NatstuiError
from natstui.feed import Sink
from natstui.model.bench.counts import Counts, Latencies, merge_latencies
from natstui.model.bench.plan import BenchmarkPlan
from natstui.model.bench.timeline import TimelineBuilder
from natstui.model.records.benchmark import (
    BenchmarkLog,
    BenchmarkPhase,
    BenchmarkReport,
    PhaseName,
    RunChange,
)

_NOTHING = Counts()
_HELD_S = 1.0
"""A report that is ahead of a silent sender waits no longer than this."""


class WorkerFailed(NatstuiError):
    """A worker said why it cannot go on."""

    def __init__(self, failed: WorkerFailure) -> None:
        super().__init__(failed.sentence)
        self.exit_code = failed.exit_code


class RunState:
    """Collects what every worker reports, for the other parts of the run."""

    def __init__(self, plan: BenchmarkPlan, run_id: str, sink: Sink) -> None:
        self.plan = plan
        self.run_id = run_id
        self.sink = sink
        self.assets: RunAssets | None = None
        self.pool = WorkerPool(self._hear)
        self.phase: PhaseName = "starting"
        self.stopped = False
        self.failure: NatstuiError | None = None
        self.knee = Knee(plan)
        self.held: set[str] = set()
        """Names of the workers that do nothing until told to go on."""
        self.remarks: list[str] = []
        """What a reader of the result must know."""
        self.started_at_us = now_us()
        self.timeline = TimelineBuilder()
        self._wall_less_monotonic_ns = time.time_ns() - time.monotonic_ns()
        self.go_ns = self.steady_ns = 0
        self.end_ns: int | None = None
        self.last_report_ns = 0
        """When a receiver last reported a message."""
        self._told = _NOTHING
        """The sum of the reports that were handed on."""
        self._held: deque[tuple[float, WorkerProcess, Report]] = deque()
        """Reports of receivers that wait for those of the senders, and since when."""
        self._changed = asyncio.Event()

    @property
    def over(self) -> bool:
        """Whether it must end before its time."""
        return self.stopped or self.failure is not None

    def enter(self, phase: PhaseName) -> None:
        """Begin a phase."""
        if phase != self.phase or phase == "starting":
            self.phase = phase
            self.sink.add(BenchmarkPhase(now_us(), self.run_id, phase))

    def log(
        self,
        text: str,
        member: WorkerProcess | None = None,
        change: RunChange | None = None,
        mark: str | None = None,
    ) -> None:
        """Put a line into the run's log; `mark` is what charts say of a change of the run."""
        name = None if member is None else member.name
        self.sink.add(BenchmarkLog(now_us(), self.run_id, text, name, change, mark))

    def remark(self, text: str, change: RunChange | None = None, mark: str | None = None) -> None:
        """Put a line into the log that the result shall say as well."""
        self.remarks.append(text)
        self.log(text, None, change, mark)

    def counts(self) -> Counts:
        """Return the sum over all workers, as far as it was told."""
        return self._told

    def latencies(self) -> Latencies:
        """Return all latencies so far."""
        return merge_latencies(member.latencies.total() for member in self.pool.members)

    def elapsed_s(self) -> float:
        """Return the time since GO."""
        return max(time.monotonic_ns() - self.go_ns, 0) / 1e9 if self.go_ns else 0.0

    async def changes(self, timeout_s: float) -> None:
        """Wait until a worker said something, or for so long."""
        self._changed.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return

    async def until(self, true: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until something is true; return whether it became so in time."""
        give_up = time.monotonic() + timeout_s
        while not true():
            if time.monotonic() > give_up:
                return False
            await self.changes(0.05)
        return True

    def wake(self) -> None:
        """Let whoever waits look again."""
        self._changed.set()

    def _hear(self, member: WorkerProcess, said: Up | None) -> None:
        match said:
            case Report():
                self._report(member, said)
            case Log():
                self.log(said.text, member)
            case WorkerFailure():
                self.log(said.sentence, member)
                self.failure = self.failure or WorkerFailed(said)
            case None:
                self._gone(member)
            case _:
                pass
        self.release()
        self.wake()

    def _gone(self, member: WorkerProcess) -> None:
        if member.was_killed or (member.done is not None and member.done.died):
            # A worker that was killed is marked since then.
            change: RunChange | None = None if member.was_killed else "killed"
            self.log("is dead", member, change, change and f"-{member.name}")
        elif member.done is None and member.failed is not None:
            self.log(member.failed.sentence, member)
            # The others may survive a killed worker; the account says what is missing.
            if not member.ready or all(one.gone for one in self.pool.members):
                self.failure = self.failure or WorkerFailed(member.failed)

    def _report(self, member: WorkerProcess, report: Report) -> None:
        if report.counts.received_msgs and member.orders.role.traits.receives:
            self.last_report_ns = time.monotonic_ns()
        # Somebody who waits for the others to end does not say how busy it was.
        if self.phase in ("steady", "drain") and report.counts != _NOTHING:
            member.steady_cpu_s += report.cpu_s
            member.steady_s += report.interval_s
        self.knee.add(self.elapsed_s(), report.latencies)
        if member.orders.role.traits.sends:
            self._note_joined(member, report)
        if member.orders.role.traits.has_queue:
            self._held.append((time.monotonic(), member, report))
        else:
            self._hand_on(member, report)

    def _note_joined(self, sender: WorkerProcess, report: Report) -> None:
        """Note from which message on this sender's are for those who joined behind it."""
        publisher_id = sender.orders.publisher_id
        for member in self.pool.members:
            behind = member.ready and sender.go_ns < member.ready_ns <= report.at_ns
            if behind and member.orders.role.traits.receives:
                member.due_from.setdefault(publisher_id, sender.counts.sent_msgs)

    def release(self, *, everything: bool = False) -> None:
        """Hand on what was reported: of receivers only once the senders said what they sent.

        So nobody ever sees more received than sent, in whatever order reports are read.
        """
        kept: deque[tuple[float, WorkerProcess, Report]] = deque()
        for held in self._held:
            since, member, report = held
            fresh = time.monotonic() - since < _HELD_S and not everything
            if fresh and self._is_ahead(report):
                kept.append(held)
            else:
                self._hand_on(member, report)
        self._held = kept

    def _is_ahead(self, report: Report) -> bool:
        """Tell whether a report may know of messages whose sender has not said them yet."""
        return any(
            0 < member.go_ns < report.at_ns
            and member.reported_ns < report.at_ns
            and not member.over
            for member in self.pool.members
            if member.orders.role.traits.sends
        )

    def wall_us(self, at_ns: int) -> int:
        """Return the time of day at a time of CLOCK_MONOTONIC."""
        return (at_ns + self._wall_less_monotonic_ns) // 1000

    def _hand_on(self, member: WorkerProcess, report: Report) -> None:
        role = member.orders.role
        self.timeline.add(
            self.wall_us(report.at_ns),
            round(report.interval_s * 1e6),
            steady_published_msgs(role, report.counts),
            steady_received_msgs(role, report.counts),
        )
        self._told = self._told.plus(_summed(member, report.counts))
        self.sink.add(
            BenchmarkReport(
                at_us=now_us(),
                run_id=self.run_id,
                role=member.orders.role.name,
                worker_id=member.orders.worker_id,
                interval_s=report.interval_s,
                counts=report.counts,
                latencies=report.latencies,
                cpu_ratio=report.cpu_s / max(report.interval_s, 1e-6),
            )
        )


def _summed(member: WorkerProcess, counts: Counts) -> Counts:
    """Return what counts for the progress of the run."""
    traits = member.orders.role.traits
    if traits.responds:
        return replace(counts, sent_msgs=0, sent_bytes=0)
    if traits.awaits_responses:
        return replace(counts, received_msgs=0, received_bytes=0)
    return counts


def now_us() -> int:
    """Return the wall clock."""
    return time.time_ns() // 1000
