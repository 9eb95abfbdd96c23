"""Sampled acknowledgements: a few are passed on one by one, all others counted as histograms.

Every consumer with a sample frequency has its acknowledgements published, at any rate. So what is
read a second is bounded, for each consumer and for all together; what is left out is counted
without being read, by its subject.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from nats.aio.msg import Msg

from natstui.errors import RequestFailed
from natstui.feed import Sink
from natstui.jetstream.events.advisories import read_ack_sample
from natstui.model.bench.latency import bucket_of, from_counts
from natstui.model.records.evidence import AcksCounted
from natstui.model.records.record import AckSample

MOST_PASSED_PER_S = 100
"""Samples that are passed on, and recorded, one by one."""
MOST_READ_PER_S = 2_000
MOST_READ_OF_ONE_PER_S = 500
_EVERY_S = 1.0
_MOST_CONSUMERS = 2_000
"""Consumers whose samples are told apart within one second; anybody may publish on any subject."""


class _Second:
    """What came of one consumer within a second."""

    def __init__(self) -> None:
        self.read_count = self.left_out_count = self.repeated_count = 0
        self.buckets: dict[int, int] = {}

    def add(self, sample: AckSample) -> None:
        bucket = bucket_of(sample.ack_ns)
        self.buckets[bucket] = self.buckets.get(bucket, 0) + 1
        self.repeated_count += sample.deliveries_count > 1


class AckSamples:
    """Takes the samples of all consumers."""

    def __init__(
        self,
        sink: Sink,
        on_unreadable: Callable[[RequestFailed], None],
        on_left_out: Callable[[str], None],
    ) -> None:
        """`on_left_out` is told why, for each sample that is counted for no consumer."""
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
                f"acknowledgements of more than {_MOST_CONSUMERS} consumers a second"
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
        """Tell what was counted since, and stop."""
        if self._telling is not None:
            self._telling.cancel()
        self._tell()

    def _second_of(self, subject: str) -> _Second | None:
        """Return the counts of a consumer: the last two words of the subject are its name."""
        stream, _, consumer = subject.rpartition(".")
        name = (stream.rpartition(".")[2], consumer)
        if name not in self._seconds and len(self._seconds) >= _MOST_CONSUMERS:
            return None
        return self._seconds.setdefault(name, _Second())

    def _tell(self) -> None:
        seconds, self._seconds, self._telling = self._seconds, {}, None
        self._read_count = self._passed_count = 0
        now_us = time.time_ns() // 1000
        for (stream, consumer), one in seconds.items():
            if one.buckets or one.left_out_count:
                times = from_counts(one.buckets)
                self._sink.add(
                    AcksCounted(
                        now_us, stream, consumer, times, one.repeated_count, one.left_out_count
                    )
                )
