"""One message in flight: publish and wait, ask and wait, get and wait, on a blocking socket."""

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
    repeats,
    subject_parts,
    which_size,
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
                [(name, where, where.stop - where.start) for name, where in frame.fields.items()],
                frame.payload,
            )
            for frame in frames
        ]
        self._publisher = orders.publisher_id
        self._subjects = role.subjects_count
        self._random = np.random.default_rng(orders.publisher_id) if role.subjects_random else None
        self._repeats = repeats(role.payload.duplicate_ratio)
        self._has_repeats = role.payload.duplicate_ratio > 0
        self._stamp_at = [
            slice(start, start + self._place.width)
            for start in (payload.start + self._place.offset for *_, payload in self._frames)
        ]

    def make(self, number: int, due_ns: int, now_ns: int) -> tuple[bytearray, int]:
        """Return the frame of a message, valid until the next call, and its payload's size."""
        if self._sending.orders is not self._orders:
            self._make(self._sending.orders)
        several = len(self._frames) > 1
        which = which_size(number, self._frames) if several else 0
        frame, fields, payload = self._frames[which]
        seq = int(self._repeats(np.array([number]))[0]) if self._has_repeats else number
        if self._place.length:
            stamp = self._place.pack(due_ns, self._publisher, seq, now_ns)
            frame[self._stamp_at[which]] = stamp
        for name, where, width in fields:
            value = number if name == "reply" else seq
            if name == "subject":
                value = self._spread(seq)
            frame[where] = b"%0*d" % (width, value)
        return frame, payload.stop - payload.start

    def _spread(self, seq: int) -> int:
        if self._random is None:
            return seq % self._subjects
        return int(self._random.integers(self._subjects))


class SingleTimes:
    """Times of single answers, handed to the tally together."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._rows: list[tuple[int, int, int, int]] = []

    def add(self, due_ns: int, sent_ns: int, extra: int) -> None:
        """Note an answer that is here now; `extra` is what the caller wants to sum."""
        self._rows.append((due_ns, sent_ns, time.monotonic_ns(), extra))

    def acked(self) -> None:
        """Count the answers as acknowledgements; `extra` said which were duplicates."""
        if self._rows:
            columns = np.array(self._rows, np.int64)
            self._rows = []
            duplicates = int(columns[:, 3].sum())
            self._tally.acked(columns[:, 0], columns[:, 1], columns[:, 2], duplicates)

    def replied(self) -> None:
        """Count the answers as replies; `extra` was the size of each."""
        if self._rows:
            columns = np.array(self._rows, np.int64)
            self._rows = []
            steady = self._tally.timed("rtt", columns[:, 0], columns[:, 1], columns[:, 2])
            last_ns = int(columns[-1, 2])
            self._tally.replied(len(columns), int(columns[:, 3].sum()), steady, last_ns)


_TURN_NS = 40_000_000
"""How long the event loop may wait for its turn."""
_READ_BYTES = 1 << 16


_PARTS = {b"MSG": 3, b"HMSG": 4}
"""How much stands behind the verb of an answer: it has no reply subject."""
_NO_STATUS = b"NATS/1.0\r\n"


class _Answer:
    """The answer to the one message in flight."""

    def __init__(self, inbox: bytes) -> None:
        self.payload: bytes | None = None
        self.status: int | None = None
        self.arrived = asyncio.Event()
        self._inbox = inbox
        self._subject = b""

    def expect(self, number: int) -> None:
        """Forget the last answer; the next comes to a subject of its own."""
        self.payload = self.status = None
        self.arrived.clear()
        self._subject = b"%s.%012d" % (self._inbox, number)

    def on_run(self, run: Run, _now_ns: int) -> None:
        """Take what the parser found; a late answer to an earlier message is none."""
        for row in range(len(run)):
            if run.text(row, run.layout.subject) == self._subject:
                self.payload = run.text(row, run.layout.payload)
                self.status = run.status
                self.arrived.set()

    def take(self, data: bytes) -> bool:
        """Read bytes that are exactly the expected answer; False for all others.

        The parser of whole blocks would take several times as long for a single message.
        """
        end = data.find(b"\r\n")
        verb, *parts = data[: max(end, 0)].split(b" ")
        begin = end + 2
        if len(parts) != _PARTS.get(verb) or parts[0] != self._subject:
            return False
        if not parts[-1].isdigit() or len(data) != begin + int(parts[-1]) + 2:
            return False
        if verb == b"HMSG":
            # What stands behind the version would be a status.
            if not data.startswith(_NO_STATUS, begin) or not parts[2].isdigit():
                return False
            begin += int(parts[2])
        self.payload = data[begin:-2]
        return True


class RoundTripper(ABC):
    """Sends one message at a time and waits for its answer; what they mean is a subclass's."""

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
        """Return the frame to send, one message; valid until the next call."""

    @abstractmethod
    def take(self, answer: bytes, status: int | None, due_ns: int, sent_ns: int) -> None:
        """Count an answer; raise what it refuses."""

    @abstractmethod
    def flush(self) -> None:
        """Hand the times of answers on."""

    async def begin(self) -> None:
        """Listen for the answers."""
        await self._link.subscribe(f"{self.inbox.decode()}.*", self._answer.on_run)

    async def run(self) -> None:
        """Send and wait, as the schedule says."""
        pace = Pace(self.job)
        await self._link.drain()
        try:
            while not self.job.stopping.is_set():
                with blocking_socket(self._link) as twin:
                    more = await self._turn(pace, twin)
                self.flush()
                if not more:
                    break
                await asyncio.sleep(0)
                await self._link.drain()
        finally:
            self.flush()
        pace.close()

    async def _turn(self, pace: Pace, twin: socket.socket | None) -> bool:
        """Work until the event loop is due; return whether there is more to do."""
        until_ns, answer = time.monotonic_ns() + _TURN_NS, self._answer
        while time.monotonic_ns() < until_ns:
            due = await pace.take_one()
            if due is None:
                return False
            answer.expect(due[0])
            sent_ns = time.monotonic_ns()
            data = self.frame(due[0], due[1], sent_ns)
            await self._exchange(twin, data)
            while self.should_retry():
                # The loop is due meanwhile, and the connection may be another afterwards.
                await asyncio.sleep(RetryPolicy.AGAIN_S)
                answer.expect(due[0])
                await self._exchange(twin, data)
            if answer.payload is None:
                self.job.tally.add("unanswered_msgs")
                return True
            self.take(answer.payload, answer.status, due[1], sent_ns)
            self._retry.succeeded()
        return True

    def should_retry(self) -> bool:
        """Tell whether the answer is the refusal of a server that is coming back."""
        payload, status = self._answer.payload, self._answer.status
        if payload is None:
            return False
        err_code = None if status is not None else self.err_code(payload)
        if (status is None and err_code is None) or self.job.stopping.is_set():
            return False
        return self._retry.should_retry(status, err_code, was_lost=self._link.lost_count > 0)

    def err_code(self, _answer: bytes) -> int | None:
        """Return JetStream's number of an error that came as an answer; None where none does."""
        return None

    async def _exchange(self, twin: socket.socket | None, data: bytes | bytearray) -> None:
        """Send and block until the answer is there, or does not come."""
        if twin is None:
            await self._exchange_on_loop(data)
            return
        answer, link, began_ns = self._answer, self._link, 0
        try:
            twin.sendall(data)
            while answer.payload is None:
                try:
                    received = receive(link, twin, _READ_BYTES)
                except BlockingIOError:
                    # A server that is frozen or slow must not keep us from reporting.
                    await asyncio.sleep(0)
                    began_ns = began_ns or time.monotonic_ns()
                    late = time.monotonic_ns() - began_ns > self._timeout_ns
                    if late or self.job.stopping.is_set():
                        return
                    continue
                if not received:
                    return
                if not (link.between_frames and answer.take(received)):
                    link.received(received)
        except OSError:
            # nats-py reads the same end of the connection and reconnects.
            return

    async def _exchange_on_loop(self, data: bytes | bytearray) -> None:
        """Send and wait for the answer on the event loop, as TLS needs it."""
        self._link.write(bytes(data))
        try:
            async with asyncio.timeout(self.job.orders.role.timeout_s):
                await self._answer.arrived.wait()
        except TimeoutError:
            return


class SyncPublisher(RoundTripper):
    """Publishes to a stream and waits for each acknowledgement."""

    def __init__(self, job: Job, link: WireLink) -> None:
        super().__init__(job, link)
        self._frames = SingleFrame(job.sending, self.inbox)

    def frame(self, number: int, due_ns: int, sent_ns: int) -> bytearray:
        """Return the next message."""
        data, size_bytes = self._frames.make(number, due_ns, sent_ns)
        self.job.tally.sent(1, size_bytes, sent_ns)
        return data

    def take(self, answer: bytes, status: int | None, due_ns: int, sent_ns: int) -> None:
        """Count an acknowledgement."""
        if status is not None or b'"error"' in answer:
            subject = self.job.orders.role.subject
            self.job.tally.add("refused_msgs")
            raise refusal(answer, subject) if status is None else no_stream(subject)
        duplicate = b'"duplicate"' in answer and bool(json.loads(answer).get("duplicate"))
        self.times.add(due_ns, sent_ns, int(duplicate))

    def err_code(self, answer: bytes) -> int | None:
        """Return the number of the error of an acknowledgement."""
        return error_code(answer)

    def flush(self) -> None:
        """Count the acknowledgements."""
        self.times.acked()


class KvPutter(SyncPublisher):
    """Puts values into a bucket: messages to its subjects, spread over its keys."""


class Requester(SyncPublisher):
    """Asks a service and waits for each reply."""

    def err_code(self, answer: bytes) -> int | None:
        """A reply is anything; nothing in it is an error."""
        return None

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
