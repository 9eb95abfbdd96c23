"""Sessions of the same minutes by several clocks, and one that began when things were wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from benchmarks._fleet import START_AT_US, Fault, Plan
from benchmarks._sessions import judged, records, write_records
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.findings import FindingReport, FindingsChanged
from natstui.model.records.record import Record
from natstui.model.records.recording import ClockStepped

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
    _write_known(folder / KNOWN)
