"""Sessions with a known truth: consumers created again, short lives, empty queues, restarts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from benchmarks._fleet import START_AT_US, Plan, advisory
from benchmarks._sessions import records, write_records
from natstui.model.live.snapshot import ConsumerColumns, Peer, Snapshot
from natstui.model.records.record import Configured, Record
from natstui.model.records.recording import Gap
from natstui.session.files.info import read_info, write_info
from natstui.values import replace

PLAN = Plan(2, 4, 180, replicas_share=0.0)
STREAM, CONSUMER = "ORDERS-000", "billing-0000"
"""The first stream, and its consumer that is created again."""
FILTERED, SHORT = 2, 3
"""The other consumer of that stream has a filter; the last one is many that live for 5 s."""
VIEW = "view-"
CREATED_AGAIN_TICK, RESTARTED_TICK, OUTAGE_S = 60, 90, 20
ADVISED_ACTIONS = ((50, "nak"), (51, "nak"), (52, "max_deliver"), (70, "nak"), (71, "max_deliver"),
           (72, "max_deliver"))  # fmt: skip


def second(number: float) -> int:
    return START_AT_US + round(number * 1e6)


def tick_of(poll: Snapshot) -> int:
    return round((poll.taken_at_us - START_AT_US) / 1e6)


def with_row(columns: Any, row: int, **values: Any) -> Any:
    """Return columns with other values in one row."""

    def replaced(name: str, value: Any) -> tuple[Any, ...]:
        column = getattr(columns, name)
        return (*column[:row], value, *column[row + 1 :])

    return replace(columns, **{name: replaced(name, value) for name, value in values.items()})


def mixed(plan: Plan) -> Iterator[Record]:
    """Yield a consumer that is created again, one with a filter, short lives, and empty queues."""
    extra = tuple(
        advisory(second(at), kind, STREAM, CONSUMER, stream_seq=7, deliveries=2)
        for at, kind in ADVISED_ACTIONS
    )
    for record in records(replace(plan, extra=extra)):
        if isinstance(record, Configured) and record.consumers:
            consumers = list(record.consumers)
            consumers[FILTERED] = replace(consumers[FILTERED], filter_subjects=("events.a",))
            yield replace(record, consumers=tuple(consumers))
        elif isinstance(record, Snapshot):
            tick = tick_of(record)
            consumers_now = short_lives(created_again(record.consumers, tick), tick)
            # Both streams are work queues: one is empty at most polls, the other at all.
            kept = 5 if tick % 10 == 0 else 0
            streams = replace(record.streams, stored_msgs=(kept, 0), stored_bytes=(kept * 80, 0))
            yield replace(record, streams=streams, consumers=consumers_now)
        else:
            yield record


def created_again(columns: ConsumerColumns, tick: int) -> ConsumerColumns:
    """Return the consumer as another one from a tick on, both with repeated deliveries."""
    repeated = min(max(tick - 40, 0), 15) * 2 + min(max(tick - 65, 0), 20) * 2
    values = {"delivered_consumer_seq": columns.delivered_consumer_seq[0] + repeated}
    if tick >= CREATED_AGAIN_TICK:
        values["created_at_us"] = second(CREATED_AGAIN_TICK - 0.5)
    return cast(ConsumerColumns, with_row(columns, 0, **values))


def short_lives(columns: ConsumerColumns, tick: int) -> ConsumerColumns:
    """Return consumers that are there for 5 s one after the other: 10 deliveries/s, 7 pending."""
    number, age = divmod(tick, 5)
    counters = ("delivered_consumer_seq", "delivered_stream_seq", "ack_floor_consumer_seq",
                "ack_floor_stream_seq")  # fmt: skip
    values = dict.fromkeys(counters, 10 * age) | {"pending_msgs": 7}
    values["created_at_us"] = second(tick - age - 0.5)
    return cast(ConsumerColumns, with_row(columns, SHORT, name=f"{VIEW}{number:06d}", **values))


def restarted(plan: Plan) -> Iterator[Record]:
    """Yield a recording that goes on after its machine was restarted, with a new clock."""
    told = False
    for record in records(plan):
        at_us = record.taken_at_us if isinstance(record, Snapshot) else record.at_us
        if at_us < second(RESTARTED_TICK):
            yield record
            continue
        later_us = OUTAGE_S * 1_000_000
        if not told:
            yield Gap(at_us + later_us, at_us, 0, "the recording engine was killed")
        told = True
        if isinstance(record, Snapshot):
            back_us = record.taken_mono_us - (at_us - second(RESTARTED_TICK)) - 1_000_000
            streams, consumers = (
                replace(each, sampled_mono_us=tuple(at - back_us for at in each.sampled_mono_us))
                for each in (record.streams, record.consumers)
            )
            yield replace(
                record, taken_mono_us=record.taken_mono_us - back_us,
                taken_at_us=at_us + later_us, streams=streams, consumers=consumers,
            )  # fmt: skip
        else:
            yield replace(record, at_us=at_us + later_us)


def asleep(plan: Plan) -> Iterator[Record]:
    """Yield a recording on a laptop that slept for hours, with troubles before and after."""
    for record in records(plan):
        at_us = record.taken_at_us if isinstance(record, Snapshot) else record.at_us
        later_us = ASLEEP_US if at_us >= second(ASLEEP_TICK) else 0
        if not isinstance(record, Snapshot):
            yield replace(record, at_us=at_us + later_us)
            continue
        poll = _in_trouble(record, tick_of(record))
        streams, consumers = (
            replace(each, sampled_mono_us=tuple(at + later_us for at in each.sampled_mono_us))
            for each in (poll.streams, poll.consumers)
        )
        yield replace(
            poll, taken_at_us=at_us + later_us, taken_mono_us=poll.taken_mono_us + later_us,
            streams=streams, consumers=consumers,
        )  # fmt: skip


def _in_trouble(poll: Snapshot, tick: int) -> Snapshot:
    away = tick in TROUBLE_TICKS
    peers = (Peer("n2", current=False, offline=True, active_ns=None, lag_msgs=0),) if away else ()
    silent = tick in (ASLEEP_TICK - 1, ASLEEP_TICK)
    return replace(
        poll,
        streams=with_row(poll.streams, 0, peers=peers),
        consumers=with_row(poll.consumers, 0, pending_msgs=5 if away else 0),
        unreachable_streams=(poll.streams.name[1],) if tick == ASLEEP_TICK - 1 else (),
        unreachable_consumers=((STREAM, CONSUMER),) if silent else (),
    )


ASLEEP_TICK, ASLEEP_US = 60, 8 * 3_600_000_000
TROUBLE_TICKS = range(ASLEEP_TICK - 20, ASLEEP_TICK + 20)
MIXED, RESTARTED, ASLEEP = "mixed", "restarted", "asleep"


def write(folder: Path) -> None:
    """Write the sessions."""
    _write(folder / MIXED, mixed(PLAN))
    _write(folder / RESTARTED, restarted(PLAN))
    _write(folder / ASLEEP, asleep(PLAN))


def _write(folder: Path, many: Iterable[Record]) -> None:
    """Write a session; one that goes on after a restart does so in a new segment."""
    known = list(many)
    gap = next((n for n, record in enumerate(known) if isinstance(record, Gap)), 100)
    write_records(folder, iter(known), PLAN, records_per_segment=gap)


SYSTEMS = {
    # Name of the session, in the order of time: the server, what it was connected to, the account.
    "a": ("n1", "", "A"), "b": ("n9", "", "A"), "c": ("n1", "", "A"), "d": ("n9", "", "A"),
    "e": ("n1", "", "B"), "f": ("N" + 55 * "A", "here", "A"), "g": ("N" + 55 * "B", "here", "A"),
}  # fmt: skip
COMPARED = {("a", "c"), ("b", "d"), ("f", "g")}


def write_systems(folder: Path) -> None:
    """Write a session of each of the systems, one after the other."""
    for number, (name, (server, target, account)) in enumerate(SYSTEMS.items()):
        started_at_us = START_AT_US + number * 3_600_000_000
        plan = Plan(1, 1, 30, seed=number, started_at_us=started_at_us, replicas_share=0.0)
        write_records(folder / name, records(plan), plan)
        info = read_info(folder / name)
        info = replace(info, server_name=server, target=target, account=account)
        write_info(folder / name, info)
