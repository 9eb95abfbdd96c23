"""Core receiving with the wire client: subscribers, and a service that answers."""

from __future__ import annotations

import numpy as np

from natstui.bench.job.content import stamp_place
from natstui.bench.job.job import Job
from natstui.bench.job.stamps import NO_STAMP
from natstui.bench.wire.frames import Run
from natstui.bench.wire.link import WireLink, pause_reading, until_stopped


class Subscriber:
    """Takes every message of a subject."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self._job, self._link = job, link
        self._place = stamp_place(job.orders) if job.orders.stamped else NO_STAMP

    async def begin(self) -> None:
        """Subscribe."""
        role = self._job.orders.role
        subject = role.subject if role.subjects_count == 1 else f"{role.subject}.*"
        await self._link.subscribe(subject, self._on_run, role.queue or "")

    async def run(self) -> None:
        """Let messages come."""
        await until_stopped(self._job, self._link)

    def _on_run(self, run: Run, now_ns: int) -> None:
        self._job.tally.received(run.payloads, self._place, now_ns)
        if self._job.orders.role.think_s:
            pause_reading(self._link, self._job.orders.role.think_s * len(run))


class Server:
    """Answers every request with its own payload."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self._job, self._link = job, link

    async def begin(self) -> None:
        """Subscribe, in a queue group so that workers share the requests."""
        role = self._job.orders.role
        subject = role.subject if role.subjects_count == 1 else f"{role.subject}.*"
        await self._link.subscribe(subject, self._on_run, role.queue or "natstui-bench")

    async def run(self) -> None:
        """Let messages come."""
        await until_stopped(self._job, self._link)

    def _on_run(self, run: Run, now_ns: int) -> None:
        payloads, replies = run.payloads, run.replies
        self._job.tally.received(payloads, NO_STAMP, now_ns)
        if replies is None:
            return
        self._link.write(answers(replies, payloads))
        self._job.tally.sent(len(run), payloads.size, now_ns)


def answers(replies: np.ndarray, payloads: np.ndarray) -> bytes:
    """Return `PUB <reply> <size>` frames for (n, length) subjects and (n, size) payloads."""
    count = len(replies)

    def column(text: bytes) -> np.ndarray:
        return np.broadcast_to(np.frombuffer(text, np.uint8), (count, len(text)))

    sizes = column(b" %d\r\n" % payloads.shape[1])
    parts = [column(b"PUB "), replies, sizes, payloads, column(b"\r\n")]
    return np.concatenate(parts, axis=1).tobytes()
