"""Every scripted fault is named within three polls, since when and with its message, and ends.

All of them happen at once on one server: the whole catalogue costs what its slowest fault costs.
They are recorded meanwhile: replay and analysis of the recording must tell the same of each.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import nats
import pytest

from natstui.config import Connection
from natstui.jetstream.connection.client import connect
from natstui.jetstream.events.subscriptions import read_events
from natstui.jetstream.polling.control import PollControl
from natstui.jetstream.polling.poller import poll
from natstui.jetstream.testbed.broker import Broker
from natstui.lines import decode_record
from natstui.model.findings.evaluate import apply_and_evaluate, evaluate_findings
from natstui.model.findings.finding import Finding
from natstui.model.live.snapshot import Snapshot
from natstui.model.live.state import State, apply_records
from natstui.model.records.record import Record
from natstui.session.files.keyframe import KeyframeBuilder
from natstui.session.read.recording import Recording
from natstui.session.read.seek import lines_until
from natstui.session.share.recorded_findings import read_recorded_findings
from natstui.session.write.recorder import Recorder
from natstui.session.write.settings import RecorderSettings
from tests.analysis.jobs import natstui
from tests.ending import ended
from tests.faults.ground import Fault, Ground, done
from tests.faults.of_consumers import CONSUMER_FAULTS
from tests.faults.of_streams import STREAM_FAULTS

# The faults lie beside each other in real time: on a busy machine polls come late. `make long`
# runs them; `test_situations.py` has one of each kind for `make check`.
pytestmark = [pytest.mark.server, pytest.mark.long, pytest.mark.xdist_group("faults")]

FAULTS = (*CONSUMER_FAULTS, *STREAM_FAULTS)
INTERVAL_S = 1.0
POLLS = 3
_LONGEST_S = 60.0


class Span(NamedTuple):
    """A finding as a recording or an analysis tells it."""

    code: str
    stream: str
    consumer: str | None
    since_us: int
    until_us: int | None


def now_us() -> int:
    return time.time_ns() // 1000


@dataclass
class Course:
    """What became of one fault; times of polls are UTC."""

    fault: Fault
    before: Finding | None = None
    broken_us: int = 0
    """When it was begun to be made; that takes a while where many are made at once."""
    was_broken_us: int = 0
    found: Finding | None = None
    found_us: int = 0
    newest: Finding | None = None
    mended_us: int = 0
    gone_us: int = 0
    ended: Finding | None = None
    """As it was when it was over."""
    polls_us: list[int] = field(default_factory=list)
    """When its row was refreshed, or was not there."""
    sampled_us: int | None = None

    def take(self, state: State) -> None:
        """Look at one judged poll."""
        at_us = state.now_at_us
        sampled_us = self._sampled_us(state)
        if sampled_us is None or sampled_us != self.sampled_us:
            self.polls_us.append(at_us)
        self.sampled_us = sampled_us
        finding = self._of(state)
        if not self.broken_us:
            self.before = self.before or finding
        elif not self.mended_us:
            self.newest = finding or self.newest
            if finding is not None and self.found is None:
                self.found, self.found_us = finding, at_us
        elif finding is None and not self.gone_us and at_us > self.mended_us:
            self.gone_us = at_us
            self.ended = self._of_these(reversed(state.findings.resolved))

    def _of(self, state: State) -> Finding | None:
        return self._of_these(state.findings.list_open_findings())

    def _of_these(self, findings: Iterable[Finding]) -> Finding | None:
        for one in findings:
            same = (one.entity.stream, one.entity.consumer or None)
            if one.kind.code == self.fault.code and same == (self.fault.name, self.fault.consumer):
                return one
        return None

    def _sampled_us(self, state: State) -> int | None:
        table = state.streams if self.fault.consumer is None else state.consumers
        for row in table.roster.rows_of_stream.get(self.fault.name, ()):
            if self.fault.consumer in (None, table.roster.keys[row][1]):
                return table.columns.sampled_mono_us[row]
        return None

    def polls_between(self, from_us: int, to_us: int) -> int:
        """Return how many polls were made after one moment, until another."""
        return sum(1 for at_us in self.polls_us if from_us < at_us <= to_us)

    def polls_apart(self, one_us: int, other_us: int) -> int:
        """Return how many polls lie between two moments."""
        return self.polls_between(min(one_us, other_us), max(one_us, other_us))

    def assert_told_by(self, spans: list[Span]) -> None:
        """Hold what somebody else tells to what was found live."""
        assert self.ended is not None and self.ended.until_us is not None, "never over"
        here = (self.fault.code, self.fault.name, self.fault.consumer)
        told = [span for span in spans if (span.code, span.stream, span.consumer) == here]
        assert told, f"{here} is not among {len(spans)} spans"
        live = (self.ended.since_us, self.ended.until_us)
        apart = [
            (self.polls_apart(live[0], one.since_us), self.polls_apart(live[1], one.until_us))
            for one in told
            if one.until_us is not None
        ]
        assert any(max(each) <= 2 for each in apart), (live, told, apart)


class Watcher:
    """A sink that judges what it gets, and follows the faults."""

    def __init__(self, courses: list[Course], recorder: Recorder) -> None:
        self.state = State()
        self.recorder = recorder
        self.courses = courses
        self.records: list[Record] = []
        self.changed = asyncio.Event()

    def add(self, record: Record) -> None:
        self.records.append(record)
        self.recorder.add(record)
        self.state = apply_and_evaluate(self.state, record)
        if isinstance(record, Snapshot):
            for course in self.courses:
                course.take(self.state)
            self.changed.set()

    async def polls(self, count: int) -> None:
        for _ in range(count):
            self.changed.clear()
            await self.changed.wait()

    async def until(self, done: str) -> None:
        """Wait until every fault was found, or is gone; those that never are fail their test."""
        deadline_s = time.monotonic() + _LONGEST_S
        while time.monotonic() < deadline_s:
            if all(getattr(course, done) for course in self.courses):
                return
            await self.polls(1)


async def _course_of_all(url: str, recorder: Recorder) -> list[Course]:
    courses = [Course(fault) for fault in FAULTS]
    ground = Ground(await nats.connect(url, connect_timeout=5, pending_size=64 * 2**20))
    client = await connect(Connection(servers=(url,)))
    watcher = Watcher(courses, recorder)
    control = PollControl(interval_s=INTERVAL_S)
    tasks = [
        asyncio.create_task(read_events(client, watcher)),
        asyncio.create_task(poll(client, control, watcher)),
    ]
    try:
        await asyncio.gather(
            *(c.fault.prepare(ground) for c in courses if c.fault.prepare is not None)
        )
        await watcher.polls(3)
        await asyncio.gather(*(_break(course, ground) for course in courses))
        await watcher.until("found")
        await asyncio.gather(*(_mend(course, ground) for course in courses))
        await watcher.until("gone_us")
    finally:
        for task in tasks:
            task.cancel()
        await ended(*tasks)
        await client.close()
        await ground.close()
    return courses


async def _break(course: Course, ground: Ground) -> None:
    course.broken_us = now_us()
    await done(course.fault.break_it(ground))
    course.was_broken_us = now_us()


async def _mend(course: Course, ground: Ground) -> None:
    await done(course.fault.mend(ground))
    course.mended_us = now_us()


class Happened(NamedTuple):
    """Every course by its name, and the recording of all."""

    courses: dict[str, Course]
    folder: Path


@pytest.fixture(scope="module")
def happened(tmp_path_factory: pytest.TempPathFactory) -> Happened:
    settings = RecorderSettings(tmp_path_factory.mktemp("sessions"), "faults")
    recorder = Recorder(settings, KeyframeBuilder().keyframe(now_us()), lambda change: None)
    try:
        with Broker() as broker:
            courses = asyncio.run(_course_of_all(broker.url, recorder))
    finally:
        recorder.stop()
    return Happened({course.fault.name: course for course in courses}, recorder.folder)


@pytest.fixture(scope="module")
def replayed(happened: Happened) -> list[Span]:
    """What the recording tells, replayed from its beginning to its end."""
    state, over, damage = read_recorded_findings(happened.folder, lambda done, total: None)
    assert damage == [] and state.findings.are_from_recording
    return [
        Span(f.kind.code, f.entity.stream, f.entity.consumer or None, f.since_us, f.until_us)
        for f in (*over, *state.findings.list_open_findings())
    ]


@pytest.fixture(scope="module")
def analysed(happened: Happened, tmp_path_factory: pytest.TempPathFactory) -> list[Span]:
    """The table `findings` of one analysis of the recording."""
    out = str(tmp_path_factory.mktemp("tables"))
    ran = natstui(
        "analyze", str(happened.folder), "--out", out, "--master", "local[2]", "--json",
        "--rows", "10000",
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    table = json.loads(ran.stdout)["tables"]["findings"]
    names = [column["name"] for column in table["columns"]]
    rows = [dict(zip(names, row, strict=True)) for row in table["rows"]]
    return [
        Span(row["code"], row["stream"], row["consumer"], row["start_at_us"], row["end_at_us"])
        for row in rows
    ]


_EACH = pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: f"{fault.code}-{fault.name}")


def test_there_are_at_least_forty_faults() -> None:
    assert len({fault.name for fault in FAULTS}) == len(FAULTS) >= 40


@_EACH
def test_a_fault_is_named_in_time_with_its_message_and_ends(
    fault: Fault, happened: Happened
) -> None:
    course = happened.courses[fault.name]
    assert course.before is None, "found before it was there"
    assert course.found is not None, "never found"
    told_us = course.was_broken_us + round(fault.after_s * 1e6)
    polls = course.polls_between(told_us, course.found_us)
    assert polls <= POLLS, f"found {polls} polls too late"
    since_us = round(fault.since_s * 1e6)
    earlier = course.polls_between(course.found.since_us, course.broken_us + since_us)
    later = course.polls_between(course.was_broken_us + since_us, course.found.since_us)
    assert earlier <= 2 and later <= 2, f"since {earlier} polls too early, {later} too late"
    newest = course.newest or course.found
    assert set(fault.sequences) <= set(newest.sequences), newest.sequences
    if fault.number is not None:
        assert newest.numbers[fault.number[0]] == fault.number[1]
    assert course.gone_us, f"never gone: {newest.text}"
    left_us = course.mended_us + round(fault.leaves_s * 1e6)
    polls = course.polls_between(left_us, course.gone_us)
    assert polls <= POLLS, f"gone {polls} polls too late"


@_EACH
def test_a_replay_tells_the_same_of_a_fault(
    fault: Fault, happened: Happened, replayed: list[Span]
) -> None:
    happened.courses[fault.name].assert_told_by(replayed)


def test_a_moment_of_the_recording_has_every_fault_since_then(happened: Happened) -> None:
    courses = [course for course in happened.courses.values() if course.found is not None]
    moment_us = min(course.mended_us for course in courses) - 1
    lines = lines_until(Recording(happened.folder), moment_us)
    state = evaluate_findings(apply_records(State(), [decode_record(line) for line in lines]))
    of = {(f.kind.code, f.entity.stream, f.entity.consumer or None): f.since_us
          for f in state.findings.list_open_findings()}  # fmt: skip
    for course in courses:
        since_us = of.get((course.fault.code, course.fault.name, course.fault.consumer))
        if since_us is None:
            # It was over for a moment just then.
            continue
        assert course.polls_apart(since_us, (course.newest or course.found).since_us) <= 2
    assert len(of) >= len(courses)


@pytest.mark.spark
@_EACH
def test_an_analysis_tells_the_same_of_a_fault(
    fault: Fault, happened: Happened, analysed: list[Span]
) -> None:
    happened.courses[fault.name].assert_told_by(analysed)
