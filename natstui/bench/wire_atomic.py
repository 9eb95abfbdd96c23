"""Atomic batches with the wire client: stored whole, at their commit, or not at all (ADR-50)."""

from __future__ import annotations

import asyncio
import time

import numpy as np

from natstui.bench.batching import Batching
from natstui.bench.content import Content
from natstui.bench.digits import read_digits
from natstui.bench.frames import Run
from natstui.bench.job import Due, Job, Pace
from natstui.bench.link import WireLink
from natstui.bench.template import SEQ_DIGITS, Part
from natstui.bench.window import Window

_ATOMIC_MOST_MSGS = 1000
_SEQ_IN_BATCH = 4


class AtomicPublisher(Batching):
    """Publishes batches that are stored whole or not at all, two of them in flight."""

    def __init__(self, job: Job, link: WireLink) -> None:
        super().__init__(job, link)
        role = job.orders.role
        self._most = min(role.batch_msgs, _ATOMIC_MOST_MSGS)
        self._window = Window(job.tally, max(role.window_msgs, self._most))
        batch: tuple[Part, ...] = (
            f"Nats-Batch-Id: {job.orders.run_id}-{job.orders.publisher_id}-".encode(),
            ("batch", SEQ_DIGITS),
        )
        number: tuple[Part, ...] = (b"Nats-Batch-Sequence: ", ("in_batch", _SEQ_IN_BATCH))
        commit: tuple[Part, ...] = (b"Nats-Batch-Commit: 1",)
        reply: tuple[Part, ...] = (self.inbox.encode() + b".", ("reply", SEQ_DIGITS))
        self._body = Content(job.orders, self._most, headers=(batch, number))
        self._last = Content(job.orders, 1, reply, (batch, number, commit))
        self._sizes: dict[int, int] = {}
        self._batches = 0

    async def begin(self) -> None:
        """Listen for the commits."""
        await self.link.subscribe(f"{self.inbox}.*", self._on_run)

    async def run(self) -> None:
        """Send batch after batch."""
        pace = Pace(self.job)
        while (due := await pace.take(self._most)) is not None:
            await self.room_for(self._window, due.count)
            self._send(due)
            await self.link.drain()
            await asyncio.sleep(0)
        pace.close()
        await self.all_answered(self._window)

    def lost(self) -> None:
        """Give up what is open."""
        self._sizes.clear()
        self._window.give_up()

    def _send(self, due: Due) -> None:
        now_ns = time.monotonic_ns()
        numbers = self._window.open(due.due_ns, now_ns)
        self._batches += 1
        count = due.count
        values = {
            "batch": np.full(count, self._batches),
            "in_batch": np.arange(1, count + 1),
        }
        rest = {name: column[:-1] for name, column in values.items()}
        head, head_bytes = self._body.frames(due.first, due.due_ns[:-1], now_ns, rest)
        last = {name: column[-1:] for name, column in values.items()} | {"reply": numbers[-1:]}
        tail, tail_bytes = self._last.frames(due.first + count - 1, due.due_ns[-1:], now_ns, last)
        self._sizes[int(numbers[-1])] = count
        self.link.write(head + tail)
        self.job.tally.sent(count, head_bytes + tail_bytes, now_ns)

    def _on_run(self, run: Run, now_ns: int) -> None:
        for row, last in enumerate(read_digits(run.subjects[:, -SEQ_DIGITS:]).tolist()):
            # Nothing is known any more of a batch that was given up with its connection.
            count = self._sizes.pop(last, 0)
            numbers = np.arange(last - count + 1, last + 1)
            if run.status is not None or b'"error"' in run.text(row, run.layout.payload):
                due_ns, _ = self._window.close(numbers, now_ns)
                self.refused(run, len(due_ns))
            else:
                self._window.acked(numbers, now_ns)
