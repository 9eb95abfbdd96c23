"""What is whole in a session, what is missing, and from when to when."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from natstui.errors import SessionError
from natstui.model.record import Record
from natstui.model.recording import Gap
from natstui.model.snapshot import Snapshot
from natstui.session.folder import SegmentFile, is_recording, reading, segments
from natstui.session.info import SessionInfo, read_info
from natstui.session.segment import read_content, readable
from natstui.units import bytes_text, counted, duration_text

_MISSED_POLLS = 3
"""So many intervals without a poll are a hole."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing about a session that whoever relies on it should know."""

    damage: bool
    """Something that was written cannot be read; otherwise it was never recorded, or deleted."""
    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was found in a session."""

    findings: tuple[Finding, ...]
    segments_count: int
    records_count: int
    polls_count: int
    consumer_samples_count: int
    first_at_us: int | None
    last_at_us: int | None

    @property
    def damaged(self) -> bool:
        """Tell whether something cannot be read."""
        return any(finding.damage for finding in self.findings)


class _Check:
    """Reads records in order and collects what is wrong."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.records_count = self.polls_count = self.consumer_samples_count = 0
        self.first_at_us: int | None = None
        self.last_at_us: int | None = None
        self._poll: Snapshot | None = None

    def tell(self, text: str, *, damage: bool) -> None:
        self.findings.append(Finding(damage, text))

    def take(self, record: Record) -> None:
        at_us = record.taken_at_us if isinstance(record, Snapshot) else record.at_us
        self.records_count += 1
        self.first_at_us = at_us if self.first_at_us is None else self.first_at_us
        self.last_at_us = at_us
        if isinstance(record, Snapshot):
            self._take_poll(record)
        elif isinstance(record, Gap):
            lost = record.lost_records_count
            self.tell(
                f"gap from {moment_text(record.from_at_us)} to {moment_text(record.at_us)}:"
                f" {record.reason}; {counted(lost, 'record')} lost",
                damage=False,
            )

    def _take_poll(self, poll: Snapshot) -> None:
        self.polls_count += 1
        self.consumer_samples_count += len(poll.consumers.name)
        before, self._poll = self._poll, poll
        if before is None or before.cost.interval_us <= 0:
            return
        silent_us = poll.taken_mono_us - before.taken_mono_us
        if silent_us > _MISSED_POLLS * before.cost.interval_us:
            self.tell(
                f"no poll for {duration_text(silent_us / 1e6)} after"
                f" {moment_text(before.taken_at_us)}",
                damage=False,
            )


def moment_text(at_us: int) -> str:
    """Return a moment in UTC to the millisecond; any number is shown somehow."""
    try:
        moment = datetime.fromtimestamp(at_us / 1e6, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{at_us} µs"
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def verify(folder: Path) -> Verdict:
    """Read everything in a session; raise SessionError when it is no session at all."""
    info = read_info(folder)
    files = segments(folder)
    check = _Check()
    for text in _missing(info, files):
        check.tell(text, damage=True)
    for file in files:
        _verify_segment(file, check)
    _verify_end(folder, info, files, check)
    return Verdict(
        tuple(check.findings),
        len(files),
        check.records_count,
        check.polls_count,
        check.consumer_samples_count,
        check.first_at_us,
        check.last_at_us,
    )


def _missing(info: SessionInfo, files: list[SegmentFile]) -> Iterator[str]:
    """Yield a sentence per run of segments that should be there."""
    dropped = info.dropped.segments_count if info.dropped else 0
    expected = dropped + 1
    for file in files:
        if file.number > expected:
            first, last = expected, file.number - 1
            which = f"segment {first} is" if first == last else f"segments {first}–{last} are"
            yield f"{which} missing"
        expected = max(expected, file.number + 1)
    if not files:
        yield "there is no segment"


def _verify_segment(file: SegmentFile, check: _Check) -> None:
    try:
        content = read_content(file.path, sealed=file.sealed)
    except SessionError as error:
        check.tell(str(error), damage=True)
        return
    if content.keyframe is None and file.sealed:
        check.tell(f"{file.path.name} does not begin with a keyframe", damage=True)
    if content.damaged_lines_count and file.sealed:
        check.tell(
            f"{file.path.name}: {counted(content.damaged_lines_count, 'line')} cannot be read",
            damage=True,
        )
    unreadable_count = 0
    for entry in content.entries:
        record = readable(entry)
        if record is None:
            unreadable_count += 1
        else:
            check.take(record)
    if unreadable_count:
        check.tell(
            f"{file.path.name}: {counted(unreadable_count, 'record')} cannot be read", damage=True
        )
    if not file.sealed:
        _verify_tail(file, check)


def _verify_tail(file: SegmentFile, check: _Check) -> None:
    """Tell what of a last line was written."""
    with reading(str(file.path)), file.path.open("rb") as opened:
        content = opened.read()
    torn_bytes = len(content) - (content.rfind(b"\n") + 1)
    if torn_bytes:
        check.tell(
            f"{file.path.name} ends with {bytes_text(torn_bytes)} of a record that was being"
            " written; it is left out",
            damage=False,
        )


def _verify_end(folder: Path, info: SessionInfo, files: list[SegmentFile], check: _Check) -> None:
    if info.dropped:
        check.tell(
            f"{info.dropped.segments_count} segments before"
            f" {moment_text(info.dropped.until_at_us)} were deleted because of"
            f" {info.dropped.reason}",
            damage=False,
        )
    last_text = "nothing" if check.last_at_us is None else moment_text(check.last_at_us)
    if is_recording(folder):
        check.tell(f"it is being recorded; the last record is of {last_text}", damage=False)
    elif info.cut_off or info.ended_at_us is None or any(not file.sealed for file in files):
        check.tell(
            f"the recorder was cut off: the last record is of {last_text}; what happened"
            " after that, at most a second of the recording, is missing",
            damage=False,
        )
