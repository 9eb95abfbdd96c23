"""A third session with what the others have not: slow API, lost link, changes, limits, pushes."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from benchmarks._bench_run import bench_records
from benchmarks._fleet import CREATED_BEFORE_US, Fault, Plan, advisory
from benchmarks._sessions import records, write_records
from natstui.lines import SCHEMA_VERSION
from natstui.model.assets.configuration import ConsumerConfiguration
from natstui.model.bench.latency import LatencyCounts, from_latencies
from natstui.model.live.snapshot import ConsumerColumns, Snapshot, StreamColumns
from natstui.model.records.benchmark import BenchmarkFinished, BenchmarkReport
from natstui.model.records.evidence import AcksCounted
from natstui.model.records.record import (
    AckSample,
    Configured,
    EngineStarted,
    LinkChanged,
    Outcome,
    Record,
    Restored,
    Unavailable,
)
from natstui.model.servers.server import Servers, ServerState
from natstui.model.servers.watch import ServersRead
from natstui.values import replace

SLOW_TICKS = range(220, 280)
"""Exactly one bucket of a minute: the session starts 20 s after a full one."""
NO_SUBSCRIBER, NOT_ACKNOWLEDGED, UNEXPLAINED = 8, 9, 1
FROZEN = {NO_SUBSCRIBER: (50, 150), NOT_ACKNOWLEDGED: (200, 260), UNEXPLAINED: (300, 360)}
CHANGED, UNCHANGED, FILTERED = 5, 6, 7
"""Consumers that get messages again: after a change of the configuration, and without one."""
REPEATED = range(120, 200)
CHANGED_TICK = 110
SHRINKING, FULL, IDLE = 4, 2, 3
"""Streams: one that loses messages, one at its limit, one where nothing happens."""
PINNED = 4
PINNED_CLIENTS = {100: "first", 200: "second", 300: None}
"""Until which tick which client of a consumer is pinned; none is at the end."""
AWAY = 0
AWAY_TICKS = (340, 344, 364)
"""Leaders of a stream and its consumer do not reply: at two times, once at two polls."""
AGED = {1: 500, 5: 5_000}
"""Streams that grow, full 900 s after the end: when, after the end, their oldest message goes."""

TORN_LINES_COUNT, UNKNOWN_LINES_COUNT, CORRUPT_SEGMENTS_COUNT = 2, 1, 1
_Name = TypeVar("_Name")


class Trouble:
    """Changes the records of a healthy fleet as they come."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._floors: dict[int, tuple[int, int]] = {}

    def records(self) -> Iterator[Record]:
        """Yield every record of the session."""
        for record in records(self._plan):
            if isinstance(record, Snapshot):
                yield self._poll(record)
            elif isinstance(record, Configured) and record.streams:
                yield self._configured(record)
            else:
                yield record

    def _configured(self, record: Configured) -> Configured:
        streams = list(record.streams)
        streams[FULL] = replace(streams[FULL], max_msgs=1000, discard="new")
        for index, left_s in AGED.items():
            age_s = CREATED_BEFORE_US // 1_000_000 + 400 + left_s
            limits = {"max_msgs": 14_000 + 10 * 900, "max_age_ns": age_s * 10**9}
            streams[index] = replace(streams[index], **limits)
        consumers = list(record.consumers)
        consumers[FILTERED] = replace(consumers[FILTERED], filter_subjects=("events.a",))
        push = replace(consumers[NO_SUBSCRIBER], pull=False, deliver_subject="push.here")
        consumers[NO_SUBSCRIBER] = push
        return replace(record, streams=tuple(streams), consumers=tuple(consumers))

    def _poll(self, poll: Snapshot) -> Snapshot:
        tick = round((poll.taken_at_us - self._plan.started_at_us) / 1e6)
        assert poll.cost.api_rtt_us is not None and poll.account is not None
        slow = replace(poll.cost, api_rtt_us=poll.cost.api_rtt_us * 6)
        return replace(
            poll,
            cost=slow if tick in SLOW_TICKS else poll.cost,
            account=replace(
                poll.account, max_storage_bytes=10_000_000_000, api_errors_count=_errors(tick)
            ),
            streams=_streams(poll.streams, tick),
            unreachable_streams=_if_away(tick, poll.streams.name[AWAY]),
            unreachable_consumers=_if_away(
                tick, (poll.consumers.stream[AWAY], poll.consumers.name[AWAY])
            ),
            consumers=self._consumers(poll.consumers, tick, poll.taken_at_us),
        )

    def _consumers(self, columns: ConsumerColumns, tick: int, at_us: int) -> ConsumerColumns:
        pending, unacked = list(columns.pending_msgs), list(columns.ack_pending_msgs)
        pulls, again = list(columns.waiting_pulls_count), list(columns.redelivered_msgs)
        floors = list(columns.ack_floor_stream_seq)
        settled = list(columns.ack_floor_consumer_seq)
        delivered = list(columns.delivered_consumer_seq)
        pulls[NO_SUBSCRIBER] = 0
        pinned = next((who for until, who in PINNED_CLIENTS.items() if tick < until), None)
        for index, (first, last) in FROZEN.items():
            if first <= tick < last:
                now = (floors[index], settled[index])
                floors[index], settled[index] = self._floors.setdefault(index, now)
                again[index] = 0
                unacked[index] = 5 if index == NOT_ACKNOWLEDGED else 0
                pending[index] = 0 if index == NOT_ACKNOWLEDGED else 3 + tick - first
        for index in (CHANGED, UNCHANGED, FILTERED):
            delivered[index] += 3 * min(max(tick - REPEATED.start, 0), len(REPEATED))
        return replace(
            columns,
            pending_msgs=tuple(pending),
            ack_pending_msgs=tuple(unacked),
            waiting_pulls_count=tuple(pulls),
            redelivered_msgs=tuple(again),
            ack_floor_stream_seq=tuple(floors),
            ack_floor_consumer_seq=tuple(settled),
            delivered_consumer_seq=tuple(delivered),
            pinned_client=(*(None,) * PINNED, pinned, *columns.pinned_client[PINNED + 1 :]),
            next_at_us=tuple(at_us - 250_000 * n if n else None for n in pending),
        )


def _if_away(tick: int, name: _Name) -> tuple[_Name, ...]:
    return (name,) if tick in AWAY_TICKS else ()


def _errors(tick: int) -> int:
    """Return the account's API errors so far; another meta leader counted anew in between."""
    return 7 + tick // 50 if tick < 200 else (tick - 200) // 50


def _streams(columns: StreamColumns, tick: int) -> StreamColumns:
    msgs, size = list(columns.stored_msgs), list(columns.stored_bytes)
    msgs[SHRINKING] = 9_000 - 20 * tick
    size[SHRINKING] = 900_000 - 2_000 * tick
    for index in AGED:
        msgs[index] = 10_000 + 10 * tick + tick % 3
    return replace(columns, stored_msgs=tuple(msgs), stored_bytes=tuple(size))


def write_troubled(folder: Path, started_at_us: int) -> Path:
    """Write the session."""
    idle = (Fault("idle", IDLE, 0),)
    plan = Plan(8, 10, 200, interval_s=2, seed=3, started_at_us=started_at_us, faults=idle)
    (configured,) = (r for r in records(plan) if isinstance(r, Configured))
    extra = tuple(_extra(started_at_us, configured.consumers))
    trouble = Trouble(replace(plan, extra=extra))
    return write_records(folder, trouble.records(), plan, records_per_segment=150)


def _extra(start_us: int, consumers: tuple[ConsumerConfiguration, ...]) -> Iterator[Record]:
    def at(tick: int) -> int:
        return start_us + tick * 1_000_000

    changed = consumers[CHANGED]
    yield Configured(at(1), (), (changed,))
    yield Configured(
        at(CHANGED_TICK), (), (replace(changed, max_ack_pending_msgs=500, config_json='{"v":2}'),)
    )
    yield Configured(at(390), (), (replace(changed, config_json='{"v":3}'),))
    yield LinkChanged(at(300), "reconnecting", "the server went away")
    yield LinkChanged(at(305), "connecting", None)
    yield LinkChanged(at(310), "connected", None)
    yield LinkChanged(at(395), "failed", "no route")
    yield Unavailable(at(100), "CONSUMER.LIST.A", "timeout")
    yield Unavailable(at(105), "CONSUMER.LIST.A", "timeout again")
    yield Restored(at(120), "CONSUMER.LIST.A")
    yield Unavailable(at(130), "STREAM.LIST", "never came back")
    where = (changed.stream, changed.name)
    for second in (125, 135, 165):
        yield advisory(at(second), "nak", *where, stream_seq=77, deliveries=second // 60)
    # Before acks that are only counted: whether it is acked is not known.
    yield advisory(at(160), "nak", *where, stream_seq=80, deliveries=5)
    yield advisory(at(170), "terminated", *where, stream_seq=78, deliveries=1)
    yield advisory(at(140), "consumer_leader_elected", *where, leader="n3")
    yield advisory(at(150), "stream_leader_elected", changed.stream, None, leader="n3")
    yield AckSample(at(180), *where, 77, 900, 5, 5_000_000)
    yield AckSample(at(181), *where, 79, 901, 2, 5_000_000)
    times = from_latencies([n * n * n for n in range(900)])
    yield AcksCounted(at(182), *where, times, 12, 3400)
    yield AcksCounted(at(183), *where, LatencyCounts(), 0, 7)
    yield Outcome(at(160), 1, "done", "purged 20 messages of ORDERS-000")
    yield Outcome(at(161), 2, "failed", "no stream of this name")
    yield EngineStarted(at(396), "0.1.1", SCHEMA_VERSION, "synthetic", True, False,
                        2.0, "", False, True, {})  # fmt: skip
    for second, version in ((2, "2.11.9"), (12, "2.11.9"), (202, "2.12.1")):
        servers = (_server("n1", version), _server("n2", "2.11.9"), _server("n3", None))
        yield ServersRead(at(second), Servers("system", servers))
    yield from _benchmark(at(410))


def _server(name: str, version: str | None) -> ServerState:
    return ServerState(f"ID-{name}", name, "PROD", version, 0, *(None,) * 7)


def _benchmark(start_us: int) -> Iterator[Record]:
    """Yield a benchmark that never ended, with messages in every account of its sender."""
    for record in bench_records(start_us, "run-3", 13):
        if isinstance(record, BenchmarkFinished):
            continue
        if isinstance(record, BenchmarkReport):
            counts = replace(record.counts, duplicate_acked_msgs=2, refused_msgs=1, missed_msgs=4,
                             redelivered_msgs=3, duplicate_msgs=1, acks_sent_msgs=50)  # fmt: skip
            latencies = replace(record.latencies, e2e=record.latencies.ack)
            record = replace(record, counts=counts, latencies=latencies)
        yield record


def damage(folder: Path) -> None:
    """Damage the session without touching a record: what it says can still be told whole."""
    (last,) = folder.glob("records-*.jsonl")
    tail = b'{"kind":"of_tomorrow","at_us":1}\nnoise\n{"kind":"snapshot","taken_mono'
    last.write_bytes(last.read_bytes() + tail)
    (folder / "records-000099.jsonl.gz").write_bytes(b"this is no gzip file at all, but long")
