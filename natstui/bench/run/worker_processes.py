"""Worker processes: started with pipes, controlled by lines, ended in every case."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field

import msgspec

from natstui.bench.job import protocol
from natstui.bench.job.job import published_msgs
from natstui.bench.job.protocol import (
    Die,
    Done,
    Down,
    Go,
    Orders,
    Ready,
    Report,
    Up,
    WorkerFailure,
)
from natstui.children import kill, own_program
from natstui.model.bench.counts import Counts, LatencySums, in_flight_msgs

_END_S = 4.0
_LINE_BYTES = 1 << 28
"""Limit of a line: a worker's received sequences come in one."""


@dataclass(slots=True)
class WorkerProcess:
    """One worker process, and its reports so far."""

    orders: Orders
    process: asyncio.subprocess.Process
    ready_ns: int = 0
    """When it was connected and subscribed; 0: not yet."""
    go_ns: int = 0
    """When it started its work; 0: not yet."""
    reported_ns: int = 0
    """Measuring time of its last added report."""
    due_from: dict[int, int] = field(default_factory=dict)
    """For a receiver, by publisher: messages sent before this one subscribed, at most."""
    gone_before_msgs: int = 0
    """For an ordered receiver: messages that the stream had dropped before its start."""
    counts: Counts = field(default_factory=Counts)
    """The sum of its reports."""
    latencies: LatencySums = field(default_factory=LatencySums)
    """The sum of its reported latencies."""
    most_in_flight_msgs: int | None = None
    """Most messages in flight at the end of a report."""
    steady_cpu_s: float = 0.0
    steady_s: float = 0.0
    done: Done | None = None
    failed: WorkerFailure | None = None
    has_exited: bool = False
    """Whether the process has ended."""
    was_killed: bool = False
    """Whether it was killed as in a crash."""

    @property
    def name(self) -> str:
        """Return its name for people: role/number."""
        return f"{self.orders.role.name}/{self.orders.worker_id}"

    @property
    def is_ready(self) -> bool:
        """Return whether the worker is connected and subscribed."""
        return self.ready_ns > 0

    @property
    def is_over(self) -> bool:
        """Return whether the worker sends no more lines."""
        return self.done is not None or self.has_exited

    def due_from_of(self, sender: WorkerProcess) -> int:
        """Return how many messages a sender had sent, at most, when this receiver subscribed.

        If the sender has not reported since, no later message is certainly for it.
        """
        if sender.go_ns >= self.ready_ns:
            return 0
        return self.due_from.get(sender.orders.publisher_id, sender.counts.sent_msgs)

    def send_go(self, line: Go) -> None:
        """Send GO: the worker starts its work."""
        self.go_ns = line.go_ns
        self.send(line)

    def send(self, line: Down) -> None:
        """Send a line; one to an ended process is dropped."""
        stdin = self.process.stdin
        if not self.has_exited and stdin is not None and not stdin.is_closing():
            stdin.write(protocol.encode(line))

    def kill(self) -> None:
        """Kill it as in a crash, but not before its last report."""
        self.was_killed = True
        self.send(Die())


OnLine = Callable[[WorkerProcess, Up | None], None]
"""Called for every line of a worker, and with None when its process has ended."""


class WorkerPool:
    """All workers of a run."""

    def __init__(self, on_heard: OnLine) -> None:
        self.members: list[WorkerProcess] = []
        self._on_heard = on_heard
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self, orders: Orders) -> WorkerProcess:
        """Start a worker process, send it its orders, and return it."""
        process = await asyncio.create_subprocess_exec(
            *own_program("natstui.bench.worker.process"),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            limit=_LINE_BYTES,
        )
        member = WorkerProcess(orders, process)
        member.send(orders)
        self.members.append(member)
        task = asyncio.create_task(self._read_lines(member))
        self._tasks.add(task)
        task.add_done_callback(lambda task: self._on_output_end(member, task))
        return member

    def _on_output_end(self, member: WorkerProcess, task: asyncio.Task[None]) -> None:
        """Handle the end of a worker's output: on an error, the worker counts as dead."""
        self._tasks.discard(task)
        error = None if task.cancelled() else task.exception()
        if error is not None:
            _kill(member)
            text = f"worker {member.name} wrote output that cannot be read: {error!r}"
            member.failed, member.done, member.has_exited = (
                WorkerFailure(sentence=text, exit_code=1),
                None,
                True,
            )
            self._on_heard(member, member.failed)

    def send_all(self, line: Down) -> None:
        """Send a line to every running worker."""
        for member in self.members:
            if not member.is_over:
                member.send(line)

    def published_msgs(self) -> Counter[str]:
        """Return how many messages the workers published to each stream that the run created.

        Of a worker that died, those that it has reported.
        """
        published = Counter[str]()
        for member in self.members:
            counts = member.counts if member.done is None else member.done.counts
            published.update(published_msgs(member.orders, counts))
        return published

    async def end_all(self) -> None:
        """End every process: by a request, then by a kill."""
        self.send_all(protocol.Stop())
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=_END_S)
        for member in self.members:
            _kill(member)
        if self._tasks:
            await asyncio.wait(self._tasks)

    async def _read_lines(self, member: WorkerProcess) -> None:
        """Read all lines of a worker until it ends."""
        process = member.process
        assert process.stdout is not None
        assert process.stderr is not None
        complaints = asyncio.create_task(process.stderr.read())
        while line := await process.stdout.readline():
            try:
                line_read = protocol.decode_up(line)
            except (msgspec.DecodeError, RecursionError):
                # Half a line: it was killed while it wrote.
                break
            _remember(member, line_read)
            self._on_heard(member, line_read)
        text = (await complaints).decode("utf-8", "replace").strip()
        await process.wait()
        if process.stdin is not None:
            process.stdin.close()
        member.has_exited = True
        if member.done is None and member.failed is None:
            reason = text.splitlines()[-1] if text else f"exit code {process.returncode}"
            member.failed = WorkerFailure(
                sentence=f"worker {member.name} ended: {reason}", exit_code=1
            )
        self._on_heard(member, None)


def _kill(member: WorkerProcess) -> None:
    if member.process.returncode is None:
        kill(member.process)


def _remember(member: WorkerProcess, line_read: Up) -> None:
    match line_read:
        case Ready():
            member.ready_ns = line_read.at_ns
        case Report():
            member.counts = member.counts.plus(line_read.counts)
            member.latencies.add(line_read.latencies)
            in_flight = in_flight_msgs(member.orders.role, member.counts)
            if in_flight is not None:
                member.most_in_flight_msgs = max(member.most_in_flight_msgs or 0, in_flight)
            member.reported_ns = line_read.at_ns
        case Done():
            member.done = line_read
        case WorkerFailure():
            member.failed = line_read
        case _:
            pass
