"""The middle of a benchmark is shown as it was, wherever one begins to read."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from natstui.model.bench.counts import Counts, Latencies
from natstui.model.bench.latency import from_latencies
from natstui.model.bench.plan import BenchmarkPlan, Role
from natstui.model.bench.result import Accounting, BenchmarkResult
from natstui.model.live.state import EVENTS_KEPT
from natstui.model.records.benchmark import (
    BenchmarkFinished,
    BenchmarkLog,
    BenchmarkPhase,
    BenchmarkPlanned,
    BenchmarkReport,
    BenchmarkSummed,
)
from natstui.model.records.record import Advisory, Record
from natstui.session.files.folder import list_segments
from natstui.session.files.keyframe import KeyframeBuilder
from natstui.session.read.recording import Recording
from natstui.session.read.seek import plan_seek
from tests.session.making import Maker, made
from tests.session.scenario import START_US, Scenario
from tests.session.test_seek import at_us_of, facts, live, lived_until, replayed

pytestmark = pytest.mark.xdist_group("seek benchmark")

PLAN = BenchmarkPlan("t", "", (Role("p", "publish"),), None, 5.0)
LAST_S = 500
RESULT = BenchmarkResult(
    "t", START_US, 5.0, "ok", False, (), None, None, None, None, Latencies(), Counts(),
    Accounting(0, 0, 0, 0, 0, 0, None, None, 0, None, 0, 0, None, 0, True), (),
)  # fmt: skip


def run(run_id: str, first_s: int, last_s: int) -> Iterator[Record]:
    """Yield a run: two workers that report twice a second."""
    chance = random.Random(run_id)
    at_us = START_US + first_s * 1_000_000 + 3
    yield BenchmarkPlanned(at_us, run_id, PLAN)
    yield BenchmarkPhase(at_us + 1, run_id, "steady")
    for step in range(2 * (last_s - first_s)):
        at_us += 500_000
        for worker in range(2):
            counts = Counts(sent_msgs=chance.randrange(50))
            latencies = Latencies(ack=from_latencies(chance.sample(range(10**6), 5)))
            yield BenchmarkReport(at_us, run_id, "p", worker, 0.5, counts, latencies, 0.1)
        if step % 50 == 7:
            yield BenchmarkLog(at_us + 1, run_id, f"step {step}")
    yield BenchmarkFinished(at_us + 2, run_id, RESULT, None)
    yield BenchmarkSummed(at_us + 3, "so many\nmessages\n", failed=False)


def everything() -> list[Record]:
    scenario = Scenario(streams=2, consumers=3)
    records = [*scenario.beginning(), *scenario.records(0, LAST_S)]
    records += [*run("one", 70, 100), *run("two", 130, 390)]
    return sorted(records, key=at_us_of)


@pytest.fixture(scope="module")
def records() -> list[Record]:
    return everything()


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory, records: list[Record]) -> Recording:
    return Recording(made(tmp_path_factory.mktemp("sessions"), records))


@pytest.mark.slow
def test_a_moment_of_a_benchmark_is_the_same_as_it_was_live(
    recording: Recording, records: list[Record]
) -> None:
    seconds = (71, 129, 181, 391)
    moments = [START_US + second * 1_000_000 + 250_000 for second in seconds]
    for at_us, state in zip(moments, lived_until(records, moments), strict=True):
        assert facts(replayed(recording, at_us)) == facts(state), at_us


def test_the_middle_of_a_run_is_built_from_the_nearest_keyframe(recording: Recording) -> None:
    way = plan_seek(recording, START_US + 300_500_000)
    assert way.first_reports_segment == way.last_segment and way.benchmark is not None
    later = plan_seek(recording, START_US + 490_500_000)
    assert later.first_reports_segment < later.last_segment


@pytest.mark.long
@pytest.mark.slow
def test_many_events_meanwhile_do_not_hide_the_run(tmp_path: Path, records: list[Record]) -> None:
    noise = [
        Advisory(START_US + 200_000_000 + n * 10_000, "nak", "S", "c", "text", "{}")
        for n in range(EVENTS_KEPT + 10)
    ]
    noisy = sorted([*records, *noise], key=at_us_of)
    recording = Recording(made(tmp_path, noisy))
    at_us = START_US + 330 * 1_000_000 + 1
    assert replayed(recording, at_us).benchmark == live(records, at_us).benchmark


@pytest.mark.slow
@pytest.mark.parametrize("began_s", [85, pytest.param(250, marks=pytest.mark.long), 460])
def test_a_recording_that_begins_in_the_middle_of_a_run_or_after_it_knows_it(
    tmp_path: Path, records: list[Record], began_s: int
) -> None:
    began_us = START_US + began_s * 1_000_000
    memory = KeyframeBuilder()
    for record in records:
        if at_us_of(record) < began_us:
            memory.add(record)
    maker = Maker(tmp_path, keyframes=memory)
    for record in records:
        if at_us_of(record) >= began_us:
            maker.add(record)
    maker.disk.finish(START_US)
    recording = Recording(maker.disk.folder)
    moments = [START_US + second * 1_000_000 + 1 for second in (began_s + 5, began_s + 30)]
    for at_us, state in zip(moments, lived_until(records, moments), strict=True):
        assert replayed(recording, at_us).benchmark == state.benchmark


@pytest.mark.slow
def test_a_run_whose_beginning_was_deleted_is_shown_from_the_next_keyframe(
    tmp_path: Path, records: list[Record]
) -> None:
    folder = made(tmp_path, records)
    for segment in list_segments(folder)[:4]:
        segment.path.unlink()
    at_us = START_US + 300_500_000
    shown = replayed(Recording(folder), at_us).benchmark
    assert shown is not None and shown == live(records, at_us).benchmark
