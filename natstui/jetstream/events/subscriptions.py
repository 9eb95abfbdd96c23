"""Subscriptions to advisories and sampled acknowledgements."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import replace

from nats.aio.msg import Msg

from natstui.errors import NatstuiError, RequestFailed, ServerGone
from natstui.feed import Sink
from natstui.jetstream.connection.client import Client, OnMessage
from natstui.jetstream.events.advisories import read_ack_sample, read_advisory
from natstui.model.bench.latency import bucket_of, from_counts
from natstui.model.live.evidence import message_of, message_trouble
from natstui.model.live.message_counts import ROOM, MessageCount
from natstui.model.records.evidence import AcksCounted, AdvisoriesCounted, MessageTrouble
from natstui.model.records.record import AckSample, Advisory, Record, Restored, Unavailable
from natstui.units import counted, were

MOST_PASSED_PER_S = 100
"""Limit of samples that are passed on, and recorded, one by one."""
MOST_READ_PER_S = 2_000
MOST_READ_OF_ONE_PER_S = 500
_EVERY_S = 1.0
_MOST_CONSUMERS = 2_000
"""Limit of consumers whose samples are counted separately within a second; anybody may publish on
any subject.
"""


class _Second:
    """The samples of one consumer within a second."""

    def __init__(self) -> None:
        self.read_count = self.left_out_count = self.repeated_count = 0
        self.buckets: dict[int, int] = {}

    def add(self, sample: AckSample) -> None:
        bucket = bucket_of(sample.ack_ns)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1
        self.repeated_count += sample.deliveries_count > 1


class AckSamples:
    """Receives the ack samples of all consumers."""

    def __init__(
        self,
        sink: Sink,
        on_unreadable: Callable[[RequestFailed], None],
        on_left_out: Callable[[str], None],
    ) -> None:
        """Create without samples; `on_left_out` gets the reason for each sample that belongs to no
        consumer.
        """
        self._sink = sink
        self._on_unreadable = on_unreadable
        self._on_left_out = on_left_out
        self._seconds: dict[tuple[str, str], _Second] = {}
        self._read_count = self._passed_count = 0
        self._telling: asyncio.TimerHandle | None = None

    async def take(self, message: Msg) -> None:
        """Read a sample, or count it."""
        if self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(_EVERY_S, self._tell)
        of_consumer = self._second_of(message.subject)
        if of_consumer is None:
            self._on_left_out(
                f"acks of more than {_MOST_CONSUMERS} consumers arrived in one second"
            )
            return
        full = of_consumer.read_count >= MOST_READ_OF_ONE_PER_S
        if full or self._read_count >= MOST_READ_PER_S:
            of_consumer.left_out_count += 1
            return
        of_consumer.read_count += 1
        self._read_count += 1
        try:
            sample = read_ack_sample(message.data)
        except RequestFailed as error:
            self._on_unreadable(error)
            return
        if self._passed_count < MOST_PASSED_PER_S:
            self._passed_count += 1
            self._sink.add(sample)
        else:
            of_consumer.add(sample)

    def close(self) -> None:
        """Report the counts, and stop."""
        if self._telling is not None:
            self._telling.cancel()
        self._tell()

    def _second_of(self, subject: str) -> _Second | None:
        """Return the counts of a consumer: the last two tokens of the subject are its name."""
        stream, _, consumer = subject.rpartition(".")
        name = (stream.rpartition(".")[2], consumer)
        if name not in self._seconds and len(self._seconds) >= _MOST_CONSUMERS:
            return None
        return self._seconds.setdefault(name, _Second())

    def _tell(self) -> None:
        seconds, self._seconds, self._telling = self._seconds, {}, None
        self._read_count = self._passed_count = 0
        now_us = time.time_ns() // 1000
        for (stream, consumer), second in seconds.items():
            if second.buckets or second.left_out_count:
                times = from_counts(second.buckets)
                self._sink.add(
                    AcksCounted(
                        now_us,
                        stream,
                        consumer,
                        times,
                        second.repeated_count,
                        second.left_out_count,
                    )
                )


# Never the whole prefix: its API audit repeats every reply to our own polling.
_ADVISORIES = ("ADVISORY.STREAM.>", "ADVISORY.CONSUMER.>")
_ACK_SAMPLES = "METRIC.CONSUMER.ACK.>"
_MOST_PER_S = 500
_HELD = "events"
_UNREADABLE = "announcements"
_REPORTED_EVERY_S = 1.0


class _Count:
    """Counts left out messages, and reports the count once a second until it is 0."""

    def __init__(self, sink: Sink, source: str) -> None:
        self._sink = sink
        self._what = source
        self._count = 0
        self._reporting: asyncio.TimerHandle | None = None
        self._why = ""

    def add(self, reason: str) -> None:
        """Count one; the report has the `reason` of the last."""
        self._count += 1
        self._why = reason
        if self._reporting is None:
            self._report_soon()

    def close(self) -> None:
        """Stop reporting."""
        if self._reporting is not None:
            self._reporting.cancel()

    def _report_soon(self) -> None:
        self._reporting = asyncio.get_running_loop().call_later(_REPORTED_EVERY_S, self._report)

    def _report(self) -> None:
        now_us, count, self._count = time.time_ns() // 1000, self._count, 0
        if not count:
            self._reporting = None
            self._sink.add(Restored(now_us, self._what))
            return
        text = f"{counted(count, 'event')} {were(count)} left out: {self._why}"
        self._sink.add(Unavailable(now_us, self._what, text))
        self._report_soon()


class _Gate:
    """Passes on a bounded number of events per second, and reports how many it left out.

    Left out events about a message are still counted.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._second = 0
        self._passed_count = 0
        self._held = _Count(sink, _HELD)
        self._unreadable = _Count(sink, _UNREADABLE)
        self._storm = Storm(sink)

    def leave_out(self, error: RequestFailed) -> None:
        """Count an unreadable message: anybody who may publish can forge them."""
        self._unreadable.add(str(error))

    def hold(self, reason: str) -> None:
        """Count a left out event, with the reason."""
        self._held.add(reason)

    def add(self, record: Record) -> None:
        """Pass a record on, or count it."""
        second = int(time.monotonic())
        if second != self._second:
            self._second, self._passed_count = second, 0
        self._passed_count += 1
        if self._passed_count <= _MOST_PER_S:
            self._sink.add(record)
            return
        self._storm.add(record)
        self.hold(f"more than {_MOST_PER_S} a second")

    def close(self) -> None:
        """Report the last count, and stop."""
        self._storm.close()
        self._held.close()
        self._unreadable.close()


async def listen(client: Client, sink: Sink) -> None:
    """Pass announcements on until cancelled; a denied subscription becomes Unavailable."""
    gate = _Gate(sink)
    samples = AckSamples(sink, gate.leave_out, gate.hold)
    prefix = client.connection.js_event_prefix

    async def take(message: Msg) -> None:
        if client.is_of_other_domain(message.data):
            return
        try:
            gate.add(read_advisory(message.data))
        except RequestFailed as error:
            gate.leave_out(error)

    async def take_sample(message: Msg) -> None:
        if not client.is_of_other_domain(message.data):
            await samples.take(message)

    try:
        for subject in _ADVISORIES:
            await _subscribe(client, f"{prefix}.{subject}", take, sink)
        await _subscribe(client, f"{prefix}.{_ACK_SAMPLES}", take_sample, sink)
        await asyncio.Event().wait()
    finally:
        samples.close()
        gate.close()


async def _subscribe(client: Client, subject: str, take: OnMessage, sink: Sink) -> None:
    def unavailable(error: NatstuiError) -> None:
        denied_subject = getattr(error, "subject", None)
        sink.add(Unavailable(time.time_ns() // 1000, subject, str(error), denied_subject))

    while True:
        try:
            await client.subscribe(subject, take, unavailable)
            return
        except ServerGone:
            await asyncio.sleep(0.25)


class _Counted:
    """The advisories about messages of one consumer since the last report."""

    def __init__(self) -> None:
        self.count = 0
        self.messages: dict[int, MessageCount] = {}

    def add(self, advisory: Advisory) -> None:
        self.count += 1
        for message in message_of(advisory):
            counts = self.messages.get(message.stream_seq)
            self.messages[message.stream_seq] = (
                message if counts is None else replace(message, said_count=counts.said_count + 1)
            )

    def most_frequent(self) -> tuple[MessageCount, ...]:
        sorted_messages = sorted(
            self.messages.values(), key=lambda message: (-message.said_count, message.stream_seq)
        )
        return tuple(sorted_messages[:ROOM])


class Storm:
    """Counts announcements that are not passed on one by one, for up to a second."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._counted: dict[tuple[MessageTrouble, str, str], _Counted] = {}
        self._telling: asyncio.TimerHandle | None = None

    def add(self, record: Record) -> None:
        """Count a record about a message of a consumer; others are only passed on."""
        kind = message_trouble(record) if isinstance(record, Advisory) else None
        if not isinstance(record, Advisory) or kind is None:
            return
        if record.stream is None or record.consumer is None:
            return
        key = (kind, record.stream, record.consumer)
        self._counted.setdefault(key, _Counted()).add(record)
        if self._telling is None:
            self._telling = asyncio.get_running_loop().call_later(_REPORTED_EVERY_S, self._tell)

    def close(self) -> None:
        """Report the counts, and stop."""
        if self._telling is not None:
            self._telling.cancel()
        self._tell()

    def _tell(self) -> None:
        counted_by_key, self._counted, self._telling = self._counted, {}, None
        now_us = time.time_ns() // 1000
        for (kind, stream, consumer), counted_events in counted_by_key.items():
            self._sink.add(
                AdvisoriesCounted(
                    now_us,
                    kind,
                    stream,
                    consumer,
                    counted_events.count,
                    counted_events.most_frequent(),
                )
            )
