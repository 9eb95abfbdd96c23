"""DIRECT.GET in batches with the wire client: many stored messages for one request."""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque
from dataclasses import dataclass, replace

import numpy as np

from natstui.bench.job.job import Job, RetryPolicy
from natstui.bench.wire.frames import Run
from natstui.bench.wire.link import WireLink
from natstui.errors import NatstuiError, NotFound, RequestFailed

_END = 204
_DEPTH = 2
"""Requests in flight where the next one's start is known."""
_SEQ = re.compile(rb"\r\nNats-Sequence: *(\d+)", re.IGNORECASE)
_LAST_SEQ = re.compile(rb"Nats-Last-Sequence: *(\d+)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _PendingBatch:
    """An open request."""

    seq: int
    batch_msgs: int
    asked_ns: int


class BatchGetter:
    """Reads the stream from its first message to its last, batch after batch, and repeats that."""

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
        self._open: deque[_PendingBatch] = deque()
        """Requests without a complete reply, oldest first."""
        self._refused: list[_PendingBatch] = []
        """Requests to send again soon: the server was restarting."""
        self._asked_msgs = 0
        self._got_msgs = 0
        """Messages received for the oldest open request."""
        self._newest: Run | None = None
        """The last received messages of the oldest request."""
        self._heard_ns = 0
        self._read_ns = self._read_msgs = self._read_bytes = 0
        self._lost_count = link.lost_count
        self._retry = RetryPolicy(job)
        self._ended = asyncio.Event()

    async def begin(self) -> None:
        """Subscribe to the replies."""
        await self._link.subscribe(self._inbox, self._on_run)

    async def run(self) -> None:
        """Send requests until all wanted messages were read."""
        role = self._job.orders.role
        for _ in range(_DEPTH if self._whole else 1):
            self._send_request()
        while not self._ended.is_set() and not self._job.stopping.is_set():
            if self._link.failure.done():
                raise self._link.failure.result()
            if self._link.lost_count != self._lost_count:
                await self._link.wait_connected()
                self._request_missing()
            asked_ns = (request.asked_ns for request in self._open)
            late_ns = time.monotonic_ns() - max(self._heard_ns, *asked_ns, 0)
            if self._open and late_ns > role.timeout_s * 1e9:
                stream = self._job.orders.stream
                raise RequestFailed(f"stream {stream} does not reply to DIRECT.GET in batches")
            waiting = asyncio.ensure_future(self._ended.wait())
            await asyncio.wait({waiting}, timeout=0.1)
            waiting.cancel()

    def _send_request(self) -> None:
        """Send the next request, unless all are sent."""
        orders = self._job.orders
        late = self._job.end_ns is not None and time.monotonic_ns() >= self._job.end_ns
        left_msgs = self._wanted - self._asked_msgs
        if left_msgs <= 0 or late or self._job.stopping.is_set():
            if not self._open and not self._refused:
                self._ended.set()
            return
        batch = min(orders.role.batch_msgs, left_msgs, max(self._end_seq - self._next_seq, 1))
        self._asked_msgs += batch
        self._send(_PendingBatch(self._next_seq, batch, time.monotonic_ns()))
        self._move_to(self._next_seq + batch)

    def _send(self, request: _PendingBatch) -> None:
        body = b'{"seq":%d,"batch":%d}' % (request.seq, request.batch_msgs)
        self._open.append(request)
        self._link.write(b"%s%d\r\n%s\r\n" % (self._head, len(body), body))

    def _move_to(self, seq: int) -> None:
        self._next_seq = seq if seq < self._end_seq else self._job.orders.first_seq

    def _request_missing(self) -> None:
        """Request again the messages that were lost with a connection."""
        self._lost_count = self._link.lost_count
        self._count()
        unanswered = [*self._open, *self._refused]
        self._open.clear()
        self._refused.clear()
        remainder = (
            self._rest(unanswered.pop(0)) if unanswered and self._newest is not None else None
        )
        self._got_msgs, self._newest = 0, None
        for request in unanswered if remainder is None else [remainder, *unanswered]:
            self._send(request)
        self._heard_ns = time.monotonic_ns()
        if not self._open:
            self._send_request()

    def _rest(self, request: _PendingBatch) -> _PendingBatch | None:
        """Return the request for the missing messages of this one; None if none are missing."""
        newest, left_msgs = self._newest, request.batch_msgs - self._got_msgs
        seqs = newest and _SEQ.findall(newest.text(len(newest) - 1, newest.layout.headers))
        if not seqs or left_msgs <= 0:
            return None
        # Publishers may use the same name: the server's own header comes behind theirs.
        seq = int(seqs[-1]) + 1
        if not self._whole:
            self._move_to(seq + left_msgs)
        return replace(request, seq=seq, batch_msgs=left_msgs)

    def _count(self) -> None:
        """Count the messages of one read of the socket."""
        count, tally = self._read_msgs, self._job.tally
        if count:
            asked_ns = np.full(count, self._open[0].asked_ns)
            steady = tally.timed("rtt", asked_ns, None, self._read_ns)
            tally.replied(count, self._read_bytes, steady, self._read_ns)
        self._read_msgs = self._read_bytes = 0

    def _on_run(self, run: Run, now_ns: int) -> None:
        self._heard_ns = now_ns
        if run.status is None:
            # Layouts change every few messages here: count whole reads, not runs.
            if now_ns != self._read_ns:
                self._count()
                self._read_ns = now_ns
            self._newest = run
            self._got_msgs += len(run)
            self._read_msgs += len(run)
            self._read_bytes += len(run) * (run.layout.size_bytes - run.layout.header_bytes)
        elif run.status == _END:
            self._count()
            self._open.popleft()
            self._got_msgs, self._newest = 0, None
            self._retry.succeeded()
            last = _LAST_SEQ.search(run.text(0, run.layout.headers))
            if not self._whole and last:
                self._move_to(int(last[1]) + 1)
            self._send_request()
        else:
            for _ in range(len(run)):
                self._on_refusal(run.status)

    def _on_refusal(self, status: int) -> None:
        """Send a request again soon when the server restarts; another refusal ends the run."""
        was_lost = self._link.lost_count > 0
        requested_msgs = self._open[0].batch_msgs if self._open else 0
        if not requested_msgs or not self._retry.should_retry(
            status, None, was_lost=was_lost, count=requested_msgs
        ):
            self._link.fail(_failure(status, self._job.orders.stream or ""))
            return
        self._count()
        self._got_msgs, self._newest = 0, None
        if not self._refused:
            asyncio.get_running_loop().call_later(RetryPolicy.AGAIN_S, self._send_again)
        self._refused.append(self._open.popleft())

    def _send_again(self) -> None:
        """Send refused requests again; after a lost connection all are sent anyway."""
        refused_requests, self._refused = self._refused, []
        if self._link.lost_count != self._lost_count:
            self._refused = refused_requests
            return
        for request in refused_requests:
            self._send(request)


def _failure(status: int, stream: str) -> NatstuiError:
    if status == 404:
        return NotFound(f"stream {stream} has no message to get")
    if status == 503:
        return NotFound(f"no reply to DIRECT.GET: does stream {stream} allow direct gets?")
    return RequestFailed(f"stream {stream} refused a batch of gets: status {status}")
