"""The sessions the tests look at: what is planted in them, and their records read again."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from benchmarks._bench_run import bench_records
from benchmarks._fleet import START_AT_US, Fault, Plan
from benchmarks._sessions import write_session
from natstui.analysis.silver.layer import Silver
from natstui.model.records.record import LinkChanged
from tests.analysis.by_format import Record, polls_of, read
from tests.analysis.locally import GOLD_TABLES, AnswersOfSome
from tests.analysis.troubled import damage, write_troubled

FIRST, SECOND = "20260921T141320Z-first", "20260928T141320Z-second"
THIRD = "20261005T141320Z-third"
INTERVAL_S, TICKS = 2, 200
"""A poll every two seconds: to read and to judge them is what costs."""
FAULTS = (
    Fault("ack_limit", 3, 50, 160),
    Fault("no_pull", 5, 60, 150),
    Fault("paused", 7, 25, 100),
    Fault("no_leader", 1, 75, 130),
    Fault("poison", 9, 30, 70),
    Fault("slow", 11, 0, 200),
    Fault("recreate_stream", 12, 100),
    Fault("reset_consumer", 14, 110),
    Fault("leader_change", 0, 85),
    Fault("replica_lag", 1, 10, 30),
)
GAP = (160, 175)
WEEK_US = 7 * 86_400_000_000


def write_first(folder: Path) -> Path:
    """Write a session with every fault and a benchmark, and with its findings."""
    bench = bench_records(START_AT_US + 410_000_000, "run-1", 11)
    plan = Plan(15, 15, TICKS, INTERVAL_S, faults=FAULTS, gaps=(GAP,), extra=bench)
    return write_session(folder / FIRST, plan, records_per_segment=100, findings=True)


def write_second(folder: Path) -> Path:
    """Write a session without faults, a week later: its API and benchmark are 10 % slower.

    It begins and ends as a recorder's does, with the connection made and closed.
    """
    start = START_AT_US + WEEK_US
    bench = bench_records(start + 410_000_000, "run-2", 12, slower=1.1)
    begins = LinkChanged(start, "connected", None)
    ends = LinkChanged(max(record.at_us for record in bench) + 1, "closed", None)
    extra = (begins, *bench, ends)
    plan = Plan(8, 10, TICKS, INTERVAL_S, seed=2, rtt_us=990, started_at_us=start, extra=extra)
    return write_session(folder / SECOND, plan, records_per_segment=100, findings=True)


def write_third(folder: Path) -> Path:
    """Write a session with the troubles the first has not; without findings, as older ones."""
    return write_troubled(folder / THIRD, START_AT_US + 2 * WEEK_US)


@dataclass(frozen=True)
class Planted:
    """The sessions."""

    folders: tuple[Path, ...]
    records: dict[str, list[Record]]
    """The records of every session, read before one of them was damaged."""


def write_planted(folder: Path) -> Planted:
    """Write all three, and damage the last one."""
    folders = (write_first(folder), write_second(folder), write_third(folder))
    records = {one.name: read(one) for one in folders}
    damage(folders[2])
    return Planted(folders, records)


@dataclass(frozen=True)
class Analysed(Planted):
    """The sessions, and all that an analysis says of them."""

    answers: AnswersOfSome

    @property
    def silver(self) -> Silver:
        """The silver tables of the sessions."""
        return self.answers.silver

    @cached_property
    def gold(self) -> dict[str, list[dict[str, Any]]]:
        """Every row of every gold table."""
        return {name: self.answers.rows(name) for name in GOLD_TABLES}

    @property
    def first(self) -> list[Record]:
        """The records of the first session."""
        return self.records[FIRST]

    @cached_property
    def polls(self) -> list[Record]:
        """The polls of the first session, in order."""
        return polls_of(self.first)

    def rows(self, table: str, session: str = FIRST) -> list[dict[str, Any]]:
        """The gold rows of one session."""
        return [row for row in self.gold[table] if row["session"] == session]
