"""DIRECT.GET in batches with the wire client: many stored messages for one request."""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque

import numpy as np

from natstui.bench.frames import Run
from natstui.bench.job import Job
from natstui.bench.link import WireLink
from natstui.errors import NatstuiError, NotFound, RequestFailed

_END = 204
_DEPTH = 2
"""Requests in flight where it is known what the next one asks for."""
_LAST_SEQ = re.compile(rb"Nats-Last-Sequence: *(\d+)", re.IGNORECASE)


class BatchGetter:
    """Reads the stream from its first message to its last, batch after batch, and begins anew."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self._job, self._link = job, link
        orders = job.orders
        self._inbox = link.nc.new_inbox()
        subject = f"{job.client.prefix}.DIRECT.GET.{orders.stream}"
        self._head = f"PUB {subject} {self._inbox} ".encode()
        self._end_seq = orders.last_seq + 1
        # Without gaps the next request need not wait for the end of this one.
        self._whole = self._end_seq - orders.first_seq == orders.stored_msgs
        self._wanted = orders.share_msgs if orders.share_msgs is not None else 1 << 62
        self._next_seq = orders.first_seq
        self._asked_ns: deque[int] = deque()
        """When each open request was sent."""
        self._asked_msgs = 0
        self._read_ns = self._read_msgs = self._read_bytes = 0
        self._ended = asyncio.Event()

    async def begin(self) -> None:
        """Subscribe to where the messages come."""
        await self._link.subscribe(self._inbox, self._on_run)

    async def run(self) -> None:
        """Ask until everything wanted was read."""
        role = self._job.orders.role
        for _ in range(_DEPTH if self._whole else 1):
            self._ask()
        while not self._ended.is_set() and not self._job.stopping.is_set():
            if self._link.failure.done():
                raise self._link.failure.result()
            late_ns = time.monotonic_ns() - max(self._read_ns, *self._asked_ns, 0)
            if self._asked_ns and late_ns > role.timeout_s * 1e9:
                stream = self._job.orders.stream
                raise RequestFailed(f"stream {stream} does not answer DIRECT.GET in batches")
            waiting = asyncio.ensure_future(self._ended.wait())
            await asyncio.wait({waiting}, timeout=0.1)
            waiting.cancel()

    def _ask(self) -> None:
        """Send the next request, unless there is nothing more to do."""
        orders = self._job.orders
        late = self._job.end_ns is not None and time.monotonic_ns() >= self._job.end_ns
        left = self._wanted - self._asked_msgs
        if left <= 0 or late or self._job.stopping.is_set():
            if not self._asked_ns:
                self._ended.set()
            return
        batch = min(orders.role.batch_msgs, left, max(self._end_seq - self._next_seq, 1))
        body = b'{"seq":%d,"batch":%d}' % (self._next_seq, batch)
        self._asked_ns.append(time.monotonic_ns())
        self._asked_msgs += batch
        self._move_to(self._next_seq + batch)
        self._link.write(b"%s%d\r\n%s\r\n" % (self._head, len(body), body))

    def _move_to(self, seq: int) -> None:
        self._next_seq = seq if seq < self._end_seq else self._job.orders.first_seq

    def _count(self) -> None:
        """Count what one read of the socket brought."""
        count, tally = self._read_msgs, self._job.tally
        if count:
            asked_ns = np.full(count, self._asked_ns[0])
            steady = tally.timed("rtt", asked_ns, None, self._read_ns)
            tally.replied(count, self._read_bytes, steady, self._read_ns)
        self._read_msgs = self._read_bytes = 0

    def _on_run(self, run: Run, now_ns: int) -> None:
        if run.status is None:
            # Layouts change every few messages here: count whole reads, not runs.
            if now_ns != self._read_ns:
                self._count()
                self._read_ns = now_ns
            self._read_msgs += len(run)
            self._read_bytes += len(run) * (run.layout.size_bytes - run.layout.header_bytes)
        elif run.status == _END:
            self._count()
            self._asked_ns.popleft()
            last = _LAST_SEQ.search(run.text(0, run.layout.headers))
            if not self._whole and last:
                self._move_to(int(last[1]) + 1)
            self._ask()
        else:
            self._link.fail(_failure(run.status, self._job.orders.stream or ""))


def _failure(status: int, stream: str) -> NatstuiError:
    if status == 404:
        return NotFound(f"stream {stream} has no message to get")
    if status == 503:
        return NotFound(f"nobody answers DIRECT.GET: does stream {stream} allow direct gets?")
    return RequestFailed(f"stream {stream} refused a batch of gets: status {status}")
