"""Publishing with the plain nats-py client, as a Python service does."""

from __future__ import annotations

import asyncio
import time

import numpy as np
from nats.js.api import PubAck

from natstui.bench.job.job import Due, Job, Pace, RetryPolicy
from natstui.bench.plain.client import PlainMessages, again, js_context, plain_errors
from natstui.bench.wire.link import WireLink
from natstui.errors import RequestFailed

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
        self._retry = RetryPolicy(job)

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
            ack = await again(self._retry, lambda: self._publish(subject, payload, headers))
        except TimeoutError:
            tally.add("unanswered_msgs")
            return
        except RequestFailed:
            tally.add("refused_msgs")
            raise
        done_ns = time.monotonic_ns()
        tally.acked(due.due_ns, np.array([now_ns]), done_ns, int(bool(ack.duplicate)))

    async def _publish(
        self, subject: str, payload: bytes, headers: dict[str, str] | None
    ) -> PubAck:
        with plain_errors(f'messages to "{subject}"'):
            return await self._js.publish(subject, payload, headers=headers)
