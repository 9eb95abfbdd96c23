"""The shared base of all JetStream receivers of the wire client: counts, latencies and acks."""

from __future__ import annotations

import asyncio
import json
import time

import numpy as np

from natstui.bench.job.content import stamp_layout
from natstui.bench.job.digits import write_digits
from natstui.bench.job.job import Job
from natstui.bench.job.template import SEQ_DIGITS
from natstui.bench.wire.deliveries import (
    Deliveries,
    ack_frames,
    choose_refusals,
    read_deliveries,
    term_frames,
)
from natstui.bench.wire.frames import FrameRun
from natstui.bench.wire.link import WireLink

HEARTBEAT_S = 2
"""Interval of the server's heartbeats for an idle pull request."""
SILENCE_TIMEOUT_NS = 2 * HEARTBEAT_S * 10**9
"""Time without deliveries and heartbeats after which the pull request counts as lost, as after
the restart of another server, which leads the consumer.
"""
_PULL_EXPIRES_S = 30


def pull_request(head: bytes, batch_msgs: int) -> bytes:
    """Return the frame of a pull request for `batch_msgs` messages.

    `head` is its start, `PUB <next subject> <inbox> `.
    """
    body = {
        "batch": batch_msgs,
        "expires": _PULL_EXPIRES_S * 10**9,
        "idle_heartbeat": HEARTBEAT_S * 10**9,
    }
    text = json.dumps(body, separators=(",", ":")).encode()
    return b"%s%d\r\n%s\r\n" % (head, len(text), text)


class DeliveryReceiver:
    """Receives the deliveries of one consumer, and acks them as the role requires."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self.job, self.link = job, link
        self.role = job.orders.role
        self._stamp_layout = stamp_layout(job.orders, job.orders.received_payload)
        self._acked_stream_and_consumer: tuple[str, str] | None = None
        """Stream and consumer whose deliveries are acked; None: no acks."""
        if self.role.acks != "none" and not self.role.traits.is_ordered:
            self._acked_stream_and_consumer = (job.orders.stream or "", job.orders.consumer or "")
        self._confirmation_inbox = link.nc.new_inbox().encode()
        self._confirmations_count = 0
        self._has_refusals = bool(
            self.role.nak_ratio or self.role.term_ratio or self.role.never_ack_ratio
        )
        self._unprocessed_deliveries: asyncio.Queue[Deliveries] = asyncio.Queue()
        self._process_task: asyncio.Task[None] | None = None
        self.backlog_msgs = 0
        """Number of received messages that wait for their processing delay."""

    async def begin(self) -> None:
        """Subscribe to the confirmations of double acks; with a processing delay, start acking."""
        if self.role.acks == "double":
            await self.link.subscribe(
                f"{self._confirmation_inbox.decode()}.*", self._on_confirmations
            )
        if self.role.think_s:
            self._process_task = self.link.start_task(self._process_slowly())

    async def end(self) -> None:
        """Stop acking after the processing delay, and wait for confirmations of double acks.

        The wait is at most the timeout of the role.
        """
        if self._process_task is not None:
            self._process_task.cancel()
        tally, deadline_s = self.job.tally, time.monotonic() + self.role.timeout_s
        while self.role.acks == "double" and time.monotonic() < deadline_s:
            if (
                tally.count("acks_confirmed_msgs") >= self._confirmations_count
                or self.link.failure.done()
            ):
                break
            await asyncio.sleep(0.005)

    def count_deliveries(self, run: FrameRun, now_ns: int) -> Deliveries:
        """Count and ack the deliveries of a run of frames, record latencies, and return them."""
        tally = self.job.tally
        deliveries = read_deliveries(run, self._acked_stream_and_consumer)
        own_run_mask = tally.count_received(
            run.payloads, self._stamp_layout, now_ns, deliveries.stream_seq
        )
        if not self._stamp_layout.length:
            tally.count_repeats(deliveries.stream_seq)
        tally.add("redelivered_msgs", int(np.count_nonzero(deliveries.delivered_count > 1)))
        if now_ns >= tally.steady_ns:
            stored_ns = (
                deliveries.stored_ns
                if own_run_mask is None
                else deliveries.stored_ns[own_run_mask]
            )
            tally.record_store_latencies(time.time_ns() - stored_ns)
        if self.role.think_s:
            self._unprocessed_deliveries.put_nowait(deliveries)
            self.backlog_msgs += len(run)
        elif self._acked_stream_and_consumer is not None:
            self._acknowledge(deliveries)
        return deliveries

    def _acknowledge(self, deliveries: Deliveries) -> None:
        role, tally = self.role, self.job.tally
        replies = deliveries.replies
        if role.acks == "all":
            self.link.write(ack_frames(replies[-1:]))
            tally.add("acks_sent_msgs")
            return
        if not self._has_refusals and role.acks == "explicit":
            self.link.write(ack_frames(replies))
            tally.add("acks_sent_msgs", len(replies))
            return
        refusals = choose_refusals(role, deliveries)
        acked_mask = ~(refusals.term | refusals.leave_unacked)
        if refusals.term.any():
            self.link.write(term_frames(replies[refusals.term]))
        nak_mask = refusals.nak[acked_mask]
        confirmation_subjects = self._confirmation_subjects(int(np.count_nonzero(acked_mask)))
        if acked_mask.any():
            self.link.write(ack_frames(replies[acked_mask], nak_mask, confirmation_subjects))
        nak_count = int(np.count_nonzero(nak_mask))
        tally.add("naks_sent_msgs", nak_count)
        tally.add("acks_sent_msgs", int(np.count_nonzero(acked_mask)) - nak_count)
        tally.add("terms_sent_msgs", int(np.count_nonzero(refusals.term)))
        tally.add("never_acked_msgs", int(np.count_nonzero(refusals.leave_unacked)))

    def _confirmation_subjects(self, count: int) -> np.ndarray | None:
        """Return `count` reply subjects for confirmations as bytes; None without double acks."""
        if self.role.acks != "double" or not count:
            return None
        head = np.frombuffer(self._confirmation_inbox + b".", np.uint8)
        subjects = np.empty((count, len(head) + SEQ_DIGITS), np.uint8)
        subjects[:, : len(head)] = head
        numbers = np.arange(self._confirmations_count, self._confirmations_count + count)
        write_digits(subjects[:, len(head) :], numbers)
        self._confirmations_count += count
        return subjects

    def _on_confirmations(self, run: FrameRun, _now_ns: int) -> None:
        self.job.tally.add("acks_confirmed_msgs", len(run))

    def on_processed(self) -> None:
        """Do nothing after the processing delay of a message; pull consumers then pull more."""

    async def _process_slowly(self) -> None:
        """Ack one message after the other, each after the processing delay of the role."""
        while True:
            deliveries = await self._unprocessed_deliveries.get()
            for row in range(len(deliveries.replies)):
                await asyncio.sleep(self.role.think_s)
                row_slice = slice(row, row + 1)
                if self._acked_stream_and_consumer is not None:
                    self._acknowledge(
                        Deliveries(
                            deliveries.replies[row_slice],
                            deliveries.delivered_count[row_slice],
                            deliveries.stream_seq[row_slice],
                            deliveries.consumer_seq[row_slice],
                            deliveries.stored_ns[row_slice],
                        )
                    )
                self.backlog_msgs -= 1
                self.on_processed()
