"""Two sessions in which streams and consumers are changed, away, poisoned or held back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks._fleet import START_AT_US, Plan, advisory
from benchmarks._sessions import records, write_records
from natstui.model.live.snapshot import ConsumerColumns, Snapshot, StreamColumns
from natstui.model.records.findings import FindingReport
from natstui.model.records.record import Configured, LinkChanged, Record
from natstui.values import replace

AGAIN, ANEW, AWAY, POISONED, BEHIND, STREAM_AWAY = 0, 1, 2, 5, 7, 3
AWAY_TICKS = range(70, 130)
LONG, SHORT = "long", "short"
"""The two sessions: each is told of by itself."""
PLAN = Plan(6, 8, 200, replicas_share=0.0)


def second(number: int) -> int:
    return START_AT_US + number * 1_000_000


EXTRA = (
    advisory(second(90), "terminated", "JOBS-004", "fraud-0004", stream_seq=7, deliveries=1),
    advisory(second(91), "max_deliver", "JOBS-004", "fraud-0004", stream_seq=8, deliveries=1),
    advisory(second(92), "nak", "JOBS-004", "fraud-0004", stream_seq=8, deliveries=1),
    LinkChanged(second(200), "closed", None),
)


def changed(record: Record) -> Record:
    if isinstance(record, Configured) and record.consumers:
        configured = list(record.consumers)
        configured[POISONED] = replace(configured[POISONED], max_ack_pending_msgs=1)
        return replace(record, consumers=tuple(configured))
    if not isinstance(record, Snapshot):
        return record
    tick = round((record.taken_at_us - START_AT_US) / 1e6)
    streams, consumers = changed_streams(record.streams, tick), record.consumers
    changes = again(consumers, tick) | poison(consumers, tick)
    consumers = replace(consumers, **changes)
    if tick not in AWAY_TICKS:
        return replace(record, streams=streams, consumers=consumers)
    return replace(
        record,
        streams=without(streams, STREAM_AWAY),
        consumers=without(consumers, AWAY),
        unreachable_streams=(streams.name[STREAM_AWAY],),
        unreachable_consumers=((consumers.stream[AWAY], consumers.name[AWAY]),),
    )


FAR_MSGS = 30_000


def without(columns: Any, row: int) -> Any:
    values = {field: list(getattr(columns, field)) for field in columns.__struct_fields__}
    # A column that recorders of before did not have is empty.
    for one in filter(None, values.values()):
        del one[row]
    return type(columns)(**{name: tuple(one) for name, one in values.items()})


def changed_streams(columns: StreamColumns, tick: int) -> StreamColumns:
    """Restart the only server at tick 100, which calls itself something else then."""
    leaders = ("n1" if tick < 100 else "n7",) * len(columns.leader)
    last = list(columns.last_seq)
    if tick >= 60:
        last[ANEW] = tick
    return replace(columns, leader=leaders, last_seq=tuple(last))


def again(columns: ConsumerColumns, tick: int) -> dict[str, Any]:
    created = list(columns.created_at_us)
    if tick >= 50:
        created[AGAIN] = second(50)
    return {"created_at_us": tuple(created)}


def poison(columns: ConsumerColumns, tick: int) -> dict[str, Any]:
    """One message comes again every ten seconds, and no other one may be delivered."""
    constant = {
        "delivered_stream_seq": 11, "ack_floor_stream_seq": 10, "ack_floor_consumer_seq": 10,
        "delivered_consumer_seq": 11 + tick // 10, "ack_pending_msgs": 1, "redelivered_msgs": 1,
        "pending_msgs": 30,
    }  # fmt: skip
    found = {}
    for name, value in constant.items():
        values = list(getattr(columns, name))
        values[POISONED] = value
        if name == "pending_msgs":
            # It goes on, and is far behind: for minutes.
            values[BEHIND] = FAR_MSGS
        found[name] = tuple(values)
    return found


WAITING_MSGS = 30_000
LIMITED, FORGOTTEN = "billing-0000", "mailer-0001"
GROWING = "EVENTS-001"


def held_back(record: Record) -> Record:
    """Two consumers deliver nothing, and a stream will be full within ten minutes."""
    if isinstance(record, Configured) and record.streams:
        streams = [
            replace(one, max_msgs=10_000, discard="new") if one.name == GROWING else one
            for one in record.streams
        ]
        return replace(record, streams=tuple(streams))
    if not isinstance(record, Snapshot):
        return record
    tick = round((record.taken_at_us - START_AT_US) / 1e6)
    streams, consumers = record.streams, record.consumers
    stored = [
        10 * tick if name == GROWING else many
        for name, many in zip(streams.name, streams.stored_msgs, strict=True)
    ]
    still = {"pending_msgs": WAITING_MSGS, "ack_pending_msgs": 2, "ack_floor_stream_seq": 10}
    values = {
        name: tuple(
            value if who in (LIMITED, FORGOTTEN) else own
            for who, own in zip(consumers.name, getattr(consumers, name), strict=True)
        )
        for name, value in still.items()
    }
    return replace(
        record,
        streams=replace(streams, stored_msgs=tuple(stored)),
        consumers=replace(consumers, **values),
    )


def _write_short(folder: Path) -> None:
    """Write 18 s: too short for a consumer to be stuck, and for a forecast."""
    plan = Plan(2, 2, 18, replicas_share=0.0)
    of_consumer = ("ORDERS-000", LIMITED, second(-1000), "")
    limit = FindingReport("NT-C09", *of_consumer, second(-100), "2 of 2 wait")
    alone = FindingReport(
        "NT-S07", "ORDERS-000", "", second(-1000), "EU", second(-50), "no origin"
    )
    many = map(held_back, records(plan))
    write_records(folder, many, plan, records_per_segment=30, known=(limit, alone))


def write(folder: Path) -> None:
    """Write both sessions."""
    many = map(changed, records(replace(PLAN, extra=EXTRA)))
    write_records(folder / LONG, many, PLAN, records_per_segment=100)
    _write_short(folder / SHORT)
