"""Shared parts of all JetStream receivers of the wire client: counting, timing and acks."""

from __future__ import annotations

import asyncio
import json
import time

import numpy as np

from natstui.bench.job.content import stamp_place
from natstui.bench.job.digits import write_digits
from natstui.bench.job.job import Job
from natstui.bench.job.template import SEQ_DIGITS
from natstui.bench.wire.deliveries import (
    Deliveries,
    ack_frames,
    read_deliveries,
    refusals,
    term_frames,
)
from natstui.bench.wire.frames import Run
from natstui.bench.wire.link import WireLink

HEARTBEAT_S = 2
"""Interval of the server's heartbeats for an idle pull request."""
SILENT_NS = 2 * HEARTBEAT_S * 10**9
"""Time without deliveries and heartbeats after which the pull request is lost: the consumer's
server was restarted, but not the connected one.
"""
_EXPIRES_S = 30


def pull_request(head: bytes, batch_msgs: int) -> bytes:
    """Return the frame that requests `batch_msgs` messages.

    `head` is `PUB <next subject> <inbox> `.
    """
    body = {
        "batch": batch_msgs,
        "expires": _EXPIRES_S * 10**9,
        "idle_heartbeat": HEARTBEAT_S * 10**9,
    }
    text = json.dumps(body, separators=(",", ":")).encode()
    return b"%s%d\r\n%s\r\n" % (head, len(text), text)


class Consumer:
    """Receives deliveries of one consumer and acks them as the role requires."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self.job, self.link = job, link
        self.role = job.orders.role
        self._place = stamp_place(job.orders, job.orders.stamp_of)
        self._acked: tuple[str, str] | None = None
        """Stream and consumer whose deliveries are acked; None: no acks."""
        if self.role.acks != "none" and not self.role.traits.is_ordered:
            self._acked = (job.orders.stream or "", job.orders.consumer or "")
        self._confirm_inbox = link.nc.new_inbox().encode()
        self._confirms_count = 0
        self._has_refusals = bool(
            self.role.nak_ratio or self.role.term_ratio or self.role.never_ack_ratio
        )
        self._unprocessed: asyncio.Queue[Deliveries] = asyncio.Queue()
        self._process_task: asyncio.Task[None] | None = None
        self.backlog_msgs = 0
        """Messages that a slow consumer has received and not processed yet."""

    async def begin(self) -> None:
        """Subscribe to confirmations, if they are requested."""
        if self.role.acks == "double":
            await self.link.subscribe(f"{self._confirm_inbox.decode()}.*", self._confirmed)
        if self.role.think_s:
            self._process_task = self.link.run(self._process_slowly())

    async def end(self) -> None:
        """Wait for open confirmations and stop the processing delay."""
        if self._process_task is not None:
            self._process_task.cancel()
        tally, deadline_s = self.job.tally, time.monotonic() + self.role.timeout_s
        while self.role.acks == "double" and time.monotonic() < deadline_s:
            if (
                tally.count("acks_confirmed_msgs") >= self._confirms_count
                or self.link.failure.done()
            ):
                break
            await asyncio.sleep(0.005)

    def handle_run(self, run: Run, now_ns: int) -> Deliveries:
        """Count, time and ack the deliveries of a run of frames, received at `now_ns`; return
        them.
        """
        tally = self.job.tally
        deliveries = read_deliveries(run, self._acked)
        own_mask = tally.received(run.payloads, self._place, now_ns, deliveries.stream_seq)
        if not self._place.length:
            tally.seen_stored(deliveries.stream_seq)
        tally.add("redelivered_msgs", int(np.count_nonzero(deliveries.delivered_count > 1)))
        if now_ns >= tally.steady_ns:
            stored_ns = (
                deliveries.stored_ns if own_mask is None else deliveries.stored_ns[own_mask]
            )
            tally.store_latency(time.time_ns() - stored_ns)
        if self.role.think_s:
            self._unprocessed.put_nowait(deliveries)
            self.backlog_msgs += len(run)
        elif self._acked is not None:
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
        on_purpose = refusals(role, deliveries)
        acked_mask = ~(on_purpose.term | on_purpose.never)
        if on_purpose.term.any():
            self.link.write(term_frames(replies[on_purpose.term]))
        naks = on_purpose.nak[acked_mask]
        confirm = self._confirm_to(int(np.count_nonzero(acked_mask)))
        if acked_mask.any():
            self.link.write(ack_frames(replies[acked_mask], naks, confirm))
        nak_count = int(np.count_nonzero(naks))
        tally.add("naks_sent_msgs", nak_count)
        tally.add("acks_sent_msgs", int(np.count_nonzero(acked_mask)) - nak_count)
        tally.add("terms_sent_msgs", int(np.count_nonzero(on_purpose.term)))
        tally.add("never_acked_msgs", int(np.count_nonzero(on_purpose.never)))

    def _confirm_to(self, count: int) -> np.ndarray | None:
        """Return the reply subjects of confirmations, if they are requested."""
        if self.role.acks != "double" or not count:
            return None
        head = np.frombuffer(self._confirm_inbox + b".", np.uint8)
        subjects = np.empty((count, len(head) + SEQ_DIGITS), np.uint8)
        subjects[:, : len(head)] = head
        numbers = np.arange(self._confirms_count, self._confirms_count + count)
        write_digits(subjects[:, len(head) :], numbers)
        self._confirms_count += count
        return subjects

    def _confirmed(self, run: Run, _now_ns: int) -> None:
        self.job.tally.add("acks_confirmed_msgs", len(run))

    def on_processed(self) -> None:
        """Do nothing; called after each message that a delayed worker has processed."""

    async def _process_slowly(self) -> None:
        """Ack one message after the other, with the delay of a slow consumer."""
        while True:
            deliveries = await self._unprocessed.get()
            for row in range(len(deliveries.replies)):
                await asyncio.sleep(self.role.think_s)
                part = slice(row, row + 1)
                if self._acked is not None:
                    self._acknowledge(
                        Deliveries(
                            deliveries.replies[part],
                            deliveries.delivered_count[part],
                            deliveries.stream_seq[part],
                            deliveries.consumer_seq[part],
                            deliveries.stored_ns[part],
                        )
                    )
                self.backlog_msgs -= 1
                self.on_processed()
