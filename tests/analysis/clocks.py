"""Sessions of the same minutes by several clocks, and one that began when things were wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from benchmarks._fleet import START_AT_US, Fault, Plan, advisory
from benchmarks._sessions import judged, records, write_records
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.findings import FindingReport, FindingsChanged
from natstui.model.records.record import Record
from natstui.model.records.recording import ClockStepped
from natstui.values import replace

HOUR_US = 3_600_000_000
STEPPED_AT_US = START_AT_US + 60_000_000
FAULTS = (Fault("no_pull", 1, 10, 50), Fault("paused", 3, 5, 45))
PLAN = Plan(4, 4, 60, interval_s=2, faults=FAULTS)
BORN_US, HELD_US, FULL_US, ENDED_US = (
    START_AT_US + second * 1_000_000 for second in (-1000, -100, -50, 19)
)


def at_us(record: Record) -> int:
    return record.taken_at_us if isinstance(record, Snapshot) else record.at_us


def moved(record: Record, by_us: int) -> Record:
    """Return what the recorder writes with its clock set by so much; the server's clock stays."""
    if isinstance(record, Snapshot):
        return replace(record, taken_at_us=record.taken_at_us + by_us)
    return replace(record, at_us=record.at_us + by_us)


def stepped(by_us: int) -> Callable[[Record], Iterator[Record]]:
    """Return what sets the clock in the middle, and notes it."""
    told = False

    def change(record: Record) -> Iterator[Record]:
        nonlocal told
        if at_us(record) < STEPPED_AT_US:
            yield record
            return
        if not told:
            yield ClockStepped(STEPPED_AT_US + by_us, by_us)
        told = True
        yield moved(record, by_us)

    return change


def slept(record: Record) -> Iterator[Record]:
    """Sleep for an hour, as recorders before wrote it: their clock stood still meanwhile.

    Meanwhile 72,000 messages came.
    """
    later = moved(record, HOUR_US) if at_us(record) >= STEPPED_AT_US else record
    if isinstance(later, Snapshot) and later is not record:
        streams = later.streams
        more = tuple(seq + 72_000 for seq in streams.last_seq)
        later = replace(later, streams=replace(streams, last_seq=more))
    yield later


KNOWN = "known"
CLOCKS: dict[str, Callable[[Record], Iterator[Record]]] = {
    "steady": lambda record: iter((record,)),
    "forward": stepped(HOUR_US),
    "back": stepped(-2 * HOUR_US),
    "slept": slept,
}


WAITING, CORRECTED = "waiting", "corrected"
FAST_US, WAITED_US = 300_000_000, 2_000_000
WAITING_PLAN = replace(
    PLAN,
    faults=(*FAULTS, Fault("recreate_stream", 0, 50)),
    extra=(
        advisory(
            START_AT_US + 90_000_000, "nak", "ORDERS-000", "billing-0000", stream_seq=7,
            deliveries=1,
        ),
    ),
)  # fmt: skip
"""A consumer is created again after 100 s, and the advisory is about the one before."""


def waiting(record: Record) -> Record:
    """Return a record in which the next message of each consumer has waited for 2 s."""
    if not isinstance(record, Snapshot):
        return record
    stored_us = record.taken_at_us - WAITED_US
    next_at_us = tuple(stored_us if msgs else None for msgs in record.consumers.pending_msgs)
    return replace(record, consumers=replace(record.consumers, next_at_us=next_at_us))


def corrected(many: Iterable[Record]) -> Iterator[Record]:
    """Yield what a recorder writes whose clock is fast at first, and then put right."""
    told = False
    for record in many:
        if at_us(record) < STEPPED_AT_US:
            yield moved(record, FAST_US)
            continue
        if not told:
            yield ClockStepped(STEPPED_AT_US, -FAST_US)
        told = True
        yield record


def _write_known(folder: Path) -> None:
    """Write a session that began when something was wrong already, of which one part ends."""
    limit = FindingReport("NT-C09", "JOBS-000", "fraud-0000", BORN_US, "", HELD_US, "2 of 2 wait")
    full = FindingReport("NT-S26", "JOBS-001", "", BORN_US, "", FULL_US, "full in 1 h")
    over = FindingsChanged(ENDED_US + 1_000_000, (replace(full, until_at_us=ENDED_US),))
    plan = Plan(2, 2, 40, replicas_share=0.0, extra=(over,))
    write_records(folder, records(plan), plan, records_per_segment=30, known=(limit, full))


def write(folder: Path) -> None:
    """Write a session per clock, with the same minutes each time, and the one with the past."""
    for name, change in CLOCKS.items():
        many = (new for record in records(PLAN) for new in change(record))
        write_records(folder / name, judged(many), PLAN, records_per_segment=50)
    many = [waiting(record) for record in records(WAITING_PLAN)]
    for name, change in ((WAITING, iter), (CORRECTED, corrected)):
        write_records(folder / name, judged(change(many)), WAITING_PLAN, records_per_segment=50)
    _write_known(folder / KNOWN)
