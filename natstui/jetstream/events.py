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
from natstui.model.record import Record, Unavailable

# Never `$JS.EVENT.>`: the audit below it repeats every reply of our own polling.
_SUBJECTS: dict[str, Callable[[bytes], Record]] = {
    "$JS.EVENT.ADVISORY.STREAM.>": read_advisory,
    "$JS.EVENT.ADVISORY.CONSUMER.>": read_advisory,
    "$JS.EVENT.METRIC.CONSUMER.ACK.>": read_ack_sample,
}
_MOST_PER_S = 500


class _Gate:
    """Lets a bounded number of events through each second, and says how many it held back."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._second = 0
        self._passed_count = 0
        self._held_count = 0

    def add(self, record: Record) -> None:
        """Pass a record on, or count it."""
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._passed_count = second, 0
            self._tell_held()
        self._passed_count += 1
        if self._passed_count > _MOST_PER_S:
            self._held_count += 1
        else:
            self._sink.add(record)

    def _tell_held(self) -> None:
        if self._held_count:
            reason = f"{self._held_count} events were left out: more than {_MOST_PER_S} a second"
            self._sink.add(Unavailable(time.time_ns() // 1000, "events", reason))
            self._held_count = 0


async def listen(client: Client, sink: Sink) -> None:
    """Pass announcements on until cancelled; a denied subscription becomes Unavailable."""
    gate = _Gate(sink)
    for subject, read in _SUBJECTS.items():
        await _subscribe(client, subject, read, gate, sink)
    await asyncio.Event().wait()


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
