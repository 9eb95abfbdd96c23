"""DIRECT.GET in batches with the wire client: many stored messages for one request."""

from __future__ import annotations

import asyncio
import time

import numpy as np

from natstui.bench.frames import Run
from natstui.bench.job import Job
from natstui.bench.link import WireLink
from natstui.errors import NatstuiError, NotFound, RequestFailed

_END = 204


class BatchGetter:
    """Reads the stream from its first message to its last, batch after batch, and begins anew."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self._job, self._link = job, link
        self._inbox = link.nc.new_inbox()
        subject = f"{job.client.prefix}.DIRECT.GET.{job.orders.stream}"
        self._head = f"PUB {subject} {self._inbox} ".encode()
        self._next_seq = job.orders.first_seq
        self._asked_ns = 0
        self._got = 0
        self._read_ns = self._read_msgs = self._read_bytes = 0
        self._ended = asyncio.Event()

    async def begin(self) -> None:
        """Subscribe to where the messages come."""
        await self._link.subscribe(self._inbox, self._on_run)

    async def run(self) -> None:
        """Ask until everything wanted was read."""
        self._ask()
        while not self._ended.is_set() and not self._job.stopping.is_set():
            if self._link.failure.done():
                raise self._link.failure.result()
            late_ns = time.monotonic_ns() - self._asked_ns
            if late_ns > self._job.orders.role.timeout_s * 1e9:
                raise RequestFailed(
                    f"stream {self._job.orders.stream} does not answer DIRECT.GET in batches"
                )
            waiting = asyncio.ensure_future(self._ended.wait())
            await asyncio.wait({waiting}, timeout=0.1)
            waiting.cancel()

    def _ask(self) -> None:
        """Send the next request, unless there is nothing more to do."""
        orders = self._job.orders
        wanted = orders.share_msgs if orders.share_msgs is not None else 1 << 62
        late = self._job.end_ns is not None and time.monotonic_ns() >= self._job.end_ns
        if self._got >= wanted or late or self._job.stopping.is_set():
            self._ended.set()
            return
        batch = min(orders.role.batch_msgs, wanted - self._got)
        body = b'{"seq":%d,"batch":%d}' % (self._next_seq, batch)
        self._asked_ns = time.monotonic_ns()
        self._link.write(b"%s%d\r\n%s\r\n" % (self._head, len(body), body))

    def _count(self) -> None:
        """Count what one read of the socket brought."""
        count, tally = self._read_msgs, self._job.tally
        if count:
            steady = tally.timed("rtt", np.full(count, self._asked_ns), None, self._read_ns)
            tally.replied(count, self._read_bytes, steady, self._read_ns)
            self._got += count
        self._read_msgs = self._read_bytes = 0

    def _on_run(self, run: Run, now_ns: int) -> None:
        orders = self._job.orders
        if run.status is None:
            # Layouts change every few messages here: count whole reads, not runs.
            if now_ns != self._read_ns:
                self._count()
                self._read_ns = now_ns
            self._next_seq += len(run)
            self._read_msgs += len(run)
            self._read_bytes += len(run) * (run.layout.size_bytes - run.layout.header_bytes)
        elif run.status == _END:
            self._count()
            if self._next_seq >= orders.first_seq + orders.stored_msgs:
                self._next_seq = orders.first_seq
            self._ask()
        else:
            self._link.fail(_failure(run.status, orders.stream or ""))


def _failure(status: int, stream: str) -> NatstuiError:
    if status == 404:
        return NotFound(f"stream {stream} has no message to get")
    if status == 503:
        return NotFound(f"nobody answers DIRECT.GET: does stream {stream} allow direct gets?")
    return RequestFailed(f"stream {stream} refused a batch of gets: status {status}")
