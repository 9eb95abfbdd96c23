"""Getting stored messages and values one by one with the wire client."""

from __future__ import annotations

import random

from natstui.bench.job.job import Job
from natstui.bench.wire.link import WireLink
from natstui.bench.wire.one_in_flight import RoundTripper
from natstui.errors import NotFound


class Getter(RoundTripper):
    """Gets stored messages one by one with DIRECT.GET, in the order of their sequence."""

    def __init__(self, job: Job, link: WireLink) -> None:
        super().__init__(job, link)
        subject = f"{job.client.prefix}.DIRECT.GET.{job.orders.stream}".encode()
        self._head = b"PUB %s %s." % (subject, self.inbox)

    def frame(self, number: int, due_ns: int, sent_ns: int) -> bytes:
        """Return the next request."""
        body = self.body(number)
        return b"%s%012d %d\r\n%s\r\n" % (self._head, number, len(body), body)

    def body(self, number: int) -> bytes:
        """Return what to ask for."""
        first, count = self.job.orders.first_seq, max(self.job.orders.stored_msgs, 1)
        return b'{"seq":%d}' % (first + number % count)

    def take(self, answer: bytes, status: int | None, due_ns: int, sent_ns: int) -> None:
        """Count a message that came back."""
        if status is not None:
            raise NotFound(f"stream {self.job.orders.stream} has no such message: status {status}")
        self.times.add(due_ns, sent_ns, len(answer))

    def flush(self) -> None:
        """Count the messages."""
        self.times.replied()


class KvGetter(Getter):
    """Gets the last value of one key after the other, or of keys by chance."""

    def __init__(self, job: Job, link: WireLink) -> None:
        super().__init__(job, link)
        self._random = random.Random(job.orders.publisher_id)

    def body(self, number: int) -> bytes:
        """Return what to ask for."""
        role = self.job.orders.role
        subject = role.subject
        if role.subjects_random:
            number = self._random.randrange(role.subjects_count)
        if role.subjects_count > 1:
            width = len(str(role.subjects_count - 1))
            subject = f"{subject}.{number % role.subjects_count:0{width}}"
        return b'{"last_by_subj":"%s"}' % subject.encode()
