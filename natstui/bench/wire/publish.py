"""Publishing with the wire client: blocks of frames, and a sliding window of acknowledgements."""

from __future__ import annotations

import asyncio
import json
import time

import numpy as np

from natstui.bench.job.content import Content
from natstui.bench.job.digits import Int64s, are_digits, read_digits
from natstui.bench.job.job import Due, Job, Pace, RetryPolicy
from natstui.bench.job.template import SEQ_DIGITS
from natstui.bench.wire.frames import Run
from natstui.bench.wire.link import WireLink
from natstui.bench.wire.window import Window
from natstui.errors import RequestFailed

_BLOCK_BYTES = 96 * 1024
"""Enough that the cost of a write does not count, little enough to stay in the cache."""


def refusal(answer: bytes, subject: str) -> RequestFailed:
    """Return the error of a publish acknowledgement that says no."""
    error = json.loads(answer).get("error", {})
    return RequestFailed(
        f'the server refused a message to "{subject}": {error.get("description", "no reason")}',
        code=error.get("code"),
        err_code=error.get("err_code"),
    )


def error_code(answer: bytes) -> int | None:
    """Return JetStream's own number of the error of an answer."""
    error = json.loads(answer).get("error") if b'"error"' in answer else None
    return error.get("err_code") if isinstance(error, dict) else None


def no_stream(subject: str) -> RequestFailed:
    """Return the error of a publish nobody stores."""
    return RequestFailed(f'no stream stores "{subject}"', code=503)


class CorePublisher:
    """Publishes without acknowledgement."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self._job, self._link = job, link

    async def begin(self) -> None:
        """Nothing to subscribe to."""

    async def run(self) -> None:
        """Send blocks as they fall due."""
        job, link = self._job, self._link
        content, pace = Content(job.sending, job.orders.role.batch_msgs), Pace(job)
        while (due := await pace.take(block_msgs(job))) is not None:
            data, payload_bytes = content.frames(due.first, due.due_ns, due.now_ns)
            link.write(data)
            job.tally.sent(due.count, payload_bytes, due.now_ns)
            await link.drain()
            await asyncio.sleep(0)
        pace.close()
        # What is only in our buffers is not sent yet.
        await link.flush(job.orders.role.timeout_s)
        if job.tally.last_sent_ns:
            job.tally.last_sent_ns = time.monotonic_ns()


def block_msgs(job: Job) -> int:
    """Return how many messages to write at once."""
    payload = job.sending.orders.role.payload
    size_bytes = payload.size_max_bytes or payload.size_bytes
    return max(min(job.orders.role.batch_msgs, _BLOCK_BYTES // (size_bytes + 40)), 1)


class AsyncPublisher:
    """Publishes with a reply subject per message and many messages in flight."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self._job, self._link = job, link
        role = job.orders.role
        self._most = max(min(role.window_msgs // 2, role.batch_msgs, 1000), 1)
        self._inbox = link.nc.new_inbox().encode()
        self._window = Window(job.tally, role.window_msgs)
        reply = (self._inbox + b".", ("reply", SEQ_DIGITS))
        self._content = Content(job.sending, self._most, reply)
        self._lost_count = link.lost_count
        self._retry = RetryPolicy(job)
        self._again: dict[int, None] = {}
        """Refused by a server that comes back; they are still open."""

    async def begin(self) -> None:
        """Listen for the answers."""
        await self._link.subscribe(f"{self._inbox.decode()}.*", self._on_run)

    async def run(self) -> None:
        """Send everything, then wait for what is open."""
        pace, timeout_s = Pace(self._job), self._job.orders.role.timeout_s
        while (due := await pace.take(min(self._most, max(self._window.room, 1)))) is not None:
            await self._room_for(due.count)
            await self._send(due)
            await self._room_for(min(self._most, self._window.open_count))
        pace.close()
        await self._window.wait(lambda: not self._window.open_count, timeout_s, self._check)

    async def _room_for(self, count: int) -> None:
        timeout_s = self._job.orders.role.timeout_s
        await self._window.wait(lambda: self._window.room >= count, timeout_s, self._check)

    async def _send(self, due: Due) -> None:
        now_ns = time.monotonic_ns()
        numbers = self._window.open(due.due_ns, now_ns)
        data, payload_bytes = self._content.frames(
            due.first, due.due_ns, now_ns, {"reply": numbers}
        )
        self._link.write(data)
        self._job.tally.sent(due.count, payload_bytes, now_ns)
        await self._link.drain()
        await asyncio.sleep(0)

    def _check(self) -> None:
        if self._link.failure.done():
            raise self._link.failure.result()
        if self._link.lost_count != self._lost_count:
            self._lost_count = self._link.lost_count
            self._window.give_up()

    def _on_run(self, run: Run, now_ns: int) -> None:
        numbers = read_digits(run.subjects[:, -SEQ_DIGITS:])
        payloads = run.payloads
        alike = (payloads == payloads[0]) | (are_digits(payloads) & are_digits(payloads[0]))
        if alike.all():
            self._acked(run, 0, numbers, now_ns)
        else:
            for row in range(len(run)):
                self._acked(run, row, numbers[row : row + 1], now_ns)

    @property
    def _subject(self) -> str:
        return self._job.orders.role.subject

    def _acked(self, run: Run, row: int, numbers: np.ndarray, now_ns: int) -> None:
        """Take acknowledgements of one kind: stored, stored before, or refused."""
        answer = run.text(row, run.layout.payload)
        if run.status is not None or b'"error"' in answer:
            if self._send_again(numbers, run.status, error_code(answer)):
                return
            due_ns, _ = self._window.close(numbers, now_ns)
            self._job.tally.add("refused_msgs", len(due_ns))
            refused = run.status is None
            self._link.fail(
                refusal(answer, self._subject) if refused else no_stream(self._subject)
            )
            return
        self._retry.succeeded()
        duplicate = b'"duplicate"' in answer and bool(json.loads(answer).get("duplicate"))
        self._window.acked(numbers, now_ns, duplicate=duplicate)

    def _send_again(self, numbers: Int64s, status: int | None, err_code: int | None) -> bool:
        """Keep refused messages open and send them again soon; False when they are refused."""
        was_lost = self._link.lost_count > 0
        for number in self._window.waiting(numbers).tolist():
            if number in self._again:
                # A second refusal: sent twice, it would be stored and answered twice.
                continue
            if not self._retry.should_retry(status, err_code, was_lost=was_lost):
                return False
            if not self._again:
                loop = asyncio.get_running_loop()
                loop.call_later(self._retry.AGAIN_S, self._write_again)
            self._again[number] = None
        return True

    def _write_again(self) -> None:
        """Send refused messages once more; who lost the connection meanwhile has given them up."""
        numbers, self._again = list(self._again), {}
        if self._link.failure.done():
            return
        for number in self._window.waiting(np.array(numbers)):
            one = np.array([number])
            now_ns, due_ns = time.monotonic_ns(), self._window.due_ns(one)
            data, _ = self._content.frames(int(number), due_ns, now_ns, {"reply": one})
            self._link.write(data)
