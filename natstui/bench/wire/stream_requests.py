"""Requests that wait in a stream, and responses that come back over another one.

The stamp of a request is its identity: a response begins with it, and its subject ends with the
number of who asked. A request is acknowledged once its response is stored, so nothing is forgotten
when a worker is killed; another one may then answer a second time.
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
from natstui.bench.job.stamps import STAMP_BYTES, StampPlace, of_run, read_stamps, write_stamps
from natstui.bench.job.template import SEQ_DIGITS
from natstui.bench.wire.deliveries import Deliveries, read_deliveries
from natstui.bench.wire.frames import Run
from natstui.bench.wire.link import WireLink
from natstui.bench.wire.ordered import OrderedReceiver
from natstui.bench.wire.publish import AsyncPublisher, error_code, no_stream, refusal
from natstui.bench.wire.pull import Puller
from natstui.errors import NatstuiError, Refused

_WRITTEN = struct.Struct("<q")
"""When a response was written; it follows the stamp of its request."""
_ASKER_DIGITS = 6
_LOOK_S = 0.02


class _ResponseReader(OrderedReceiver):
    """Takes the responses to one requester, each once more after a gap."""

    def __init__(self, job: Job, link: WireLink) -> None:
        orders = job.orders
        second = msgspec.structs.replace(orders, stream=orders.responses, first_seq=1)
        subject = f"{orders.response_subject}.{orders.publisher_id:0{_ASKER_DIGITS}}"
        super().__init__(replace(job, orders=second), link, subject)
        self._place = of_run(StampPlace(0, STAMP_BYTES), orders.run_id, orders.epoch_ns)
        self.came_ns = 0
        """When the last response came."""

    @property
    def answered_count(self) -> int:
        """How many different requests have a response."""
        return sum(seen.seen_count for seen in self.job.tally.seen.by_publisher.values())

    def take(self, run: Run, now_ns: int) -> Deliveries:
        """Count and time responses: the whole way, and the second leg."""
        tally, payloads = self.job.tally, run.payloads
        stamps = read_stamps(payloads, self._place)
        if stamps is None or stamps.own is not None:
            self.link.fail(
                Refused("the stream of the responses has messages that this run did not send")
            )
            return read_deliveries(run)
        written = payloads[:, STAMP_BYTES : STAMP_BYTES + _WRITTEN.size]
        answered: Int64s = np.ascontiguousarray(written).view(np.int64)
        steady = tally.timed("rtt", stamps.due_ns, stamps.sent_ns, now_ns)
        tally.response_latency(answered[:, 0], now_ns, stamps.due_ns)
        tally.replied(len(run), payloads.size, steady, now_ns)
        fresh, _ = tally.seen.add(stamps.publisher, stamps.seq)
        tally.add("duplicate_msgs", len(run) - fresh)
        self.came_ns = now_ns
        return read_deliveries(run)


class StreamRequester(AsyncPublisher):
    """Publishes requests to a stream, many in flight, and takes their responses meanwhile."""

    def __init__(self, job: Job, link: WireLink) -> None:
        super().__init__(job, link)
        self._reader = _ResponseReader(job, link)

    async def begin(self) -> None:
        """Listen for acknowledgements and for responses."""
        await super().begin()
        await self._reader.begin()

    async def run(self) -> None:
        """Ask everything, then wait for the responses that are still to come."""
        reading = self._link.run(self._reader.run())
        try:
            await super().run()
            await self._all_there()
        finally:
            reading.cancel()

    async def _all_there(self) -> None:
        """Wait until every stored request has its response, or none has come for long."""
        job, asked_ns = self._job, time.monotonic_ns()
        patience_ns = round(job.orders.role.timeout_s * 1e9)
        while not job.stopping.is_set():
            self._check()
            if self._reader.answered_count >= job.tally.count("acked_msgs"):
                return
            if time.monotonic_ns() - max(self._reader.came_ns, asked_ns) > patience_ns:
                return
            await job.sleep(_LOOK_S)


class Responder(Puller):
    """Takes requests from a work queue, and acknowledges each when its response is stored."""

    def __init__(self, job: Job, link: WireLink) -> None:
        super().__init__(job, link)
        self._stored_inbox = link.nc.new_inbox().encode()
        self._requests: dict[bytes, tuple[bytes, int, int]] = {}
        """Where a request is acknowledged → its stamp, the number of who asked, and its size."""
        self._open: dict[int, bytes] = {}
        """Number of a response in flight → where its request is acknowledged."""
        self._all_stored = asyncio.Event()
        """Set when no response is in flight any more."""
        self._response = of_run(StampPlace(0, STAMP_BYTES), job.orders.run_id, job.orders.epoch_ns)
        self._next_number = 0
        self._subject = (job.orders.response_subject or "").encode()
        self._refusals = RetryPolicy(job)

    async def begin(self) -> None:
        """Listen for requests, and for what the second stream says of the responses."""
        await super().begin()
        await self.link.subscribe(f"{self._stored_inbox.decode()}.*", self._on_stored)

    def take(self, run: Run, now_ns: int) -> Deliveries:
        """Remember who asked, then count, think and respond."""
        stamps, replies = read_stamps(run.payloads, self._place), run.replies
        if stamps is None or stamps.sent_ns is None or stamps.own is not None or replies is None:
            self.link.fail(Refused("requests that this run did not send wait in the stream"))
            return read_deliveries(run)
        again = np.empty((len(run), STAMP_BYTES), np.uint8)
        write_stamps(
            again, self._response, stamps.due_ns, stamps.publisher, stamps.seq, stamps.sent_ns
        )
        rows = zip(replies, again, stamps.publisher.tolist(), strict=True)
        for reply, stamp, asker in rows:
            self._requests[reply.tobytes()] = (stamp.tobytes(), asker, run.payloads.shape[1])
        return super().take(run, now_ns)

    def _acknowledge(self, deliveries: Deliveries) -> None:
        """Store the responses; the acknowledgements of their requests follow."""
        now_ns, frames = time.monotonic_ns(), []
        sent_bytes = 0
        for row in deliveries.replies:
            reply = row.tobytes()
            stamp, asker, size_bytes = self._requests.pop(reply)
            # A response is as long as its request.
            payload = (stamp + _WRITTEN.pack(now_ns)).ljust(size_bytes, b"\0")
            sent_bytes += len(payload)
            subject = b"%s.%0*d" % (self._subject, _ASKER_DIGITS, asker)
            number = self._next_number
            self._next_number += 1
            self._open[number] = reply
            inbox = b"%s.%0*d" % (self._stored_inbox, SEQ_DIGITS, number)
            frames.append(b"PUB %s %s %d\r\n%s\r\n" % (subject, inbox, len(payload), payload))
        self.link.write(b"".join(frames))
        self.job.tally.sent(len(frames), sent_bytes, now_ns)

    def _on_stored(self, run: Run, _now_ns: int) -> None:
        """Acknowledge the requests whose responses are stored."""
        frames = []
        for row, number in enumerate(read_digits(run.subjects[:, -SEQ_DIGITS:]).tolist()):
            reply = self._open.pop(number, None)
            answer = run.text(row, run.layout.payload)
            if run.status is not None or b'"error"' in answer:
                self._refused(answer, run.status)
            elif reply is not None:
                self._refusals.succeeded()
                frames.append(b"PUB %s 4\r\n+ACK\r\n" % reply)
        if not self._open:
            self._all_stored.set()
        if frames:
            self.link.write(b"".join(frames))
            self.job.tally.add("acks_sent_msgs", len(frames))

    def _refused(self, answer: bytes, status: int | None) -> None:
        """Leave the request to the server, which delivers it again, while one comes back."""
        code = error_code(answer) if status is None else None
        if self._refusals.should_retry(status, code, was_lost=self.link.lost_count > 0):
            return
        subject = self._subject.decode()
        error: NatstuiError = refusal(answer, subject) if status is None else no_stream(subject)
        self.link.fail(error)

    async def end(self) -> None:
        """Wait for the responses in flight."""
        give_up = time.monotonic() + self.role.timeout_s
        while self._open and time.monotonic() < give_up and not self.link.failure.done():
            self._all_stored.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LOOK_S):
                    await self._all_stored.wait()
        await super().end()
