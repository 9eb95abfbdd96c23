"""Publishers of the wire client: core messages in blocks, and JetStream ones with a window of
acks.
"""

from __future__ import annotations

import asyncio
import json
import time

import numpy as np

from natstui.bench.job.content import MessageContent
from natstui.bench.job.digits import Int64s, are_digits, read_digits
from natstui.bench.job.job import DueMessages, Job, Pace, RetryPolicy
from natstui.bench.job.template import SEQ_DIGITS, NumberField
from natstui.bench.wire.frames import FrameRun
from natstui.bench.wire.link import WireLink
from natstui.bench.wire.window import Window
from natstui.errors import RequestFailed

_BLOCK_BYTES = 96 * 1024
"""Size of a block: large enough to make writes cheap, small enough to stay in the cache."""


def refusal_error(reply: bytes, subject: str) -> RequestFailed:
    """Return the error of a publish ack in which the server refuses a message to `subject`."""
    error = json.loads(reply).get("error", {})
    return RequestFailed(
        f'the server refused a message to "{subject}": {error.get("description", "no reason")}',
        code=error.get("code"),
        err_code=error.get("err_code"),
    )


def error_code(reply: bytes) -> int | None:
    """Return the error code of JetStream in a reply; None without one."""
    error = json.loads(reply).get("error") if b'"error"' in reply else None
    return error.get("err_code") if isinstance(error, dict) else None


def no_stream_error(subject: str) -> RequestFailed:
    """Return the error for a subject that no stream stores."""
    return RequestFailed(f'no stream stores "{subject}"', code=503)


class CorePublisher:
    """Publishes core messages in blocks, without acks."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self._job, self._link = job, link

    async def begin(self) -> None:
        """Do nothing: there is no subscription."""

    async def run(self) -> None:
        """Send blocks of messages when they are due."""
        job, link = self._job, self._link
        content, pace = MessageContent(job.sender_settings, job.orders.role.batch_msgs), Pace(job)
        while (due_msgs := await pace.next_messages(max_block_msgs(job))) is not None:
            data, payload_bytes = content.frames(
                due_msgs.first_number, due_msgs.due_ns, due_msgs.now_ns
            )
            link.write(data)
            job.tally.count_sent(due_msgs.count, payload_bytes, due_msgs.now_ns)
            await link.drain()
            await asyncio.sleep(0)
        pace.close()
        # What is only in our buffers is not sent yet.
        await link.flush(job.orders.role.timeout_s)
        if job.tally.last_sent_ns:
            job.tally.last_sent_ns = time.monotonic_ns()


def max_block_msgs(job: Job) -> int:
    """Return the maximum of messages in a block: about 96 KiB, and at most a batch of the role."""
    payload = job.sender_settings.orders.role.payload
    size_bytes = payload.size_max_bytes or payload.size_bytes
    return max(min(job.orders.role.batch_msgs, _BLOCK_BYTES // (size_bytes + 40)), 1)


class AsyncPublisher:
    """Publishes to a stream with many messages in flight, each with its own reply subject."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self._job, self._link = job, link
        role = job.orders.role
        self._max_msgs = max(min(role.window_msgs // 2, role.batch_msgs, 1000), 1)
        self._inbox = link.nc.new_inbox().encode()
        self._window = Window(job.tally, role.window_msgs)
        reply = (self._inbox + b".", NumberField("reply", SEQ_DIGITS))
        self._content = MessageContent(job.sender_settings, self._max_msgs, reply)
        self._handled_disconnects_count = link.disconnects_count
        self._retry = RetryPolicy(job)
        self._refused_numbers: dict[int, None] = {}
        """Numbers of the messages that a restarting server refused, to be sent again."""

    async def begin(self) -> None:
        """Subscribe to the acks."""
        await self._link.subscribe(f"{self._inbox.decode()}.*", self._on_run)

    async def run(self) -> None:
        """Send all messages, then wait for the acks of open ones."""
        pace, timeout_s = Pace(self._job), self._job.orders.role.timeout_s
        while (
            due_msgs := await pace.next_messages(
                min(self._max_msgs, max(self._window.free_count, 1))
            )
        ) is not None:
            await self._wait_for_room(due_msgs.count)
            await self._send(due_msgs)
            await self._wait_for_room(min(self._max_msgs, self._window.open_count))
        pace.close()
        await self._window.wait(
            lambda: not self._window.open_count, timeout_s, self._check_connection
        )

    async def _wait_for_room(self, count: int) -> None:
        timeout_s = self._job.orders.role.timeout_s
        await self._window.wait(
            lambda: self._window.free_count >= count, timeout_s, self._check_connection
        )

    async def _send(self, due_msgs: DueMessages) -> None:
        now_ns = time.monotonic_ns()
        numbers = self._window.open(due_msgs.due_ns, now_ns)
        data, payload_bytes = self._content.frames(
            due_msgs.first_number, due_msgs.due_ns, now_ns, {"reply": numbers}
        )
        self._link.write(data)
        self._job.tally.count_sent(due_msgs.count, payload_bytes, now_ns)
        await self._link.drain()
        await asyncio.sleep(0)

    def _check_connection(self) -> None:
        if self._link.failure.done():
            raise self._link.failure.result()
        if self._link.disconnects_count != self._handled_disconnects_count:
            self._handled_disconnects_count = self._link.disconnects_count
            self._window.drop_unanswered()

    def _on_run(self, run: FrameRun, now_ns: int) -> None:
        numbers = read_digits(run.subjects[:, -SEQ_DIGITS:])
        payloads = run.payloads
        equal_bytes_mask = (payloads == payloads[0]) | (
            are_digits(payloads) & are_digits(payloads[0])
        )
        if equal_bytes_mask.all():
            self._count_equal_replies(run, 0, numbers, now_ns)
        else:
            for row in range(len(run)):
                self._count_equal_replies(run, row, numbers[row : row + 1], now_ns)

    @property
    def _subject(self) -> str:
        return self._job.orders.role.subject

    def _count_equal_replies(
        self, run: FrameRun, row: int, numbers: np.ndarray, now_ns: int
    ) -> None:
        """Count messages with equal replies as acked, as repeats, or as refused.

        A final refusal ends the run. `row` is a row of the run with this reply, `numbers` are the
        numbers of the messages.
        """
        reply = run.text(row, run.layout.payload)
        if run.status is not None or b'"error"' in reply:
            if self._schedule_resend(numbers, run.status, error_code(reply)):
                return
            due_ns, _ = self._window.close(numbers, now_ns)
            self._job.tally.add("refused_msgs", len(due_ns))
            is_refusal = run.status is None
            self._link.fail(
                refusal_error(reply, self._subject)
                if is_refusal
                else no_stream_error(self._subject)
            )
            return
        self._retry.note_success()
        is_duplicate = b'"duplicate"' in reply and bool(json.loads(reply).get("duplicate"))
        self._window.close_acked(numbers, now_ns, duplicate=is_duplicate)

    def _schedule_resend(self, numbers: Int64s, status: int | None, err_code: int | None) -> bool:
        """Keep refused messages open, and schedule to send them again; return False for a final
        refusal.
        """
        was_connection_lost = self._link.disconnects_count > 0
        for number in self._window.select_open(numbers).tolist():
            if number in self._refused_numbers:
                # A second refusal: sent twice, it would be stored and answered twice.
                continue
            if not self._retry.should_retry(
                status, err_code, was_connection_lost=was_connection_lost
            ):
                return False
            if not self._refused_numbers:
                loop = asyncio.get_running_loop()
                loop.call_later(self._retry.RETRY_DELAY_S, self._resend_refused)
            self._refused_numbers[number] = None
        return True

    def _resend_refused(self) -> None:
        """Send refused messages again, except those of a lost connection."""
        numbers, self._refused_numbers = list(self._refused_numbers), {}
        if self._link.failure.done():
            return
        for number in self._window.select_open(np.array(numbers)):
            number_array = np.array([number])
            now_ns, due_ns = time.monotonic_ns(), self._window.due_ns(number_array)
            data, _ = self._content.frames(int(number), due_ns, now_ns, {"reply": number_array})
            self._link.write(data)
