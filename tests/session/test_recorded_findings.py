"""A recording holds what was found while it was made: at any moment of it, since exactly when."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from natstui.lines import decode_record
from natstui.model.findings.evaluate import apply_and_evaluate, evaluate_findings
from natstui.model.findings.finding import Finding
from natstui.model.findings.recorded import FINDING_TEXT_INTERVAL_US
from natstui.model.live.snapshot import Snapshot
from natstui.model.live.state import State, apply_records
from natstui.model.records.findings import FindingReport, FindingsChanged
from natstui.model.records.record import Record
from natstui.session.files.folder import list_segments
from natstui.session.files.keyframe import KeyframeBuilder
from natstui.session.files.segment import read_content
from natstui.session.library import summaries
from natstui.session.read.findings import compute_changes
from natstui.session.read.recording import Recording
from natstui.session.read.seek import lines_until
from natstui.session.share.recorded_findings import read_recorded_findings
from natstui.session.share.verify import verify
from natstui.session.write.recorder import Clock, Recorder
from natstui.session.write.settings import RecorderSettings
from natstui.values import replace
from tests.model.builders import snapshot
from tests.model.findings.life import START_S, Life, at_us
from tests.model.findings.test_servers import read, seen
from tests.session.making import made, wait_until

pytestmark = pytest.mark.xdist_group("recorded findings")


class Kept(Life):
    """A life of which every record is kept."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        super().__init__({"pull": True, "ack_policy": "explicit", "max_ack_pending_msgs": None})

    def add(self, *records: Record) -> None:
        self.records += records
        super().add(*records)


def life() -> Kept:
    """Six minutes: nobody pulls for three of them, and a message is poison in the last two."""
    kept = Kept()
    kept.polls(30, waiting_pulls_count=1)
    for second in range(180):
        kept.poll(pending_msgs=10 + second, waiting_pulls_count=0)
    kept.polls(30, pending_msgs=0)
    for deliveries in range(1, 121):
        kept.advise("nak", 77, deliveries)
        kept.poll(redelivered_msgs=1, ack_pending_msgs=1)
    return kept


def record(sessions: Path, records: Iterable[Record], segment_s: float = 60.0) -> Path:
    """Let the recorder write records as fast as it can, while its clock goes on with them."""
    now_us = [at_us(0)]

    def clock() -> int:
        return now_us[0]

    recorder = Recorder(
        RecorderSettings(sessions, "test", segment_s=segment_s),
        KeyframeBuilder().keyframe(at_us(0)),
        lambda change: None,
        Clock(clock, clock),
    )
    for one in records:
        now_us[0] = one.taken_at_us if isinstance(one, Snapshot) else one.at_us
        recorder.add(one)
        if isinstance(one, Snapshot):
            # Several polls that are taken at once are judged as one.
            wait_until(lambda: not recorder.is_behind)
    recorder.stop()
    return recorder.folder


@pytest.fixture(scope="module")
def lived() -> Kept:
    return life()


@pytest.fixture(scope="module")
def folder(lived: Kept, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return record(tmp_path_factory.mktemp("sessions"), lived.records)


def live(records: list[Record], until_us: int) -> State:
    state = State()
    for one in records:
        if (one.taken_at_us if isinstance(one, Snapshot) else one.at_us) <= until_us:
            state = apply_and_evaluate(state, one)
    return state


def spans(findings: Iterable[Finding]) -> set[tuple[object, ...]]:
    return {(one.kind.code, one.entity, one.since_us, one.until_us) for one in findings}


def told(folder: Path) -> list[FindingReport]:
    changes = (one for one in Recording(folder).records() if isinstance(one, FindingsChanged))
    return [finding for one in changes for finding in one.findings]


@pytest.mark.slow
def test_the_recorder_writes_what_was_raised_and_what_is_over(lived: Kept, folder: Path) -> None:
    found = told(folder)
    codes = {one.code for one in found}
    assert {"NT-C07", "NT-C05"} <= codes
    ends = {(one.code, one.since_at_us, one.until_at_us) for one in found if one.until_at_us}
    over = {(o.kind.code, o.since_us, o.until_us) for o in lived.state.findings.resolved}
    assert ends == over and over
    poison = [one for one in found if one.code == "NT-C05"]
    assert poison[0].sequences == (77,) and poison[0].stream == "S" and poison[0].consumer == "C"
    assert (poison[0].numbers or {})["deliveries_count"] >= 5


def test_what_is_found_of_servers_is_written_though_they_are_not(tmp_path: Path) -> None:
    servers = [seen(name) for name in ("n1", "n2", "n3")]
    records: list[Record] = [snapshot(START_S)]
    for second, there in enumerate((3, 3, 2, 2, 3), 1):
        # A poll says which moment it is.
        records += [read(START_S + second, *servers[:there]), snapshot(START_S + second + 0.5)]
    found = told(record(tmp_path, records))
    assert {(one.code, one.part) for one in found} == {("NT-V01", "server n3")}
    assert [one.until_at_us is None for one in found] == [True, False]


def test_what_a_finding_tells_is_written_again_now_and_then_only(folder: Path) -> None:
    of_pulls = [one for one in told(folder) if one.code == "NT-C07" and not one.until_at_us]
    assert 1 < len(of_pulls) <= 2 + 180_000_000 // FINDING_TEXT_INTERVAL_US, len(of_pulls)
    assert len({one.since_at_us for one in of_pulls}) == 1


@pytest.mark.slow
@pytest.mark.parametrize(
    "second",
    [
        29,
        50,
        100,
        pytest.param(205, marks=pytest.mark.long),
        pytest.param(215, marks=pytest.mark.long),
        pytest.param(260, marks=pytest.mark.long),
        pytest.param(300, marks=pytest.mark.long),
        pytest.param(355, marks=pytest.mark.long),
    ],
)
def test_a_moment_has_the_findings_that_were_live_since_exactly_then(
    lived: Kept, folder: Path, second: int
) -> None:
    moment_us = at_us(second) + 600_000
    lines = lines_until(Recording(folder), moment_us)
    # As the viewer builds it: all of it, then judged.
    state = evaluate_findings(apply_records(State(), [decode_record(line) for line in lines]))
    was = live(lived.records, moment_us)
    assert spans(state.findings.list_open_findings()) == spans(was.findings.list_open_findings())
    assert spans(state.findings.resolved) == spans(was.findings.resolved)


def test_every_keyframe_has_what_is_open(folder: Path) -> None:
    files = list_segments(folder)
    assert len(files) > 4
    for file in files:
        keyframe = read_content(file.path, sealed=file.sealed).keyframe
        assert keyframe is not None and keyframe.findings is not None
    middle = read_content(files[2].path, sealed=files[2].sealed).keyframe
    assert middle is not None and middle.findings is not None
    assert "NT-C07" in {one.code for one in middle.findings.findings}


def test_health_tells_of_a_recording_what_was_recorded(lived: Kept, folder: Path) -> None:
    state, over, damage = read_recorded_findings(folder, lambda done, total: None)
    assert damage == []
    assert spans(over) == spans(lived.state.findings.resolved)
    assert spans(state.findings.list_open_findings()) == spans(
        lived.state.findings.list_open_findings()
    )


@pytest.mark.slow
def test_an_older_recording_is_judged_by_the_same_rules(lived: Kept, tmp_path: Path) -> None:
    old = made(tmp_path, lived.records)
    found = [one for change in compute_changes(old) for one in change.findings]
    ends = {(one.code, one.since_at_us, one.until_at_us) for one in found if one.until_at_us}
    assert ends == {(o.kind.code, o.since_us, o.until_us) for o in lived.state.findings.resolved}


def test_a_code_of_tomorrow_is_left_out() -> None:
    told_now = FindingReport("NT-C99", "S", "C", 1, "", 5, "of tomorrow")
    state = State().after(FindingsChanged(9, (told_now, replace(told_now, code="NT-C07"))))
    assert [one.kind.code for one in state.findings.list_open_findings()] == ["NT-C07"]
    assert state.now_at_us == 9


def test_findings_of_codes_that_are_not_known_are_named(tmp_path: Path) -> None:
    records = [snapshot(START_S + second) for second in range(10)]
    strange = FindingReport("NT-S99", "S", "", 0, "", at_us(10), "something new")
    folder = made(tmp_path, [*records, FindingsChanged(at_us(11), (strange,))])
    _, _, unread = read_recorded_findings(folder, lambda *_: None)
    assert unread == ["findings with codes unknown to this natstui: NT-S99"]


def _as_other_rows(content: bytes) -> bytes:
    """Return a segment whose numbers of stored messages are texts."""
    lines = gzip.decompress(content).splitlines(keepends=True)
    return gzip.compress(
        b"".join(re.sub(rb'"stored_msgs":\[\d+', b'"stored_msgs":["x"', x) for x in lines)
    )


@pytest.mark.parametrize(
    "spoil",
    [
        lambda file: file.unlink(),
        lambda file: file.write_bytes(b""),
        lambda file: file.write_bytes(gzip.compress(b"")),
        lambda file: file.rename(file.with_name("kept-elsewhere.gz")),
        lambda file: file.write_bytes(_as_other_rows(file.read_bytes())),
    ],
    ids=["removed", "empty", "without a line", "renamed", "other types"],
)
@pytest.mark.parametrize("indexed", [True, False])
def test_a_recording_that_lost_its_content_is_never_fine(
    tmp_path: Path, spoil: Callable[[Path], None], indexed: bool
) -> None:
    kept = Kept()
    kept.polls(30, waiting_pulls_count=1)
    folder = made(tmp_path, kept.records, 12)
    for file in list_segments(folder):
        spoil(file.path)
    if not indexed:
        (folder / "index.jsonl").unlink()
    _, _, unread = read_recorded_findings(folder, lambda *_: None)
    assert unread
    assert all(finding.damage for finding in verify(folder).findings[:1])
    assert [each.status for each in summaries(tmp_path) if each.problem is None] in (
        ["damaged"], [],
    )  # fmt: skip
