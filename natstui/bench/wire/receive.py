"""Receivers of core messages of the wire client: subscribers, and a service that replies."""

from __future__ import annotations

import asyncio
import socket
import time

import numpy as np

from natstui.bench.job.content import stamp_layout
from natstui.bench.job.job import Job
from natstui.bench.job.stamps import NO_STAMP
from natstui.bench.wire.frames import FrameRun
from natstui.bench.wire.link import (
    WireLink,
    blocking_socket,
    pause_reading_for,
    read_until_pong,
    receive_data,
    wait_until_stopped,
)
from natstui.model.bench.plan import SERVICE_QUEUE_GROUP


class Subscriber:
    """Receives and counts all messages of a subject."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self._job, self._link = job, link
        self._stamp_layout = stamp_layout(job.orders, job.orders.received_payload)

    async def begin(self) -> None:
        """Subscribe."""
        role = self._job.orders.role
        subject = role.subject if role.subjects_count == 1 else f"{role.subject}.*"
        await self._link.subscribe(subject, self._on_run, role.queue or "")

    async def run(self) -> None:
        """Receive until the job stops, then read what the server has sent by then."""
        await wait_until_stopped(self._job, self._link)
        await read_until_pong(self._link)

    def _on_run(self, run: FrameRun, now_ns: int) -> None:
        self._job.tally.count_received(run.payloads, self._stamp_layout, now_ns)
        if self._job.orders.role.think_s:
            pause_reading_for(self._link, self._job.orders.role.think_s * len(run))


_TIME_SLICE_NS = 40_000_000
"""Maximum time for which the event loop is blocked."""
_READ_BYTES = 1 << 16
_CHECK_INTERVAL_S = 0.02
_SERVER_PREFIXES = (b"$JS.", b"$SYS.")
"""Prefixes of subjects of the server: requests with such a reply subject get no reply."""
_REQUEST_FIELDS_COUNT = 5
"""Fields in the control line of a request: MSG, subject, subscription id, reply, size."""


class Service:
    """Replies to every request with the payload of the request.

    Single requests get their reply on a blocking socket: arrays and the event loop would cost
    several times as much as the reply.
    """

    def __init__(self, job: Job, link: WireLink) -> None:
        self._job, self._link = job, link
        self._sid = b""

    async def begin(self) -> None:
        """Subscribe in a queue group, so that workers share the requests."""
        role = self._job.orders.role
        subject = role.subject if role.subjects_count == 1 else f"{role.subject}.*"
        sid = await self._link.subscribe(subject, self._on_run, role.queue or SERVICE_QUEUE_GROUP)
        self._sid = b"%d" % sid

    async def run(self) -> None:
        """Receive requests and reply until the job stops."""
        job, link = self._job, self._link
        while not job.stopping.is_set():
            if not link.is_reading_paused and not link.has_unsent_data:
                with blocking_socket(link) as duplicate_socket:
                    if duplicate_socket is None:
                        break
                    self._reply_in_time_slice(duplicate_socket)
            else:
                await job.sleep(_CHECK_INTERVAL_S)
            await asyncio.sleep(0)
            await link.drain()
        await wait_until_stopped(job, link)

    def _reply_in_time_slice(self, duplicate_socket: socket.socket) -> None:
        """Reply to requests on the blocking socket for 40 ms, then return to the event loop."""
        link, until_ns = self._link, time.monotonic_ns() + _TIME_SLICE_NS
        while (now_ns := time.monotonic_ns()) < until_ns:
            try:
                data = receive_data(link, duplicate_socket, _READ_BYTES)
                if not data:
                    # nats-py reads the same end of the connection and reconnects.
                    return
                if link.is_between_frames and self._reply_to_single_request(
                    duplicate_socket, data, now_ns
                ):
                    continue
            except OSError:
                # Nothing came for long, or the connection broke.
                return
            link.parse_received_data(data)
            if link.has_unsent_data or link.failure.done():
                return

    def _reply_to_single_request(
        self, duplicate_socket: socket.socket, data: bytes, now_ns: int
    ) -> bool:
        """Reply to one complete request; return False, without a reply, for any other data."""
        end = data.find(b"\r\n")
        parts = data[:end].split(b" ")
        if len(parts) != _REQUEST_FIELDS_COUNT or parts[0] != b"MSG" or parts[2] != self._sid:
            return False
        if not parts[4].isdigit() or len(data) != end + int(parts[4]) + 4:
            return False
        if parts[3].startswith(_SERVER_PREFIXES):
            return False
        duplicate_socket.sendall(b"PUB %b %b%b" % (parts[3], parts[4], data[end:]))
        size_bytes, tally = int(parts[4]), self._job.tally
        tally.count_unstamped(1, size_bytes, now_ns)
        tally.count_sent(1, size_bytes, now_ns)
        return True

    def _on_run(self, run: FrameRun, now_ns: int) -> None:
        payloads, replies = run.payloads, run.replies
        self._job.tally.count_received(payloads, NO_STAMP, now_ns)
        if replies is None or replies[0].tobytes().startswith(_SERVER_PREFIXES):
            return
        self._link.write(reply_frames(replies, payloads))
        self._job.tally.count_sent(len(run), payloads.size, now_ns)


def reply_frames(replies: np.ndarray, payloads: np.ndarray) -> bytes:
    """Return the frames of replies with (n, length) subjects and (n, size) payloads."""
    count = len(replies)

    def repeat_bytes(text: bytes) -> np.ndarray:
        return np.broadcast_to(np.frombuffer(text, np.uint8), (count, len(text)))

    sizes = repeat_bytes(b" %d\r\n" % payloads.shape[1])
    parts = [repeat_bytes(b"PUB "), replies, sizes, payloads, repeat_bytes(b"\r\n")]
    return np.concatenate(parts, axis=1).tobytes()
