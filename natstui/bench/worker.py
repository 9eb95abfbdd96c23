"""`python -m natstui.bench.worker`: one process that puts load on a server and reports.

It reads orders from stdin, and writes reports to stdout. If stdin ends unexpectedly, the
controller has ended: the worker deletes the assets of the run, and ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import importlib
import os
import selectors
import signal
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Protocol

import msgspec
import platformdirs

from natstui.bench.job import protocol
from natstui.bench.job.job import Job, delete_asset, published_msgs_by_stream
from natstui.bench.job.protocol import (
    ControllerLine,
    CrashCommand,
    FinalReport,
    Orders,
    PauseCommand,
    PayloadChange,
    RateChange,
    ReadyReport,
    Report,
    ResumeCommand,
    StartCommand,
    StopCommand,
    WorkerFailure,
    WorkerLine,
)
from natstui.bench.job.schedule import Schedule
from natstui.bench.job.tally import Tally
from natstui.bench.wire.link import WireLink, close_after_writes, pause_reading, resume_reading
from natstui.config.connection import Connection
from natstui.decoding import decoder_of
from natstui.errors import ConnectionLost, NatstuiError
from natstui.files import open_lock, read_regular_file, wait_for_lock, write_atomic_file
from natstui.jetstream.connection.client import Client, connect
from natstui.model.bench.counts import Counts
from natstui.model.records.link import LinkChanged
from natstui.output import write_all
from natstui.paths import create_private_folder

_REPORT_INTERVAL_S = 0.075
_ORPHAN_TIMEOUT_S = 15
_CLEANUP_TIMEOUT_S = 3.0
_MAX_ENDED_WORKERS = 1000
"""Number of ended workers that the file of ended workers has: more than one run starts."""
_MAX_ENDED_WORKERS_FILE_BYTES = 4 * 1024 * 1024
"""Limit of the size of the file of ended workers."""
_PR_SET_PDEATHSIG, _PR_SET_TIMERSLACK = 1, 29


def write_line(line: WorkerLine) -> None:
    """Write a line to the controller, on stdout."""
    write_all(1, protocol.encode(line))


class Program(Protocol):
    """The load pattern that one worker runs."""

    async def begin(self) -> None:
        """Subscribe and prepare; nothing is sent yet."""

    async def run(self) -> None:
        """Send and receive messages; returns at the end of the schedule, or when the job stops."""


# Pattern → "module:class"; imported when used, so that no worker pays for another's code.
PROGRAMS = {
    "publish": "publish:CorePublisher",
    "subscribe": "receive:Subscriber",
    "request": "one_in_flight:Requester",
    "serve": "receive:Service",
    "js-publish-sync": "one_in_flight:SyncPublisher",
    "js-publish-async": "publish:AsyncPublisher",
    "js-publish-atomic": "batches:AtomicPublisher",
    "js-publish-fast": "batches:FastPublisher",
    "js-request": "stream_requests:StreamRequester",
    "js-consume": "pull:Puller",
    "js-fetch": "pull:Fetcher",
    "js-push": "push:PushReceiver",
    "js-ordered": "ordered:OrderedReceiver",
    "js-respond": "stream_requests:Responder",
    "js-get": "one_in_flight:StreamGetter",
    "js-get-batch": "get_batch:BatchGetter",
    "kv-put": "one_in_flight:KvPutter",
    "kv-get": "one_in_flight:KvGetter",
}


def build_program(job: Job, link: WireLink) -> Program:
    """Return the program that runs the load pattern of the job's role; each pattern has one."""
    module, class_name = PROGRAMS[job.orders.role.pattern].split(":")
    program_class = getattr(importlib.import_module(f"natstui.bench.wire.{module}"), class_name)
    program: Program = program_class(job, link)
    return program


class Worker:
    """A worker process, from its orders to its final report."""

    def __init__(self, reader: asyncio.StreamReader, orders: Orders) -> None:
        self._reader = reader
        self._orders = orders
        self._start_event = asyncio.Event()
        self._orphan_event = asyncio.Event()
        self._last_report_ns = time.monotonic_ns()
        self._cpu_s = time.process_time()
        role = orders.role
        schedule = Schedule(role.schedule, orders.worker_index, orders.workers_count)
        self._job: Job | None = None
        self._link: WireLink | None = None
        self._tally = Tally()
        self._schedule = schedule
        self._was_connection_lost = False
        self._has_stopped = False
        self._controller_pid = os.getppid()

    async def run(self) -> None:
        """Connect, run the program of the role, and write reports until the final one."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._on_sigterm)
        _prepare_process()
        # The controller may have ended before the worker is connected.
        read_task = asyncio.create_task(self._read_lines())
        read_task.add_done_callback(self._on_read_end)
        connection = Connection.from_json_line(self._orders.connection)
        client = await connect(connection, on_link=self._on_link_change)
        link = self._link = WireLink(client.nc)
        link.replace_parser()
        self._job = Job(self._orders, client, self._tally, self._schedule)
        if self._has_stopped:
            self._job.stopping.set()
        try:
            await self._run_program(build_program(self._job, link), link)
        finally:
            read_task.cancel()
            if self._orphan_event.is_set():
                self._run_flush_callbacks()
                self._tally.pop_new()
                verbs = (*self._orders.delete_verbs, *self._job.delete_verbs)
                await clean_up(client, verbs, self._orders, self._tally.totals())
            await link.close()
            await client.close()

    async def _run_program(self, program: Program, link: WireLink) -> None:
        assert self._job is not None
        failure: WorkerFailure | None = None
        try:
            await program.begin()
            write_line(ReadyReport(pid=os.getpid(), at_ns=time.monotonic_ns()))
            await self._start_event.wait()
            await self._run_from_start(self._job, program, link)
            # In a stream of several runs messages go on coming: none may be acked uncounted.
            link.end_subscriptions()
            if link.failure.done():
                raise link.failure.result()
        except NatstuiError as error:
            failure = WorkerFailure(sentence=str(error), exit_code=error.exit_code)
        except OSError as error:
            failure = WorkerFailure(sentence=f"the connection broke: {error!r}", exit_code=3)
        if failure is not None:
            write_line(failure)
        if not self._orphan_event.is_set():
            self.write_report()
            write_line(self.final_report())

    async def _run_from_start(self, job: Job, program: Program, link: WireLink) -> None:
        if job.stopping.is_set():
            return
        gc.disable()  # No pauses: a full collection stops a worker for 29 ms. CPU is the same.
        await job.sleep((job.start_ns - time.monotonic_ns()) / 1e9)
        self._last_report_ns, self._cpu_s = time.monotonic_ns(), self._work_cpu_s()
        report_task = link.start_task(self._report_periodically())
        try:
            await program.run()
        finally:
            report_task.cancel()

    async def _report_periodically(self) -> None:
        while True:
            await asyncio.sleep(_REPORT_INTERVAL_S)
            self.write_report()

    def _work_cpu_s(self) -> float:
        """Return the CPU time of this process in s, without the polling for replies."""
        polling_cpu_ns = 0 if self._link is None else self._link.polling_cpu_ns
        return time.process_time() - polling_cpu_ns / 1e9

    def write_report(self) -> None:
        """Write the counts and latencies since the last report."""
        self._run_flush_callbacks()
        now_ns, cpu_s = time.monotonic_ns(), self._work_cpu_s()
        counts, latencies = self._tally.pop_new()
        interval_s = (now_ns - self._last_report_ns) / 1e9
        write_line(
            Report(
                at_ns=now_ns,
                interval_s=interval_s,
                counts=counts,
                latencies=latencies,
                cpu_s=cpu_s - self._cpu_s,
            )
        )
        self._last_report_ns, self._cpu_s = now_ns, cpu_s

    def final_report(self, *, is_requested_crash: bool = False) -> FinalReport:
        """Return the final report of a worker that ends, also by a requested crash."""
        return FinalReport(
            counts=self._tally.totals(),
            times=self._tally.times(),
            received_sequences=self._tally.received_sequences.dump(),
            is_requested_crash=is_requested_crash,
        )

    async def _read_lines(self) -> None:
        while line := await self._reader.readline():
            command = protocol.decode_controller_line(line)
            match command:
                case StopCommand():
                    self._stop()
                case CrashCommand():
                    await self._crash()
                case _ if self._job is not None:
                    self._execute_command(self._job, command)
                case _:
                    raise NatstuiError("a worker received a command before it was ready")
        self._end_orphaned()

    def _on_read_end(self, read_task: asyncio.Task[None]) -> None:
        """Fail and stop after an error of reading: no later command would be executed."""
        error = None if read_task.cancelled() else read_task.exception()
        if error is not None:
            self._stop()
            write_line(WorkerFailure(sentence=str(error), exit_code=NatstuiError.exit_code))

    async def _crash(self) -> None:
        """End as in a crash: written data arrives, unread data is lost."""
        if self._link is not None:
            await close_after_writes(self._link)
        traits = self._orders.role.traits
        if traits.is_stored or traits.awaits_reply:
            self._run_flush_callbacks()
            self._tally.count_unanswered("received_msgs" if traits.awaits_reply else "acked_msgs")
        self.write_report()
        write_line(self.final_report(is_requested_crash=True))
        os.kill(os.getpid(), signal.SIGKILL)

    def _run_flush_callbacks(self) -> None:
        for flush in self._job.flush_callbacks if self._job is not None else ():
            flush()

    def _execute_command(self, job: Job, command: ControllerLine) -> None:
        """Execute a command of the controller while the program runs."""
        match command:
            case StartCommand():
                job.begin(command)
                self._start_event.set()
            case RateChange():
                job.change_rate(command.per_s)
            case PayloadChange():
                job.sender_settings.change_payload(command.payload)
            case PauseCommand():
                job.running.clear()
                # Messages of subscriptions stay in the socket; senders still need their replies.
                if self._link is not None and job.orders.role.traits.has_queue:
                    pause_reading(self._link)
            case ResumeCommand():
                job.running.set()
                if self._link is not None:
                    resume_reading(self._link)
            case _:
                raise NatstuiError("a worker accepts only one job")

    def _stop(self) -> None:
        self._has_stopped = True
        self._start_event.set()
        if self._job is not None:
            self._job.stopping.set()

    def _on_sigterm(self) -> None:
        """Clean up if the controller has ended; else it has the signal too, and stops the run."""
        if os.getppid() != self._controller_pid:
            self._end_orphaned()

    def _end_orphaned(self) -> None:
        """Stop and clean up after the controller has ended."""
        # Should anything hang from here on, the kernel ends us.
        signal.alarm(_ORPHAN_TIMEOUT_S)
        self._orphan_event.set()
        self._stop()

    def _on_link_change(self, change: LinkChanged) -> None:
        """Report when the connection is lost, and when it is restored."""
        is_connection_lost = change.state in ("reconnecting", "failed")
        if self._orphan_event.is_set() or not (is_connection_lost or self._was_connection_lost):
            return
        self._was_connection_lost = is_connection_lost
        reason = f": {change.reason}" if change.reason else ""
        write_line(protocol.LogLine(text=f"{change.state}{reason}"))


async def clean_up(client: Client, verbs: tuple[str, ...], orders: Orders, counts: Counts) -> None:
    """Delete the assets of the run by API verbs, one worker after the other.

    `counts` are those of this worker. A stream with more messages than this worker and those that
    have ended before it published is kept: the last worker deletes it, unless others have
    published to it. Workers wait for each other, because a request to delete a stream cannot
    require that it is of this run: a slow worker could delete a stream of the next run.
    """
    own_msgs_by_stream = Counter(published_msgs_by_stream(orders, counts))
    with contextlib.ExitStack() as stack:
        # Without a lock, as on a read-only disk, the assets are deleted all the same.
        with contextlib.suppress(OSError):
            folder = create_private_folder(platformdirs.user_state_path("natstui"))
            lock = open_lock(folder / "benchmark.lock")
            stack.callback(os.close, lock)
            await asyncio.to_thread(wait_for_lock, lock)
            own_msgs_by_stream = _add_ended_worker(
                folder / "benchmark-ended.jsonl", orders.run_id, own_msgs_by_stream
            )
        for verb in verbs:
            with contextlib.suppress(NatstuiError):
                await delete_asset(
                    client, verb, orders.created_streams, own_msgs_by_stream, _CLEANUP_TIMEOUT_S
                )


def _add_ended_worker(file: Path, run_id: str, own_msgs_by_stream: Counter[str]) -> Counter[str]:
    """Add the published messages of this worker, by stream, to the file of ended workers.

    Returns the sum over the workers of its run in the file. Raises OSError.
    """
    ended_worker_lines = (
        read_regular_file(file, _MAX_ENDED_WORKERS_FILE_BYTES).splitlines()
        if file.exists()
        else []
    )
    ended_worker_lines = [*ended_worker_lines, msgspec.json.encode((run_id, own_msgs_by_stream))][
        -_MAX_ENDED_WORKERS:
    ]
    write_atomic_file(file, b"".join(line + b"\n" for line in ended_worker_lines))
    total_msgs = Counter[str]()
    for line in ended_worker_lines:
        with contextlib.suppress(msgspec.DecodeError):  # No line of ours.
            ended_run_id, ended_msgs_by_stream = decoder_of(tuple[str, dict[str, int]]).decode(
                line
            )
            total_msgs.update(ended_msgs_by_stream if ended_run_id == run_id else {})
    return total_msgs


def _prepare_process() -> None:
    """Let Linux end this process with its parent, and set the timer slack to 1 ns."""
    if sys.platform == "linux":
        prctl = ctypes.CDLL(None).prctl
        prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        prctl(_PR_SET_TIMERSLACK, 1)


async def main() -> None:
    """Read the orders on stdin, and execute them."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 24)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    line = await reader.readline()
    if not line:
        return
    orders = protocol.decode_controller_line(line)
    assert isinstance(orders, Orders)
    try:
        await Worker(reader, orders).run()
    except BrokenPipeError:
        signal.alarm(_ORPHAN_TIMEOUT_S)
    except NatstuiError as error:
        write_line(WorkerFailure(sentence=str(error), exit_code=error.exit_code))
    except OSError as error:
        write_line(
            WorkerFailure(
                sentence=f"the connection broke: {error}", exit_code=ConnectionLost.exit_code
            )
        )


if __name__ == "__main__":
    # A signal to the process group is for the controller, which stops its workers.
    for ignored_signal in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(ignored_signal, signal.SIG_IGN)
    # select() keeps microseconds; epoll as asyncio uses it rounds waits up to milliseconds.
    with asyncio.Runner(
        loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())
    ) as runner:
        runner.run(main())
