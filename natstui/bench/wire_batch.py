"""Batches of publishes with the wire client: atomic (all or nothing) and fast (flow-controlled).

An atomic batch is stored at its commit; a fast batch stores each message as it comes, and the
server acknowledges every so many. The words of both are the server's (ADR-50).
"""

from __future__ import annotations

import asyncio
import json
import time

import numpy as np

from natstui.bench.content import Content
from natstui.bench.digits import read_digits
from natstui.bench.frames import Run
from natstui.bench.job import Due, Job, Pace
from natstui.bench.link import WireLink
from natstui.bench.template import SEQ_DIGITS, Part
from natstui.bench.window import Window
from natstui.bench.wire_publish import no_stream, refusal

_ATOMIC_MOST_MSGS = 1000
_SEQ_IN_BATCH = 4
_FLOW_MOST_MSGS = 500
_FLOWS = 3
"""How many acknowledgements of a fast batch may be outstanding."""
_START, _APPEND, _END = 0, 1, 3


class _Batching:
    """What both kinds share: a window, an inbox, a way to fail."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self.job, self.link = job, link
        self.inbox = link.nc.new_inbox()
        self.timeout_s = job.orders.role.timeout_s
        self._lost_count = link.lost_count

    async def room_for(self, window: Window, count: int) -> None:
        """Wait until so many more messages may be in flight."""
        await window.wait(lambda: window.room >= count, self.timeout_s, self.check)

    async def all_answered(self, window: Window) -> None:
        """Wait until nothing is in flight."""
        await window.wait(lambda: not window.open_count, self.timeout_s, self.check)

    def check(self) -> None:
        """Raise what failed on the link meanwhile; a lost connection loses the open batch."""
        if self.link.failure.done():
            raise self.link.failure.result()
        if self.link.lost_count != self._lost_count:
            self._lost_count = self.link.lost_count
            self.lost()

    def lost(self) -> None:
        """Take note that nothing sent so far will be answered any more."""
        raise NotImplementedError

    def refused(self, run: Run, count: int) -> None:
        """Count refused messages and end the run with the reason."""
        self.job.tally.add("refused_msgs", count)
        subject = self.job.orders.role.subject
        answer = run.text(0, run.layout.payload)
        self.link.fail(no_stream(subject) if run.status else refusal(answer, subject))


class AtomicPublisher(_Batching):
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
        head, size_bytes = self._body.rows(due.first, due.due_ns, now_ns, values)
        data = head[:-1].tobytes()
        last = {name: column[-1:] for name, column in values.items()} | {"reply": numbers[-1:]}
        tail, _ = self._last.rows(due.first + count - 1, due.due_ns[-1:], now_ns, last)
        self._sizes[int(numbers[-1])] = count
        self.link.write(data + tail.tobytes())
        self.job.tally.sent(count, size_bytes, now_ns)

    def _on_run(self, run: Run, now_ns: int) -> None:
        for row, last in enumerate(read_digits(run.subjects[:, -SEQ_DIGITS:]).tolist()):
            count = self._sizes.pop(last)
            numbers = np.arange(last - count + 1, last + 1)
            if run.status is not None or b'"error"' in run.text(row, run.layout.payload):
                self._window.close(numbers, now_ns)
                self.refused(run, count)
            else:
                self._window.acked(numbers, now_ns)


class FastPublisher(_Batching):
    """Publishes one endless batch; the server says how often it acknowledges."""

    def __init__(self, job: Job, link: WireLink) -> None:
        super().__init__(job, link)
        role = job.orders.role
        self._flow = min(max(role.window_msgs // _FLOWS, 1), _FLOW_MOST_MSGS)
        self._window = Window(job.tally, self._flow * _FLOWS)
        self._name = f"{job.orders.run_id}{job.orders.publisher_id:05}"
        self._acked = 0
        """Messages of the batch the server acknowledged."""
        self._is_open = False
        self._first = self._content(_START, 1)
        self._next = self._content(_APPEND, self._flow)

    def _content(self, operation: int, most: int) -> Content:
        head = f"{self.inbox}.{self._name}.{self._flow}.fail.".encode()
        reply: tuple[Part, ...] = (head, ("reply", SEQ_DIGITS), b".%d.$FI" % operation)
        return Content(self.job.orders, most, reply)

    async def begin(self) -> None:
        """Listen for the acknowledgements."""
        await self.link.subscribe(f"{self.inbox}.>", self._on_run)

    async def run(self) -> None:
        """Open the batch with its first message, add all others, end it."""
        pace, sent = Pace(self.job), 0
        while (due := await pace.take(self._flow if sent else 1)) is not None:
            await self.room_for(self._window, due.count)
            self._send(self._next if sent else self._first, due)
            await self.link.drain()
            # The batch exists once the server has answered its first message.
            await (asyncio.sleep(0) if sent else self._opened())
            sent += due.count
        pace.close()
        if sent:
            await self._end(sent)

    def lost(self) -> None:
        """Give up what is open."""
        self._window.give_up()

    async def _opened(self) -> None:
        await self._window.wait(
            lambda: self._is_open or not self._window.open_count, self.timeout_s, self.check
        )

    def _send(self, content: Content, due: Due) -> None:
        now_ns = time.monotonic_ns()
        numbers = self._window.open(due.due_ns, now_ns) + 1
        rows, size_bytes = content.rows(due.first, due.due_ns, now_ns, {"reply": numbers})
        self.link.write(rows.tobytes())
        self.job.tally.sent(due.count, size_bytes, now_ns)

    async def _end(self, sent: int) -> None:
        """Close the batch without another message, and wait for its last acknowledgement."""
        orders = self.job.orders
        subject = orders.role.subject + (".0" if orders.role.subjects_count > 1 else "")
        head = f"{self.inbox}.{self._name}.{self._flow}.fail"
        reply = f"{head}.{sent + 1:0{SEQ_DIGITS}}.{_END}.$FI"
        self.link.write(f"PUB {subject} {reply} 0\r\n\r\n".encode())
        await self.all_answered(self._window)

    def _on_run(self, run: Run, now_ns: int) -> None:
        for row in range(len(run)):
            answer = {} if run.status else json.loads(run.text(row, run.layout.payload) or b"{}")
            if run.status is not None or "error" in answer:
                self.refused(run, self._window.open_count)
                self._window.close(np.arange(self._acked, self._window.next_number), now_ns)
                return
            self._is_open = True
            upto = answer.get("count", self._acked) if "stream" in answer else answer["seq"]
            if upto > self._acked:
                self._window.acked(np.arange(self._acked, upto), now_ns)
                self._acked = upto
