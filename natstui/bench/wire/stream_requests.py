"""Sends requests over a stream, and responses over another stream.

A response starts with the stamp of its request, and its subject ends with the number of the
requester. A request is acked when its response is stored, so that no request is lost with a killed
worker; another worker may then respond a second time.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import struct
import time
from typing import NamedTuple

import numpy as np

from natstui.bench.job.digits import Int64s, read_digits
from natstui.bench.job.job import Job, RetryPolicy
from natstui.bench.job.stamps import (
    STAMP_BYTES,
    StampLayout,
    layout_of_run,
    read_stamps,
    write_stamps,
)
from natstui.bench.job.template import SEQ_DIGITS
from natstui.bench.wire.deliveries import Deliveries, read_deliveries
from natstui.bench.wire.frames import FrameRun
from natstui.bench.wire.link import WireLink
from natstui.bench.wire.ordered import OrderedReceiver
from natstui.bench.wire.publish import AsyncPublisher, error_code, no_stream_error, refusal_error
from natstui.bench.wire.pull import Puller
from natstui.errors import ActionRefusal
from natstui.values import replace

_WRITE_TIME_STRUCT = struct.Struct("<q")
"""Format of the time at which a response is written; it follows the stamp of its request."""
_REQUESTER_DIGITS = 6
_CHECK_INTERVAL_S = 0.02


class _ResponseReader(OrderedReceiver):
    """Receives the responses to one requester, with an ordered consumer."""

    def __init__(self, job: Job, link: WireLink) -> None:
        orders = job.orders
        response_orders = replace(orders, stream=orders.responses, first_seq=1)
        subject = f"{orders.response_subject}.{orders.publisher_id:0{_REQUESTER_DIGITS}}"
        super().__init__(dataclasses.replace(job, orders=response_orders), link, subject)
        self._stamp_layout = layout_of_run(
            StampLayout(0, STAMP_BYTES), orders.run_id, orders.epoch_ns
        )
        self.last_response_ns = 0
        """Time of the last response (monotonic ns); 0 before the first."""

    @property
    def responded_count(self) -> int:
        """Return the number of different requests with a response."""
        return sum(
            sequences.count
            for sequences in self.job.tally.received_sequences.sequences_by_publisher.values()
        )

    def count_deliveries(self, run: FrameRun, now_ns: int) -> Deliveries:
        """Count the responses of a run of frames, record their latencies, and return them.

        A response that this run did not send fails the link.
        """
        tally, payloads = self.job.tally, run.payloads
        stamps = read_stamps(payloads, self._stamp_layout)
        if stamps is None or stamps.own_run_mask is not None:
            self.link.fail(
                ActionRefusal(
                    "the stream of the responses has messages that this run did not send"
                )
            )
            return read_deliveries(run)
        written_bytes = payloads[:, STAMP_BYTES : STAMP_BYTES + _WRITE_TIME_STRUCT.size]
        written_ns: Int64s = np.ascontiguousarray(written_bytes).view(np.int64)
        steady_count = tally.record_latencies("rtt", stamps.due_ns, stamps.sent_ns, now_ns)
        tally.record_response_latencies(written_ns[:, 0], now_ns, stamps.due_ns)
        tally.count_replies(len(run), payloads.size, steady_count, now_ns)
        new_msgs, _ = tally.received_sequences.add(stamps.publisher, stamps.seq)
        tally.add("duplicate_msgs", len(run) - new_msgs)
        self.last_response_ns = now_ns
        return read_deliveries(run)


class StreamRequester(AsyncPublisher):
    """Publishes requests to a stream, many in flight, and receives their responses."""

    def __init__(self, job: Job, link: WireLink) -> None:
        super().__init__(job, link)
        self._response_reader = _ResponseReader(job, link)

    async def begin(self) -> None:
        """Subscribe to publish acks and to responses."""
        await super().begin()
        await self._response_reader.begin()

    async def run(self) -> None:
        """Send all requests, then wait for the missing responses."""
        read_task = self._link.start_task(self._response_reader.run())
        try:
            await super().run()
            await self._wait_for_responses()
        finally:
            read_task.cancel()

    async def _wait_for_responses(self) -> None:
        """Wait until every stored request has its response, or the timeout has passed."""
        job, requested_ns = self._job, time.monotonic_ns()
        timeout_ns = round(job.orders.role.timeout_s * 1e9)
        while not job.stopping.is_set():
            self._check_connection()
            if self._response_reader.responded_count >= job.tally.count("acked_msgs"):
                return
            if (
                time.monotonic_ns() - max(self._response_reader.last_response_ns, requested_ns)
                > timeout_ns
            ):
                return
            await job.sleep(_CHECK_INTERVAL_S)


class _OpenRequest(NamedTuple):
    """A request without a response."""

    stamp: bytes
    requester: int
    size_bytes: int


class Responder(Puller):
    """Consumes requests from a work queue, and acks each when its response is stored."""

    def __init__(self, job: Job, link: WireLink) -> None:
        super().__init__(job, link)
        self._publish_ack_inbox = link.nc.new_inbox().encode()
        self._request_by_ack_subject: dict[bytes, _OpenRequest] = {}
        self._ack_subject_by_response: dict[int, bytes] = {}
        """Number of a response in flight → ack subject of its request."""
        self._all_stored_event = asyncio.Event()
        """An event that is set when the last response in flight is stored."""
        self._response_layout = layout_of_run(
            StampLayout(0, STAMP_BYTES), job.orders.run_id, job.orders.epoch_ns
        )
        self._next_response_number = 0
        self._subject = (job.orders.response_subject or "").encode()
        self._retry = RetryPolicy(job)

    async def begin(self) -> None:
        """Subscribe to requests, and to the publish acks of responses."""
        await super().begin()
        await self.link.subscribe(f"{self._publish_ack_inbox.decode()}.*", self._on_publish_acks)

    def count_deliveries(self, run: FrameRun, now_ns: int) -> Deliveries:
        """Count the requests of a run of frames, respond to them, and return them.

        A request that this run did not send fails the link.
        """
        stamps, replies = read_stamps(run.payloads, self._stamp_layout), run.replies
        if (
            stamps is None
            or stamps.sent_ns is None
            or stamps.own_run_mask is not None
            or replies is None
        ):
            self.link.fail(ActionRefusal("requests that this run did not send wait in the stream"))
            return read_deliveries(run)
        response_stamps = np.empty((len(run), STAMP_BYTES), np.uint8)
        write_stamps(
            response_stamps,
            self._response_layout,
            stamps.due_ns,
            stamps.publisher,
            stamps.seq,
            stamps.sent_ns,
        )
        rows = zip(replies, response_stamps, stamps.publisher.tolist(), strict=True)
        for reply, stamp, requester in rows:
            self._request_by_ack_subject[reply.tobytes()] = _OpenRequest(
                stamp.tobytes(), requester, run.payloads.shape[1]
            )
        return super().count_deliveries(run, now_ns)

    def _acknowledge(self, deliveries: Deliveries) -> None:
        """Publish the responses to requests; `_on_publish_acks` acks the requests."""
        now_ns, frames = time.monotonic_ns(), []
        sent_bytes = 0
        for row in deliveries.replies:
            reply = row.tobytes()
            stamp, requester, size_bytes = self._request_by_ack_subject.pop(reply)
            # A response is as long as its request.
            payload = (stamp + _WRITE_TIME_STRUCT.pack(now_ns)).ljust(size_bytes, b"\0")
            sent_bytes += len(payload)
            subject = b"%s.%0*d" % (self._subject, _REQUESTER_DIGITS, requester)
            number = self._next_response_number
            self._next_response_number += 1
            self._ack_subject_by_response[number] = reply
            inbox = b"%s.%0*d" % (self._publish_ack_inbox, SEQ_DIGITS, number)
            frames.append(b"PUB %s %s %d\r\n%s\r\n" % (subject, inbox, len(payload), payload))
        self.link.write(b"".join(frames))
        self.job.tally.count_sent(len(frames), sent_bytes, now_ns)

    def _on_publish_acks(self, run: FrameRun, _now_ns: int) -> None:
        """Ack the requests whose responses are stored."""
        frames = []
        for row, number in enumerate(read_digits(run.subjects[:, -SEQ_DIGITS:]).tolist()):
            reply = self._ack_subject_by_response.pop(number, None)
            publish_ack = run.text(row, run.layout.payload)
            if run.status is not None or b'"error"' in publish_ack:
                self._on_refusal(publish_ack, run.status)
            elif reply is not None:
                self._retry.note_success()
                frames.append(b"PUB %s 4\r\n+ACK\r\n" % reply)
        if not self._ack_subject_by_response:
            self._all_stored_event.set()
        if frames:
            self.link.write(b"".join(frames))
            self.job.tally.add("acks_sent_msgs", len(frames))

    def _on_refusal(self, reply: bytes, status: int | None) -> None:
        """Fail the link, unless the server of the stream restarts.

        The request is not acked, so it is delivered again.
        """
        err_code = error_code(reply) if status is None else None
        if self._retry.should_retry(
            status, err_code, was_connection_lost=self.link.disconnects_count > 0
        ):
            return
        subject = self._subject.decode()
        is_refusal = status is None
        self.link.fail(refusal_error(reply, subject) if is_refusal else no_stream_error(subject))

    async def end(self) -> None:
        """Wait until the responses in flight are stored, for at most the timeout of the role."""
        deadline_s = time.monotonic() + self.role.timeout_s
        while (
            self._ack_subject_by_response
            and time.monotonic() < deadline_s
            and not self.link.failure.done()
        ):
            self._all_stored_event.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_CHECK_INTERVAL_S):
                    await self._all_stored_event.wait()
        await super().end()
