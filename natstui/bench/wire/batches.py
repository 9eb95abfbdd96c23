"""Publishers of the batches of ADR-50: atomic ones, stored completely or not at all, and fast
ones.
"""

from __future__ import annotations

import asyncio
import json
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np

from natstui.bench.job.content import MessageContent, SenderSettings
from natstui.bench.job.digits import Int64s, read_digits
from natstui.bench.job.job import Job, Pace, RetryPolicy
from natstui.bench.job.template import SEQ_DIGITS, FramePart, NumberField
from natstui.bench.wire.frames import FrameRun
from natstui.bench.wire.link import WireLink
from natstui.bench.wire.publish import error_code, no_stream_error, refusal_error
from natstui.bench.wire.window import Window
from natstui.model.bench.plan import Role

_PUBLISHER_NAME_CHARS = 8


class BatchPublisher(ABC):
    """The base of `AtomicPublisher` and `FastPublisher`: inbox, retries, errors that end a run."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self.job, self.link = job, link
        # The server reads the name with every message: it is as short as a unique name can be.
        prefix, _, name = link.nc.new_inbox().rpartition(".")
        self.name = name[-_PUBLISHER_NAME_CHARS:]
        """Unique start of the ids of this publisher's batches."""
        self.inbox = f"{prefix}.{self.name}"
        self.timeout_s = job.orders.role.timeout_s
        self._handled_disconnects_count = link.disconnects_count
        self._retry = RetryPolicy(job)

    def should_retry(self, status: int | None, err_code: int | None, count: int) -> bool:
        """Return whether `count` refused messages are sent again, and count them as retried if so.

        `status` is that of the reply without a responder, `err_code` that of JetStream.
        """
        was_connection_lost = self.link.disconnects_count > 0
        return self._retry.should_retry(
            status, err_code, was_connection_lost=was_connection_lost, count=count
        )

    def check_connection(self) -> None:
        """Raise the error of the link, if any.

        Calls `on_connection_lost` if the connection was lost since the last check.
        """
        if self.link.failure.done():
            raise self.link.failure.result()
        if self.link.disconnects_count != self._handled_disconnects_count:
            self._handled_disconnects_count = self.link.disconnects_count
            self.on_connection_lost()

    @abstractmethod
    def on_connection_lost(self) -> None:
        """Count messages without a reply as unanswered, because their connection was lost."""

    def fail_refused(self, status: int | None, reply: bytes, count: int) -> None:
        """Count `count` refused messages, and end the run with the error in the reply."""
        self.job.tally.add("refused_msgs", count)
        subject = self.job.orders.role.subject
        self.link.fail(no_stream_error(subject) if status else refusal_error(reply, subject))


_MAX_ATOMIC_MSGS = 1000
_BATCH_DIGITS = 3
"""Number of digits of batch ids. An id is reused after 1000 batches, when the server has closed
the first one.
"""
_MAX_BATCHES_IN_FLIGHT = 6
"""Limit of batches in flight: others are sent while the server stores one."""


class AtomicPublisher(BatchPublisher):
    """Publishes batches that are stored completely or not at all, a few of them in flight."""

    def __init__(self, job: Job, link: WireLink) -> None:
        super().__init__(job, link)
        role = job.orders.role
        self._max_msgs = min(role.batch_msgs, _MAX_ATOMIC_MSGS)
        self._window = Window(
            job.tally,
            min(max(role.window_msgs, self._max_msgs), _MAX_BATCHES_IN_FLIGHT * self._max_msgs),
        )
        batch_id_header: tuple[FramePart, ...] = (
            f"Nats-Batch-Id: {self.name}".encode(),
            NumberField("batch", _BATCH_DIGITS),
        )
        sequence_digits = len(str(self._max_msgs))
        batch_sequence_header: tuple[FramePart, ...] = (
            b"Nats-Batch-Sequence: ",
            NumberField("in_batch", sequence_digits),
        )
        commit_header: tuple[FramePart, ...] = (b"Nats-Batch-Commit: 1",)
        reply_subject: tuple[FramePart, ...] = (
            self.inbox.encode() + b".",
            NumberField("reply", SEQ_DIGITS),
        )
        self._content = MessageContent(
            job.sender_settings, self._max_msgs, headers=(batch_id_header, batch_sequence_header)
        )
        self._last_content = MessageContent(
            job.sender_settings,
            1,
            reply_subject,
            (batch_id_header, batch_sequence_header, commit_header),
        )
        self._msgs_count_by_last_number: dict[int, int] = {}
        """Number of the last message → size of each open batch."""
        self._refused_last_numbers: list[int] = []
        """Number of the last message of each batch that a restarting server refused; to be sent
        again.
        """
        self._batches_count = 0

    async def begin(self) -> None:
        """Subscribe to the commit acks."""
        await self.link.subscribe(f"{self.inbox}.*", self._on_run)

    async def run(self) -> None:
        """Send the batches by the schedule, then wait for the acks of open ones."""
        pace, window = Pace(self.job), self._window
        while (due_msgs := await pace.next_messages(self._max_msgs)) is not None:
            count = due_msgs.count
            await self._wait_for_room(count)
            now_ns = time.monotonic_ns()
            numbers = window.open(due_msgs.due_ns, now_ns)
            frames, payload_bytes = self._frames(numbers, now_ns)
            self._msgs_count_by_last_number[int(numbers[-1])] = count
            self.link.write(frames)
            self.job.tally.count_sent(count, payload_bytes, now_ns)
            await self.link.drain()
            await asyncio.sleep(0)
        pace.close()
        await window.wait(lambda: not window.open_count, self.timeout_s, self.check_connection)

    async def _wait_for_room(self, count: int) -> None:
        window = self._window
        await window.wait(
            lambda: window.free_count >= count, self.timeout_s, self.check_connection
        )

    def on_connection_lost(self) -> None:
        """Count the messages of open batches as unanswered."""
        self._msgs_count_by_last_number.clear()
        self._window.drop_unanswered()

    def _frames(self, numbers: Int64s, now_ns: int) -> tuple[bytes, int]:
        """Return the frames of a batch with a new id, and the sum of their payload bytes."""
        self._batches_count += 1
        count, due_ns = len(numbers), self._window.due_ns(numbers)
        numbers_by_name = {
            "batch": np.full(count, self._batches_count % 10**_BATCH_DIGITS),
            "in_batch": np.arange(1, count + 1),
        }
        numbers_except_last = {name: column[:-1] for name, column in numbers_by_name.items()}
        frames_except_last, payload_bytes_except_last = self._content.frames(
            int(numbers[0]), due_ns[:-1], now_ns, numbers_except_last
        )
        last_values = {name: column[-1:] for name, column in numbers_by_name.items()} | {
            "reply": numbers[-1:]
        }
        last_frame, last_payload_bytes = self._last_content.frames(
            int(numbers[-1]), due_ns[-1:], now_ns, last_values
        )
        return frames_except_last + last_frame, payload_bytes_except_last + last_payload_bytes

    def _on_run(self, run: FrameRun, now_ns: int) -> None:
        for row, last_number in enumerate(read_digits(run.subjects[:, -SEQ_DIGITS:]).tolist()):
            # A batch whose connection was lost is not in the dictionary any more.
            count = self._msgs_count_by_last_number.pop(last_number, 0)
            numbers = np.arange(last_number - count + 1, last_number + 1)
            reply = run.text(row, run.layout.payload)
            if run.status is None and b'"error"' not in reply:
                self._retry.note_success()
                self._window.close_acked(numbers, now_ns)
            elif not self._schedule_resend(numbers, run.status, reply):
                due_ns, _ = self._window.close(numbers, now_ns)
                self.fail_refused(run.status, reply, len(due_ns))

    def _schedule_resend(self, numbers: Int64s, status: int | None, reply: bytes) -> bool:
        """Keep a refused batch open, and schedule to send it again; return False for a final
        refusal.
        """
        count = len(self._window.select_open(numbers))
        if not count or not self.should_retry(status, error_code(reply), count):
            return False
        if not self._refused_last_numbers:
            asyncio.get_running_loop().call_later(RetryPolicy.RETRY_DELAY_S, self._resend_refused)
        last_number = int(numbers[-1])
        if last_number not in self._refused_last_numbers:
            self._refused_last_numbers.append(last_number)
        self._msgs_count_by_last_number[last_number] = count
        return True

    def _resend_refused(self) -> None:
        """Send refused batches again, except those of a lost connection."""
        last_numbers, self._refused_last_numbers = self._refused_last_numbers, []
        if self.link.failure.done():
            return
        for last_number in last_numbers:
            msgs_count = self._msgs_count_by_last_number.get(last_number, 0)
            numbers = self._window.select_open(
                np.arange(last_number - msgs_count + 1, last_number + 1)
            )
            if len(numbers):
                data, _ = self._frames(numbers, time.monotonic_ns())
                self.link.write(data)


_MAX_FLOW_MSGS = 1000
_MAX_OUTSTANDING_ACKS = 8
"""Limit of outstanding acks of a fast batch: its window has the messages of as many acks."""
_MAX_ACK_INTERVAL_S = 0.05
"""Maximum time from the first to the last due message of one ack, at a low rate."""
_START_OPERATION, _APPEND_OPERATION, _END_OPERATION = 0, 1, 3
_UNKNOWN_BATCH_ERR_CODE = 10208
_NO_REFUSED_NUMBER = 1 << 62


_MIN_SEQUENCE_DIGITS = 4


class _FastBatch:
    """A fast batch: its id, the number of its first message, and what the server has acked."""

    def __init__(
        self, settings: SenderSettings, reply_subject: str, flow_msgs: int, first_number: int
    ) -> None:
        """Create a batch; the last token of `reply_subject` is its id."""
        self.id_token, self.first_number = reply_subject.rpartition(".")[2].encode(), first_number
        self.acked_msgs = 0
        """Messages of the batch that the server acknowledged."""
        self.is_started = False
        """Whether its first message was written."""
        self.is_known_to_server = False
        """Whether the server has replied to its first message."""
        self.is_closed = False
        """Whether the server has closed the batch, or does not know it any more."""
        self._reply_subject_head = f"{reply_subject}.{flow_msgs}.fail."
        role = settings.orders.role
        self._subject = role.subject + (".0" if role.subjects_count > 1 else "")
        self._settings, self._flow_msgs = settings, flow_msgs
        self._sequence_digits = _MIN_SEQUENCE_DIGITS
        self.start_content = MessageContent(
            settings, 1, self._reply_subject_parts(_START_OPERATION)
        )
        self._append_content = MessageContent(
            settings, flow_msgs, self._reply_subject_parts(_APPEND_OPERATION)
        )

    def append_content(self, last_number: int) -> MessageContent:
        """Return the content for messages up to number `last_number`.

        The sequences in their reply subjects have as few digits as possible.
        """
        digits = len(str(last_number - self.first_number + 1))
        if digits > self._sequence_digits:
            self._sequence_digits = digits
            self._append_content = MessageContent(
                self._settings, self._flow_msgs, self._reply_subject_parts(_APPEND_OPERATION)
            )
        return self._append_content

    def _reply_subject_parts(self, operation: int) -> tuple[FramePart, ...]:
        return (
            self._reply_subject_head.encode(),
            NumberField("reply", self._sequence_digits),
            b".%d.$FI" % operation,
        )

    def closing_frame(self, next_number: int) -> bytes:
        """Return the frame that closes the batch without another message."""
        sequence = next_number - self.first_number + 1
        reply = f"{self._reply_subject_head}{sequence}.{_END_OPERATION}.$FI"
        return f"PUB {self._subject} {reply} 0\r\n\r\n".encode()


def _choose_flow_msgs(role: Role) -> int:
    """Return the number of messages per ack of a fast batch: fewer at a low rate."""
    flow_msgs = min(max(role.window_msgs // _MAX_OUTSTANDING_ACKS, 1), _MAX_FLOW_MSGS)
    rates = [
        rate
        for segment in role.schedule
        for rate in (segment.start_per_s, segment.end_per_s)
        if rate
    ]
    if not rates:
        return flow_msgs
    return min(flow_msgs, max(int(min(rates) / role.workers_count * _MAX_ACK_INTERVAL_S), 1))


class FastPublisher(BatchPublisher):
    """Publishes all messages in one fast batch, which the server acks every few messages.

    If the server restarts, or the stream is missing for a moment, the batch is closed, and the
    refused messages are sent again in another batch. Messages without an ack or refusal count as
    unanswered: they may be stored or not.
    """

    def __init__(self, job: Job, link: WireLink) -> None:
        super().__init__(job, link)
        role = job.orders.role
        self._flow_msgs = _choose_flow_msgs(role)
        self._window = Window(job.tally, self._flow_msgs * _MAX_OUTSTANDING_ACKS)
        self._batches_count = 0
        self._batch = self._new_batch(0)
        self._is_closing_batch = False

    def _new_batch(self, first_number: int) -> _FastBatch:
        """Return a new batch whose first message has the number `first_number`."""
        # The last token is the id: of the first batch, nearly always the only one, the inbox.
        reply_subject = (
            f"{self.inbox}.{self.name}{self._batches_count}" if self._batches_count else self.inbox
        )
        self._batches_count += 1
        self._is_batch_broken, self._first_refused_number = False, _NO_REFUSED_NUMBER
        return _FastBatch(self.job.sender_settings, reply_subject, self._flow_msgs, first_number)

    async def begin(self) -> None:
        """Subscribe to the acks."""
        await self.link.subscribe(f"{self.inbox}.>", self._on_run)

    async def run(self) -> None:
        """Open the batch with its first message, add all others by the schedule, and close it."""
        pace, window = Pace(self.job), self._window
        # With smaller writes, the server reads the first while this process creates the next.
        max_msgs = min(self._flow_msgs, self.job.orders.role.batch_msgs)
        while (due_msgs := await pace.next_messages(max_msgs)) is not None:
            await self._wait_for_room(due_msgs.count)
            await self._write(window.open(due_msgs.due_ns, time.monotonic_ns()), is_new=True)
            await self.link.drain()
            await asyncio.sleep(0)
        pace.close()
        await self._end_batch()

    def on_connection_lost(self) -> None:
        """Count the open messages as unanswered, and prepare another batch."""
        self._window.drop_unanswered()
        self._batch = self._new_batch(self._window.next_number)

    async def _wait_for_room(self, count: int) -> None:
        """Wait until `count` more messages may be in flight; replaces a batch that was refused."""
        await self._wait(lambda: self._window.free_count >= count)
        while self._is_batch_broken:
            await self._restart_batch()
            await self._wait(lambda: self._window.free_count >= count)

    async def _wait(self, is_enough: Callable[[], bool]) -> None:
        await self._window.wait(
            lambda: is_enough() or self._is_batch_broken, self.timeout_s, self.check_connection
        )

    async def _write(self, numbers: Int64s, *, is_new: bool) -> None:
        """Write messages to the batch; after its first message, wait for the server's reply.

        `is_new`: they are sent for the first time, and counted as sent.
        """
        batch, remaining_numbers = self._batch, numbers
        if not batch.is_started and len(numbers):
            batch.is_started = True
            self._write_part(batch.start_content, numbers[:1], is_new=is_new)
            remaining_numbers = numbers[1:]
            await self._wait(lambda: batch.is_known_to_server or not self._window.open_count)
        for start in range(0, len(remaining_numbers), self._flow_msgs):
            part_numbers = remaining_numbers[start : start + self._flow_msgs]
            self._write_part(
                batch.append_content(int(part_numbers[-1])), part_numbers, is_new=is_new
            )

    def _write_part(self, content: MessageContent, numbers: Int64s, *, is_new: bool) -> None:
        now_ns = time.monotonic_ns()
        sequences = {"reply": numbers - self._batch.first_number + 1}
        due_ns = self._window.due_ns(numbers)
        data, payload_bytes = content.frames(int(numbers[0]), due_ns, now_ns, sequences)
        self.link.write(data)
        if is_new:
            self.job.tally.count_sent(len(numbers), payload_bytes, now_ns)

    async def _end_batch(self) -> None:
        """Close the batch, and wait for its last ack."""
        self._is_closing_batch = True
        while self._batch.is_started and not self._batch.is_closed:
            self.link.write(self._batch.closing_frame(self._window.next_number))
            await self._wait(lambda: not self._window.open_count)
            if not self._is_batch_broken:
                return
            await self._restart_batch()

    async def _restart_batch(self) -> None:
        """Close the broken batch, and send its refused messages again in another one.

        Its other open messages count as unanswered.
        """
        batch, window = self._batch, self._window
        while not batch.is_closed and batch is self._batch:
            if self.job.stopping.is_set():
                self.on_connection_lost()
                return
            await self.job.sleep(RetryPolicy.RETRY_DELAY_S)
            await self.link.drain()
            self.check_connection()
            if not batch.is_closed and batch is self._batch:
                self.link.write(
                    batch.closing_frame(min(self._first_refused_number, window.next_number))
                )
        if batch is not self._batch:
            return
        first_open_number = batch.first_number + batch.acked_msgs
        open_numbers = window.select_open(np.arange(first_open_number, window.next_number))
        refused_numbers = open_numbers[open_numbers >= self._first_refused_number]
        window.close_unanswered(
            open_numbers[open_numbers < self._first_refused_number], time.monotonic_ns()
        )
        self.job.tally.add("retried_msgs", len(refused_numbers))
        self._batch = self._new_batch(
            int(refused_numbers[0]) if len(refused_numbers) else window.next_number
        )
        await self._write(refused_numbers, is_new=False)

    def _on_run(self, run: FrameRun, now_ns: int) -> None:
        for row in range(len(run)):
            # Id, flow, "fail", sequence in the batch, operation, "$FI".
            tokens = run.text(row, run.layout.subject).split(b".")
            if tokens[-6] != self._batch.id_token:
                continue
            payload = run.text(row, run.layout.payload)
            reply = {} if run.status else json.loads(payload or b"{}")
            if run.status is not None or "error" in reply:
                if not self._on_refusal(int(tokens[-3]), run.status, payload, now_ns):
                    return
            elif reply.get("type") != "gap":
                # After a gap the server closes the batch, and acks the messages that it stored.
                self._count_ack(reply, now_ns)
        # The first reply acks no message: it only opens the batch.
        self._window.wake()

    def _count_ack(self, reply: dict[str, Any], now_ns: int) -> None:
        """Count the messages that an ack newly acknowledges; the last ack closes the batch."""
        batch = self._batch
        self._retry.note_success()
        batch.is_known_to_server = True
        is_last_ack = "stream" in reply
        acked_msgs = reply.get("count", batch.acked_msgs) if is_last_ack else reply["seq"]
        if acked_msgs > batch.acked_msgs:
            numbers = np.arange(
                batch.first_number + batch.acked_msgs, batch.first_number + acked_msgs
            )
            batch.acked_msgs = acked_msgs
            self._window.close_acked(numbers, now_ns)
        if is_last_ack:
            batch.is_closed = True
            self._first_refused_number = min(
                self._first_refused_number, batch.first_number + batch.acked_msgs
            )
            is_all_acked = batch.first_number + batch.acked_msgs == self._window.next_number
            self._is_batch_broken = not (self._is_closing_batch and is_all_acked)

    def _on_refusal(self, sequence: int, status: int | None, reply: bytes, now_ns: int) -> bool:
        """Mark the messages from batch sequence `sequence` on to be sent again in another batch.

        If the refusal is final, count them as refused, end the run and return False.
        """
        batch, window, err_code = self._batch, self._window, error_code(reply)
        refused_number = batch.first_number + sequence - 1
        first_open_number = batch.first_number + batch.acked_msgs
        open_numbers = window.select_open(np.arange(first_open_number, window.next_number))
        if self.should_retry(status, err_code, 0):
            self._first_refused_number = min(self._first_refused_number, refused_number)
            batch.is_closed = batch.is_closed or err_code == _UNKNOWN_BATCH_ERR_CODE
            self._is_batch_broken = True
            return True
        window.close(open_numbers, now_ns)
        self.fail_refused(status, reply, len(open_numbers))
        return False
