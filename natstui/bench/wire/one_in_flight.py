"""One message in flight: publish, request or get, and wait for the reply, on a blocking socket."""

from __future__ import annotations

import asyncio
import json
import random
import socket
import time
from abc import ABC, abstractmethod

import numpy as np

from natstui.bench.job.content import (
    SenderSettings,
    header_parts,
    payload_texts,
    repeated_numbers,
    size_index_of,
    subject_parts,
)
from natstui.bench.job.job import Job, Pace, RetryPolicy
from natstui.bench.job.protocol import Orders
from natstui.bench.job.tally import Tally
from natstui.bench.job.template import SEQ_DIGITS, Frame, Template
from natstui.bench.wire.frames import Run
from natstui.bench.wire.link import WireLink, blocking_socket, receive
from natstui.bench.wire.publish import error_code, no_stream, refusal
from natstui.errors import NotFound, RequestFailed


class SingleFrame:
    """The frames of a sender with one message in flight."""

    def __init__(self, sending: SenderSettings, inbox: bytes) -> None:
        self._sending, self._inbox, self._place = sending, inbox, sending.place
        self._make(sending.orders)

    def _make(self, orders: Orders) -> None:
        self._orders, role = orders, orders.role
        reply = (self._inbox + b".", ("reply", SEQ_DIGITS))
        frames = [
            Template(
                Frame(subject_parts(orders), text, self._place, reply, header_parts(orders)), 1
            )
            for text in payload_texts(role.payload)
        ]
        self._frames = [
            (
                bytearray(frame.blank()),
                [
                    (name, position, position.stop - position.start)
                    for name, position in frame.fields.items()
                ],
                frame.payload,
            )
            for frame in frames
        ]
        self._publisher = orders.publisher_id
        self._subjects = role.subjects_count
        self._random = np.random.default_rng(orders.publisher_id) if role.subjects_random else None
        self._repeats = repeated_numbers(role.payload.duplicate_ratio)
        self._has_repeats = role.payload.duplicate_ratio > 0
        self._stamp_at = [
            slice(start, start + self._place.width)
            for start in (payload.start + self._place.offset for *_, payload in self._frames)
        ]

    def make(self, number: int, due_ns: int, now_ns: int) -> tuple[bytearray, int]:
        """Return the frame of message `number`, valid until the next call, and its payload bytes.

        Times are of the steady clock in ns.
        """
        if self._sending.orders is not self._orders:
            self._make(self._sending.orders)
        has_sizes = len(self._frames) > 1
        size_index = size_index_of(number, self._frames) if has_sizes else 0
        frame, fields, payload = self._frames[size_index]
        seq = int(self._repeats(np.array([number]))[0]) if self._has_repeats else number
        if self._place.length:
            stamp = self._place.pack(due_ns, self._publisher, seq, now_ns)
            frame[self._stamp_at[size_index]] = stamp
        for name, position, width in fields:
            value = number if name == "reply" else seq
            if name == "subject":
                value = self._spread(seq)
            frame[position] = b"%0*d" % (width, value)
        return frame, payload.stop - payload.start

    def _spread(self, seq: int) -> int:
        if self._random is None:
            return seq % self._subjects
        return int(self._random.integers(self._subjects))


class SingleTimes:
    """The times of single replies, which are passed to the tally together."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._rows: list[tuple[int, int, int, int]] = []

    def add(self, due_ns: int, sent_ns: int, extra: int) -> None:
        """Add a reply that was received now; times are of the steady clock in ns.

        `extra` is 1 for a duplicate, or the size of the reply.
        """
        self._rows.append((due_ns, sent_ns, time.monotonic_ns(), extra))

    def acked(self) -> None:
        """Pass the replies to the tally as acks; `extra` was 1 for duplicates."""
        if self._rows:
            columns = np.array(self._rows, np.int64)
            self._rows = []
            duplicates = int(columns[:, 3].sum())
            self._tally.acked(columns[:, 0], columns[:, 1], columns[:, 2], duplicates)

    def replied(self) -> None:
        """Pass the replies to the tally as such; `extra` was the size of each in bytes."""
        if self._rows:
            columns = np.array(self._rows, np.int64)
            self._rows = []
            steady_count = self._tally.timed("rtt", columns[:, 0], columns[:, 1], columns[:, 2])
            last_ns = int(columns[-1, 2])
            self._tally.replied(len(columns), int(columns[:, 3].sum()), steady_count, last_ns)


_TURN_NS = 40_000_000
"""Maximum time for which the event loop is blocked."""
_READ_BYTES = 1 << 16


_PARTS = {b"MSG": 3, b"HMSG": 4}
"""Verb of a reply → number of fields after it: it has no reply subject."""
_NO_STATUS = b"NATS/1.0\r\n"


class _Answer:
    """The reply to the message in flight."""

    def __init__(self, inbox: bytes) -> None:
        self.payload: bytes | None = None
        self.status: int | None = None
        self.arrived = asyncio.Event()
        self._inbox = inbox
        self._subject = b""

    def expect(self, number: int) -> None:
        """Reset for the next reply, which comes to its own subject."""
        self.payload = self.status = None
        self.arrived.clear()
        self._subject = b"%s.%012d" % (self._inbox, number)

    def on_run(self, run: Run, _now_ns: int) -> None:
        """Handle a parsed run; a late reply to an earlier message is ignored."""
        for row in range(len(run)):
            if run.text(row, run.layout.subject) == self._subject:
                self.payload = run.text(row, run.layout.payload)
                self.status = run.status
                self.arrived.set()

    def read_exactly(self, data: bytes) -> bool:
        """Read bytes that are exactly the expected reply; returns False for others.

        The parser of entire blocks would take several times as long for a single message.
        """
        end = data.find(b"\r\n")
        verb, *parts = data[: max(end, 0)].split(b" ")
        start = end + 2
        if len(parts) != _PARTS.get(verb) or parts[0] != self._subject:
            return False
        if not parts[-1].isdigit() or len(data) != start + int(parts[-1]) + 2:
            return False
        if verb == b"HMSG":
            # What stands behind the version would be a status.
            if not data.startswith(_NO_STATUS, start) or not parts[2].isdigit():
                return False
            start += int(parts[2])
        self.payload = data[start:-2]
        return True


class RoundTripper(ABC):
    """Sends one message at a time and waits for its reply; subclasses define their meaning."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self.job, self._link = job, link
        self.inbox = link.nc.new_inbox().encode()
        self._answer = _Answer(self.inbox)
        self.times = SingleTimes(job.tally)
        self._retry = RetryPolicy(job)
        self._timeout_ns = round(job.orders.role.timeout_s * 1e9)
        job.collectors.append(self.flush)

    @abstractmethod
    def frame(self, number: int, due_ns: int, sent_ns: int) -> bytes | bytearray:
        """Return the frame to send; valid until the next call."""

    @abstractmethod
    def handle_reply(self, answer: bytes, status: int | None, due_ns: int, sent_ns: int) -> None:
        """Count a reply; raise the error of a refusal.

        `answer` is its payload, `status` that of its headers, None without any.
        """

    @abstractmethod
    def flush(self) -> None:
        """Pass the times of replies to the tally."""

    async def begin(self) -> None:
        """Subscribe to the replies."""
        await self._link.subscribe(f"{self.inbox.decode()}.*", self._answer.on_run)

    async def run(self) -> None:
        """Send a message, wait for its reply, and repeat by the schedule."""
        pace = Pace(self.job)
        await self._link.drain()
        try:
            while not self.job.stopping.is_set():
                with blocking_socket(self._link) as twin:
                    has_more = await self._turn(pace, twin)
                self.flush()
                if not has_more:
                    break
                await asyncio.sleep(0)
                await self._link.drain()
        finally:
            self.flush()
        pace.close()

    async def _turn(self, pace: Pace, twin: socket.socket | None) -> bool:
        """Work until the event loop's turn; return whether there is more to do."""
        until_ns, reply = time.monotonic_ns() + _TURN_NS, self._answer
        while time.monotonic_ns() < until_ns:
            due_msg = await pace.next_message()
            if due_msg is None:
                return False
            reply.expect(due_msg[0])
            sent_ns = time.monotonic_ns()
            data = self.frame(due_msg[0], due_msg[1], sent_ns)
            await self._exchange(twin, data)
            while self.should_retry():
                # The loop is due meanwhile, and the connection may be another afterwards.
                await asyncio.sleep(RetryPolicy.AGAIN_S)
                reply.expect(due_msg[0])
                await self._exchange(twin, data)
            if reply.payload is None:
                self.job.tally.add("unanswered_msgs")
                return True
            self.handle_reply(reply.payload, reply.status, due_msg[1], sent_ns)
            self._retry.succeeded()
        return True

    def should_retry(self) -> bool:
        """Return whether the reply is the refusal of a restarting server."""
        payload, status = self._answer.payload, self._answer.status
        if payload is None:
            return False
        err_code = None if status is not None else self.err_code(payload)
        if (status is None and err_code is None) or self.job.stopping.is_set():
            return False
        return self._retry.should_retry(status, err_code, was_lost=self._link.lost_count > 0)

    def err_code(self, _answer: bytes) -> int | None:
        """Return the error code of JetStream in a reply; None without one."""
        return None

    async def _exchange(self, twin: socket.socket | None, data: bytes | bytearray) -> None:
        """Send and block until the reply is received, or a timeout."""
        if twin is None:
            await self._exchange_on_loop(data)
            return
        reply, link, began_ns = self._answer, self._link, 0
        try:
            twin.sendall(data)
            while reply.payload is None:
                try:
                    data_read = receive(link, twin, _READ_BYTES)
                except BlockingIOError:
                    # A server that is frozen or slow must not keep us from reporting.
                    await asyncio.sleep(0)
                    began_ns = began_ns or time.monotonic_ns()
                    late = time.monotonic_ns() - began_ns > self._timeout_ns
                    if late or self.job.stopping.is_set():
                        return
                    continue
                if not data_read:
                    return
                if not (link.is_between_frames and reply.read_exactly(data_read)):
                    link.received(data_read)
        except OSError:
            # nats-py reads the same end of the connection and reconnects.
            return

    async def _exchange_on_loop(self, data: bytes | bytearray) -> None:
        """Send and wait for the reply on the event loop, as TLS requires."""
        self._link.write(bytes(data))
        try:
            async with asyncio.timeout(self.job.orders.role.timeout_s):
                await self._answer.arrived.wait()
        except TimeoutError:
            return


class SyncPublisher(RoundTripper):
    """Publishes to a stream and waits for each ack."""

    def __init__(self, job: Job, link: WireLink) -> None:
        super().__init__(job, link)
        self._frames = SingleFrame(job.sending, self.inbox)

    def frame(self, number: int, due_ns: int, sent_ns: int) -> bytearray:
        """Return the next message."""
        data, size_bytes = self._frames.make(number, due_ns, sent_ns)
        self.job.tally.sent(1, size_bytes, sent_ns)
        return data

    def handle_reply(self, answer: bytes, status: int | None, due_ns: int, sent_ns: int) -> None:
        """Count a publish ack; raises the error of a refusal."""
        if status is not None or b'"error"' in answer:
            subject = self.job.orders.role.subject
            self.job.tally.add("refused_msgs")
            raise refusal(answer, subject) if status is None else no_stream(subject)
        duplicate = b'"duplicate"' in answer and bool(json.loads(answer).get("duplicate"))
        self.times.add(due_ns, sent_ns, int(duplicate))

    def err_code(self, answer: bytes) -> int | None:
        """Return the error code in an ack."""
        return error_code(answer)

    def flush(self) -> None:
        """Pass the times of the acks to the tally."""
        self.times.acked()


class KvPutter(SyncPublisher):
    """Puts values into a bucket: messages to its subjects, spread over its keys."""


class Requester(SyncPublisher):
    """Sends requests to a service and waits for each reply."""

    def err_code(self, answer: bytes) -> int | None:
        """Return None: a reply may have any content."""
        return None

    def handle_reply(self, answer: bytes, status: int | None, due_ns: int, sent_ns: int) -> None:
        """Count a reply; raises the error of a subject without a responder."""
        if status is not None:
            self.job.tally.add("unanswered_msgs")
            subject = self.job.orders.role.subject
            raise RequestFailed(f'nobody answers on "{subject}"', code=status)
        self.times.add(due_ns, sent_ns, len(answer))

    def flush(self) -> None:
        """Pass the times of the replies to the tally."""
        self.times.replied()


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
        """Return the body of request `number`: stored messages one after the other, again and
        again.
        """
        first, count = self.job.orders.first_seq, max(self.job.orders.stored_msgs, 1)
        return b'{"seq":%d}' % (first + number % count)

    def handle_reply(self, answer: bytes, status: int | None, due_ns: int, sent_ns: int) -> None:
        """Count a received message; raises the error of a refusal."""
        if status is not None:
            raise NotFound(f"stream {self.job.orders.stream} has no such message: status {status}")
        self.times.add(due_ns, sent_ns, len(answer))

    def flush(self) -> None:
        """Pass the times of the received messages to the tally."""
        self.times.replied()


class KvGetter(Getter):
    """Gets the last value of one key after the other, or of random keys."""

    def __init__(self, job: Job, link: WireLink) -> None:
        super().__init__(job, link)
        self._random = random.Random(job.orders.publisher_id)

    def body(self, number: int) -> bytes:
        """Return the body of request `number`, for the last value of a key."""
        role = self.job.orders.role
        subject = role.subject
        if role.subjects_random:
            number = self._random.randrange(role.subjects_count)
        if role.subjects_count > 1:
            width = len(str(role.subjects_count - 1))
            subject = f"{subject}.{number % role.subjects_count:0{width}}"
        return b'{"last_by_subj":"%s"}' % subject.encode()
