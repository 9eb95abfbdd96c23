"""The worker processes of a run: starts them, exchanges lines with them, and ends them."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from natstui.bench.job import protocol
from natstui.bench.job.job import published_msgs_by_stream
from natstui.bench.job.protocol import (
    ControllerLine,
    CrashCommand,
    FinalReport,
    Orders,
    ReadyReport,
    Report,
    StartCommand,
    WorkerFailure,
    WorkerLine,
)
from natstui.children import kill, module_command
from natstui.model.bench.counts import Counts, LatencyTotals, in_flight_msgs

_EXIT_TIMEOUT_S = 4.0
_MAX_LINE_BYTES = 1 << 28
"""Limit of a line: a worker's received sequences are one line."""


@dataclass(slots=True)
class WorkerProcess:
    """One worker process, and the sums of its reports so far."""

    orders: Orders
    process: asyncio.subprocess.Process
    ready_ns: int = 0
    """Time at which it was connected and subscribed (monotonic ns); 0: not yet."""
    start_ns: int = 0
    """Time at which it starts to send or receive (monotonic ns); 0: unknown yet."""
    last_report_ns: int = 0
    """Time of its last report (monotonic ns)."""
    sent_before_subscribing_by_publisher: dict[int, int] = field(default_factory=dict)
    """Publisher id → messages that it had sent, at most, when this receiver subscribed."""
    removed_before_start_msgs: int = 0
    """Messages that the stream had removed before this ordered receiver started."""
    counts: Counts = field(default_factory=Counts)
    """The sum of its reports."""
    latencies: LatencyTotals = field(default_factory=LatencyTotals)
    """The sum of its reported latencies."""
    most_in_flight_msgs: int | None = None
    """Highest number of messages in flight at the time of a report."""
    steady_cpu_s: float = 0.0
    steady_s: float = 0.0
    final_report: FinalReport | None = None
    failure: WorkerFailure | None = None
    has_exited: bool = False
    """Whether the process has ended."""
    was_killed: bool = False
    """Whether it was killed as in a crash."""

    @property
    def name(self) -> str:
        """Return the name of the worker for people: role/number."""
        return f"{self.orders.role.name}/{self.orders.worker_id}"

    @property
    def is_ready(self) -> bool:
        """Return whether the worker is connected and subscribed."""
        return self.ready_ns > 0

    @property
    def was_started(self) -> bool:
        """Return whether the start command was sent: before it a worker executes no change."""
        return self.start_ns > 0

    @property
    def is_over(self) -> bool:
        """Return whether the worker writes no more lines."""
        return self.final_report is not None or self.has_exited

    def count_sent_before(self, sender: WorkerProcess) -> int:
        """Return how many messages a sender had sent, at most, when this receiver subscribed.

        Without a later report of the sender these are all messages that it has reported.
        """
        if sender.start_ns >= self.ready_ns:
            return 0
        return self.sent_before_subscribing_by_publisher.get(
            sender.orders.publisher_id, sender.counts.sent_msgs
        )

    def send_start(self, line: StartCommand) -> None:
        """Send the start command, and store its start time."""
        self.start_ns = line.start_ns
        self.send(line)

    def send(self, line: ControllerLine) -> None:
        """Send a line; a line to an ended process is dropped."""
        stdin = self.process.stdin
        if not self.has_exited and stdin is not None and not stdin.is_closing():
            stdin.write(protocol.encode(line))

    def kill(self) -> None:
        """Let the worker report a last time, and then end as in a crash."""
        self.was_killed = True
        self.send(CrashCommand())


OnLine = Callable[[WorkerProcess, WorkerLine | None], None]
"""A callback for every line of a worker, and for None when its process has ended."""


class WorkerPool:
    """The worker processes of a run."""

    def __init__(self, on_line: OnLine) -> None:
        self.members: list[WorkerProcess] = []
        self._on_line = on_line
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, orders: Orders) -> WorkerProcess:
        """Start a worker process, send it its orders, and return it."""
        process = await asyncio.create_subprocess_exec(
            *module_command("natstui.bench.worker"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_MAX_LINE_BYTES,
        )
        member = WorkerProcess(orders, process)
        member.send(orders)
        self.members.append(member)
        task = asyncio.create_task(self._read_lines(member))
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._on_output_end(member, task))
        return member

    def _on_output_end(self, member: WorkerProcess, task: asyncio.Task[None]) -> None:
        """Kill a worker whose output could not be read, and report its failure; else do nothing.

        `task`, which has ended, was reading the output.
        """
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _kill(member)
            text = f"worker {member.name} wrote output that cannot be read: {error!r}"
            member.failure, member.final_report, member.has_exited = (
                WorkerFailure(sentence=text, exit_code=1),
                None,
                True,
            )
            self._on_line(member, member.failure)

    def send_all(self, line: ControllerLine) -> None:
        """Send a line to every running worker."""
        for member in self.members:
            if not member.is_over:
                member.send(line)

    def count_published_msgs(self) -> Counter[str]:
        """Return how many messages the workers published to each stream that the run created.

        A worker that crashed counts with its reports.
        """
        msgs_by_stream = Counter[str]()
        for member in self.members:
            counts = member.counts if member.final_report is None else member.final_report.counts
            msgs_by_stream.update(published_msgs_by_stream(member.orders, counts))
        return msgs_by_stream

    async def end_all(self) -> None:
        """Stop every process by a command, and after 4 s by a kill."""
        self.send_all(protocol.StopCommand())
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_EXIT_TIMEOUT_S)
        for member in self.members:
            _kill(member)
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _read_lines(self, member: WorkerProcess) -> None:
        """Read all lines of a worker, and report each to `on_line`, until its process ends."""
        process = member.process
        assert process.stdout is not None
        assert process.stderr is not None
        stderr_task = asyncio.create_task(process.stderr.read())
        while line := await process.stdout.readline():
            try:
                decoded_line = protocol.decode_worker_line(line)
            except (msgspec.DecodeError, RecursionError):
                # Half a line: it was killed while it wrote.
                break
            _apply_line(member, decoded_line)
            self._on_line(member, decoded_line)
        text = (await stderr_task).decode("utf-8", "replace").strip()
        await process.wait()
        if process.stdin is not None:
            process.stdin.close()
        member.has_exited = True
        if member.final_report is None and member.failure is None:
            reason = text.splitlines()[-1] if text else f"exit code {process.returncode}"
            member.failure = WorkerFailure(
                sentence=f"worker {member.name} ended: {reason}", exit_code=1
            )
        self._on_line(member, None)


def _kill(member: WorkerProcess) -> None:
    if member.process.returncode is None:
        kill(member.process)


def _apply_line(member: WorkerProcess, line: WorkerLine) -> None:
    match line:
        case ReadyReport():
            member.ready_ns = line.at_ns
        case Report():
            member.counts = member.counts.plus(line.counts)
            member.latencies.add(line.latencies)
            in_flight_count = in_flight_msgs(member.orders.role, member.counts)
            if in_flight_count is not None:
                member.most_in_flight_msgs = max(member.most_in_flight_msgs or 0, in_flight_count)
            member.last_report_ns = line.at_ns
        case FinalReport():
            member.final_report = line
        case WorkerFailure():
            member.failure = line
        case _:
            pass
