"""Core receiving with the wire client: subscribers, and a service that replies."""

from __future__ import annotations

import asyncio
import socket
import time

import numpy as np

from natstui.bench.job.content import stamp_place
from natstui.bench.job.job import Job
from natstui.bench.job.stamps import NO_STAMP
from natstui.bench.wire.frames import Run
from natstui.bench.wire.link import (
    WireLink,
    blocking_socket,
    pause_reading,
    read_pending,
    receive,
    until_stopped,
)
from natstui.model.bench.plan import SERVICE_QUEUE


class Subscriber:
    """Receives and counts all messages of a subject."""

    def __init__(self, job: Job, link: WireLink) -> None:
        self._job, self._link = job, link
        self._place = stamp_place(job.orders, job.orders.stamp_of)

    async def begin(self) -> None:
        """Subscribe."""
        role = self._job.orders.role
        subject = role.subject if role.subjects_count == 1 else f"{role.subject}.*"
        await self._link.subscribe(subject, self._on_run, role.queue or "")

    async def run(self) -> None:
        """Receive until the job stops, and read all pending messages."""
        await until_stopped(self._job, self._link)
        await read_pending(self._link)

    def _on_run(self, run: Run, now_ns: int) -> None:
        self._job.tally.received(run.payloads, self._place, now_ns)
        if self._job.orders.role.think_s:
            pause_reading(self._link, self._job.orders.role.think_s * len(run))


_TURN_NS = 40_000_000
"""Maximum time for which the event loop is blocked."""
_READ_BYTES = 1 << 16
_LOOK_S = 0.02
_INTERNAL = (b"$JS.", b"$SYS.")
"""Reply subjects that are not used: a reply would be a request of ours to the server."""
_PARTS = 5
"""Fields in the control line of a request: MSG, subject, subscription id, reply, size."""


class Server:
    """Replies to every request with its own payload.

    Single requests are replied to on the blocking socket: arrays and a turn of the event loop
    would cost several times as much as the reply.
    """

    def __init__(self, job: Job, link: WireLink) -> None:
        self._job, self._link = job, link
        self._sid = b""

    async def begin(self) -> None:
        """Subscribe, in a queue group so that workers share the requests."""
        role = self._job.orders.role
        subject = role.subject if role.subjects_count == 1 else f"{role.subject}.*"
        sid = await self._link.subscribe(subject, self._on_run, role.queue or SERVICE_QUEUE)
        self._sid = b"%d" % sid

    async def run(self) -> None:
        """Receive requests and reply until the job stops."""
        job, link = self._job, self._link
        while not job.stopping.is_set():
            if not link.is_held and not link.is_behind:
                with blocking_socket(link) as twin:
                    if twin is None:
                        break
                    self._turn(twin)
            else:
                await job.sleep(_LOOK_S)
            await asyncio.sleep(0)
            await link.drain()
        await until_stopped(job, link)

    def _turn(self, twin: socket.socket) -> None:
        """Reply to requests until the event loop's turn."""
        link, until_ns = self._link, time.monotonic_ns() + _TURN_NS
        while (now_ns := time.monotonic_ns()) < until_ns:
            try:
                data = receive(link, twin, _READ_BYTES)
                if not data:
                    # nats-py reads the same end of the connection and reconnects.
                    return
                if link.is_between_frames and self._reply_single(twin, data, now_ns):
                    continue
            except OSError:
                # Nothing came for long, or the connection broke.
                return
            link.received(data)
            if link.is_behind or link.failure.done():
                return

    def _reply_single(self, twin: socket.socket, data: bytes, now_ns: int) -> bool:
        """Reply to data that is exactly one complete request; return False for other data."""
        end = data.find(b"\r\n")
        parts = data[:end].split(b" ")
        if len(parts) != _PARTS or parts[0] != b"MSG" or parts[2] != self._sid:
            return False
        if not parts[4].isdigit() or len(data) != end + int(parts[4]) + 4:
            return False
        if parts[3].startswith(_INTERNAL):
            return False
        twin.sendall(b"PUB %b %b%b" % (parts[3], parts[4], data[end:]))
        size_bytes, tally = int(parts[4]), self._job.tally
        tally.received_unstamped(1, size_bytes, now_ns)
        tally.sent(1, size_bytes, now_ns)
        return True

    def _on_run(self, run: Run, now_ns: int) -> None:
        payloads, replies = run.payloads, run.replies
        self._job.tally.received(payloads, NO_STAMP, now_ns)
        if replies is None or replies[0].tobytes().startswith(_INTERNAL):
            return
        self._link.write(reply_frames(replies, payloads))
        self._job.tally.sent(len(run), payloads.size, now_ns)


def reply_frames(replies: np.ndarray, payloads: np.ndarray) -> bytes:
    """Return the `PUB <reply> <size>` frames of (n, length) subjects and (n, size) payloads."""
    count = len(replies)

    def column(text: bytes) -> np.ndarray:
        return np.broadcast_to(np.frombuffer(text, np.uint8), (count, len(text)))

    sizes = column(b" %d\r\n" % payloads.shape[1])
    parts = [column(b"PUB "), replies, sizes, payloads, column(b"\r\n")]
    return np.concatenate(parts, axis=1).tobytes()
