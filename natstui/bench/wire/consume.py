"""What all JetStream receivers of the wire client share: counting, timing and acknowledging."""

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
"""How often the server says that an idle pull request is still open."""
SILENT_NS = 2 * HEARTBEAT_S * 10**9
"""After so long without deliveries and heartbeats nobody holds the pull request any more: the
server of the consumer went, while ours stayed."""
_EXPIRES_S = 30


def pull_request(head: bytes, batch_msgs: int) -> bytes:
    """Return the frame that asks for messages; `head` is `PUB <next subject> <inbox> `."""
    body = {
        "batch": batch_msgs,
        "expires": _EXPIRES_S * 10**9,
        "idle_heartbeat": HEARTBEAT_S * 10**9,
    }
    text = json.dumps(body, separators=(",", ":")).encode()
    return b"%s%d\r\n%s\r\n" % (head, len(text), text)


class Consumer:
    """Takes deliveries from one consumer and acknowledges them as the role says."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self.job, self.link = job, link
        self.role = job.orders.role
        self._place = stamp_place(job.orders, job.orders.stamp_of)
        self._acked: tuple[str, str] | None = None
        """Stream and consumer whose deliveries are acknowledged; None: nothing is."""
        if self.role.acks != "none" and not self.role.traits.is_ordered:
            self._acked = (job.orders.stream or "", job.orders.consumer or "")
        self._confirm_inbox = link.nc.new_inbox().encode()
        self._confirms = 0
        self._refuses = bool(
            self.role.nak_ratio or self.role.term_ratio or self.role.never_ack_ratio
        )
        self._thinking: asyncio.Queue[Deliveries] = asyncio.Queue()
        self._thinker: asyncio.Task[None] | None = None
        self.backlog_msgs = 0
        """Received by a slow consumer, and not thought about yet."""

    async def begin(self) -> None:
        """Listen for confirmations, where they are asked for."""
        if self.role.acks == "double":
            await self.link.subscribe(f"{self._confirm_inbox.decode()}.*", self._confirmed)
        if self.role.think_s:
            self._thinker = self.link.run(self._think())

    async def end(self) -> None:
        """Wait for open confirmations and stop thinking."""
        if self._thinker is not None:
            self._thinker.cancel()
        tally, give_up = self.job.tally, time.monotonic() + self.role.timeout_s
        while self.role.acks == "double" and time.monotonic() < give_up:
            if tally.count("acks_confirmed_msgs") >= self._confirms or self.link.failure.done():
                break
            await asyncio.sleep(0.005)

    def take(self, run: Run, now_ns: int) -> Deliveries:
        """Count, time and acknowledge the deliveries of a run."""
        tally = self.job.tally
        deliveries = read_deliveries(run, self._acked)
        own = tally.received(run.payloads, self._place, now_ns, deliveries.stream_seq)
        if not self._place.length:
            tally.seen_stored(deliveries.stream_seq)
        tally.add("redelivered_msgs", int(np.count_nonzero(deliveries.delivered_count > 1)))
        if now_ns >= tally.steady_ns:
            stored_ns = deliveries.stored_ns if own is None else deliveries.stored_ns[own]
            tally.store_latency(time.time_ns() - stored_ns)
        if self.role.think_s:
            self._thinking.put_nowait(deliveries)
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
        if not self._refuses and role.acks == "explicit":
            self.link.write(ack_frames(replies))
            tally.add("acks_sent_msgs", len(replies))
            return
        on_purpose = refusals(role, deliveries)
        answered = ~(on_purpose.term | on_purpose.never)
        if on_purpose.term.any():
            self.link.write(term_frames(replies[on_purpose.term]))
        naks = on_purpose.nak[answered]
        confirm = self._confirm_to(int(np.count_nonzero(answered)))
        if answered.any():
            self.link.write(ack_frames(replies[answered], naks, confirm))
        refused = int(np.count_nonzero(naks))
        tally.add("naks_sent_msgs", refused)
        tally.add("acks_sent_msgs", int(np.count_nonzero(answered)) - refused)
        tally.add("terms_sent_msgs", int(np.count_nonzero(on_purpose.term)))
        tally.add("never_acked_msgs", int(np.count_nonzero(on_purpose.never)))

    def _confirm_to(self, count: int) -> np.ndarray | None:
        """Return the subjects confirmations are to come to, when they are asked for."""
        if self.role.acks != "double" or not count:
            return None
        head = np.frombuffer(self._confirm_inbox + b".", np.uint8)
        subjects = np.empty((count, len(head) + SEQ_DIGITS), np.uint8)
        subjects[:, : len(head)] = head
        numbers = np.arange(self._confirms, self._confirms + count)
        write_digits(subjects[:, len(head) :], numbers)
        self._confirms += count
        return subjects

    def _confirmed(self, run: Run, _now_ns: int) -> None:
        self.job.tally.add("acks_confirmed_msgs", len(run))

    def thought(self) -> None:
        """Called when a slow consumer is done with a message."""

    async def _think(self) -> None:
        """Acknowledge one message after the other, as a slow consumer does."""
        while True:
            whole = await self._thinking.get()
            for row in range(len(whole.replies)):
                await asyncio.sleep(self.role.think_s)
                part = slice(row, row + 1)
                if self._acked is not None:
                    self._acknowledge(
                        Deliveries(
                            whole.replies[part],
                            whole.delivered_count[part],
                            whole.stream_seq[part],
                            whole.consumer_seq[part],
                            whole.stored_ns[part],
                        )
                    )
                self.backlog_msgs -= 1
                self.thought()
