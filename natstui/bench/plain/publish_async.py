"""Publishing to a stream with the plain nats-py client, many messages in flight."""

from __future__ import annotations

import asyncio
import time

import nats.errors
import nats.js.errors
import numpy as np
from nats.js.api import PubAck

from natstui.bench.job.job import Job, Pace, RetryPolicy
from natstui.bench.plain.client import PlainMessage, PlainMessages, js_context, plain_errors
from natstui.bench.wire.link import WireLink
from natstui.errors import NatstuiError

_TURN_MSGS = 50
_LOOK_S = 0.02


class AsyncPublisher:
    """Publishes to a stream with many messages in flight."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self._job, self._link = job, link
        self._messages = PlainMessages(job)
        self._js = js_context(job)
        self._open_count = 0
        self._answered_ns = 0
        self._failure: BaseException | None = None
        self._retry = RetryPolicy(job)
        self._again: set[asyncio.Task[None]] = set()
        self._acks: list[tuple[int, int, int, bool]] = []
        job.collectors.append(self._flush)

    async def begin(self) -> None:
        """Nothing to subscribe to: nats-py does at the first message."""

    async def run(self) -> None:
        """Send what is due, then wait for what is open."""
        job, pace = self._job, Pace(self._job)
        with plain_errors(f'messages to "{job.orders.role.subject}"'):
            while (due := await pace.take(_TURN_MSGS)) is not None and not self._failed():
                for offset in range(due.count):
                    if self._failed():
                        break
                    await self._one(due.first + offset, int(due.due_ns[offset]))
                self._flush()
                await asyncio.sleep(0)
            pace.close()
            await self._all_answered()
            await asyncio.sleep(0)
            self._flush()
            if self._failure is not None:
                raise self._failure
        job.tally.add("unanswered_msgs", self._open_count)

    def _failed(self) -> bool:
        return self._failure is not None or self._link.failure.done()

    async def _all_answered(self) -> None:
        """Wait for what is open, as long as answers come."""
        patience_ns = self._job.orders.role.timeout_s * 1e9
        self._answered_ns = time.monotonic_ns()
        while self._open_count and not self._failed():
            if time.monotonic_ns() - self._answered_ns > patience_ns:
                return
            await asyncio.sleep(_LOOK_S)

    async def _one(self, number: int, due_ns: int) -> None:
        now_ns = time.monotonic_ns()
        subject, payload, headers = self._messages.make(number, due_ns, now_ns)
        await self._publish((subject, payload, headers), due_ns, now_ns)
        self._open_count += 1
        self._job.tally.sent(1, len(payload), now_ns)

    async def _publish(self, message: PlainMessage, due_ns: int, sent_ns: int) -> None:
        subject, payload, headers = message
        stall_s = self._job.orders.role.timeout_s
        try:
            waiting = await self._js.publish_async(
                subject, payload, wait_stall=stall_s, headers=headers
            )
        except nats.js.errors.TooManyStalledMsgsError:
            # What was refused stays open for nats-py: the refusal says why nothing moves.
            if self._link.failure.done():
                raise self._link.failure.result() from None
            raise

        def answered(future: asyncio.Future[PubAck]) -> None:
            self._answered_ns = time.monotonic_ns()
            error = future.exception()
            nobody = isinstance(error, nats.js.errors.NoStreamResponseError)
            if nobody and self._retry.should_retry(503, None):
                task = asyncio.create_task(self._publish_again(message, due_ns, sent_ns))
                self._again.add(task)
                task.add_done_callback(self._again.discard)
                return
            self._open_count -= 1
            if error is not None:
                self._job.tally.add("refused_msgs")
                self._failure = self._failure or error
                return
            self._retry.succeeded()
            duplicate = bool(future.result().duplicate)
            self._acks.append((due_ns, sent_ns, time.monotonic_ns(), duplicate))

        waiting.add_done_callback(answered)

    async def _publish_again(self, message: PlainMessage, due_ns: int, sent_ns: int) -> None:
        """Send a message that a server refused while it came back; it is still open."""
        await asyncio.sleep(self._retry.AGAIN_S)
        try:
            await self._publish(message, due_ns, sent_ns)
        except (nats.errors.Error, NatstuiError) as error:
            self._failure = self._failure or error

    def _flush(self) -> None:
        """Count the acknowledgements that came meanwhile."""
        if self._acks:
            columns = np.array(self._acks, np.int64)
            duplicates = int(columns[:, 3].sum())
            self._acks = []
            self._job.tally.acked(columns[:, 0], columns[:, 1], columns[:, 2], duplicates)
