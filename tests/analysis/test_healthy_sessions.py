"""Forty healthy sessions of different shapes: of none of them is anything told that is wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from benchmarks._fleet import START_AT_US, Plan
from benchmarks._sessions import judged, records, write_records
from natstui.analysis.gold.build import GOLD_TABLES
from natstui.analysis.gold.shared.harm import REPORTED_SEVERITIES
from natstui.model.live.snapshot import ConsumerColumns, Snapshot
from natstui.model.records.record import Configured, Record
from natstui.values import replace
from tests.analysis.locally import answers_of

pytestmark = [pytest.mark.spark, pytest.mark.long]

TICKS = 150
BURST_MSGS, BURST_TICK, DELIVERED_AFTER = 20_000, 60, 8
BATCH_EVERY = 10
NOT_WRONG = {"comparison", "hour"}
"""Findings that sessions differ, and where to look first, accuse nobody."""
Change = Callable[[Plan, Snapshot, int], Snapshot]


def as_it_is(_: Plan, poll: Snapshot, __: int) -> Snapshot:
    return poll


def _waiting(poll: Snapshot, stored: int, waiting: int) -> Snapshot:
    """Return a poll with more messages stored in each stream, of which so many wait."""
    streams, consumers = poll.streams, poll.consumers
    delivered = stored - waiting
    return replace(
        poll,
        streams=replace(
            streams,
            stored_msgs=_more(streams.stored_msgs, stored),
            last_seq=_more(streams.last_seq, stored),
        ),
        consumers=replace(
            consumers,
            delivered_consumer_seq=_more(consumers.delivered_consumer_seq, delivered),
            delivered_stream_seq=_more(consumers.delivered_stream_seq, delivered),
            ack_floor_consumer_seq=_more(consumers.ack_floor_consumer_seq, delivered),
            ack_floor_stream_seq=_more(consumers.ack_floor_stream_seq, delivered),
            pending_msgs=_more(consumers.pending_msgs, waiting),
        ),
    )


def _more(column: tuple[int, ...], by: int) -> tuple[int, ...]:
    return tuple(value + by for value in column)


def burst(_: Plan, poll: Snapshot, tick: int) -> Snapshot:
    """Many messages at once, which are delivered within seconds."""
    since = tick - BURST_TICK
    if since < 0:
        return poll
    waiting = max(0, BURST_MSGS * (DELIVERED_AFTER - since)) // DELIVERED_AFTER
    return _waiting(poll, BURST_MSGS, waiting)


def batches(_: Plan, poll: Snapshot, tick: int) -> Snapshot:
    """Clients that fetch every few seconds all that there is."""
    return _waiting(poll, 100 * tick, 100 * (tick % BATCH_EVERY))


def at_the_limit(_: Plan, poll: Snapshot, tick: int) -> Snapshot:
    """Streams that are full and discard the oldest messages, as they are meant to."""
    kept = tuple(4_000_000 for _ in poll.streams.name)
    first = tuple(last - 3_999_999 for last in _more(poll.streams.last_seq, 5_000_000))
    streams = replace(
        poll.streams, stored_msgs=kept, first_seq=first,
        stored_bytes=tuple(400_000_000 for _ in kept),
        last_seq=_more(poll.streams.last_seq, 5_000_000),
    )  # fmt: skip
    return replace(_waiting(poll, 5_000_000, 0), streams=streams)


def comes_and_goes(_: Plan, poll: Snapshot, tick: int) -> Snapshot:
    """The last consumer is an ephemeral one of a client that was there for a minute."""
    if 30 <= tick < 90:
        return poll
    return replace(poll, consumers=_without_last(poll.consumers))


def _without_last(consumers: ConsumerColumns) -> ConsumerColumns:
    columns = {name: getattr(consumers, name)[:-1] for name in ConsumerColumns.__slots__}
    return ConsumerColumns(**columns)


def pushed(_: Plan, poll: Snapshot, __: int) -> Snapshot:
    """Push consumers with a subscriber, which have no pull requests."""
    count = len(poll.consumers.name)
    consumers = replace(
        poll.consumers, waiting_pulls_count=(0,) * count, push_bound=(True,) * count
    )
    return replace(poll, consumers=consumers)


def acked(poll: Snapshot) -> Snapshot:
    """Return a poll whose redelivered messages are pending: a server forgets those acked."""
    consumers = poll.consumers
    both = zip(consumers.redelivered_msgs, consumers.ack_pending_msgs, strict=True)
    redelivered = tuple(min(again, pending) for again, pending in both)
    return replace(poll, consumers=replace(consumers, redelivered_msgs=redelivered))


SHAPES: dict[str, tuple[Plan, Change]] = {
    "usual": (Plan(4, 6, TICKS), as_it_is),
    "quiet": (Plan(4, 6, TICKS, rate_factor=0.01), as_it_is),
    "busy": (Plan(2, 8, TICKS, rate_factor=30), as_it_is),
    "replicated": (Plan(5, 5, TICKS, replicas_share=1.0), as_it_is),
    "slowly-polled": (Plan(3, 6, TICKS, interval_s=5), as_it_is),
    "burst": (Plan(3, 5, TICKS), burst),
    "batches": (Plan(3, 5, TICKS), batches),
    "at-the-limit": (Plan(3, 5, TICKS), at_the_limit),
    "comes-and-goes": (Plan(3, 5, TICKS), comes_and_goes),
    "pushed": (Plan(3, 5, TICKS), pushed),
}
SEEDS = range(1, 5)


def changed(plan: Plan, change: Change) -> Iterator[Record]:
    """Yield the records of a plan, each poll and what is configured in its shape."""
    tick = 0
    for record in records(plan):
        if isinstance(record, Snapshot):
            yield acked(change(plan, record, tick))
            tick += 1
        elif isinstance(record, Configured) and change in (pushed, comes_and_goes):
            yield replace(record, consumers=tuple(
                replace(consumer, pull=change is not pushed,
                        durable=change is not comes_and_goes)
                for consumer in record.consumers
            ))  # fmt: skip
        else:
            yield record


def test_of_forty_healthy_sessions_nobody_is_accused(spark: SparkSession, tmp_path: Path) -> None:
    week_us = 7 * 86_400_000_000
    for number, (name, (plan, change)) in enumerate(SHAPES.items()):
        for seed in SEEDS:
            start_us = START_AT_US + (number * len(SEEDS) + seed) * week_us
            of_seed = replace(plan, seed=seed, started_at_us=start_us)
            folder = tmp_path / "sessions" / f"{name}-{seed}"
            write_records(folder, judged(changed(of_seed, change)), of_seed)
    answers = answers_of(spark, tmp_path / "out", [f"{tmp_path}/sessions/*"])
    assert len(answers.rows("session")) == 40
    told: list[dict[str, Any]] = []
    for gold_table in GOLD_TABLES:
        for find in gold_table.findings:
            rows = find(answers.frame(gold_table.table.name)).collect()
            told += [row.asDict() for row in rows if row["kind"] not in NOT_WRONG]
    assert told == []
    spans = answers.rows("finding_groups")
    assert [row for row in spans if row["severity"] in REPORTED_SEVERITIES] == []
