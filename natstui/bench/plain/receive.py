"""Core receiving with the plain nats-py client."""

from __future__ import annotations

from nats.aio.msg import Msg
from nats.aio.subscription import Subscription

from natstui.bench.job.content import stamp_place
from natstui.bench.job.job import Job
from natstui.bench.job.stamps import NO_STAMP
from natstui.bench.plain.client import PlainInbox
from natstui.bench.wire.link import WireLink
from natstui.bench.wire.stopping import hear_out, until_stopped


class Subscriber:
    """Takes every message of a subject, one callback each."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self._job, self._link = job, link
        self._subscription: Subscription | None = None
        self._inbox = PlainInbox(
            job, link, stamp_place(job.orders) if job.orders.stamped else NO_STAMP
        )

    async def begin(self) -> None:
        """Subscribe."""
        role = self._job.orders.role
        subject = role.subject if role.subjects_count == 1 else f"{role.subject}.*"
        self._subscription = await self._link.nc.subscribe(
            subject, role.queue or "", cb=self._on_message
        )
        await self._link.flush(role.timeout_s)

    async def run(self) -> None:
        """Let messages come."""
        await until_stopped(self._job, self._link)
        await hear_out(self._link, self._taken)
        self._inbox.close()

    async def _taken(self) -> None:
        if self._subscription is not None:
            await self._subscription._pending_queue.join()

    async def _on_message(self, message: Msg) -> None:
        self._inbox.add(message.data)
        if self._job.orders.role.think_s:
            await self._job.sleep(self._job.orders.role.think_s)


class Server:
    """Answers every request with its own payload."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self._job, self._link = job, link
        self._inbox = PlainInbox(job, link, NO_STAMP)

    async def begin(self) -> None:
        """Subscribe, in a queue group so that workers share the requests."""
        role = self._job.orders.role
        subject = role.subject if role.subjects_count == 1 else f"{role.subject}.*"
        queue = role.queue or "natstui-bench"
        await self._link.nc.subscribe(subject, queue, cb=self._on_request)
        await self._link.flush(role.timeout_s)

    async def run(self) -> None:
        """Answer until told to stop."""
        await until_stopped(self._job, self._link)
        self._inbox.close()

    async def _on_request(self, message: Msg) -> None:
        now_ns = self._inbox.add(message.data)
        if message.reply:
            await message.respond(message.data)
            self._job.tally.sent(1, len(message.data), now_ns)
