"""Publishing and asking with the wire client, one message in flight."""

from __future__ import annotations

import json

from natstui.bench.job import Job
from natstui.bench.link import WireLink
from natstui.bench.roundtrip import RoundTripper
from natstui.bench.single import SingleFrame
from natstui.bench.wire_publish import no_stream, refusal
from natstui.errors import RequestFailed


class SyncPublisher(RoundTripper):
    """Publishes to a stream and waits for each acknowledgement."""

    def __init__(self, job: Job, link: WireLink) -> None:
        super().__init__(job, link)
        self._frames = SingleFrame(job.orders, self.inbox)

    def frame(self, number: int, due_ns: int, sent_ns: int) -> bytes:
        """Return the next message."""
        data, size_bytes = self._frames.make(number, due_ns, sent_ns)
        self.job.tally.sent(1, size_bytes, sent_ns)
        return data

    def take(self, answer: bytes, status: int | None, due_ns: int, sent_ns: int) -> None:
        """Count an acknowledgement."""
        subject = self.job.orders.role.subject
        if status is not None or b'"error"' in answer:
            self.job.tally.add("refused_msgs")
            raise refusal(answer, subject) if status is None else no_stream(subject)
        duplicate = b'"duplicate"' in answer and bool(json.loads(answer).get("duplicate"))
        self.times.add(due_ns, sent_ns, int(duplicate))

    def flush(self) -> None:
        """Count the acknowledgements."""
        self.times.acked()


class KvPutter(SyncPublisher):
    """Puts values into a bucket: messages to its subjects, spread over its keys."""


class Requester(SyncPublisher):
    """Asks a service and waits for each reply."""

    def take(self, answer: bytes, status: int | None, due_ns: int, sent_ns: int) -> None:
        """Count a reply."""
        if status is not None:
            self.job.tally.add("unanswered_msgs")
            subject = self.job.orders.role.subject
            raise RequestFailed(f'nobody answers on "{subject}"', code=status)
        self.times.add(due_ns, sent_ns, len(answer))

    def flush(self) -> None:
        """Count the replies."""
        self.times.replied()
