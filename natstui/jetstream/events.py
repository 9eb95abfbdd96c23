"""What the server announces by itself: advisories and sampled acknowledgements."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from nats.aio.msg import Msg

from natstui.errors import NatstuiError, RequestFailed, ServerGone
from natstui.feed import Sink
from natstui.jetstream.client import Client
from natstui.jetstream.decode_advisory import read_ack_sample, read_advisory
from natstui.model.record import Record, Restored, Unavailable

_PREFIX = "$JS.EVENT"
# Never all below the prefix: the audit there repeats every reply of our own polling.
_SUBJECTS: dict[str, Callable[[bytes], Record]] = {
    "ADVISORY.STREAM.>": read_advisory,
    "ADVISORY.CONSUMER.>": read_advisory,
    "METRIC.CONSUMER.ACK.>": read_ack_sample,
}
_MOST_PER_S = 500
_HELD = "events"


class _Gate:
    """Lets a bounded number of events through each second, and says how many it held back."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._second = 0
        self._passed_count = 0
        self._held_count = 0
        self._telling: asyncio.TimerHandle | None = None

    def add(self, record: Record) -> None:
        """Pass a record on, or count it."""
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._passed_count = second, 0
        self._passed_count += 1
        if self._passed_count <= _MOST_PER_S:
            self._sink.add(record)
            return
        self._held_count += 1
        if self._telling is None:
            self._tell_soon()

    def close(self) -> None:
        """Say no more."""
        if self._telling is not None:
            self._telling.cancel()

    def _tell_soon(self) -> None:
        self._telling = asyncio.get_running_loop().call_later(1.0, self._tell_held)

    def _tell_held(self) -> None:
        """Say how many were held back in this second, until none are."""
        now_us, count, self._held_count = time.time_ns() // 1000, self._held_count, 0
        if not count:
            self._telling = None
            self._sink.add(Restored(now_us, _HELD))
            return
        reason = f"{count} events were left out: more than {_MOST_PER_S} a second"
        self._sink.add(Unavailable(now_us, _HELD, reason))
        self._tell_soon()


async def listen(client: Client, sink: Sink) -> None:
    """Pass announcements on until cancelled; a denied subscription becomes Unavailable."""
    gate = _Gate(sink)
    prefix = client.connection.event_prefix or _PREFIX
    try:
        for subject, read in _SUBJECTS.items():
            await _subscribe(client, f"{prefix}.{subject}", read, gate, sink)
        await asyncio.Event().wait()
    finally:
        gate.close()


async def _subscribe(
    client: Client, subject: str, read: Callable[[bytes], Record], gate: _Gate, sink: Sink
) -> None:
    def unavailable(error: NatstuiError) -> None:
        denied = getattr(error, "subject", None)
        sink.add(Unavailable(time.time_ns() // 1000, subject, str(error), denied))

    async def take(message: Msg) -> None:
        try:
            gate.add(read(message.data))
        except RequestFailed as error:
            unavailable(error)

    while True:
        try:
            await client.subscribe(subject, take, unavailable)
            return
        except ServerGone:
            await asyncio.sleep(0.25)
