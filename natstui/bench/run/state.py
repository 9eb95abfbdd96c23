"""The state of a running benchmark: its workers, their reports, and the phase."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from natstui.bench.job.protocol import LogLine, Report, WorkerFailure, WorkerLine
from natstui.bench.result.run_result import steady_published_msgs, steady_received_msgs
from natstui.bench.run.assets import RunAssets
from natstui.bench.run.knee import KneeDetector
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
from natstui.values import replace

_NO_COUNTS = Counts()
_MAX_REPORT_QUEUED_S = 1.0
"""Maximum time that a receiver's report is queued for the reports of the senders."""


class WorkerFailed(NatstuiError):
    """The error that a worker reported, after which it cannot continue."""

    def __init__(self, failure: WorkerFailure) -> None:
        super().__init__(failure.sentence)
        self.exit_code = failure.exit_code


class _QueuedReport(NamedTuple):
    """A report that waits, with the time at which it arrived (monotonic s)."""

    arrived_s: float
    member: WorkerProcess
    report: Report


class RunState:
    """Collects the reports of all workers, for the other parts of the run."""

    def __init__(self, plan: BenchmarkPlan, run_id: str, sink: Sink) -> None:
        self.plan = plan
        self.run_id = run_id
        self.sink = sink
        self.assets: RunAssets | None = None
        self.pool = WorkerPool(self._on_line)
        self.phase: PhaseName = "starting"
        self.was_stopped = False
        self.failure: NatstuiError | None = None
        self.knee = KneeDetector(plan)
        self.paused_names: set[str] = set()
        """Names of the paused workers."""
        self.remarks: list[str] = []
        """Sentences for the notes of the result."""
        self.timeline = TimelineBuilder()
        self.read_clock()
        self.start_ns = self.steady_ns = 0
        self.end_ns: int | None = None
        self.last_report_ns = 0
        """Time of the last report of a receiver with a message (monotonic ns); 0 before it."""
        self._forwarded_counts = _NO_COUNTS
        """The sum of the counts of the forwarded reports."""
        self._queued_reports: deque[_QueuedReport] = deque()
        """Reports of receivers that wait for those of the senders."""
        self._change_event = asyncio.Event()

    @property
    def is_over(self) -> bool:
        """Return whether the run was stopped or has failed, and so ends early."""
        return self.was_stopped or self.failure is not None

    def read_clock(self) -> None:
        """Set the start of the run to the current time of the wall clock.

        The clock is read again just before the start: a run with a start time may be created
        hours before that time, and the wall clock may be set meanwhile.
        """
        self.started_at_us = now_us()
        self._wall_less_monotonic_ns = time.time_ns() - time.monotonic_ns()

    def enter_phase(self, phase: PhaseName) -> None:
        """Enter a phase, and send a record of the new phase to the sink."""
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
        """Send a line of the log of the run.

        `member` is the worker that the line is about, `change` the kind of a change by a person,
        `mark` its label in charts.
        """
        name = None if member is None else member.name
        self.sink.add(BenchmarkLog(now_us(), self.run_id, text, name, change, mark))

    def add_remark(
        self, text: str, change: RunChange | None = None, mark: str | None = None
    ) -> None:
        """Send a line of the log, and add it to the remarks of the result.

        `change` is the kind of a change by a person, `mark` its label in charts.
        """
        self.remarks.append(text)
        self.log(text, None, change, mark)

    def counts(self) -> Counts:
        """Return the sum of the counts of all reports that were forwarded so far."""
        return self._forwarded_counts

    def latencies(self) -> Latencies:
        """Return the latencies of all workers so far."""
        return merge_latencies(member.latencies.total() for member in self.pool.members)

    def elapsed_s(self) -> float:
        """Return the time since the start of the run in s; 0 before it."""
        return max(time.monotonic_ns() - self.start_ns, 0) / 1e9 if self.start_ns else 0.0

    async def wait_for_report(self, timeout_s: float) -> None:
        """Wait until a worker reports, for at most `timeout_s`."""
        self._change_event.clear()
        try:
            async with asyncio.timeout(timeout_s):
                await self._change_event.wait()
        except TimeoutError:
            return

    async def wait_until(self, condition: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until `condition()` is true, for at most `timeout_s`; return whether it is.

        It is checked after every report, and 20 times a second.
        """
        deadline_s = time.monotonic() + timeout_s
        while not condition():
            if time.monotonic() > deadline_s:
                return False
            await self.wait_for_report(0.05)
        return True

    def wake(self) -> None:
        """Let all waiting tasks check their condition again."""
        self._change_event.set()

    def _on_line(self, member: WorkerProcess, line: WorkerLine | None) -> None:
        match line:
            case Report():
                self._on_report(member, line)
            case LogLine():
                self.log(line.text, member)
            case WorkerFailure():
                self.log(line.sentence, member)
                self.failure = self.failure or WorkerFailed(line)
            case None:
                self._on_exit(member)
            case _:
                pass
        self.release_reports()
        self.wake()

    def _on_exit(self, member: WorkerProcess) -> None:
        if member.was_killed or (
            member.final_report is not None and member.final_report.is_requested_crash
        ):
            # A worker that was killed is marked since then.
            change: RunChange | None = None if member.was_killed else "killed"
            self.log("is dead", member, change, change and f"-{member.name}")
        elif member.final_report is None and member.failure is not None:
            self.log(member.failure.sentence, member)
            # The others may survive a killed worker; the account says what is missing.
            if not member.is_ready or all(worker.has_exited for worker in self.pool.members):
                self.failure = self.failure or WorkerFailed(member.failure)

    def _on_report(self, member: WorkerProcess, report: Report) -> None:
        if report.counts.received_msgs and member.orders.role.traits.receives:
            self.last_report_ns = time.monotonic_ns()
        # The CPU time of a worker that only waits is left out.
        if self.phase in ("steady", "drain") and report.counts != _NO_COUNTS:
            member.steady_cpu_s += report.cpu_s
            member.steady_s += report.interval_s
        self.knee.add(self.elapsed_s(), report.latencies)
        if member.orders.role.traits.sends:
            self._note_sent_before(member, report)
        if member.orders.role.traits.has_queue:
            self._queued_reports.append(_QueuedReport(time.monotonic(), member, report))
        else:
            self._forward_report(member, report)

    def _note_sent_before(self, sender: WorkerProcess, report: Report) -> None:
        """Store how many messages `sender` had sent, at most, when each receiver joined.

        That is the number at the first report of the sender after that.
        """
        publisher_id = sender.orders.publisher_id
        for member in self.pool.members:
            has_joined = member.is_ready and sender.start_ns < member.ready_ns <= report.at_ns
            if has_joined and member.orders.role.traits.receives:
                member.sent_before_subscribing_by_publisher.setdefault(
                    publisher_id, sender.counts.sent_msgs
                )

    def release_reports(self, *, is_final: bool = False) -> None:
        """Forward the queued reports of receivers that are not newer than the senders' reports.

        So the received messages are never more than the sent ones. `is_final` forwards all.
        """
        still_queued: deque[_QueuedReport] = deque()
        for queued_report in self._queued_reports:
            arrived_s, member, report = queued_report
            is_recent = time.monotonic() - arrived_s < _MAX_REPORT_QUEUED_S and not is_final
            if is_recent and self._is_ahead_of_senders(report):
                still_queued.append(queued_report)
            else:
                self._forward_report(member, report)
        self._queued_reports = still_queued

    def _is_ahead_of_senders(self, report: Report) -> bool:
        """Return whether a report may count messages that their sender has not reported yet."""
        return any(
            0 < member.start_ns < report.at_ns
            and member.last_report_ns < report.at_ns
            and not member.is_over
            for member in self.pool.members
            if member.orders.role.traits.sends
        )

    def wall_us(self, at_ns: int) -> int:
        """Return the time of day (UTC µs) at a time of the steady clock in ns."""
        return (at_ns + self._wall_less_monotonic_ns) // 1000

    def _forward_report(self, member: WorkerProcess, report: Report) -> None:
        role = member.orders.role
        self.timeline.add(
            self.wall_us(report.at_ns),
            round(report.interval_s * 1e6),
            steady_published_msgs(role, report.counts),
            steady_received_msgs(role, report.counts),
        )
        self._forwarded_counts = self._forwarded_counts.plus(
            _progress_counts(member, report.counts)
        )
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


def _progress_counts(member: WorkerProcess, counts: Counts) -> Counts:
    """Return the counts of a report without those of responses, which the progress leaves out."""
    traits = member.orders.role.traits
    if traits.stores_responses:
        return replace(counts, sent_msgs=0, sent_bytes=0)
    if traits.awaits_responses:
        return replace(counts, received_msgs=0, received_bytes=0)
    return counts


def now_us() -> int:
    """Return the time of the wall clock in UTC µs."""
    return time.time_ns() // 1000
