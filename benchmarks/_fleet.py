"""A simulated fleet of streams and consumers, one step per poll, all of it arrays."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Literal

import numpy as np
from msgspec import Struct

from natstui.model.assets.configuration import ConsumerConfiguration, StreamConfiguration
from natstui.model.live.snapshot import (
    Account,
    ConsumerColumns,
    Peer,
    PollCost,
    Snapshot,
    StreamColumns,
)
from natstui.model.records.record import AckSample, Advisory, Record

_KINDS = ("ORDERS", "EVENTS", "METRICS", "AUDIT", "JOBS", "KV_sessions", "LOGS", "BILLING")
_WORK = ("billing", "mailer", "indexer", "archiver", "fraud", "search", "report", "webhook")
MAX_ACK_PENDING = 1000
START_AT_US = 1_790_000_000_000_000
CREATED_BEFORE_US = 86_400_000_000


class Fault(Struct, frozen=True):
    """Something wrong with consumer or stream `index` during the ticks [from_tick, to_tick)."""

    kind: Literal[
        "ack_limit", "no_pull", "paused", "no_leader", "poison", "slow",
        "recreate_stream", "reset_consumer", "leader_change", "replica_lag", "idle",
    ]  # fmt: skip
    index: int
    from_tick: int
    to_tick: int = 0

    def on(self, tick: int) -> bool:
        """Return whether it is active."""
        return self.from_tick <= tick < self.to_tick


class Plan(Struct, frozen=True):
    """What to simulate."""

    streams_count: int = 200
    consumers_count: int = 1000
    ticks_count: int = 3600
    interval_s: float = 1.0
    seed: int = 1
    rtt_us: int = 900
    """Median round trip of the API."""
    rate_factor: float = 1.0
    """All publish rates are multiplied by this."""
    faults: tuple[Fault, ...] = ()
    gaps: tuple[tuple[int, int], ...] = ()
    """Ticks [from, to) that nobody polled."""
    started_at_us: int = START_AT_US
    extra: tuple[Record, ...] = ()
    """Records to write as they are, by their `at_us`."""
    replicas_share: float = 0.1
    """Share of streams with two more replicas."""


class Fleet:
    """The state of all streams and consumers."""

    def __init__(self, plan: Plan) -> None:
        self._plan, self._random = plan, np.random.default_rng(plan.seed)
        streams, consumers, rng = plan.streams_count, plan.consumers_count, self._random
        self.stream_names = [f"{_KINDS[i % len(_KINDS)]}-{i:03d}" for i in range(streams)]
        self.owner = np.arange(consumers) % streams
        self.consumer_names = [f"{_WORK[i % len(_WORK)]}-{i:04d}" for i in range(consumers)]
        born = plan.started_at_us - CREATED_BEFORE_US
        self.stream_created = np.full(streams, born) + np.arange(streams) * 1_000
        self.consumer_created = np.full(consumers, born + 10_000_000) + np.arange(consumers)
        rate = rng.lognormal(3.0, 1.0, streams).clip(0.2, 400) * plan.rate_factor
        self.rate = rate * plan.interval_s
        # An idle stream stores nothing as long as it is recorded.
        self.rate[[fault.index for fault in plan.faults if fault.kind == "idle"]] = 0
        self.size_bytes = rng.integers(80, 2000, streams)
        self.last_seq = rng.integers(10_000, 900_000, streams)
        self.first_seq = np.ones(streams, np.int64)
        self.delivered = self.last_seq[self.owner].copy()
        self.extra = rng.integers(0, 500, consumers)
        self.unacked = np.zeros(consumers, np.int64)
        self.floor = self.delivered.copy()
        self.floor_extra = self.extra.copy()
        self.redelivered = np.zeros(consumers, np.int64)
        self.leader = np.full(streams, "n1", dtype=object)
        self.replicated = np.arange(streams) < streams * plan.replicas_share
        self.capacity = self.rate[self.owner] * 3 + 5
        self.delivered_at = np.full(consumers, plan.started_at_us)
        self.acked_at = self.delivered_at.copy()
        self._names = tuple(self.consumer_names)
        self._owners = tuple(self.stream_names[i] for i in self.owner)

    def step(self, tick: int, at_us: int) -> Iterator[Record]:
        """Move everything on by one poll interval; yield what the server would announce."""
        wave = 1 + 0.3 * np.sin(tick / 600)
        self.last_seq += self._random.poisson(self.rate * wave)
        halted, no_ack = self._halted(tick)
        room = np.maximum(self.last_seq[self.owner] - self.delivered, 0)
        capacity = self._capacity(tick)
        moved = np.minimum(room, self._random.poisson(capacity))
        moved[halted] = 0
        moved = np.where(no_ack, np.minimum(moved, MAX_ACK_PENDING - self.unacked), moved)
        self.delivered += moved
        acks = np.where(no_ack | halted, 0, np.maximum(self.unacked + moved - moved % 3, 0))
        self.unacked += moved - np.minimum(acks, self.unacked + moved)
        noisy = (moved > 0) & (self._random.random(len(moved)) < 0.01)
        self.extra += noisy
        poisoned = self._poison(tick)
        self.unacked = np.maximum(self.unacked, poisoned)
        free = ~(no_ack | halted | poisoned)
        self.floor = np.where(free, self.delivered - self.unacked, self.floor)
        self.floor_extra = np.where(free, self.extra, self.floor_extra)
        self.redelivered = np.where(free, noisy, self.redelivered)
        self.delivered_at[moved > 0] = at_us
        self.acked_at[free & (acks > 0)] = at_us
        yield from self._faults_now(tick, at_us)

    def _halted(self, tick: int) -> tuple[Any, Any]:
        halted = np.zeros(len(self.owner), bool)
        no_ack = np.zeros(len(self.owner), bool)
        for fault in self._plan.faults:
            if fault.on(tick) and fault.kind in ("no_pull", "paused", "no_leader"):
                halted[fault.index] = True
            if fault.on(tick) and fault.kind == "ack_limit":
                no_ack[fault.index] = True
        return halted, no_ack

    def _poison(self, tick: int) -> Any:
        mask = np.zeros(len(self.owner), bool)
        mask[[f.index for f in self._plan.faults if f.kind == "poison" and f.on(tick)]] = True
        return mask

    def _capacity(self, tick: int) -> Any:
        capacity = self.capacity
        for fault in self._plan.faults:
            if fault.kind == "slow" and fault.on(tick):
                capacity = capacity.copy()
                capacity[fault.index] = self.rate[self.owner[fault.index]] * 0.5
        return capacity

    def _faults_now(self, tick: int, at_us: int) -> Iterator[Record]:
        for fault in self._plan.faults:
            index = fault.index
            if fault.kind == "recreate_stream" and tick == fault.from_tick:
                self._recreate(index, at_us)
            elif fault.kind == "reset_consumer" and tick == fault.from_tick:
                self._reset(index)
            elif fault.kind == "leader_change" and tick == fault.from_tick:
                self.leader[index] = "n2"
                yield advisory(at_us, "stream_leader_elected", self.stream_names[index], None,
                               leader="n2")  # fmt: skip
            elif fault.kind == "poison" and fault.on(tick) and (tick - fault.from_tick) % 2 == 0:
                self.extra[index] += 1
                self.redelivered[index] = 1
                yield self._poisoned(fault, tick, at_us)

    def _poisoned(self, fault: Fault, tick: int, at_us: int) -> Record:
        last = tick + 2 >= fault.to_tick
        return advisory(at_us, "max_deliver" if last else "nak", self._owners[fault.index],
                        self._names[fault.index], stream_seq=int(self.floor[fault.index]) + 1,
                        deliveries=(tick - fault.from_tick) // 2 + 1)  # fmt: skip

    def _recreate(self, index: int, at_us: int) -> None:
        self.stream_created[index] = at_us
        self.last_seq[index] = self.first_seq[index] = 1
        for consumer in np.flatnonzero(self.owner == index):
            self.consumer_created[consumer] = at_us + 1_000
            self.delivered[consumer] = self.floor[consumer] = self.extra[consumer] = 0
            self.unacked[consumer] = self.floor_extra[consumer] = 0

    def _reset(self, index: int) -> None:
        back = int(self.delivered[index]) - 500
        self.delivered[index] = self.floor[index] = max(back, 0)
        self.extra[index] = self.floor_extra[index] = self.unacked[index] = 0

    def events(self, tick: int, at_us: int) -> Iterator[Record]:
        """Yield acknowledgement samples: one a second, of a consumer drawn at random."""
        who = int(self._random.integers(len(self.owner)))
        seq = max(int(self.floor[who]), 1)
        yield ack_sample(at_us + 300_000, self._owners[who], self._names[who], seq, 1)

    def snapshot(self, at_us: int, mono_us: int) -> Snapshot:
        """Return what a poll sees now."""
        tick = round((at_us - self._plan.started_at_us) / self._plan.interval_s / 1e6)
        elapsed_us = int(self._random.normal(40_000, 4_000))
        rtt_us = int(self._random.lognormal(np.log(self._plan.rtt_us), 0.15))
        columns = (self._streams(tick, at_us, mono_us), self._consumers(tick, at_us, mono_us))
        stored = int(((self.last_seq - self.first_seq + 1) * self.size_bytes).sum())
        account = Account(0, stored, len(self.last_seq), len(self.owner), None, 10**13, None, None,
                          tick * 8, 0, 0, 2, None)  # fmt: skip
        cost = PollCost(8, 400_000, elapsed_us, rtt_us, round(self._plan.interval_s * 1e6), None)
        return Snapshot(mono_us, at_us, *columns, True, True, (), (), (), account, cost)

    def _streams(self, tick: int, at_us: int, mono_us: int) -> StreamColumns:
        count, stored = len(self.last_seq), self.last_seq - self.first_seq + 1
        born, at = tuple(self.stream_created.tolist()), (at_us,) * count
        lagging = {f.index for f in self._plan.faults if f.kind == "replica_lag" and f.on(tick)}
        absent = {
            int(self.owner[f.index])
            for f in self._plan.faults
            if f.kind == "no_leader" and f.on(tick)
        }
        return StreamColumns(
            tuple(self.stream_names), born, (mono_us,) * count, tuple(stored.tolist()),
            tuple((stored * (self.size_bytes + 32)).tolist()), tuple(self.first_seq.tolist()),
            tuple(self.last_seq.tolist()), born, at, (0,) * count, (0,) * count, (5,) * count,
            tuple(np.bincount(self.owner, minlength=count).tolist()),
            tuple(None if i in absent else self.leader[i] for i in range(count)),
            tuple(
                _peers(5000 if i in lagging else 0) if self.replicated[i] else ()
                for i in range(count)
            ),
            ((),) * count, ((),) * count, (None,) * count,
        )  # fmt: skip

    def _consumers(self, tick: int, at_us: int, mono_us: int) -> ConsumerColumns:
        count = len(self.owner)
        pending = (self.last_seq[self.owner] - self.delivered).tolist()
        faults = [fault for fault in self._plan.faults if fault.on(tick)]
        paused = {fault.index for fault in faults if fault.kind == "paused"}
        idle = {fault.index for fault in faults if fault.kind in ("no_pull", "no_leader")}
        leaderless = {fault.index for fault in faults if fault.kind == "no_leader"}
        leaders = self.leader[self.owner].tolist()
        return ConsumerColumns(
            self._owners, self._names, tuple(self.consumer_created.tolist()), (mono_us,) * count,
            tuple((self.delivered + self.extra).tolist()), tuple(self.delivered.tolist()),
            tuple((self.floor + self.floor_extra).tolist()), tuple(self.floor.tolist()),
            tuple(self.delivered_at.tolist()), tuple(self.acked_at.tolist()), tuple(pending),
            tuple(self.unacked.tolist()), tuple(self.redelivered.tolist()),
            tuple(0 if i in idle else 1 for i in range(count)), (False,) * count,
            tuple(i in paused for i in range(count)), (None,) * count, (None,) * count,
            tuple(None if i in leaderless else leaders[i] for i in range(count)), ((),) * count,
        )  # fmt: skip

    def configurations(
        self,
    ) -> tuple[tuple[StreamConfiguration, ...], tuple[ConsumerConfiguration, ...]]:
        """Return what every stream and consumer is configured to be."""
        streams = tuple(
            StreamConfiguration(
                name, int(self.stream_created[i]), "stream", "", (f"{name.lower()}.>",), "file",
                "limits", "old", 5_000_000 if i % 2 == 0 else None,
                2_000_000_000 if i % 3 == 0 else None, None, None, None, None, 120 * 10**9,
                3 if self.replicated[i] else 1, False, True, None, (), "{}",
            )
            for i, name in enumerate(self.stream_names)
        )  # fmt: skip
        consumers = tuple(
            ConsumerConfiguration(
                self._owners[i], name, int(self.consumer_created[i]), "", True, True, "all",
                "explicit", 30 * 10**9, 5, MAX_ACK_PENDING, 512, (), None, None, None, None, 0,
                "{}",
            )
            for i, name in enumerate(self._names)
        )  # fmt: skip
        return streams, consumers


def _peers(lag_msgs: int) -> tuple[Peer, ...]:
    return (
        Peer("n2", lag_msgs == 0, False, 150_000_000, lag_msgs),
        Peer("n3", True, False, 140_000_000, 0),
    )


def ack_sample(at_us: int, stream: str, consumer: str, seq: int, deliveries: int) -> AckSample:
    """Return one sampled acknowledgement of 2 ms."""
    return AckSample(at_us, stream, consumer, seq, seq + deliveries - 1, deliveries, 2_000_000)


def advisory(at_us: int, kind: str, stream: str, consumer: str | None, **body: object) -> Advisory:
    """Return an advisory with its body."""
    name = {"type": f"io.nats.jetstream.advisory.v1.{kind}", "stream": stream}
    text = json.dumps({**name, "consumer": consumer, **body})
    return Advisory(at_us, kind, stream, consumer, f"{kind} on {stream}", text)
