"""The verification of a session: what can be read, what is missing, first and last time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from natstui.errors import SessionError
from natstui.files import open_plain
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.record import Record
from natstui.model.records.recording import Gap
from natstui.session.files.folder import (
    INFO,
    SegmentFile,
    fewer_than_written,
    is_recording,
    missing,
    nothing_left,
    reading,
    segments,
)
from natstui.session.files.index import SegmentIndex, read_index
from natstui.session.files.info import (
    NOT_AS_WRITTEN,
    SessionInfo,
    read_checked_info,
    read_info,
)
from natstui.session.files.segment import (
    Content,
    CutSegment,
    read_cut,
    read_segment,
    readable,
)
from natstui.units import bytes_text, counted, duration_text

_KILLED_LOSES_US = 1_000_000
_MISSED_POLLS = 3
"""Number of missed polls in a row that count as a gap."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding about a session: damage, or something that is missing."""

    damage: bool
    """Whether something that was written cannot be read; else it was never recorded, or deleted.
    """
    text: str


@dataclass(frozen=True, slots=True)
class Verdict:
    """The result of a verification."""

    findings: tuple[Finding, ...]
    segments_count: int
    records_count: int
    polls_count: int
    consumer_samples_count: int
    first_at_us: int | None
    last_at_us: int | None
    unreadable_lines_count: int = 0
    """Lines left out of the segments that could be opened."""
    cut_off: bool = False
    """The recorder ended without closing the session, so that its last moments are missing."""

    @property
    def damaged(self) -> bool:
        """Return whether something cannot be read."""
        return any(finding.damage for finding in self.findings)


class _Check:
    """Checks records in order and collects findings."""

    def __init__(self) -> None:
        self.findings: list[Finding] = []
        self.records_count = self.polls_count = self.consumer_samples_count = 0
        self.unreadable_lines_count = 0
        self.first_at_us: int | None = None
        self.last_at_us: int | None = None
        self._poll: Snapshot | None = None

    def note(self, text: str, *, damage: bool) -> None:
        self.findings.append(Finding(damage, text))

    def take(self, record: Record) -> None:
        at_us = record.taken_at_us if isinstance(record, Snapshot) else record.at_us
        self.records_count += 1
        self.first_at_us = at_us if self.first_at_us is None else self.first_at_us
        self.last_at_us = at_us
        if isinstance(record, Snapshot):
            self._take_poll(record)
        elif isinstance(record, Gap):
            lost_count = record.lost_records_count
            self.note(
                f"gap from {moment_text(record.from_at_us)} to {moment_text(record.at_us)}:"
                f" {record.reason}; {counted(lost_count, 'record')} lost",
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
            self.note(
                f"no poll for {duration_text(silent_us / 1e6)} after"
                f" {moment_text(before.taken_at_us)}",
                damage=False,
            )


def moment_text(at_us: int) -> str:
    """Return a moment in UTC to the millisecond; any number can be shown."""
    try:
        moment = datetime.fromtimestamp(at_us / 1e6, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{at_us} µs"
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def verify(folder: Path) -> Verdict:
    """Read everything in a session; raises SessionError when it is no session at all."""
    # Before it is read: what ends meanwhile was not cut off.
    recording = is_recording(folder)
    # Read once: a recorder may write it again meanwhile.
    info, as_written = read_checked_info(folder)
    files = segments(folder)
    check = _Check()
    if not as_written:
        check.note(f"{INFO} {NOT_AS_WRITTEN}", damage=True)
    for part in salvaged(folder, info, lambda text: check.note(text, damage=True)):
        check.unreadable_lines_count += part.unreadable_lines_count
        for record in part.records:
            check.take(record)
    for file in files:
        if not file.sealed:
            _verify_tail(file, check)
    is_cut_off = _verify_end(info, files, check, recording=recording)
    return Verdict(
        tuple(check.findings),
        len(files),
        check.records_count,
        check.polls_count,
        check.consumer_samples_count,
        check.first_at_us,
        check.last_at_us,
        check.unreadable_lines_count,
        is_cut_off,
    )


@dataclass(frozen=True, slots=True)
class ReadableSegment:
    """The readable entries of one segment."""

    number: int
    content: Content
    records: tuple[Record, ...]
    unreadable_lines_count: int


def salvaged(
    folder: Path, info: SessionInfo, report_damage: Callable[[str], None]
) -> Iterator[ReadableSegment]:
    """Yield the readable entries of each segment, and report unreadable parts.

    `info` was read before: a recorder may seal and delete segments meanwhile. Raises SessionError
    when it is no session at all.
    """
    # In this order: what the index has is in the list, and what is not in the list was dropped.
    indexes = read_index(folder)
    files = segments(folder)
    dropped_count = _dropped_count(folder)
    missing_texts = list(_missing(dropped_count, files, max(indexes, default=0)))
    for text in missing_texts:
        report_damage(text)
    records_count = 0
    for file in files:
        try:
            content = _content(file, indexes.get(file.number), report_damage)
        except SessionError as error:
            dropped_count = _dropped_count(folder)
            if file.number > dropped_count:
                report_damage(str(error))
                missing_texts.append(file.path.name)
            continue
        part = _read(file, content)
        records_count += len(content.entries) + content.damaged_lines_count
        for text in _unreadable(file, part):
            report_damage(text)
        yield part
    written_count = sum(info.records_count.values())
    if not missing_texts and not dropped_count:
        for text in fewer_than_written(records_count, written_count):
            report_damage(text)


def _content(
    file: SegmentFile, index: SegmentIndex | None, report_damage: Callable[[str], None]
) -> Content:
    """Read a segment; of one that was cut, report what is missing. Raises SessionError."""
    try:
        return read_segment(file)
    except CutSegment:
        content, problem = read_cut(file.path)
    records_count = len(content.entries) + content.damaged_lines_count
    if index is None:
        report_damage(f"{problem}; {counted(records_count, 'record')} of it can be read")
    else:
        all_count = sum(index.records_count.values()) + index.damaged_lines_count
        report_damage(
            f"{problem}; {records_count} of its {counted(all_count, 'record')} can be read"
        )
    return content


def _dropped_count(folder: Path) -> int:
    """Return how many segments were deleted until now to keep within a limit."""
    dropped = read_info(folder).dropped
    return dropped.segments_count if dropped else 0


def _read(file: SegmentFile, content: Content) -> ReadableSegment:
    """Read the records of a segment, and count the unreadable lines."""
    found = [(entry, readable(entry)) for entry in content.entries]
    records = tuple(record for _, record in found if record is not None)
    bad_count = sum(len(entry.pieces) for entry, record in found if record is None)
    bad_count += content.damaged_lines_count
    if not file.sealed:
        bad_count -= content.unfinished_lines_count
    return ReadableSegment(file.number, content, records, bad_count)


def _unreadable(file: SegmentFile, part: ReadableSegment) -> Iterator[str]:
    """Yield what is wrong in a segment that could be opened."""
    name = file.path.name
    if part.content.keyframe is None and file.sealed:
        yield f"{name} does not begin with a keyframe"
    if part.unreadable_lines_count:
        yield f"{name}: {counted(part.unreadable_lines_count, 'line')} cannot be read"


def _missing(dropped_count: int, files: list[SegmentFile], last_number: int) -> Iterator[str]:
    """Yield a sentence per run of segments that should be there, up to the last one sealed."""
    yield from missing(dropped_count, (file.number for file in files), last_number).values()
    yield from nothing_left(files)


def _verify_tail(file: SegmentFile, check: _Check) -> None:
    """Report a last line that was not written completely."""
    try:
        with reading(str(file.path)), open_plain(file.path) as opened:
            content = opened.read()
    except SessionError:
        if file.path.exists():
            raise
        return  # It was sealed meanwhile.
    torn_bytes = len(content) - (content.rfind(b"\n") + 1)
    if torn_bytes:
        check.note(
            f"{file.path.name} ends with {bytes_text(torn_bytes)} of a record that was being"
            " written; it is left out",
            damage=False,
        )


def _verify_end(
    info: SessionInfo, files: list[SegmentFile], check: _Check, *, recording: bool
) -> bool:
    """Report how it ends; return whether it was cut off."""
    if info.dropped:
        check.note(
            f"{info.dropped.segments_count} segments before"
            f" {moment_text(info.dropped.until_at_us)} were deleted because of"
            f" {info.dropped.reason}",
            damage=False,
        )
    last_text = "nothing" if check.last_at_us is None else moment_text(check.last_at_us)
    if recording:
        check.note(f"it is being recorded; the last record is of {last_text}", damage=False)
    elif info.cut_off or info.ended_at_us is None or any(not file.sealed for file in files):
        check.note(_cut_text(info, check.last_at_us, last_text), damage=False)
        return True
    return False


def _cut_text(info: SessionInfo, last_at_us: int | None, last_text: str) -> str:
    """Return what is missing at the end of a recording."""
    if info.ended_at_us is not None and info.ended_at_us - (last_at_us or 0) > _KILLED_LOSES_US:
        return (
            f"the recorder could not write any more: the last record is of {last_text}; all that "
            f"happened after that, up to {moment_text(info.ended_at_us)}, is missing"
        )
    return (
        f"the recorder was cut off: the last record is of {last_text}; what happened"
        " after that is missing: at most a second if the process was killed, all up to its end"
        " if its disk was full, or if this was packed or copied before that"
    )
