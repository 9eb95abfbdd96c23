"""What the programs of the plain nats-py client share: its errors, its messages, its inbox."""

from __future__ import annotations

import asyncio
import struct
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

import nats.errors
import nats.js.errors
import numpy as np
from nats.js import JetStreamContext

from natstui.bench.job.content import payload_texts, repeats, which_size
from natstui.bench.job.job import Job, RetryPolicy
from natstui.bench.job.protocol import Orders
from natstui.bench.job.stamps import StampPlace
from natstui.bench.job.template import SEQ_DIGITS
from natstui.bench.wire.link import WireLink
from natstui.errors import RequestFailed, ServerGone

_FLUSH_MSGS = 512
_Answer = TypeVar("_Answer")
PlainMessage = tuple[str, bytes, dict[str, str] | None]
"""Subject, payload, headers."""
_FLUSH_S = 0.05


@contextmanager
def plain_errors(what: str) -> Iterator[None]:
    """Translate what nats-py raises; a time-out passes, because callers count it."""
    try:
        yield
    except TimeoutError:
        # nats-py's own is one of its errors, too.
        raise
    except nats.js.errors.NoStreamResponseError as error:
        raise RequestFailed(f"no stream takes {what}", code=503) from error
    except nats.js.errors.APIError as error:
        raise RequestFailed(
            f"the server refused {what}: {error.description}",
            code=error.code,
            err_code=error.err_code,
        ) from error
    except nats.errors.NoRespondersError as error:
        raise RequestFailed(f"nobody answers {what}", code=503) from error
    except (nats.errors.ConnectionClosedError, nats.errors.OutboundBufferLimitError) as error:
        raise ServerGone(f"the server went away during {what}") from error
    except nats.errors.MaxPayloadError as error:
        raise RequestFailed(f"{what} is larger than the server takes") from error
    except nats.errors.Error as error:
        raise RequestFailed(f"{what}: {error}") from error


async def again(retry: RetryPolicy, ask: Callable[[], Awaitable[_Answer]]) -> _Answer:
    """Ask until a server that is coming back answers; raises what it refuses for good."""
    while True:
        try:
            answer = await ask()
        except RequestFailed as error:
            if not retry.should_retry(error.code, error.err_code):
                raise
            await asyncio.sleep(retry.AGAIN_S)
        else:
            retry.succeeded()
            return answer


def js_context(job: Job) -> JetStreamContext:
    """Return nats-py's JetStream context for the worker's connection."""
    most = job.orders.role.window_msgs
    return job.client.nc.jetstream(
        prefix=job.client.prefix,
        timeout=job.orders.role.timeout_s,
        publish_async_max_pending=most,
    )


class PlainMessages:
    """Messages one by one: subject, payload, headers."""

    def __init__(self, job: Job) -> None:
        self._sending, self._place = job.sending, job.sending.place
        self._random = np.random.default_rng(job.orders.publisher_id)
        self._make(job.sending.orders)

    def _make(self, orders: Orders) -> None:
        self._orders, role = orders, orders.role
        self._texts = [bytearray(text) for text in payload_texts(role.payload)]
        self._logical = repeats(role.payload.duplicate_ratio)
        self._width = len(str(role.subjects_count - 1))

    def make(self, number: int, due_ns: int, now_ns: int) -> PlainMessage:
        """Return the message with this number."""
        if self._sending.orders is not self._orders:
            self._make(self._sending.orders)
        seq = int(self._logical(np.array([number]))[0])
        text = self._texts[which_size(number, self._texts)]
        identity = seq + (self._orders.publisher_id << 48)
        shift_ns = self._place.shift_ns
        times = (due_ns + shift_ns, identity, now_ns + shift_ns)
        stamp = struct.pack("<qqq", *times)[: self._place.length]
        stamp = stamp.hex().encode() if self._place.as_hex else stamp
        text[self._place.offset : self._place.offset + self._place.width] = stamp
        return self._subject(seq), bytes(text), self._headers(seq)

    def _subject(self, seq: int) -> str:
        role = self._orders.role
        if role.subjects_count == 1:
            return role.subject
        which = seq % role.subjects_count
        if role.subjects_random:
            which = int(self._random.integers(role.subjects_count))
        return f"{role.subject}.{which:0{self._width}}"

    def _headers(self, seq: int) -> dict[str, str] | None:
        payload = self._orders.role.payload
        headers = dict(payload.headers)
        if payload.msg_ids:
            orders = self._orders
            headers["Nats-Msg-Id"] = f"{orders.run_id}-{orders.publisher_id}-{seq:0{SEQ_DIGITS}}"
        return headers or None


class PlainInbox:
    """Collects received messages, so that counting them does not cost more than getting them."""

    def __init__(self, job: Job, link: WireLink, place: StampPlace) -> None:
        self._tally, self._place = job.tally, place
        self._payloads: list[bytes] = []
        self._times_ns: list[int] = []
        self._flushing = link.run(self._flush_often())
        job.collectors.append(self.flush)

    def add(self, payload: bytes) -> int:
        """Take one message; return the time it came."""
        now_ns = time.monotonic_ns()
        self._payloads.append(payload)
        self._times_ns.append(now_ns)
        if len(self._payloads) >= _FLUSH_MSGS:
            self.flush()
        return now_ns

    def flush(self) -> None:
        """Hand everything collected to the tally, in runs of equal length."""
        payloads, times_ns = self._payloads, self._times_ns
        self._payloads, self._times_ns = [], []
        start = 0
        while start < len(payloads):
            size, end = len(payloads[start]), start
            while end < len(payloads) and len(payloads[end]) == size:
                end += 1
            rows = np.frombuffer(b"".join(payloads[start:end]), np.uint8).reshape(
                end - start, size
            )
            each_ns = np.array(times_ns[start:end])
            self._tally.received(rows, self._place, times_ns[end - 1], each_ns)
            start = end

    def close(self) -> None:
        """Count the rest."""
        self._flushing.cancel()
        self.flush()

    async def _flush_often(self) -> None:
        while True:
            await asyncio.sleep(_FLUSH_S)
            self.flush()
