"""Fast batches with the wire client: stored as they come, acknowledged every so many (ADR-50)."""

from __future__ import annotations

import asyncio
import json
import time

import numpy as np

from natstui.bench.batching import Batching
from natstui.bench.content import Content
from natstui.bench.frames import Run
from natstui.bench.job import Due, Job, Pace
from natstui.bench.link import WireLink
from natstui.bench.template import SEQ_DIGITS, Part
from natstui.bench.window import Window

_FLOW_MOST_MSGS = 500
_FLOWS = 3
"""How many acknowledgements of a fast batch may be outstanding."""
_START, _APPEND, _END = 0, 1, 3


class FastPublisher(Batching):
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
        data, payload_bytes = content.frames(due.first, due.due_ns, now_ns, {"reply": numbers})
        self.link.write(data)
        self.job.tally.sent(due.count, payload_bytes, now_ns)

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
