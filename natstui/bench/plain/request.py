"""One message in flight with the plain nats-py client: ask a service, get messages and values."""

from __future__ import annotations

import functools
import time

from nats.js.kv import KeyValue

from natstui.bench.job.job import Due, Job, Pace, RetryPolicy
from natstui.bench.plain.client import PlainMessage, PlainMessages, again, js_context, plain_errors
from natstui.bench.plain.publish import SyncPublisher
from natstui.bench.wire.link import WireLink


class Requester:
    """Asks a service and awaits each reply."""

    what = "requests"

    def __init__(self, job: Job, link: WireLink) -> None:
        self.job, self.link = job, link
        self.messages = PlainMessages(job)
        self._message: PlainMessage = ("", b"", None)
        self._retry = RetryPolicy(job)

    async def begin(self) -> None:
        """Nothing to subscribe to."""

    async def run(self) -> None:
        """Ask one after the other."""
        pace, tally = Pace(self.job), self.job.tally
        while (due := await pace.take(1)) is not None and not self.link.failure.done():
            sent_ns = time.monotonic_ns()
            self.prepare(due, sent_ns)
            try:
                answer = await again(self._retry, functools.partial(self._ask, due))
            except TimeoutError:
                tally.add("unanswered_msgs")
                continue
            now_ns = time.monotonic_ns()
            steady = tally.timed("rtt", due.due_ns, sent_ns, now_ns)
            tally.replied(1, len(answer), steady, now_ns)
        pace.close()

    async def _ask(self, due: Due) -> bytes:
        with plain_errors(f'{self.what} to "{self.job.orders.role.subject}"'):
            return await self.ask(due)

    def prepare(self, due: Due, sent_ns: int) -> None:
        """Make the next request, and count it once, however often it is sent."""
        self._message = self.messages.make(due.first, int(due.due_ns[0]), sent_ns)
        self.job.tally.sent(1, len(self._message[1]), sent_ns)

    async def ask(self, due: Due) -> bytes:
        """Send one request and return its answer."""
        subject, payload, headers = self._message
        timeout_s = self.job.orders.role.timeout_s
        reply = await self.link.nc.request(subject, payload, timeout=timeout_s, headers=headers)
        answer: bytes = reply.data
        return answer


class Getter(Requester):
    """Gets stored messages one by one, in the order of their sequence."""

    what = "gets"

    def prepare(self, due: Due, sent_ns: int) -> None:
        """A get is no message that is sent."""

    async def ask(self, due: Due) -> bytes:
        """Get one message."""
        orders = self.job.orders
        seq = orders.first_seq + due.first % max(orders.stored_msgs, 1)
        message = await js_context(self.job).get_msg(orders.stream, seq=seq, direct=True)
        return message.data or b""


class KvPutter(SyncPublisher):
    """Puts values as messages to the bucket's subjects, which is all that a put is."""


class KvGetter(Requester):
    """Gets the last value of one key after the other."""

    what = "gets"

    def prepare(self, due: Due, sent_ns: int) -> None:
        """A get is no message that is sent."""

    def __init__(self, job: Job, link: WireLink) -> None:
        super().__init__(job, link)
        self._bucket: KeyValue | None = None

    async def ask(self, due: Due) -> bytes:
        """Get one value."""
        if self._bucket is None:
            name = (self.job.orders.stream or "").removeprefix("KV_")
            self._bucket = await js_context(self.job).key_value(name)
        subject, _, _ = self.messages.make(due.first, 0, 0)
        entry = await self._bucket.get(subject.split(".", 2)[2])
        return entry.value or b""
