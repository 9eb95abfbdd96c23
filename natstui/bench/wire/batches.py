"""Publish batches of ADR-50: atomic ones, stored completely or not at all, and fast ones."""

from __future__ import annotations

import asyncio
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from natstui.bench.job.content import Content, SenderSettings
from natstui.bench.job.digits import Int64s, read_digits
from natstui.bench.job.job import Job, Pace, RetryPolicy
from natstui.bench.job.template import SEQ_DIGITS, Part
from natstui.bench.wire.frames import Run
from natstui.bench.wire.link import WireLink
from natstui.bench.wire.publish import error_code, no_stream, refusal
from natstui.bench.wire.window import Window
from natstui.model.bench.plan import Role

_NAME_CHARS = 8


class Batching(ABC):
    """Shared parts of both kinds: an inbox, retries, and failing the run."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self.job, self.link = job, link
        # The server reads it with every message: as short as is surely ours alone.
        prefix, _, name = link.nc.new_inbox().rpartition(".")
        self.name = name[-_NAME_CHARS:]
        """Unique token for the id of a batch."""
        self.inbox = f"{prefix}.{self.name}"
        self.timeout_s = job.orders.role.timeout_s
        self._lost_count = link.lost_count
        self._retry = RetryPolicy(job)

    def should_retry(self, status: int | None, err_code: int | None, count: int) -> bool:
        """Return whether `count` refused messages are sent again, and count them as retried if so.

        `status` is that of the reply without a responder, `err_code` that of JetStream.
        """
        was_lost = self.link.lost_count > 0
        return self._retry.should_retry(status, err_code, was_lost=was_lost, count=count)

    def check(self) -> None:
        """Raise the error of the link, if any; give up what was sent on a lost connection."""
        if self.link.failure.done():
            raise self.link.failure.result()
        if self.link.lost_count != self._lost_count:
            self._lost_count = self.link.lost_count
            self.lost()

    @abstractmethod
    def lost(self) -> None:
        """Give up what was sent on a lost connection: it will get no reply."""

    def refused(self, status: int | None, reply: bytes, count: int) -> None:
        """Count refused messages, and end the run with the reason in the reply."""
        self.job.tally.add("refused_msgs", count)
        subject = self.job.orders.role.subject
        self.link.fail(no_stream(subject) if status else refusal(reply, subject))


_ATOMIC_MOST_MSGS = 1000
_BATCH_DIGITS = 3
"""Digits of batch ids, which are reused after that many: the server has forgotten them by then."""
_IN_FLIGHT = 6
"""Batches in flight: others are sent while the server stores one."""


class AtomicPublisher(Batching):
    """Publishes batches that are stored completely or not at all, a few of them in flight."""

    def __init__(self, job: Job, link: WireLink) -> None:
        super().__init__(job, link)
        role = job.orders.role
        self._most = min(role.batch_msgs, _ATOMIC_MOST_MSGS)
        self._window = Window(
            job.tally, min(max(role.window_msgs, self._most), _IN_FLIGHT * self._most)
        )
        batch: tuple[Part, ...] = (
            f"Nats-Batch-Id: {self.name}".encode(),
            ("batch", _BATCH_DIGITS),
        )
        digits = len(str(self._most))
        number: tuple[Part, ...] = (b"Nats-Batch-Sequence: ", ("in_batch", digits))
        commit: tuple[Part, ...] = (b"Nats-Batch-Commit: 1",)
        reply: tuple[Part, ...] = (self.inbox.encode() + b".", ("reply", SEQ_DIGITS))
        self._body = Content(job.sending, self._most, headers=(batch, number))
        self._last = Content(job.sending, 1, reply, (batch, number, commit))
        self._sizes: dict[int, int] = {}
        """Number of the last message → size of each open batch."""
        self._again: list[int] = []
        """Batches refused by a restarting server; they are still open."""
        self._batches = 0

    async def begin(self) -> None:
        """Subscribe to the commit acks."""
        await self.link.subscribe(f"{self.inbox}.*", self._on_run)

    async def run(self) -> None:
        """Send batch after batch by the schedule, then wait for the acks of open ones."""
        pace, window = Pace(self.job), self._window
        while (due_msgs := await pace.next_messages(self._most)) is not None:
            count = due_msgs.count
            await self._room_for(count)
            now_ns = time.monotonic_ns()
            numbers = window.open(due_msgs.due_ns, now_ns)
            data, payload_bytes = self._frames(numbers, now_ns)
            self._sizes[int(numbers[-1])] = count
            self.link.write(data)
            self.job.tally.sent(count, payload_bytes, now_ns)
            await self.link.drain()
            await asyncio.sleep(0)
        pace.close()
        await window.wait(lambda: not window.open_count, self.timeout_s, self.check)

    async def _room_for(self, count: int) -> None:
        window = self._window
        await window.wait(lambda: window.room >= count, self.timeout_s, self.check)

    def lost(self) -> None:
        """Count the messages of open batches as unanswered."""
        self._sizes.clear()
        self._window.give_up()

    def _frames(self, numbers: Int64s, now_ns: int) -> tuple[bytes, int]:
        """Return the frames of a batch with its own id, and their payload bytes."""
        self._batches += 1
        count, due_ns = len(numbers), self._window.due_ns(numbers)
        values = {
            "batch": np.full(count, self._batches % 10**_BATCH_DIGITS),
            "in_batch": np.arange(1, count + 1),
        }
        rest_values = {name: column[:-1] for name, column in values.items()}
        head, head_bytes = self._body.frames(int(numbers[0]), due_ns[:-1], now_ns, rest_values)
        last = {name: column[-1:] for name, column in values.items()} | {"reply": numbers[-1:]}
        tail, tail_bytes = self._last.frames(int(numbers[-1]), due_ns[-1:], now_ns, last)
        return head + tail, head_bytes + tail_bytes

    def _on_run(self, run: Run, now_ns: int) -> None:
        for row, last in enumerate(read_digits(run.subjects[:, -SEQ_DIGITS:]).tolist()):
            # Nothing is known any more of a batch that was given up with its connection.
            count = self._sizes.pop(last, 0)
            numbers = np.arange(last - count + 1, last + 1)
            reply = run.text(row, run.layout.payload)
            if run.status is None and b'"error"' not in reply:
                self._retry.succeeded()
                self._window.acked(numbers, now_ns)
            elif not self._send_again(numbers, run.status, reply):
                due_ns, _ = self._window.close(numbers, now_ns)
                self.refused(run.status, reply, len(due_ns))

    def _send_again(self, numbers: Int64s, status: int | None, reply: bytes) -> bool:
        """Keep a refused batch open and send it again soon; returns False for a final refusal."""
        count = len(self._window.open_among(numbers))
        if not count or not self.should_retry(status, error_code(reply), count):
            return False
        if not self._again:
            asyncio.get_running_loop().call_later(RetryPolicy.AGAIN_S, self._write_again)
        last = int(numbers[-1])
        if last not in self._again:
            self._again.append(last)
        self._sizes[last] = count
        return True

    def _write_again(self) -> None:
        """Send refused batches again; those of a lost connection were dropped."""
        lasts, self._again = self._again, []
        if self.link.failure.done():
            return
        for last in lasts:
            size = self._sizes.get(last, 0)
            numbers = self._window.open_among(np.arange(last - size + 1, last + 1))
            if len(numbers):
                data, _ = self._frames(numbers, time.monotonic_ns())
                self.link.write(data)


_FLOW_MOST_MSGS = 1000
_FLOWS = 8
"""Limit of outstanding acks of a fast batch."""
_FLOW_S = 0.05
"""Maximum time from the first to the last due message of one ack, at a low rate."""
_START, _APPEND, _END = 0, 1, 3
_UNKNOWN_BATCH = 10208
_NONE = 1 << 62


_LEAST_DIGITS = 4


class _FastBatch:
    """One batch: its id, the number of its first message, and the server's replies."""

    def __init__(self, sending: SenderSettings, reply_subject: str, flow: int, first: int) -> None:
        """Create a batch; the last token of `reply_subject` is its id."""
        self.name, self.first = reply_subject.rpartition(".")[2].encode(), first
        self.acked = 0
        """Messages of the batch that the server acknowledged."""
        self.is_begun = False
        """Whether its first message was written."""
        self.is_open = False
        """Whether the server knows it."""
        self.is_over = False
        """Whether the server has closed or forgotten it."""
        self._head = f"{reply_subject}.{flow}.fail."
        role = sending.orders.role
        self._subject = role.subject + (".0" if role.subjects_count > 1 else "")
        self._sending, self._flow = sending, flow
        self._digits = _LEAST_DIGITS
        self.start = Content(sending, 1, self._reply(_START))
        self._append = Content(sending, flow, self._reply(_APPEND))

    def append(self, last: int) -> Content:
        """Return the content of messages up to this number: sequence fields are no longer than
        needed.
        """
        digits = len(str(last - self.first + 1))
        if digits > self._digits:
            self._digits = digits
            self._append = Content(self._sending, self._flow, self._reply(_APPEND))
        return self._append

    def _reply(self, operation: int) -> tuple[Part, ...]:
        return (self._head.encode(), ("reply", self._digits), b".%d.$FI" % operation)

    def end(self, next_number: int) -> bytes:
        """Return the frame that closes the batch without another message."""
        sequence = next_number - self.first + 1
        reply = f"{self._head}{sequence}.{_END}.$FI"
        return f"PUB {self._subject} {reply} 0\r\n\r\n".encode()


def _flow_msgs(role: Role) -> int:
    """Return the number of messages per ack of the server; smaller at a low rate."""
    flow = min(max(role.window_msgs // _FLOWS, 1), _FLOW_MOST_MSGS)
    rates = [
        rate
        for segment in role.schedule
        for rate in (segment.start_per_s, segment.end_per_s)
        if rate
    ]
    if not rates:
        return flow
    return min(flow, max(int(min(rates) / role.workers_count * _FLOW_S), 1))


class FastPublisher(Batching):
    """Publishes an endless batch, with acks at an interval chosen by the server.

    A restart of the server, or a short absence of the stream, ends the batch. Messages that were
    refused then are sent again in another batch. Messages without an ack or refusal may be stored
    or not: they count as unanswered.
    """

    def __init__(self, job: Job, link: WireLink) -> None:
        super().__init__(job, link)
        role = job.orders.role
        self._flow = _flow_msgs(role)
        self._window = Window(job.tally, self._flow * _FLOWS)
        self._batches = 0
        self._batch = self._new_batch(0)
        self._is_ending = False

    def _new_batch(self, first: int) -> _FastBatch:
        """Return a batch that starts with this message."""
        # The last token is the id: of the first batch, nearly always the only one, the inbox.
        reply_subject = f"{self.inbox}.{self.name}{self._batches}" if self._batches else self.inbox
        self._batches += 1
        self._is_broken, self._refused_from = False, _NONE
        return _FastBatch(self.job.sending, reply_subject, self._flow, first)

    async def begin(self) -> None:
        """Subscribe to the acks."""
        await self.link.subscribe(f"{self.inbox}.>", self._on_run)

    async def run(self) -> None:
        """Open the batch with its first message, add all others, end it."""
        pace, window = Pace(self.job), self._window
        # In smaller writes the server is busy with the first while we make the next.
        max_msgs = min(self._flow, self.job.orders.role.batch_msgs)
        while (due_msgs := await pace.next_messages(max_msgs)) is not None:
            await self._room_for(due_msgs.count)
            await self._write(window.open(due_msgs.due_ns, time.monotonic_ns()), is_new=True)
            await self.link.drain()
            await asyncio.sleep(0)
        pace.close()
        await self._end()

    def lost(self) -> None:
        """Count the open messages as unanswered; the next connection starts another batch."""
        self._window.give_up()
        self._batch = self._new_batch(self._window.next_number)

    async def _room_for(self, count: int) -> None:
        """Wait until `count` more messages may be in flight, in an unbroken batch."""
        await self._wait(lambda: self._window.room >= count)
        while self._is_broken:
            await self._begin_again()
            await self._wait(lambda: self._window.room >= count)

    async def _wait(self, enough: Callable[[], bool]) -> None:
        await self._window.wait(lambda: enough() or self._is_broken, self.timeout_s, self.check)

    async def _write(self, numbers: Int64s, *, is_new: bool) -> None:
        """Write messages to the batch; the first one waits for the server's reply."""
        batch, remaining = self._batch, numbers
        if not batch.is_begun and len(numbers):
            batch.is_begun = True
            self._put(batch.start, numbers[:1], is_new=is_new)
            remaining = numbers[1:]
            await self._wait(lambda: batch.is_open or not self._window.open_count)
        for start in range(0, len(remaining), self._flow):
            part = remaining[start : start + self._flow]
            self._put(batch.append(int(part[-1])), part, is_new=is_new)

    def _put(self, content: Content, numbers: Int64s, *, is_new: bool) -> None:
        now_ns = time.monotonic_ns()
        sequences = {"reply": numbers - self._batch.first + 1}
        due_ns = self._window.due_ns(numbers)
        data, payload_bytes = content.frames(int(numbers[0]), due_ns, now_ns, sequences)
        self.link.write(data)
        if is_new:
            self.job.tally.sent(len(numbers), payload_bytes, now_ns)

    async def _end(self) -> None:
        """Close the batch, and wait for its last ack."""
        self._is_ending = True
        while self._batch.is_begun and not self._batch.is_over:
            self.link.write(self._batch.end(self._window.next_number))
            await self._wait(lambda: not self._window.open_count)
            if not self._is_broken:
                return
            await self._begin_again()

    async def _begin_again(self) -> None:
        """Close the broken batch, and send refused messages again in another one."""
        batch, window = self._batch, self._window
        while not batch.is_over and batch is self._batch:
            if self.job.stopping.is_set():
                self.lost()
                return
            await self.job.sleep(RetryPolicy.AGAIN_S)
            await self.link.drain()
            self.check()
            if not batch.is_over and batch is self._batch:
                self.link.write(batch.end(min(self._refused_from, window.next_number)))
        if batch is not self._batch:
            return
        open_numbers = window.open_among(np.arange(batch.first + batch.acked, window.next_number))
        resent = open_numbers[open_numbers >= self._refused_from]
        window.unanswered(open_numbers[open_numbers < self._refused_from], time.monotonic_ns())
        self.job.tally.add("retried_msgs", len(resent))
        self._batch = self._new_batch(int(resent[0]) if len(resent) else window.next_number)
        await self._write(resent, is_new=False)

    def _on_run(self, run: Run, now_ns: int) -> None:
        for row in range(len(run)):
            # Id, flow, "fail", place in the batch, operation, "$FI".
            tokens = run.text(row, run.layout.subject).split(b".")
            if tokens[-6] != self._batch.name:
                continue
            payload = run.text(row, run.layout.payload)
            reply = {} if run.status else json.loads(payload or b"{}")
            if run.status is not None or "error" in reply:
                if not self._refused_at(int(tokens[-3]), run.status, payload, now_ns):
                    return
            elif reply.get("type") != "gap":
                # After a gap the server closes the batch, and says what it has of it.
                self._take(reply, now_ns)
        # The first answer acknowledges nothing: it only says that the batch is open.
        self._window.wake()

    def _take(self, reply: dict[str, Any], now_ns: int) -> None:
        """Handle an ack: of some messages, or the last one of the batch."""
        batch = self._batch
        self._retry.succeeded()
        batch.is_open = True
        is_last = "stream" in reply
        upto = reply.get("count", batch.acked) if is_last else reply["seq"]
        if upto > batch.acked:
            numbers = np.arange(batch.first + batch.acked, batch.first + upto)
            batch.acked = upto
            self._window.acked(numbers, now_ns)
        if is_last:
            batch.is_over = True
            self._refused_from = min(self._refused_from, batch.first + batch.acked)
            is_complete = batch.first + batch.acked == self._window.next_number
            self._is_broken = not (self._is_ending and is_complete)

    def _refused_at(self, sequence: int, status: int | None, reply: bytes, now_ns: int) -> bool:
        """Handle a refusal; returns False for a final one, which ends the run."""
        batch, window, err_code = self._batch, self._window, error_code(reply)
        number = batch.first + sequence - 1
        # A refusal is a sign of life, too.
        open_numbers = window.open_among(np.arange(batch.first + batch.acked, window.next_number))
        if self.should_retry(status, err_code, 0):
            self._refused_from = min(self._refused_from, number)
            batch.is_over = batch.is_over or err_code == _UNKNOWN_BATCH
            self._is_broken = True
            return True
        window.close(open_numbers, now_ns)
        self.refused(status, reply, len(open_numbers))
        return False
