"""Requests stored in a stream, and responses over another stream.

The stamp of a request is its identity: a response starts with it, and its subject ends with the
number of the requester. A request is acked once its response is stored, so that no request is lost
when a worker is killed; another one may then respond a second time.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import time
from dataclasses import replace

import msgspec
import numpy as np

from natstui.bench.job.digits import Int64s, read_digits
from natstui.bench.job.job import Job, RetryPolicy
from natstui.bench.job.stamps import (
    STAMP_BYTES,
    StampPlace,
    place_of_run,
    read_stamps,
    write_stamps,
)
from natstui.bench.job.template import SEQ_DIGITS
from natstui.bench.wire.deliveries import Deliveries, read_deliveries
from natstui.bench.wire.frames import Run
from natstui.bench.wire.link import WireLink
from natstui.bench.wire.ordered import OrderedReceiver
from natstui.bench.wire.publish import AsyncPublisher, error_code, no_stream, refusal
from natstui.bench.wire.pull import Puller
from natstui.errors import NatstuiError, Refused

_WRITTEN = struct.Struct("<q")
"""Format of the time at which a response was written, after the stamp of its request."""
_REQUESTER_DIGITS = 6
_LOOK_S = 0.02


class _ResponseReader(OrderedReceiver):
    """Receives the responses to one requester; after a gap, responses may be repeated."""

    def __init__(self, job: Job, link: WireLink) -> None:
        orders = job.orders
        response_orders = msgspec.structs.replace(orders, stream=orders.responses, first_seq=1)
        subject = f"{orders.response_subject}.{orders.publisher_id:0{_REQUESTER_DIGITS}}"
        super().__init__(replace(job, orders=response_orders), link, subject)
        self._place = place_of_run(StampPlace(0, STAMP_BYTES), orders.run_id, orders.epoch_ns)
        self.came_ns = 0
        """Time of the last response."""

    @property
    def answered_count(self) -> int:
        """Return the number of different requests with a response."""
        return sum(seen.seen_count for seen in self.job.tally.seen.by_publisher.values())

    def handle_run(self, run: Run, now_ns: int) -> Deliveries:
        """Count responses, and time them from the request and from the response."""
        tally, payloads = self.job.tally, run.payloads
        stamps = read_stamps(payloads, self._place)
        if stamps is None or stamps.own is not None:
            self.link.fail(
                Refused("the stream of the responses has messages that this run did not send")
            )
            return read_deliveries(run)
        written_bytes = payloads[:, STAMP_BYTES : STAMP_BYTES + _WRITTEN.size]
        written_ns: Int64s = np.ascontiguousarray(written_bytes).view(np.int64)
        steady = tally.timed("rtt", stamps.due_ns, stamps.sent_ns, now_ns)
        tally.response_latency(written_ns[:, 0], now_ns, stamps.due_ns)
        tally.replied(len(run), payloads.size, steady, now_ns)
        new_msgs, _ = tally.seen.add(stamps.publisher, stamps.seq)
        tally.add("duplicate_msgs", len(run) - new_msgs)
        self.came_ns = now_ns
        return read_deliveries(run)


class StreamRequester(AsyncPublisher):
    """Publishes requests to a stream, many in flight, and receives their responses."""

    def __init__(self, job: Job, link: WireLink) -> None:
        super().__init__(job, link)
        self._reader = _ResponseReader(job, link)

    async def begin(self) -> None:
        """Subscribe to publish acks and to responses."""
        await super().begin()
        await self._reader.begin()

    async def run(self) -> None:
        """Send all requests, then wait for the missing responses."""
        reading = self._link.run(self._reader.run())
        try:
            await super().run()
            await self._wait_for_responses()
        finally:
            reading.cancel()

    async def _wait_for_responses(self) -> None:
        """Wait until every stored request has its response, or none came for `timeout_s`."""
        job, requested_ns = self._job, time.monotonic_ns()
        patience_ns = round(job.orders.role.timeout_s * 1e9)
        while not job.stopping.is_set():
            self._check()
            if self._reader.answered_count >= job.tally.count("acked_msgs"):
                return
            if time.monotonic_ns() - max(self._reader.came_ns, requested_ns) > patience_ns:
                return
            await job.sleep(_LOOK_S)


class Responder(Puller):
    """Consumes requests from a work queue, and acks each when its response is stored."""

    def __init__(self, job: Job, link: WireLink) -> None:
        super().__init__(job, link)
        self._stored_inbox = link.nc.new_inbox().encode()
        self._requests: dict[bytes, tuple[bytes, int, int]] = {}
        """Ack subject of a request → its stamp, the number of its requester, and its size."""
        self._open: dict[int, bytes] = {}
        """Number of a response in flight → ack subject of its request."""
        self._all_stored = asyncio.Event()
        """Set when no response is in flight."""
        self._response = place_of_run(
            StampPlace(0, STAMP_BYTES), job.orders.run_id, job.orders.epoch_ns
        )
        self._next_number = 0
        self._subject = (job.orders.response_subject or "").encode()
        self._refusals = RetryPolicy(job)

    async def begin(self) -> None:
        """Subscribe to requests, and to the publish acks of responses."""
        await super().begin()
        await self.link.subscribe(f"{self._stored_inbox.decode()}.*", self._on_stored)

    def handle_run(self, run: Run, now_ns: int) -> Deliveries:
        """Count the requests of a run of frames, received at `now_ns`, and respond to them; return
        them.

        A request that this run did not send fails the link.
        """
        stamps, replies = read_stamps(run.payloads, self._place), run.replies
        if stamps is None or stamps.sent_ns is None or stamps.own is not None or replies is None:
            self.link.fail(Refused("requests that this run did not send wait in the stream"))
            return read_deliveries(run)
        response_stamps = np.empty((len(run), STAMP_BYTES), np.uint8)
        write_stamps(
            response_stamps,
            self._response,
            stamps.due_ns,
            stamps.publisher,
            stamps.seq,
            stamps.sent_ns,
        )
        rows = zip(replies, response_stamps, stamps.publisher.tolist(), strict=True)
        for reply, stamp, requester in rows:
            self._requests[reply.tobytes()] = (stamp.tobytes(), requester, run.payloads.shape[1])
        return super().handle_run(run, now_ns)

    def _acknowledge(self, deliveries: Deliveries) -> None:
        """Publish the responses; their requests are acked once they are stored."""
        now_ns, frames = time.monotonic_ns(), []
        sent_bytes = 0
        for row in deliveries.replies:
            reply = row.tobytes()
            stamp, requester, size_bytes = self._requests.pop(reply)
            # A response is as long as its request.
            payload = (stamp + _WRITTEN.pack(now_ns)).ljust(size_bytes, b"\0")
            sent_bytes += len(payload)
            subject = b"%s.%0*d" % (self._subject, _REQUESTER_DIGITS, requester)
            number = self._next_number
            self._next_number += 1
            self._open[number] = reply
            inbox = b"%s.%0*d" % (self._stored_inbox, SEQ_DIGITS, number)
            frames.append(b"PUB %s %s %d\r\n%s\r\n" % (subject, inbox, len(payload), payload))
        self.link.write(b"".join(frames))
        self.job.tally.sent(len(frames), sent_bytes, now_ns)

    def _on_stored(self, run: Run, _now_ns: int) -> None:
        """Ack the requests whose responses are stored."""
        frames = []
        for row, number in enumerate(read_digits(run.subjects[:, -SEQ_DIGITS:]).tolist()):
            reply = self._open.pop(number, None)
            answer = run.text(row, run.layout.payload)
            if run.status is not None or b'"error"' in answer:
                self._on_refusal(answer, run.status)
            elif reply is not None:
                self._refusals.succeeded()
                frames.append(b"PUB %s 4\r\n+ACK\r\n" % reply)
        if not self._open:
            self._all_stored.set()
        if frames:
            self.link.write(b"".join(frames))
            self.job.tally.add("acks_sent_msgs", len(frames))

    def _on_refusal(self, answer: bytes, status: int | None) -> None:
        """Leave a request unacked if its server restarts, so that it is delivered again."""
        code = error_code(answer) if status is None else None
        if self._refusals.should_retry(status, code, was_lost=self.link.lost_count > 0):
            return
        subject = self._subject.decode()
        error: NatstuiError = refusal(answer, subject) if status is None else no_stream(subject)
        self.link.fail(error)

    async def end(self) -> None:
        """Wait for the responses in flight."""
        deadline_s = time.monotonic() + self.role.timeout_s
        while self._open and time.monotonic() < deadline_s and not self.link.failure.done():
            self._all_stored.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._all_stored.wait()
        await super().end()
