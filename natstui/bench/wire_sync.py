"""Publishing and asking with the wire client, one message in flight."""

from __future__ import annotations

import json

import numpy as np

from natstui.bench.content import Content
from natstui.bench.job import Due, Job
from natstui.bench.link import WireLink
from natstui.bench.roundtrip import RoundTripper
from natstui.bench.template import SEQ_DIGITS, Part
from natstui.bench.wire_publish import no_stream, refusal
from natstui.errors import RequestFailed


class SyncPublisher(RoundTripper):
    """Publishes to a stream and waits for each acknowledgement."""

    def __init__(self, job: Job, link: WireLink) -> None:
        super().__init__(job, link)
        reply: tuple[Part, ...] = (self.inbox + b".", ("reply", SEQ_DIGITS))
        self._content = Content(job.orders, 1, reply)

    def frame(self, due: Due, sent_ns: int) -> bytes:
        """Return the next message."""
        number = np.array([due.first])
        rows, size_bytes = self._content.rows(due.first, due.due_ns, sent_ns, {"reply": number})
        self.job.tally.sent(1, size_bytes, sent_ns)
        return rows.tobytes()

    def take(self, answer: bytes, status: int | None, due: Due, sent_ns: int, now_ns: int) -> None:
        """Count an acknowledgement."""
        subject = self.job.orders.role.subject
        if status is not None or b'"error"' in answer:
            self.job.tally.add("refused_msgs")
            raise refusal(answer, subject) if status is None else no_stream(subject)
        duplicate = b'"duplicate"' in answer and bool(json.loads(answer).get("duplicate"))
        self.job.tally.acked(due.due_ns, np.array([sent_ns]), now_ns, int(duplicate))


class KvPutter(SyncPublisher):
    """Puts values into a bucket: messages to its subjects, spread over its keys."""


class Requester(SyncPublisher):
    """Asks a service and waits for each reply."""

    def take(self, answer: bytes, status: int | None, due: Due, sent_ns: int, now_ns: int) -> None:
        """Count a reply."""
        if status is not None:
            self.job.tally.add("unanswered_msgs")
            subject = self.job.orders.role.subject
            raise RequestFailed(f'nobody answers on "{subject}"', code=status)
        steady = self.job.tally.timed("rtt", due.due_ns, sent_ns, now_ns)
        self.job.tally.replied((1, len(answer)), steady, now_ns)
