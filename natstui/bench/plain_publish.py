"""Publishing with the plain nats-py client, as a Python service does."""

from __future__ import annotations

import asyncio
import time

import numpy as np
from nats.js.api import PubAck

from natstui.bench.job import Due, Job, Pace
from natstui.bench.link import WireLink
from natstui.bench.plain import PlainMessages, js_context, plain_errors

_TURN_MSGS = 50


class CorePublisher:
    """Publishes without acknowledgement, one call per message."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self._job, self._link = job, link
        self._messages = PlainMessages(job)

    async def begin(self) -> None:
        """Nothing to subscribe to."""

    async def run(self) -> None:
        """Send what is due."""
        job, nc, pace = self._job, self._link.nc, Pace(self._job)
        with plain_errors(f'messages to "{job.orders.role.subject}"'):
            while (due := await pace.take(_TURN_MSGS)) is not None:
                for offset in range(due.count):
                    now_ns = time.monotonic_ns()
                    number, due_ns = due.first + offset, int(due.due_ns[offset])
                    subject, payload, headers = self._messages.make(number, due_ns, now_ns)
                    await nc.publish(subject, payload, headers=headers)
                    job.tally.sent(1, len(payload), now_ns)
                await asyncio.sleep(0)
        pace.close()
        await self._link.flush(job.orders.role.timeout_s)
        if job.tally.last_sent_ns:
            job.tally.last_sent_ns = time.monotonic_ns()


class SyncPublisher:
    """Publishes to a stream and awaits each acknowledgement."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self._job, self._link = job, link
        self._messages = PlainMessages(job)
        self._js = js_context(job)

    async def begin(self) -> None:
        """Nothing to subscribe to."""

    async def run(self) -> None:
        """Send one after the other."""
        pace = Pace(self._job)
        while (due := await pace.take(1)) is not None and not self._link.failure.done():
            await self._one(due)
        pace.close()

    async def _one(self, due: Due) -> None:
        tally, now_ns = self._job.tally, time.monotonic_ns()
        message = self._messages.make(due.first, int(due.due_ns[0]), now_ns)
        subject, payload, headers = message
        tally.sent(1, len(payload), now_ns)
        try:
            with plain_errors(f'messages to "{subject}"'):
                ack = await self._js.publish(subject, payload, headers=headers)
        except TimeoutError:
            tally.add("unanswered_msgs")
            return
        done_ns = time.monotonic_ns()
        tally.acked(due.due_ns, np.array([now_ns]), done_ns, int(bool(ack.duplicate)))


class AsyncPublisher:
    """Publishes to a stream with many messages in flight."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self._job, self._link = job, link
        self._messages = PlainMessages(job)
        self._js = js_context(job)
        self._open_count = 0
        self._failure: BaseException | None = None
        self._acks: list[tuple[int, int, int, bool]] = []

    async def begin(self) -> None:
        """Nothing to subscribe to: nats-py does at the first message."""

    async def run(self) -> None:
        """Send what is due, then wait for what is open."""
        job, pace = self._job, Pace(self._job)
        with plain_errors(f'messages to "{job.orders.role.subject}"'):
            while (due := await pace.take(_TURN_MSGS)) is not None and not self._failed():
                for offset in range(due.count):
                    await self._one(due.first + offset, int(due.due_ns[offset]))
                self._flush()
                await asyncio.sleep(0)
            pace.close()
            if self._open_count and not self._failed():
                waiting = asyncio.ensure_future(self._js.publish_async_completed())
                await asyncio.wait({waiting}, timeout=job.orders.role.timeout_s)
                waiting.cancel()
            await asyncio.sleep(0)
            self._flush()
            if self._failure is not None:
                raise self._failure
        job.tally.add("unanswered_msgs", self._open_count)

    def _failed(self) -> bool:
        return self._failure is not None or self._link.failure.done()

    async def _one(self, number: int, due_ns: int) -> None:
        now_ns = time.monotonic_ns()
        subject, payload, headers = self._messages.make(number, due_ns, now_ns)
        waiting = await self._js.publish_async(subject, payload, headers=headers)
        self._open_count += 1
        self._job.tally.sent(1, len(payload), now_ns)

        def answered(future: asyncio.Future[PubAck]) -> None:
            self._open_count -= 1
            error = future.exception()
            if error is not None:
                self._job.tally.add("refused_msgs")
                self._failure = self._failure or error
            else:
                duplicate = bool(future.result().duplicate)
                self._acks.append((due_ns, now_ns, time.monotonic_ns(), duplicate))

        waiting.add_done_callback(answered)

    def _flush(self) -> None:
        """Count the acknowledgements that came meanwhile."""
        if self._acks:
            columns = np.array(self._acks, np.int64)
            duplicates = int(columns[:, 3].sum())
            self._acks = []
            self._job.tally.acked(columns[:, 0], columns[:, 1], columns[:, 2], duplicates)
