"""Reader of stored messages with DIRECT.GET in batches: one request for many messages."""

from __future__ import annotations

import asyncio
import re
import time
from collections import deque

import numpy as np
from msgspec import Struct

from natstui.bench.job.job import Job, RetryPolicy
from natstui.bench.wire.deliveries import read_direct_get_seq
from natstui.bench.wire.frames import FrameRun
from natstui.bench.wire.link import WireLink
from natstui.errors import NatstuiError, NotFound, RequestFailed
from natstui.values import replace

_END_STATUS = 204
_MAX_OPEN_REQUESTS = 2
"""Requests in flight in a stream without gaps, where the start of the next one is known."""
_LAST_SEQ_PATTERN = re.compile(rb"Nats-Last-Sequence: *(\d+)", re.IGNORECASE)


class _PendingBatch(Struct, frozen=True):
    """A DIRECT.GET request for a batch, without its complete reply."""

    seq: int
    batch_msgs: int
    requested_ns: int


class BatchGetter:
    """Reads the stream from its first to its last message in batches, over and over."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self._job, self._link = job, link
        orders = job.orders
        self._inbox = link.nc.new_inbox()
        subject = f"{job.client.prefix}.DIRECT.GET.{orders.stream}"
        self._head = f"PUB {subject} {self._inbox} ".encode()
        self._end_seq = orders.last_seq + 1
        # Without gaps the next request need not wait for the end of this one.
        self._has_no_deleted_msgs = self._end_seq - orders.first_seq == orders.stored_msgs
        self._share_msgs = orders.share_msgs if orders.share_msgs is not None else 1 << 62
        self._next_seq = orders.first_seq
        self._open_requests: deque[_PendingBatch] = deque()
        """Requests without a complete reply, oldest first."""
        self._refused_requests: list[_PendingBatch] = []
        """Requests to send again soon: the server was restarting."""
        self._unread_ranges: deque[tuple[int, int]] = deque()
        """First sequence and number of messages that a batch lacks, in a stream without gaps: the
        server ends a batch at a limit of bytes.
        """
        self._paused_requests_count = 0
        """Number of requests to send after a pause."""
        self._requested_msgs = 0
        self._received_msgs = 0
        """Number of messages received for the oldest open request."""
        self._newest_run: FrameRun | None = None
        """The last run of messages that was received for the oldest open request."""
        self._last_received_ns = 0
        self._last_read_ns = self._read_msgs = self._read_bytes = 0
        self._handled_disconnects_count = link.disconnects_count
        self._retry = RetryPolicy(job)
        self._end_event = asyncio.Event()

    async def begin(self) -> None:
        """Subscribe to the replies."""
        await self._link.subscribe(self._inbox, self._on_run)

    async def run(self) -> None:
        """Send requests until this worker's share of messages was read, or the job stops.

        Raises RequestFailed if the stream does not reply within the timeout of the role.
        """
        role = self._job.orders.role
        for _ in range(_MAX_OPEN_REQUESTS if self._has_no_deleted_msgs else 1):
            self._send_request()
        while not self._end_event.is_set() and not self._job.stopping.is_set():
            if self._link.failure.done():
                raise self._link.failure.result()
            if self._link.disconnects_count != self._handled_disconnects_count:
                await self._link.wait_connected()
                self._request_missing()
            paused_requests_count, self._paused_requests_count = self._paused_requests_count, 0
            for _ in range(paused_requests_count):
                self._send_request()
            requested_ns = (request.requested_ns for request in self._open_requests)
            silent_ns = time.monotonic_ns() - max(self._last_received_ns, *requested_ns, 0)
            if self._open_requests and silent_ns > role.timeout_s * 1e9:
                stream = self._job.orders.stream
                raise RequestFailed(f"stream {stream} does not reply to DIRECT.GET in batches")
            end_task = asyncio.ensure_future(self._end_event.wait())
            await asyncio.wait({end_task}, timeout=0.1)
            end_task.cancel()

    def _send_request(self) -> None:
        """Send the next request; during a pause, count it as one to send after the pause.

        If there is no next request, and all replies have arrived, let `run` end.
        """
        orders = self._job.orders
        is_after_end = self._job.end_ns is not None and time.monotonic_ns() >= self._job.end_ns
        remaining_msgs = self._share_msgs - self._requested_msgs
        if remaining_msgs <= 0 or is_after_end or self._job.stopping.is_set():
            if not self._open_requests and not self._refused_requests:
                self._end_event.set()
            return
        if not self._job.running.is_set():
            self._paused_requests_count += 1
            return
        if self._unread_ranges:
            seq, batch_msgs = self._unread_ranges.popleft()
            self._requested_msgs += batch_msgs
            self._send(_PendingBatch(seq, batch_msgs, time.monotonic_ns()))
            return
        batch_msgs = min(
            orders.role.batch_msgs, remaining_msgs, max(self._end_seq - self._next_seq, 1)
        )
        self._requested_msgs += batch_msgs
        self._send(_PendingBatch(self._next_seq, batch_msgs, time.monotonic_ns()))
        self._set_next_seq(self._next_seq + batch_msgs)

    def _send(self, request: _PendingBatch) -> None:
        # With a filter the first message of a batch may be deleted, too.
        body = b'{"seq":%d,"batch":%d,"next_by_subj":">"}' % (request.seq, request.batch_msgs)
        self._open_requests.append(request)
        self._link.write(b"%s%d\r\n%s\r\n" % (self._head, len(body), body))

    def _set_next_seq(self, seq: int) -> None:
        self._next_seq = seq if seq < self._end_seq else self._job.orders.first_seq

    def _request_missing(self) -> None:
        """Request again the messages that were not received when the connection was lost."""
        self._handled_disconnects_count = self._link.disconnects_count
        self._count_read()
        missing_requests = [*self._open_requests, *self._refused_requests]
        self._open_requests.clear()
        self._refused_requests.clear()
        remaining_request = (
            self._remaining_request(missing_requests.pop(0))
            if missing_requests and self._newest_run is not None
            else None
        )
        self._received_msgs, self._newest_run = 0, None
        for request in (
            missing_requests
            if remaining_request is None
            else [remaining_request, *missing_requests]
        ):
            self._send(request)
        self._last_received_ns = time.monotonic_ns()
        if not self._open_requests and not self._paused_requests_count:
            self._send_request()

    def _remaining_request(self, request: _PendingBatch) -> _PendingBatch | None:
        """Return a request for those messages of `request` that were not received yet.

        None if no message was received, or none is missing.
        """
        newest_run, remaining_msgs = self._newest_run, request.batch_msgs - self._received_msgs
        if newest_run is None or remaining_msgs <= 0:
            return None
        seq = read_direct_get_seq(newest_run.text(len(newest_run) - 1, newest_run.layout.headers))
        if seq is None:
            return None
        if not self._has_no_deleted_msgs:
            self._set_next_seq(seq + 1 + remaining_msgs)
        return replace(request, seq=seq + 1, batch_msgs=remaining_msgs)

    def _count_read(self) -> None:
        """Count the messages of the last read of the socket, and record their latency."""
        count, tally = self._read_msgs, self._job.tally
        if count:
            requested_ns = np.full(count, self._open_requests[0].requested_ns)
            steady_count = tally.record_latencies("rtt", requested_ns, None, self._last_read_ns)
            tally.count_replies(count, self._read_bytes, steady_count, self._last_read_ns)
        self._read_msgs = self._read_bytes = 0

    def _on_run(self, run: FrameRun, now_ns: int) -> None:
        self._last_received_ns = now_ns
        if run.status is None:
            # Layouts change every few messages here: count whole reads, not runs.
            if now_ns != self._last_read_ns:
                self._count_read()
                self._last_read_ns = now_ns
            self._newest_run = run
            self._received_msgs += len(run)
            self._read_msgs += len(run)
            self._read_bytes += len(run) * (run.layout.size_bytes - run.layout.header_bytes)
        elif run.status == _END_STATUS:
            self._count_read()
            # A batch at the end of the stream, or of large messages, may have fewer messages.
            request = self._open_requests.popleft()
            missing_msgs = request.batch_msgs - self._received_msgs
            self._requested_msgs -= missing_msgs
            self._received_msgs, self._newest_run = 0, None
            self._retry.note_success()
            last_seq_match = _LAST_SEQ_PATTERN.search(run.text(0, run.layout.headers))
            next_seq = int(last_seq_match[1]) + 1 if last_seq_match else None
            if next_seq is not None and not self._has_no_deleted_msgs:
                self._set_next_seq(next_seq)
            elif next_seq is not None and missing_msgs and next_seq < self._end_seq:
                self._unread_ranges.append((next_seq, missing_msgs))
            self._send_request()
        else:
            for _ in range(len(run)):
                self._on_refusal(run.status)

    def _on_refusal(self, status: int) -> None:
        """Schedule to send a request again if the server restarts; else end the run.

        After the last message, continue at the first one.
        """
        was_connection_lost = self._link.disconnects_count > 0
        first_seq = self._job.orders.first_seq
        if status == 404 and self._open_requests and self._open_requests[0].seq > first_seq:
            # All messages from there on are deleted: continue at the first one.
            self._count_read()
            self._requested_msgs -= self._open_requests.popleft().batch_msgs
            self._received_msgs, self._newest_run = 0, None
            self._next_seq = first_seq
            self._send_request()
            return
        requested_msgs = self._open_requests[0].batch_msgs if self._open_requests else 0
        if not requested_msgs or not self._retry.should_retry(
            status, None, was_connection_lost=was_connection_lost, count=requested_msgs
        ):
            self._link.fail(_refusal_error(status, self._job.orders.stream or ""))
            return
        self._count_read()
        self._received_msgs, self._newest_run = 0, None
        if not self._refused_requests:
            asyncio.get_running_loop().call_later(RetryPolicy.RETRY_DELAY_S, self._resend_refused)
        self._refused_requests.append(self._open_requests.popleft())

    def _resend_refused(self) -> None:
        """Send refused requests again; after a lost connection `_request_missing` sends them."""
        refused_requests, self._refused_requests = self._refused_requests, []
        if self._link.disconnects_count != self._handled_disconnects_count:
            self._refused_requests = refused_requests
            return
        for request in refused_requests:
            self._send(request)


def _refusal_error(status: int, stream: str) -> NatstuiError:
    if status == 404:
        return NotFound(f"stream {stream} has no message to get")
    if status == 503:
        return NotFound(f"no reply to DIRECT.GET: does stream {stream} allow direct gets?")
    return RequestFailed(f"stream {stream} refused a batch of gets: status {status}")
