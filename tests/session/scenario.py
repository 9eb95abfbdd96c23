"""A cluster that never was: records of every kind at one poll a second, the same for a seed."""

from __future__ import annotations

import random
from collections.abc import Iterator

from natstui.model.assets.configuration import ConsumerConfiguration, StreamConfiguration
from natstui.model.live.snapshot import Account, ConsumerColumns, PollCost, Snapshot, StreamColumns
from natstui.model.records.record import (
    AckSample,
    Advisory,
    Configured,
    EngineStarted,
    LinkChanged,
    Noted,
    Permitted,
    Record,
    Restored,
    Unavailable,
)
from natstui.values import replace

START_US = 1_795_000_000_000_000


class Scenario:
    """Streams, each with the same number of consumers; a share of them is busy."""

    def __init__(
        self, streams: int = 3, consumers: int = 6, busy_ratio: float = 0.5, seed: int = 1
    ) -> None:
        self._random = random.Random(seed)
        self.streams = tuple(f"ORDERS-{i:03d}" for i in range(streams))
        self.owners = tuple(self.streams[i % streams] for i in range(consumers))
        self.names = tuple(f"worker-{self._random.randrange(16**6):06x}" for _ in range(consumers))
        self.busy = round(consumers * busy_ratio)
        self.born = tuple(START_US - self._random.randrange(10**13) for _ in range(consumers))
        self.seq = [self._random.randrange(10**7) for _ in range(consumers)]
        self.pending = [self._random.randrange(1000) for _ in range(consumers)]
        self.last = [self._random.randrange(10**8) for _ in range(streams)]
        self.rate = [self._random.choice((1, 5, 50, 500, 2000)) for _ in range(consumers)]

    def beginning(self) -> list[Record]:
        """Return what an engine says before its first poll."""
        return [
            EngineStarted(
                START_US, "0.1", 1, "demo", False, False, 1.0, "natstui", False, True, {}
            ),
            LinkChanged(START_US + 10, "connecting", None),
            LinkChanged(START_US + 20, "connected", None, "n1", "2.15.1", "nats://127.0.0.1:4222"),
            Permitted(START_US + 30, None, (), None, ()),
            self.configured(START_US + 40),
        ]

    def configured(self, at_us: int, max_bytes: int | None = None) -> Configured:
        streams = tuple(stream(name, START_US, max_bytes) for name in self.streams)
        consumers = tuple(
            consumer(owner, name, born)
            for owner, name, born in zip(self.owners, self.names, self.born, strict=True)
        )
        return Configured(at_us, streams, consumers)

    def poll(self, second: float) -> Snapshot:
        """Return the poll of a second."""
        at_us = START_US + round(second * 1e6)
        mono_us = 5_000_000_000 + round(second * 1e6)
        return Snapshot(
            taken_mono_us=mono_us,
            taken_at_us=at_us,
            streams=self._streams(at_us, mono_us),
            consumers=self._consumers(at_us, mono_us),
            streams_complete=True,
            consumers_complete=True,
            swept_streams=(),
            unreachable_streams=(),
            unreachable_consumers=(),
            account=Account(0, 10**6, 3, 6, None, None, None, None, 100, 0, 0, 1, None),
            cost=PollCost(2, 5000, 3000, 500, 1_000_000, None),
        )

    def _streams(self, at_us: int, mono_us: int) -> StreamColumns:
        n = len(self.streams)
        self.last = [last + self._random.randrange(3000) for last in self.last]
        last = tuple(self.last)
        return StreamColumns(
            name=self.streams,
            created_at_us=(START_US,) * n,
            sampled_mono_us=(mono_us - 900,) * n,
            stored_msgs=last,
            stored_bytes=tuple(seq * 128 for seq in last),
            first_seq=(1,) * n,
            last_seq=last,
            first_at_us=(START_US,) * n,
            last_at_us=tuple(at_us - self._random.randrange(900_000) for _ in last),
            deleted_msgs=(0,) * n,
            lost_msgs=(0,) * n,
            subjects_count=(12,) * n,
            consumers_count=(2,) * n,
            leader=("n1",) * n,
            peers=((),) * n,
            upstreams=((),) * n,
            replicas=((),) * n,
            desired=(None,) * n,
        )

    def _consumers(self, at_us: int, mono_us: int) -> ConsumerColumns:
        pick, n = self._random, len(self.names)
        for i in range(self.busy):
            self.seq[i] += round(self.rate[i] * pick.uniform(0.8, 1.2))
            self.pending[i] = max(0, self.pending[i] + pick.randrange(-50, 50))
        open_acks = [pick.randrange(100) if i < self.busy else 0 for i in range(n)]
        active = [
            at_us - pick.randrange(900_000) if i < self.busy else START_US - i * 7919
            for i in range(n)
        ]
        floor = [seq - acks for seq, acks in zip(self.seq, open_acks, strict=True)]
        return ConsumerColumns(
            stream=self.owners,
            name=self.names,
            created_at_us=self.born,
            sampled_mono_us=tuple(mono_us - 700 + i // 256 * 210 for i in range(n)),
            delivered_consumer_seq=tuple(seq + i % 7 for i, seq in enumerate(self.seq)),
            delivered_stream_seq=tuple(self.seq),
            ack_floor_consumer_seq=tuple(seq + i % 7 for i, seq in enumerate(floor)),
            ack_floor_stream_seq=tuple(floor),
            delivered_at_us=tuple(active),
            acked_at_us=tuple(
                us + pick.randrange(5000) if i < self.busy else us for i, us in enumerate(active)
            ),
            pending_msgs=tuple(self.pending),
            ack_pending_msgs=tuple(open_acks),
            redelivered_msgs=(0,) * n,
            waiting_pulls_count=tuple(pick.randrange(3) if i < self.busy else 1 for i in range(n)),
            push_bound=(False,) * n,
            paused=(False,) * n,
            pinned_client=(None,) * n,
            next_at_us=(None,) * n,
            leader=("n1",) * n,
            peers=((),) * n,
            pinned_at_us=(None,) * n,
        )

    def records(self, first_s: int, last_s: int) -> Iterator[Record]:
        """Yield polls with events strewn among them."""
        for second in range(first_s, last_s):
            yield self.poll(second)
            yield from self.events(second, START_US + second * 1_000_000 + 1000)

    def events(self, second: int, at_us: int) -> Iterator[Record]:
        name = self.names[second % len(self.names)]
        if second % 7 == 3:
            yield AckSample(at_us, self.streams[0], name, second, second, 1, 1500)
        if second % 31 == 5:
            yield Advisory(at_us + 1, "max_deliver", self.streams[0], name, "gave up", "{}")
        if second % 97 == 40:
            yield Noted(at_us + 2, f"note at {second}")
        if second % 101 == 50:
            yield Unavailable(at_us + 3, "CONSUMER.LIST", "no answer")
        if second % 101 == 53:
            yield Restored(at_us + 4, "CONSUMER.LIST")
        if second % 211 == 60:
            # Only what changed, as the poller tells it.
            yield replace(self.configured(at_us + 5, max_bytes=second), consumers=())


def stream(name: str, born_us: int, max_bytes: int | None = None) -> StreamConfiguration:
    return StreamConfiguration(
        name=name,
        created_at_us=born_us,
        kind="stream",
        description="",
        subjects=(f"{name}.>",),
        storage="file",
        retention="limits",
        discard="old",
        max_msgs=None,
        max_bytes=max_bytes,
        max_age_ns=None,
        max_msgs_per_subject=None,
        max_msg_size_bytes=None,
        max_consumers_count=None,
        duplicate_window_ns=120_000_000_000,
        replicas_count=1,
        sealed=False,
        allow_direct=True,
        mirror=None,
        sources=(),
        config_json=f'{{"name":"{name}"}}',
    )


def consumer(owner: str, name: str, born_us: int) -> ConsumerConfiguration:
    return ConsumerConfiguration(
        stream=owner,
        name=name,
        created_at_us=born_us,
        description="",
        durable=True,
        pull=True,
        deliver_policy="all",
        ack_policy="explicit",
        ack_wait_ns=30_000_000_000,
        max_deliver_count=None,
        max_ack_pending_msgs=1000,
        max_waiting_pulls_count=512,
        filter_subjects=(),
        deliver_subject=None,
        deliver_group=None,
        inactive_threshold_ns=None,
        priority_policy=None,
        replicas_count=1,
        config_json=f'{{"durable_name":"{name}"}}',
    )
