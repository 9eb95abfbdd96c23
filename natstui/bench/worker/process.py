"""`python -m natstui.bench.worker.process`: one process that puts load on a server and reports.

Orders come by stdin, reports go by stdout. When stdin ends unexpectedly, the controller has ended:
the assets of the run are deleted, and the process ends.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import os
import selectors
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import msgspec
import platformdirs

from natstui.bench.job import protocol
from natstui.bench.job.job import Job, published_msgs, remove
from natstui.bench.job.protocol import (
    Die,
    Done,
    Down,
    Go,
    NewPayload,
    Orders,
    Pause,
    Rate,
    Ready,
    Report,
    Resume,
    Stop,
    Up,
    WorkerFailure,
)
from natstui.bench.job.schedule import Schedule
from natstui.bench.job.tally import Tally
from natstui.bench.wire.link import WireLink, hang_up, hold_reading, resume_reading
from natstui.bench.worker import programs as patterns
from natstui.config.connection import Connection
from natstui.decoding import decoder_of
from natstui.errors import NatstuiError, ServerGone
from natstui.files import open_lock, read_plain, wait_for_lock, write_complete
from natstui.jetstream.connection.client import Client, connect
from natstui.model.bench.counts import Counts
from natstui.model.records.link import LinkChanged
from natstui.output import write_all
from natstui.paths import private_folder

_REPORT_S = 0.075
_LAST_CHANCE_S = 15
_CLEANUP_S = 3.0
_ENDED_WORKERS = 1000
"""Number of ended workers that are remembered: more than one run has."""
_MOST_BYTES = 4 * 1024 * 1024
"""Limit of the size of what is remembered of them."""
_PR_SET_PDEATHSIG, _PR_SET_TIMERSLACK = 1, 29


def write_line(line: Up) -> None:
    """Write a line to the controller, on stdout."""
    write_all(1, protocol.encode(line))


class Worker:
    """A worker process: orders, READY, GO, reports, DONE."""

    def __init__(self, reader: asyncio.StreamReader, orders: Orders) -> None:
        self._reader = reader
        self._orders = orders
        self._going = asyncio.Event()
        self._orphaned = asyncio.Event()
        self._reported_ns = time.monotonic_ns()
        self._cpu_s = time.process_time()
        role = orders.role
        schedule = Schedule(role.schedule, orders.which, orders.of)
        self._job: Job | None = None
        self._link: WireLink | None = None
        self._tally = Tally()
        self._schedule = schedule
        self._was_lost = False
        self._stopped = False

    async def live(self) -> None:
        """Connect, run the program of the role, and write reports until the final one."""
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, self._orphan)
        _arm()
        # Whoever started us may be gone before we are connected.
        listening = asyncio.create_task(self._listen())
        connection = Connection.from_line(self._orders.connection)
        client = await connect(connection, on_link=self._on_link)
        link = self._link = WireLink(client.nc)
        link.replace_parser()
        self._job = Job(self._orders, client, self._tally, self._schedule)
        if self._stopped:
            self._job.stopping.set()
        try:
            await self._work(patterns.build(self._job, link), link)
        finally:
            listening.cancel()
            if self._orphaned.is_set():
                self._collect()
                self._tally.pop_new()
                verbs = (*self._orders.cleanup, *self._job.cleanup)
                await clean_up(client, verbs, self._orders, self._tally.totals())
            await link.close()
            await client.close()

    async def _work(self, program: patterns.Program, link: WireLink) -> None:
        assert self._job is not None
        failure: WorkerFailure | None = None
        try:
            await program.begin()
            write_line(Ready(pid=os.getpid(), at_ns=time.monotonic_ns()))
            await self._going.wait()
            await self._run(self._job, program, link)
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
        if not self._orphaned.is_set():
            self.report()
            write_line(self.done())

    async def _run(self, job: Job, program: patterns.Program, link: WireLink) -> None:
        if job.stopping.is_set():
            return
        gc.disable()  # No pauses: a full collection stops a worker for 29 ms. CPU is the same.
        await job.sleep((job.go_ns - time.monotonic_ns()) / 1e9)
        self._reported_ns, self._cpu_s = time.monotonic_ns(), self._work_cpu_s()
        reporting = link.run(self._report_often())
        try:
            await program.run()
        finally:
            reporting.cancel()

    async def _report_often(self) -> None:
        while True:
            await asyncio.sleep(_REPORT_S)
            self.report()

    def _work_cpu_s(self) -> float:
        """Return the CPU time of this process, without polling for replies, which is waiting."""
        polled_ns = 0 if self._link is None else self._link.polled_ns
        return time.process_time() - polled_ns / 1e9

    def report(self) -> None:
        """Write the counts and latencies since the last report."""
        self._collect()
        now_ns, cpu_s = time.monotonic_ns(), self._work_cpu_s()
        counts, latencies = self._tally.pop_new()
        interval_s = (now_ns - self._reported_ns) / 1e9
        write_line(
            Report(
                at_ns=now_ns,
                interval_s=interval_s,
                counts=counts,
                latencies=latencies,
                cpu_s=cpu_s - self._cpu_s,
            )
        )
        self._reported_ns, self._cpu_s = now_ns, cpu_s

    def done(self, *, died: bool = False) -> Done:
        """Return the final report; `died`: a crash of the worker was requested."""
        return Done(
            counts=self._tally.totals(),
            last_sent_ns=self._tally.last_sent_ns,
            last_received_ns=self._tally.last_received_ns,
            seen=self._tally.seen.dump(),
            died=died,
        )

    async def _listen(self) -> None:
        while line := await self._reader.readline():
            line_read = protocol.decode_down(line)
            match line_read:
                case Stop():
                    self._stop()
                case Die():
                    await self._die()
                case _ if self._job is not None:
                    self._follow(self._job, line_read)
                case _:
                    raise NatstuiError("a worker got a command before it was ready")
        self._orphan()

    async def _die(self) -> None:
        """End as in a crash: written data arrives, unread data is lost."""
        if self._link is not None:
            await hang_up(self._link)
        traits = self._orders.role.traits
        if traits.is_stored or traits.awaits_reply:
            self._collect()
            self._tally.give_up_open("received_msgs" if traits.awaits_reply else "acked_msgs")
        self.report()
        write_line(self.done(died=True))
        os.kill(os.getpid(), signal.SIGKILL)

    def _collect(self) -> None:
        for collect in self._job.collectors if self._job is not None else ():
            collect()

    def _follow(self, job: Job, line_read: Down) -> None:
        """Execute a line of the controller while the work runs."""
        match line_read:
            case Go():
                job.begin(line_read)
                self._going.set()
            case Rate():
                job.change_rate(line_read.per_s)
            case NewPayload():
                job.sending.change(line_read.payload)
            case Pause():
                job.running.clear()
                # What comes unasked stays in the socket; senders still need their answers.
                if self._link is not None and job.orders.role.traits.receives:
                    hold_reading(self._link)
            case Resume():
                job.running.set()
                if self._link is not None:
                    resume_reading(self._link)
            case _:
                raise NatstuiError("a worker accepts only one job")

    def _stop(self) -> None:
        self._stopped = True
        self._going.set()
        if self._job is not None:
            self._job.stopping.set()

    def _orphan(self) -> None:
        """Stop and clean up after the controller has ended."""
        # Should anything hang from here on, the kernel ends us.
        signal.alarm(_LAST_CHANCE_S)
        self._orphaned.set()
        self._stop()

    def _on_link(self, change: LinkChanged) -> None:
        """Report when the connection is lost, and when it is restored."""
        is_lost = change.state in ("reconnecting", "failed")
        if self._orphaned.is_set() or not (is_lost or self._was_lost):
            return
        self._was_lost = is_lost
        reason = f": {change.reason}" if change.reason else ""
        write_line(protocol.Log(text=f"{change.state}{reason}"))


async def clean_up(client: Client, verbs: tuple[str, ...], orders: Orders, counts: Counts) -> None:
    """Delete the assets of the run, one worker after the other: another one may be faster.

    A server cannot be told to delete a stream only if it is of this run. If two workers had read
    that it is, the slower one would delete a stream of the next run. A stream with more messages
    than this worker, whose `counts` are given, and those before it have published is kept: the
    last worker deletes it, unless others have published to it.
    """
    own_msgs = Counter(published_msgs(orders, counts))
    with contextlib.ExitStack() as stack:
        # Without a lock, as on a read-only disk, the assets are deleted all the same.
        with contextlib.suppress(OSError):
            folder = private_folder(platformdirs.user_state_path("natstui"))
            lock = open_lock(folder / "benchmark.lock")
            stack.callback(os.close, lock)
            await asyncio.to_thread(wait_for_lock, lock)
            own_msgs = _added_up(folder / "benchmark-ended.jsonl", orders.run_id, own_msgs)
        for verb in verbs:
            with contextlib.suppress(NatstuiError):
                await remove(client, verb, orders.created, own_msgs, _CLEANUP_S)


def _added_up(file: Path, run_id: str, own_msgs: Counter[str]) -> Counter[str]:
    """Note the messages of this worker, by stream, and return the sum over those of its run that
    have ended so far.

    The file has the last ended workers of all runs. Raises OSError.
    """
    lines = read_plain(file, _MOST_BYTES).splitlines() if file.exists() else []
    lines = [*lines, msgspec.json.encode((run_id, own_msgs))][-_ENDED_WORKERS:]
    write_complete(file, b"".join(line + b"\n" for line in lines))
    total_msgs = Counter[str]()
    for line in lines:
        with contextlib.suppress(msgspec.DecodeError):  # No line of ours.
            ended_run_id, ended_msgs = decoder_of(tuple[str, dict[str, int]]).decode(line)
            total_msgs.update(ended_msgs if ended_run_id == run_id else {})
    return total_msgs


def _arm() -> None:
    """End with the parent process, and set the timer resolution."""
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
    orders = protocol.decode_down(line)
    assert isinstance(orders, Orders)
    try:
        await Worker(reader, orders).live()
    except BrokenPipeError:
        signal.alarm(_LAST_CHANCE_S)
    except NatstuiError as error:
        write_line(WorkerFailure(sentence=str(error), exit_code=error.exit_code))
    except OSError as error:
        write_line(
            WorkerFailure(
                sentence=f"the connection broke: {error}", exit_code=ServerGone.exit_code
            )
        )


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    # select() keeps microseconds; epoll as asyncio uses it rounds waits up to milliseconds.
    with asyncio.Runner(
        loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())
    ) as runner:
        runner.run(main())
