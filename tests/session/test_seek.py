"""A moment is rebuilt from a part of the recording, and is the same as it was live."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from natstui.lines import decode_record
from natstui.model.live.known_rows import AssetRows, Roster
from natstui.model.live.snapshot import Snapshot
from natstui.model.live.state import State
from natstui.model.records.benchmark import BenchmarkLog, BenchmarkPhase
from natstui.model.records.record import Record
from natstui.session.read.recording import Recording
from natstui.session.read.seek import lines_until, plan_seek
from natstui.values import replace
from tests.session.making import fold, made
from tests.session.scenario import START_US, Scenario

pytestmark = pytest.mark.xdist_group("seek")


def plain(value: object) -> object:
    """Return a value that compares by content: rosters compare by identity otherwise."""
    if isinstance(value, Roster):
        return value.keys
    if isinstance(value, AssetRows):
        return (value.columns, value.roster.keys)
    return value


def facts(state: State) -> dict[str, object]:
    """Return everything in a state in a form that compares by content."""
    told: dict[str, object] = {name: plain(getattr(state, name)) for name in State.__slots__}
    for name in ("stream_history", "consumer_history"):
        tiers = getattr(state, name).tiers
        told[name] = [
            [(s.mono_us, s.at_us, s.roster.keys, dict(s.columns)) for s in tier.samples]
            for tier in tiers
        ]
    return told


def at_us_of(record: Record) -> int:
    return record.taken_at_us if isinstance(record, Snapshot) else record.at_us


def live(records: list[Record], at_us: int) -> State:
    return fold(record for record in records if at_us_of(record) <= at_us)


def lived_until(records: list[Record], moments: list[int]) -> Iterator[State]:
    """Yield the live state of each of some moments; they and the records are in order of time."""
    state, rest = State(), iter(records)
    record = next(rest, None)
    for at_us in moments:
        while record is not None and at_us_of(record) <= at_us:
            state, record = state.after(record), next(rest, None)
        yield state


def replayed(recording: Recording, at_us: int) -> State:
    return fold(decode_record(line) for line in lines_until(recording, at_us))


@pytest.fixture(scope="module")
def records() -> list[Record]:
    """More than an hour, with a benchmark that was planned in it."""
    scenario = Scenario(streams=3, consumers=5)
    records = [*scenario.beginning(), *scenario.records(0, 4300)]
    return sorted([*records, *benchmark()], key=at_us_of)


def benchmark() -> Iterator[Record]:
    for number, phase in enumerate(("starting", "steady", "finished")):
        at_us = START_US + 1_000_000_000 + number * 10_000_000 + 7
        yield BenchmarkPhase(at_us, "run", phase)  # type: ignore[arg-type]
        yield BenchmarkLog(at_us + 1, "run", f"{phase} it is")


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory, records: list[Record]) -> Recording:
    return Recording(made(tmp_path_factory.mktemp("sessions"), records))


@pytest.mark.slow
def test_a_moment_is_the_same_as_it_was_live(recording: Recording, records: list[Record]) -> None:
    moments = [START_US + second * 1_000_000 + 500_000 for second in (1, 60, 1017, 4299)]
    for at_us, state in zip(moments, lived_until(records, moments), strict=True):
        assert facts(replayed(recording, at_us)) == facts(state), at_us


def test_a_late_moment_is_built_from_a_part_of_the_polls(recording: Recording) -> None:
    lines = list(lines_until(recording, START_US + 4_200_000_000))
    polls = sum(line.startswith(b'{"kind":"snapshot"') for line in lines)
    assert polls < 900
    assert plan_seek(recording, START_US + 4_200_000_000).first_polls_segment == 9


@pytest.mark.slow
def test_polls_that_did_not_see_everything_are_never_skipped(tmp_path: Path) -> None:
    scenario, chance = Scenario(streams=3, consumers=6), random.Random(3)
    records: list[Record] = scenario.beginning()
    for second in range(450):
        poll = scenario.poll(second)
        if chance.random() < 0.1:
            poll = replace(
                poll, consumers_complete=False, consumers=type(poll.consumers)(), swept_streams=()
            )
        records.append(poll)
    recording = Recording(made(tmp_path, records))
    for second in (250, 350, 449):
        at_us = START_US + second * 1_000_000 + 1
        assert facts(replayed(recording, at_us)) == facts(live(records, at_us))


def test_the_index_may_be_deleted(recording: Recording, records: list[Record]) -> None:
    index = recording.folder / "index.jsonl"
    content = index.read_bytes()
    index.unlink()
    try:
        again = Recording(recording.folder)
        assert [span.index for span in again.spans] == [span.index for span in recording.spans]
    finally:
        index.write_bytes(content)
