"""Subscribes to advisories and ack samples, and limits how many are recorded one by one."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from nats.aio.msg import Msg

from natstui.errors import ConnectionLost, NatstuiError, RequestFailed
from natstui.feed import Sink
from natstui.jetstream.connection.client import Client, OnMessage
from natstui.jetstream.events.advisories import read_ack_sample, read_advisory
from natstui.model.bench.latency import bucket_of, from_counts
from natstui.model.live.advisory_counts import MAX_MESSAGES, MessageCount
from natstui.model.live.evidence import message_advisory_type, message_of
from natstui.model.records.evidence import AcksCounted, AdvisoriesCounted, MessageAdvisoryType
from natstui.model.records.record import AckSample, Advisory, Record, Restored, Unavailable
from natstui.units import counted, was_or_were
from natstui.values import replace

MAX_RECORDED_SAMPLES_PER_S = 100
"""Maximum number of samples per second that are recorded one by one."""
MAX_READ_SAMPLES_PER_S = 2_000
MAX_READ_SAMPLES_PER_CONSUMER = 500
_MAX_COUNTED_CONSUMERS = 2_000
"""Maximum number of consumers whose samples are counted in one second. Other clients may publish
samples of any consumer."""


def _time_to_next_second_s() -> float:
    """Return the time (s) to the next full second of the clock, when counts are reported.

    So a count is of one second: an analysis per minute or hour has it where its events are.
    """
    return 1 - time.time() % 1


class _ConsumerCounts:
    """Counts of one consumer's samples in one second.

    `samples_by_time_bucket` and `redelivered_count` do not count the samples that are recorded one
    by one.
    """

    def __init__(self) -> None:
        self.read_count = self.left_out_count = self.redelivered_count = 0
        self.samples_by_time_bucket: dict[int, int] = {}

    def add(self, sample: AckSample) -> None:
        bucket = bucket_of(sample.ack_ns)
        self.samples_by_time_bucket[bucket] = self.samples_by_time_bucket.get(bucket, 0) + 1
        self.redelivered_count += sample.deliveries_count > 1


class AckSampleReceiver:
    """Receives the ack samples of all consumers: adds the first ones of each second to the sink,
    and counts the others.
    """

    def __init__(
        self,
        sink: Sink,
        on_unreadable: Callable[[RequestFailed], None],
        on_left_out: Callable[[str], None],
    ) -> None:
        """Store the sink and the callbacks.

        `on_unreadable` is called with the error of an unreadable sample, and `on_left_out` with
        the reason when a sample is not counted at all.
        """
        self._sink = sink
        self._on_unreadable = on_unreadable
        self._on_left_out = on_left_out
        self._counts_by_consumer: dict[tuple[str, str], _ConsumerCounts] = {}
        self._read_samples_count = self._recorded_samples_count = 0
        self._report_timer: asyncio.TimerHandle | None = None

    async def on_sample(self, message: Msg) -> None:
        """Add a received sample to the sink, or count it."""
        if self._report_timer is None:
            self._report_timer = asyncio.get_running_loop().call_later(
                _time_to_next_second_s(), self._report
            )
        consumer_counts = self._find_consumer_counts(message.subject)
        if consumer_counts is None:
            self._on_left_out(
                f"acks of more than {_MAX_COUNTED_CONSUMERS} consumers arrived in one second"
            )
            return
        is_limit_reached = consumer_counts.read_count >= MAX_READ_SAMPLES_PER_CONSUMER
        if is_limit_reached or self._read_samples_count >= MAX_READ_SAMPLES_PER_S:
            consumer_counts.left_out_count += 1
            return
        consumer_counts.read_count += 1
        self._read_samples_count += 1
        try:
            sample = read_ack_sample(message.data)
        except RequestFailed as error:
            self._on_unreadable(error)
            return
        if self._recorded_samples_count < MAX_RECORDED_SAMPLES_PER_S:
            self._recorded_samples_count += 1
            self._sink.add(sample)
        else:
            consumer_counts.add(sample)

    def close(self) -> None:
        """Report the counts, and stop the timer."""
        if self._report_timer is not None:
            self._report_timer.cancel()
        self._report()

    def _find_consumer_counts(self, subject: str) -> _ConsumerCounts | None:
        """Return the counts of the consumer that the last two tokens of a subject name; None if
        there are too many consumers.
        """
        stream, _, consumer = subject.rpartition(".")
        name = (stream.rpartition(".")[2], consumer)
        if (
            name not in self._counts_by_consumer
            and len(self._counts_by_consumer) >= _MAX_COUNTED_CONSUMERS
        ):
            return None
        return self._counts_by_consumer.setdefault(name, _ConsumerCounts())

    def _report(self) -> None:
        counts_by_consumer, self._counts_by_consumer, self._report_timer = (
            self._counts_by_consumer,
            {},
            None,
        )
        self._read_samples_count = self._recorded_samples_count = 0
        now_us = time.time_ns() // 1000
        for (stream, consumer), counts in counts_by_consumer.items():
            if counts.samples_by_time_bucket or counts.left_out_count:
                ack_time_histogram = from_counts(counts.samples_by_time_bucket)
                self._sink.add(
                    AcksCounted(
                        now_us,
                        stream,
                        consumer,
                        ack_time_histogram,
                        counts.redelivered_count,
                        counts.left_out_count,
                    )
                )


# Not `ADVISORY.>`: it includes API audits, which repeat each reply to natstui's own polling.
_ADVISORY_SUBJECTS = ("ADVISORY.STREAM.>", "ADVISORY.CONSUMER.>")
_ACK_SAMPLES_SUBJECT = "METRIC.CONSUMER.ACK.>"
_MAX_EVENTS_PER_S = 500
_LEFT_OUT_EVENTS_SOURCE = "events"
_UNREADABLE_EVENTS_SOURCE = "announcements"
_REPORT_INTERVAL_S = 1.0


class _LeftOutCounter:
    """Counts messages that are left out, and reports the count once a second until it is 0."""

    def __init__(self, sink: Sink, source: str) -> None:
        self._sink = sink
        self._reported_source = source
        self._left_out_messages_count = 0
        self._report_timer: asyncio.TimerHandle | None = None
        self._last_reason = ""

    def add(self, reason: str) -> None:
        """Count one message; the report contains the reason of the last one."""
        self._left_out_messages_count += 1
        self._last_reason = reason
        if self._report_timer is None:
            self._report_soon()

    def close(self) -> None:
        """Stop the timer."""
        if self._report_timer is not None:
            self._report_timer.cancel()

    def _report_soon(self) -> None:
        self._report_timer = asyncio.get_running_loop().call_later(
            _REPORT_INTERVAL_S, self._report
        )

    def _report(self) -> None:
        now_us, count, self._left_out_messages_count = (
            time.time_ns() // 1000,
            self._left_out_messages_count,
            0,
        )
        if not count:
            self._report_timer = None
            self._sink.add(Restored(now_us, self._reported_source))
            return
        text = f"{counted(count, 'event')} {was_or_were(count)} left out: {self._last_reason}"
        self._sink.add(Unavailable(now_us, self._reported_source, text))
        self._report_soon()


class _RateLimiter:
    """Adds a limited number of events per second to the sink, and reports how many it leaves out.

    Events that are left out are still counted if they are about a message.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._current_second = 0
        self._current_second_events_count = 0
        self._left_out_counter = _LeftOutCounter(sink, _LEFT_OUT_EVENTS_SOURCE)
        self._unreadable_counter = _LeftOutCounter(sink, _UNREADABLE_EVENTS_SOURCE)
        self._excess_advisories = ExcessAdvisories(sink)

    def leave_out_unreadable(self, error: RequestFailed) -> None:
        """Count an unreadable message, which another client may have published."""
        self._unreadable_counter.add(str(error))

    def leave_out(self, reason: str) -> None:
        """Count an event that is left out for a reason."""
        self._left_out_counter.add(reason)

    def add(self, record: Record) -> None:
        """Add a record to the sink, or leave it out and count it."""
        second = int(time.monotonic())
        if second != self._current_second:
            self._current_second, self._current_second_events_count = second, 0
        self._current_second_events_count += 1
        if self._current_second_events_count <= _MAX_EVENTS_PER_S:
            self._sink.add(record)
            return
        self._excess_advisories.add(record)
        self.leave_out(f"more than {_MAX_EVENTS_PER_S} a second")

    def close(self) -> None:
        """Report the last counts, and stop the timers."""
        self._excess_advisories.close()
        self._left_out_counter.close()
        self._unreadable_counter.close()


async def read_events(client: Client, sink: Sink) -> None:
    """Pass advisories and ack samples to the sink until cancelled.

    A denied subscription is reported as `Unavailable`.
    """
    limiter = _RateLimiter(sink)
    sample_receiver = AckSampleReceiver(sink, limiter.leave_out_unreadable, limiter.leave_out)
    prefix = client.connection.js_event_prefix

    async def on_advisory(message: Msg) -> None:
        if client.is_of_other_domain(message.data):
            return
        try:
            limiter.add(read_advisory(message.data))
        except RequestFailed as error:
            limiter.leave_out_unreadable(error)

    async def on_sample(message: Msg) -> None:
        if not client.is_of_other_domain(message.data):
            await sample_receiver.on_sample(message)

    try:
        for subject in _ADVISORY_SUBJECTS:
            await _subscribe(client, f"{prefix}.{subject}", on_advisory, sink)
        await _subscribe(client, f"{prefix}.{_ACK_SAMPLES_SUBJECT}", on_sample, sink)
        await asyncio.Event().wait()
    finally:
        sample_receiver.close()
        limiter.close()


async def _subscribe(client: Client, subject: str, on_message: OnMessage, sink: Sink) -> None:
    def report_unavailable(error: NatstuiError) -> None:
        denied_subject = getattr(error, "subject", None)
        sink.add(Unavailable(time.time_ns() // 1000, subject, str(error), denied_subject))

    while True:
        try:
            await client.subscribe(subject, on_message, report_unavailable)
            return
        except ConnectionLost:
            await asyncio.sleep(0.25)


class _AdvisoryCounts:
    """The advisories of one type about messages of one consumer since the last report."""

    def __init__(self) -> None:
        self.count = 0
        self.messages_by_seq: dict[int, MessageCount] = {}

    def add(self, advisory: Advisory) -> None:
        self.count += 1
        for message in message_of(advisory):
            counts = self.messages_by_seq.get(message.stream_seq)
            self.messages_by_seq[message.stream_seq] = (
                message if counts is None else replace(message, said_count=counts.said_count + 1)
            )

    def most_frequent(self) -> tuple[MessageCount, ...]:
        sorted_messages = sorted(
            self.messages_by_seq.values(),
            key=lambda message: (-message.said_count, message.stream_seq),
        )
        return tuple(sorted_messages[:MAX_MESSAGES])


class ExcessAdvisories:
    """Counts the advisories that are not recorded singly, and reports the counts each second."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._counts_by_kind_and_consumer: dict[
            tuple[MessageAdvisoryType, str, str], _AdvisoryCounts
        ] = {}
        self._report_timer: asyncio.TimerHandle | None = None

    def add(self, record: Record) -> None:
        """Count a record if it is an advisory about a message of a consumer."""
        kind = message_advisory_type(record) if isinstance(record, Advisory) else None
        if not isinstance(record, Advisory) or kind is None:
            return
        if record.stream is None or record.consumer is None:
            return
        key = (kind, record.stream, record.consumer)
        self._counts_by_kind_and_consumer.setdefault(key, _AdvisoryCounts()).add(record)
        if self._report_timer is None:
            self._report_timer = asyncio.get_running_loop().call_later(
                _time_to_next_second_s(), self._report
            )

    def close(self) -> None:
        """Report the counts, and stop the timer."""
        if self._report_timer is not None:
            self._report_timer.cancel()
        self._report()

    def _report(self) -> None:
        counts_by_kind_and_consumer, self._counts_by_kind_and_consumer, self._report_timer = (
            self._counts_by_kind_and_consumer,
            {},
            None,
        )
        now_us = time.time_ns() // 1000
        for (kind, stream, consumer), counts in counts_by_kind_and_consumer.items():
            self._sink.add(
                AdvisoriesCounted(
                    now_us,
                    kind,
                    stream,
                    consumer,
                    counts.count,
                    counts.most_frequent(),
                )
            )
