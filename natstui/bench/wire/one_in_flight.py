"""Programs with one message in flight, which wait for its reply on a blocking socket."""

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
    build_payloads,
    header_parts,
    message_numbering,
    size_index_of,
    subject_parts,
)
from natstui.bench.job.job import Job, Pace, RetryPolicy
from natstui.bench.job.protocol import Orders
from natstui.bench.job.tally import Tally
from natstui.bench.job.template import SEQ_DIGITS, FrameFormat, FrameTemplate, NumberField
from natstui.bench.wire.deliveries import read_direct_get_seq
from natstui.bench.wire.frames import FrameRun
from natstui.bench.wire.link import WireLink, blocking_socket, receive_data
from natstui.bench.wire.publish import error_code, no_stream_error, refusal_error
from natstui.errors import NotFound, RequestFailed


class FrameBuilder:
    """Builds the frames of a sender with one message in flight, in buffers that it reuses."""

    def __init__(self, settings: SenderSettings, inbox: bytes) -> None:
        self._settings, self._inbox, self._stamp_layout = settings, inbox, settings.stamp_layout
        self._build_frames(settings.orders)

    def _build_frames(self, orders: Orders) -> None:
        self._orders, role = orders, orders.role
        reply = (self._inbox + b".", NumberField("reply", SEQ_DIGITS))
        frames = [
            FrameTemplate(
                FrameFormat(
                    subject_parts(orders), payload, self._stamp_layout, reply, header_parts(orders)
                ),
                1,
            )
            for payload in build_payloads(role.payload)
        ]
        self._frames = [
            (
                bytearray(frame.blank_frame()),
                [
                    (name, position, position.stop - position.start)
                    for name, position in frame.number_positions.items()
                ],
                frame.payload_position,
            )
            for frame in frames
        ]
        self._publisher = orders.publisher_id
        self._subjects_count = role.subjects_count
        self._worker_index, self._workers_count = orders.worker_index, orders.workers_count
        self._rng = np.random.default_rng(orders.publisher_id) if role.subjects_random else None
        self._to_message_numbers = message_numbering(role.payload.duplicate_ratio)
        self._has_repeats = role.payload.duplicate_ratio > 0
        self._stamp_positions = [
            slice(start, start + self._stamp_layout.width)
            for start in (
                payload.start + self._stamp_layout.offset for *_, payload in self._frames
            )
        ]

    def build_frame(self, number: int, due_ns: int, now_ns: int) -> tuple[bytearray, int]:
        """Return the frame of message `number`, valid until the next call, and its payload bytes.

        Times are of the steady clock in ns.
        """
        if self._settings.orders is not self._orders:
            self._build_frames(self._settings.orders)
        has_several_sizes = len(self._frames) > 1
        size_index = size_index_of(number, self._frames) if has_several_sizes else 0
        frame, number_fields, payload = self._frames[size_index]
        seq = int(self._to_message_numbers(np.array([number]))[0]) if self._has_repeats else number
        if self._stamp_layout.length:
            stamp = self._stamp_layout.pack(due_ns, self._publisher, seq, now_ns)
            frame[self._stamp_positions[size_index]] = stamp
        for name, position, width in number_fields:
            value = number if name == "reply" else seq
            if name == "subject":
                value = self._choose_subject(seq)
            frame[position] = b"%0*d" % (width, value)
        return frame, payload.stop - payload.start

    def _choose_subject(self, seq: int) -> int:
        if self._rng is None:
            # The workers share the subjects as they share the messages.
            number = seq * self._workers_count + self._worker_index
            return number % self._subjects_count
        return int(self._rng.integers(self._subjects_count))


class ReplyTimes:
    """The due, sending and receiving times of replies that the tally has not counted yet."""

    def __init__(self, tally: Tally) -> None:
        self._tally = tally
        self._due_sent_received_extra: list[tuple[int, int, int, int]] = []

    def add(self, due_ns: int, sent_ns: int, repeat_or_bytes: int) -> None:
        """Add a reply that was received now; times are of the steady clock in ns.

        `repeat_or_bytes` is for `tally_acks` whether the ack is of a repeat (1 or 0), for
        `tally_replies` the size of the reply in bytes.
        """
        self._due_sent_received_extra.append(
            (due_ns, sent_ns, time.monotonic_ns(), repeat_or_bytes)
        )

    def tally_acks(self) -> None:
        """Count the added replies as acks in the tally, and record their latency."""
        if self._due_sent_received_extra:
            columns = np.array(self._due_sent_received_extra, np.int64)
            self._due_sent_received_extra = []
            repeats_count = int(columns[:, 3].sum())
            self._tally.count_acks(columns[:, 0], columns[:, 1], columns[:, 2], repeats_count)

    def tally_replies(self) -> None:
        """Count the added replies as messages in the tally, and record their latency."""
        if self._due_sent_received_extra:
            columns = np.array(self._due_sent_received_extra, np.int64)
            self._due_sent_received_extra = []
            steady_count = self._tally.record_latencies(
                "rtt", columns[:, 0], columns[:, 1], columns[:, 2]
            )
            last_received_ns = int(columns[-1, 2])
            self._tally.count_replies(
                len(columns), int(columns[:, 3].sum()), steady_count, last_received_ns
            )


_TIME_SLICE_NS = 40_000_000
"""Maximum time for which the event loop is blocked."""
_READ_BYTES = 1 << 16


_FIELDS_COUNT_BY_VERB = {b"MSG": 3, b"HMSG": 4}
"""Verb of a reply → number of fields after the verb, without a reply subject."""
_HEADERS_WITHOUT_STATUS = b"NATS/1.0\r\n"
_NOT_FOUND_STATUS = 404


class _PendingReply:
    """The reply to the message in flight, if it was received."""

    def __init__(self, inbox: bytes) -> None:
        self.payload: bytes | None = None
        self.headers = b""
        self.status: int | None = None
        self.arrival_event = asyncio.Event()
        self._inbox = inbox
        self._subject = b""

    def expect(self, number: int) -> None:
        """Reset, and expect the reply to message `number`, whose subject ends with that number."""
        self.payload = self.status = None
        self.headers = b""
        self.arrival_event.clear()
        self._subject = b"%s.%012d" % (self._inbox, number)

    def on_run(self, run: FrameRun, _now_ns: int) -> None:
        """Store the expected reply of a run of frames; replies to earlier messages are ignored."""
        for row in range(len(run)):
            if run.text(row, run.layout.subject) == self._subject:
                self.payload = run.text(row, run.layout.payload)
                self.headers = run.text(row, run.layout.headers)
                self.status = run.status
                self.arrival_event.set()

    def read_single_reply(self, data: bytes) -> bool:
        """Store the reply if `data` is exactly the expected one; return False for other data.

        The parser of entire blocks would need several times as long for a single message.
        """
        end = data.find(b"\r\n")
        verb, *parts = data[: max(end, 0)].split(b" ")
        start = end + 2
        if len(parts) != _FIELDS_COUNT_BY_VERB.get(verb) or parts[0] != self._subject:
            return False
        if not parts[-1].isdigit() or len(data) != start + int(parts[-1]) + 2:
            return False
        if verb == b"HMSG":
            # Text after the version would be a status.
            if not data.startswith(_HEADERS_WITHOUT_STATUS, start) or not parts[2].isdigit():
                return False
            self.headers = data[start : start + int(parts[2])]
            start += int(parts[2])
        self.payload = data[start:-2]
        return True


class RoundTripper(ABC):
    """Sends one message at a time, and waits for its reply; subclasses define the messages."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self.job, self._link = job, link
        self.inbox = link.nc.new_inbox().encode()
        self._pending_reply = _PendingReply(self.inbox)
        self.times = ReplyTimes(job.tally)
        self._retry = RetryPolicy(job)
        self._timeout_ns = round(job.orders.role.timeout_s * 1e9)
        job.flush_callbacks.append(self.flush)

    @abstractmethod
    def frame(self, number: int, due_ns: int, sent_ns: int) -> bytes | bytearray:
        """Return the frame of message `number`, valid until the next call.

        Times are of the steady clock in ns.
        """

    @abstractmethod
    def count_reply(self, reply: bytes, status: int | None, due_ns: int, sent_ns: int) -> None:
        """Count a reply; raise the error of a refusal.

        `reply` is its payload, `status` the status code in its headers, None without one.
        """

    @abstractmethod
    def flush(self) -> None:
        """Count the replies since the last call in the tally."""

    async def begin(self) -> None:
        """Subscribe to the replies."""
        await self._link.subscribe(f"{self.inbox.decode()}.*", self._pending_reply.on_run)

    async def run(self) -> None:
        """Send a message, wait for its reply, and repeat by the schedule."""
        pace = Pace(self.job)
        await self._link.drain()
        try:
            while not self.job.stopping.is_set():
                with blocking_socket(self._link) as duplicate_socket:
                    has_more_msgs = await self._exchange_in_time_slice(pace, duplicate_socket)
                self.flush()
                if not has_more_msgs:
                    break
                await asyncio.sleep(0)
                await self._link.drain()
        finally:
            self.flush()
        pace.close()

    async def _exchange_in_time_slice(
        self, pace: Pace, duplicate_socket: socket.socket | None
    ) -> bool:
        """Send messages and receive their replies for 40 ms, then return to the event loop.

        Returns False at the end of the schedule.
        """
        until_ns, reply = time.monotonic_ns() + _TIME_SLICE_NS, self._pending_reply
        while time.monotonic_ns() < until_ns:
            due_msg = await pace.next_message()
            if due_msg is None:
                return False
            reply.expect(due_msg[0])
            sent_ns = time.monotonic_ns()
            data = self.frame(due_msg[0], due_msg[1], sent_ns)
            await self._exchange(duplicate_socket, data)
            while self.should_retry():
                # Other tasks of the loop run meanwhile, and the connection may be replaced.
                await asyncio.sleep(RetryPolicy.RETRY_DELAY_S)
                reply.expect(due_msg[0])
                await self._exchange(duplicate_socket, data)
            if reply.payload is None:
                self.job.tally.add("unanswered_msgs")
                return True
            self.count_reply(reply.payload, reply.status, due_msg[1], sent_ns)
            self._retry.note_success()
        return True

    def should_retry(self) -> bool:
        """Return whether the reply is a temporary refusal, so the message is sent again."""
        payload, status = self._pending_reply.payload, self._pending_reply.status
        if payload is None:
            return False
        err_code = None if status is not None else self.err_code(payload)
        if (status is None and err_code is None) or self.job.stopping.is_set():
            return False
        return self._retry.should_retry(
            status, err_code, was_connection_lost=self._link.disconnects_count > 0
        )

    def err_code(self, _reply: bytes) -> int | None:
        """Return the error code of JetStream in a reply; None without one."""
        return None

    async def _exchange(
        self, duplicate_socket: socket.socket | None, data: bytes | bytearray
    ) -> None:
        """Send a frame, and block until the reply is received, or for the timeout of the role."""
        if duplicate_socket is None:
            await self._exchange_on_loop(data)
            return
        reply, link, began_ns = self._pending_reply, self._link, 0
        try:
            duplicate_socket.sendall(data)
            while reply.payload is None:
                try:
                    data_read = receive_data(link, duplicate_socket, _READ_BYTES)
                except BlockingIOError:
                    # While a server is frozen or slow, the worker must send its reports.
                    await asyncio.sleep(0)
                    began_ns = began_ns or time.monotonic_ns()
                    is_timed_out = time.monotonic_ns() - began_ns > self._timeout_ns
                    if is_timed_out or self.job.stopping.is_set():
                        return
                    continue
                if not data_read:
                    return
                if not (link.is_between_frames and reply.read_single_reply(data_read)):
                    link.parse_received_data(data_read)
        except OSError:
            # nats-py reads the same end of the connection and reconnects.
            return

    async def _exchange_on_loop(self, data: bytes | bytearray) -> None:
        """Send a frame, and wait for the reply on the event loop, as TLS requires."""
        self._link.write(bytes(data))
        try:
            async with asyncio.timeout(self.job.orders.role.timeout_s):
                await self._pending_reply.arrival_event.wait()
        except TimeoutError:
            return


class SyncPublisher(RoundTripper):
    """Publishes to a stream and waits for each ack."""

    def __init__(self, job: Job, link: WireLink) -> None:
        super().__init__(job, link)
        self._frames = FrameBuilder(job.sender_settings, self.inbox)

    def frame(self, number: int, due_ns: int, sent_ns: int) -> bytearray:
        """Return the frame of message `number`, and count the message as sent."""
        data, size_bytes = self._frames.build_frame(number, due_ns, sent_ns)
        self.job.tally.count_sent(1, size_bytes, sent_ns)
        return data

    def count_reply(self, reply: bytes, status: int | None, due_ns: int, sent_ns: int) -> None:
        """Count a publish ack; raises the error of a refusal."""
        if status is not None or b'"error"' in reply:
            subject = self.job.orders.role.subject
            self.job.tally.add("refused_msgs")
            raise refusal_error(reply, subject) if status is None else no_stream_error(subject)
        is_duplicate = b'"duplicate"' in reply and bool(json.loads(reply).get("duplicate"))
        self.times.add(due_ns, sent_ns, int(is_duplicate))

    def err_code(self, reply: bytes) -> int | None:
        """Return the error code in an ack."""
        return error_code(reply)

    def flush(self) -> None:
        """Count the acks since the last call in the tally."""
        self.times.tally_acks()


class KvPutter(SyncPublisher):
    """Puts values into a bucket: publishes to the subjects of its keys, and waits for each ack."""


class Requester(SyncPublisher):
    """Sends requests to a service and waits for each reply."""

    def err_code(self, reply: bytes) -> int | None:
        """Return None: the reply of a service may have any content."""
        return None

    def count_reply(self, reply: bytes, status: int | None, due_ns: int, sent_ns: int) -> None:
        """Count a reply; raises RequestFailed if there is no responder."""
        if status is not None:
            self.job.tally.add("unanswered_msgs")
            subject = self.job.orders.role.subject
            raise RequestFailed(f'no responder on "{subject}"', code=status)
        self.times.add(due_ns, sent_ns, len(reply))

    def flush(self) -> None:
        """Count the replies of the service since the last call in the tally."""
        self.times.tally_replies()


class _DirectGetter(RoundTripper):
    """Gets stored messages one by one with DIRECT.GET."""

    def __init__(self, job: Job, link: WireLink) -> None:
        super().__init__(job, link)
        subject = f"{job.client.prefix}.DIRECT.GET.{job.orders.stream}".encode()
        self._head = b"PUB %s %s." % (subject, self.inbox)

    @abstractmethod
    def body(self, number: int) -> bytes:
        """Return the body of request `number`."""

    def frame(self, number: int, due_ns: int, sent_ns: int) -> bytes:
        """Return the frame of request `number`."""
        body = self.body(number)
        return b"%s%012d %d\r\n%s\r\n" % (self._head, number, len(body), body)

    def count_reply(self, reply: bytes, status: int | None, due_ns: int, sent_ns: int) -> None:
        """Count a received message; raises NotFound if the stream does not have it."""
        if status is not None:
            raise NotFound(f"stream {self.job.orders.stream} has no such message: status {status}")
        self.times.add(due_ns, sent_ns, len(reply))

    def flush(self) -> None:
        """Count the messages received since the last call in the tally."""
        self.times.tally_replies()


class StreamGetter(_DirectGetter):
    """Gets the messages that were stored before the run, in order, over and over."""

    def __init__(self, job: Job, link: WireLink) -> None:
        super().__init__(job, link)
        self._next_seq = job.orders.first_seq
        self._request_number = 0

    def body(self, number: int) -> bytes:
        """Return the body of a request for the next message: those in between may be deleted."""
        self._request_number = number
        return b'{"seq":%d,"next_by_subj":">"}' % self._next_seq

    def count_reply(self, reply: bytes, status: int | None, due_ns: int, sent_ns: int) -> None:
        """Count a received message; raises NotFound if the stream has none."""
        super().count_reply(reply, status, due_ns, sent_ns)
        seq, orders = (
            read_direct_get_seq(self._pending_reply.headers) or self._next_seq,
            self.job.orders,
        )
        self._next_seq = seq + 1 if seq < orders.last_seq else orders.first_seq

    async def _exchange(
        self, duplicate_socket: socket.socket | None, data: bytes | bytearray
    ) -> None:
        """Get the next message, and the first one if the last messages were deleted."""
        await super()._exchange(duplicate_socket, data)
        if self._pending_reply.status != _NOT_FOUND_STATUS:
            return
        self._next_seq = self.job.orders.first_seq
        first_frame = self.frame(self._request_number, 0, 0)
        if data != first_frame:
            self._pending_reply.expect(self._request_number)
            await super()._exchange(duplicate_socket, first_frame)


class KvGetter(_DirectGetter):
    """Gets the last value of the keys in order, or of random keys."""

    def __init__(self, job: Job, link: WireLink) -> None:
        super().__init__(job, link)
        self._rng = random.Random(job.orders.publisher_id)

    def body(self, number: int) -> bytes:
        """Return the body of request `number`, which gets the last value of a key."""
        orders, role = self.job.orders, self.job.orders.role
        subject = role.subject
        key_number = number * orders.workers_count + orders.worker_index
        if role.subjects_random:
            key_number = self._rng.randrange(role.subjects_count)
        if role.subjects_count > 1:
            width = len(str(role.subjects_count - 1))
            subject = f"{subject}.{key_number % role.subjects_count:0{width}}"
        return b'{"last_by_subj":"%s"}' % subject.encode()
