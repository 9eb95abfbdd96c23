"""The state of a running benchmark: workers, reports and phase."""

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
"""Maximum time that a report waits for those of a silent sender."""


class WorkerFailed(NatstuiError):
    """A worker reported why it cannot continue."""

    def __init__(self, failure: WorkerFailure) -> None:
        super().__init__(failure.sentence)
        self.exit_code = failure.exit_code


class RunState:
    """Collects the reports of all workers, for the other parts of the run."""

    def __init__(self, plan: BenchmarkPlan, run_id: str, sink: Sink) -> None:
        self.plan = plan
        self.run_id = run_id
        self.sink = sink
        self.assets: RunAssets | None = None
        self.pool = WorkerPool(self._receive)
        self.phase: PhaseName = "starting"
        self.stopped = False
        self.failure: NatstuiError | None = None
        self.knee = Knee(plan)
        self.held: set[str] = set()
        """Names of the paused workers."""
        self.remarks: list[str] = []
        """Remarks for readers of the result."""
        self.started_at_us = now_us()
        self.timeline = TimelineBuilder()
        self._wall_less_monotonic_ns = time.time_ns() - time.monotonic_ns()
        self.go_ns = self.steady_ns = 0
        self.end_ns: int | None = None
        self.last_report_ns = 0
        """When a receiver last reported a message."""
        self._passed_counts = _NOTHING
        """The sum of the reports that were passed on."""
        self._queued_reports: deque[tuple[float, WorkerProcess, Report]] = deque()
        """Reports of receivers that wait for those of the senders, with their time of arrival."""
        self._changed = asyncio.Event()

    @property
    def is_over(self) -> bool:
        """Return whether the run must end early: it was stopped, or failed."""
        return self.stopped or self.failure is not None

    def enter(self, phase: PhaseName) -> None:
        """Start a phase, and add its record."""
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
        """Add a line to the log of the run.

        `member` is the worker that it is about, `change` what a person changed, `mark` its label
        in charts.
        """
        name = None if member is None else member.name
        self.sink.add(BenchmarkLog(now_us(), self.run_id, text, name, change, mark))

    def remark(self, text: str, change: RunChange | None = None, mark: str | None = None) -> None:
        """Add a line to the log, and to the remarks of the result.

        `change` is what a person changed, `mark` its label in charts.
        """
        self.remarks.append(text)
        self.log(text, None, change, mark)

    def counts(self) -> Counts:
        """Return the sum of the reports of all workers that were passed on so far."""
        return self._passed_counts

    def latencies(self) -> Latencies:
        """Return the latencies of all workers so far."""
        return merge_latencies(member.latencies.total() for member in self.pool.members)

    def elapsed_s(self) -> float:
        """Return the time since the start (GO) in s; 0 before it."""
        return max(time.monotonic_ns() - self.go_ns, 0) / 1e9 if self.go_ns else 0.0

    async def wait_for_report(self, timeout_s: float) -> None:
        """Wait until a worker reports, `timeout_s` at most."""
        self._changed.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return

    async def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until `true()`, `timeout_s` at most; return whether it became true.

        It is checked after every report, and 20 times a second.
        """
        deadline_s = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline_s:
                return False
            await self.wait_for_report(0.05)
        return True

    def wake(self) -> None:
        """Wake all waiting tasks to check again."""
        self._changed.set()

    def _receive(self, member: WorkerProcess, line: Up | None) -> None:
        match line:
            case Report():
                self._report(member, line)
            case Log():
                self.log(line.text, member)
            case WorkerFailure():
                self.log(line.sentence, member)
                self.failure = self.failure or WorkerFailed(line)
            case None:
                self._on_exit(member)
            case _:
                pass
        self.release()
        self.wake()

    def _on_exit(self, member: WorkerProcess) -> None:
        if member.was_killed or (member.done is not None and member.done.died):
            # A worker that was killed is marked since then.
            change: RunChange | None = None if member.was_killed else "killed"
            self.log("is dead", member, change, change and f"-{member.name}")
        elif member.done is None and member.failed is not None:
            self.log(member.failed.sentence, member)
            # The others may survive a killed worker; the account says what is missing.
            if not member.is_ready or all(worker.has_exited for worker in self.pool.members):
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
            self._queued_reports.append((time.monotonic(), member, report))
        else:
            self._pass_on(member, report)

    def _note_joined(self, sender: WorkerProcess, report: Report) -> None:
        """Store the first message of this sender that is for receivers that joined since."""
        publisher_id = sender.orders.publisher_id
        for member in self.pool.members:
            joined_after = member.is_ready and sender.go_ns < member.ready_ns <= report.at_ns
            if joined_after and member.orders.role.traits.receives:
                member.due_from.setdefault(publisher_id, sender.counts.sent_msgs)

    def release(self, *, is_final: bool = False) -> None:
        """Pass on the queued reports of receivers that are not newer than those of the senders.

        So the received messages stay below the sent ones, in whatever order reports are read.
        `is_final` passes on all.
        """
        waiting: deque[tuple[float, WorkerProcess, Report]] = deque()
        for queued in self._queued_reports:
            since, member, report = queued
            is_recent = time.monotonic() - since < _HELD_S and not is_final
            if is_recent and self._is_ahead(report):
                waiting.append(queued)
            else:
                self._pass_on(member, report)
        self._queued_reports = waiting

    def _is_ahead(self, report: Report) -> bool:
        """Return whether a report may contain messages that their sender has not reported yet."""
        return any(
            0 < member.go_ns < report.at_ns
            and member.reported_ns < report.at_ns
            and not member.is_over
            for member in self.pool.members
            if member.orders.role.traits.sends
        )

    def wall_us(self, at_ns: int) -> int:
        """Return the time of day (UTC µs) at a time of the steady clock in ns."""
        return (at_ns + self._wall_less_monotonic_ns) // 1000

    def _pass_on(self, member: WorkerProcess, report: Report) -> None:
        role = member.orders.role
        self.timeline.add(
            self.wall_us(report.at_ns),
            round(report.interval_s * 1e6),
            steady_published_msgs(role, report.counts),
            steady_received_msgs(role, report.counts),
        )
        self._passed_counts = self._passed_counts.plus(_summed(member, report.counts))
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
    """Return the counts that belong to the progress of the run."""
    traits = member.orders.role.traits
    if traits.responds:
        return replace(counts, sent_msgs=0, sent_bytes=0)
    if traits.awaits_responses:
        return replace(counts, received_msgs=0, received_bytes=0)
    return counts


def now_us() -> int:
    """Return the time of the wall clock in UTC µs."""
    return time.time_ns() // 1000
