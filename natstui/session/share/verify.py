"""The verification of a session: its damage, its gaps, and its first and last time."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

from msgspec import Struct

from natstui.errors import SessionError
from natstui.files import open_regular_file
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.record import Record
from natstui.model.records.recording import Gap
from natstui.session.files.folder import (
    INFO,
    SegmentFile,
    find_missing_segments,
    is_recording,
    list_segments,
    missing_record_texts,
    no_segment_texts,
    translate_read_errors,
)
from natstui.session.files.index import SegmentIndex, read_index
from natstui.session.files.info import (
    CHANGED_INFO_TEXT,
    SessionInfo,
    read_checked_info,
    read_info,
)
from natstui.session.files.segment import (
    DamagedSegment,
    SegmentContent,
    decode_or_none,
    read_damaged,
    read_segment,
)
from natstui.units import bytes_text, counted, duration_text

_MAX_TIME_LOST_BY_KILL_US = 1_000_000
_MIN_MISSED_POLLS = 3
"""Number of missed polls in a row that count as a gap."""


class SessionFinding(Struct, frozen=True):
    """A finding about a session: damage, or something that is missing."""

    damage: bool
    """Whether something that was written cannot be read; else it was never recorded, or deleted.
    """
    text: str


class Verdict(Struct, frozen=True):
    """The result of the verification of a session."""

    findings: tuple[SessionFinding, ...]
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
        """Return whether a part of the session cannot be read."""
        return any(finding.damage for finding in self.findings)


class _SessionChecker:
    """Checks records in order and collects findings about the session."""

    def __init__(self) -> None:
        self.findings: list[SessionFinding] = []
        self.records_count = self.polls_count = self.consumer_samples_count = 0
        self.unreadable_lines_count = 0
        self.first_at_us: int | None = None
        self.last_at_us: int | None = None
        self._last_poll: Snapshot | None = None

    def add_finding(self, text: str, *, damage: bool) -> None:
        self.findings.append(SessionFinding(damage, text))

    def add_record(self, record: Record) -> None:
        at_us = record.taken_at_us if isinstance(record, Snapshot) else record.at_us
        self.records_count += 1
        self.first_at_us = at_us if self.first_at_us is None else self.first_at_us
        self.last_at_us = at_us
        if isinstance(record, Snapshot):
            self._add_poll(record)
        elif isinstance(record, Gap):
            lost_records_count = record.lost_records_count
            self.add_finding(
                f"gap from {millisecond_text(record.from_at_us)} to"
                f" {millisecond_text(record.at_us)}: {record.reason};"
                f" {counted(lost_records_count, 'record')} lost",
                damage=False,
            )

    def _add_poll(self, poll: Snapshot) -> None:
        self.polls_count += 1
        self.consumer_samples_count += len(poll.consumers.name)
        previous_poll, self._last_poll = self._last_poll, poll
        if previous_poll is None or previous_poll.cost.interval_us <= 0:
            return
        gap_us = poll.taken_mono_us - previous_poll.taken_mono_us
        if gap_us > _MIN_MISSED_POLLS * previous_poll.cost.interval_us:
            self.add_finding(
                f"no poll for {duration_text(gap_us / 1e6)} after"
                f" {millisecond_text(previous_poll.taken_at_us)}",
                damage=False,
            )


def millisecond_text(at_us: int) -> str:
    """Return a time in UTC to the millisecond; beyond the calendar, in µs."""
    try:
        moment = datetime.fromtimestamp(at_us / 1e6, UTC)
    except (ValueError, OverflowError, OSError):
        return f"{at_us} µs"
    return moment.strftime("%Y-%m-%d %H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def verify(folder: Path) -> Verdict:
    """Read a complete session and return the verdict; raises SessionError if the folder is no
    session.
    """
    # Checked first: a recording that ends meanwhile was not cut off.
    is_being_recorded = is_recording(folder)
    # Read once: a recorder may write it again meanwhile.
    info, is_checksum_right = read_checked_info(folder)
    files = list_segments(folder)
    checker = _SessionChecker()
    if not is_checksum_right:
        checker.add_finding(f"{INFO} {CHANGED_INFO_TEXT}", damage=True)
    for segment in read_readable_segments(
        folder, info, lambda text: checker.add_finding(text, damage=True)
    ):
        checker.unreadable_lines_count += segment.unreadable_lines_count
        for record in segment.records:
            checker.add_record(record)
    for file in files:
        if not file.sealed:
            _verify_last_line(file, checker)
    is_cut_off = _verify_end(info, files, checker, is_being_recorded=is_being_recorded)
    return Verdict(
        tuple(checker.findings),
        len(files),
        checker.records_count,
        checker.polls_count,
        checker.consumer_samples_count,
        checker.first_at_us,
        checker.last_at_us,
        checker.unreadable_lines_count,
        is_cut_off,
    )


class ReadableSegment(Struct, frozen=True):
    """The readable entries of a segment."""

    number: int
    content: SegmentContent
    records: tuple[Record, ...]
    unreadable_lines_count: int


def read_readable_segments(
    folder: Path, info: SessionInfo, report_damage: Callable[[str], None]
) -> Iterator[ReadableSegment]:
    """Yield the readable entries of each segment, and pass a sentence about each damage to
    `report_damage`.

    `info` was read before, because a recorder may seal and delete segments meanwhile. Raises
    SessionError if the folder is no session.
    """
    # In this order: each segment in the index is listed, and a segment not listed was dropped.
    indexes = read_index(folder)
    files = list_segments(folder)
    dropped_count = _count_dropped_segments(folder)
    missing_texts = list(_missing_segment_texts(dropped_count, files, max(indexes, default=0)))
    for text in missing_texts:
        report_damage(text)
    records_count = 0
    for file in files:
        try:
            content = _read_content(file, indexes.get(file.number), report_damage)
        except SessionError as error:
            dropped_count = _count_dropped_segments(folder)
            if file.number > dropped_count:
                report_damage(str(error))
                missing_texts.append(file.path.name)
            continue
        segment = _decode_records(file, content)
        records_count += len(content.entries) + content.damaged_lines_count
        for text in _damage_texts(file, segment):
            report_damage(text)
        yield segment
    written_count = sum(info.records_count.values())
    if not missing_texts and not dropped_count:
        for text in missing_record_texts(records_count, written_count):
            report_damage(text)


def _read_content(
    file: SegmentFile, index: SegmentIndex | None, report_damage: Callable[[str], None]
) -> SegmentContent:
    """Return the content of a segment; of a damaged one, report what is missing.

    Raises SessionError if the file cannot be opened.
    """
    try:
        return read_segment(file)
    except DamagedSegment:
        content, problem = read_damaged(file.path)
    records_count = len(content.entries) + content.damaged_lines_count
    if index is None:
        report_damage(f"{problem}; {counted(records_count, 'record')} of it can be read")
    else:
        indexed_records_count = sum(index.records_count.values()) + index.damaged_lines_count
        all_records_text = counted(indexed_records_count, "record")
        report_damage(f"{problem}; {records_count} of its {all_records_text} can be read")
    return content


def _count_dropped_segments(folder: Path) -> int:
    """Return how many segments were deleted so far to keep within a limit."""
    dropped_segments = read_info(folder).dropped
    return dropped_segments.segments_count if dropped_segments else 0


def _decode_records(file: SegmentFile, content: SegmentContent) -> ReadableSegment:
    """Return the decoded records of a segment, with the number of unreadable lines."""
    decoded_entries = [(entry, decode_or_none(entry)) for entry in content.entries]
    records = tuple(record for _, record in decoded_entries if record is not None)
    unreadable_lines_count = content.damaged_lines_count
    unreadable_lines_count += sum(
        len(entry.parts) for entry, record in decoded_entries if record is None
    )
    if not file.sealed:
        unreadable_lines_count -= content.unfinished_lines_count
    return ReadableSegment(file.number, content, records, unreadable_lines_count)


def _damage_texts(file: SegmentFile, segment: ReadableSegment) -> Iterator[str]:
    """Yield a sentence for each damage in a segment that could be opened."""
    name = file.path.name
    if segment.content.keyframe is None and file.sealed:
        yield f"{name} does not begin with a keyframe"
    if segment.unreadable_lines_count:
        yield f"{name}: {counted(segment.unreadable_lines_count, 'line')} cannot be read"


def _missing_segment_texts(
    dropped_count: int, files: list[SegmentFile], last_number: int
) -> Iterator[str]:
    """Yield a sentence per range of missing segments, up to the last sealed one."""
    yield from find_missing_segments(
        dropped_count, (file.number for file in files), last_number
    ).values()
    yield from no_segment_texts(files)


def _verify_last_line(file: SegmentFile, checker: _SessionChecker) -> None:
    """Report a last line that was not written completely."""
    try:
        with translate_read_errors(str(file.path)), open_regular_file(file.path) as segment_file:
            content = segment_file.read()
    except SessionError:
        if file.path.exists():
            raise
        return  # It was sealed meanwhile.
    torn_bytes = len(content) - (content.rfind(b"\n") + 1)
    if torn_bytes:
        checker.add_finding(
            f"{file.path.name} ends with {bytes_text(torn_bytes)} of a record that was being"
            " written; it is left out",
            damage=False,
        )


def _verify_end(
    info: SessionInfo,
    files: list[SegmentFile],
    checker: _SessionChecker,
    *,
    is_being_recorded: bool,
) -> bool:
    """Report how the session ends; return whether it was cut off."""
    if info.dropped:
        checker.add_finding(
            f"{info.dropped.segments_count} segments before"
            f" {millisecond_text(info.dropped.until_at_us)} were deleted because of"
            f" {info.dropped.reason}",
            damage=False,
        )
    last_text = "nothing" if checker.last_at_us is None else millisecond_text(checker.last_at_us)
    if is_being_recorded:
        checker.add_finding(
            f"it is being recorded; the last record is of {last_text}", damage=False
        )
    elif info.cut_off or info.ended_at_us is None or any(not file.sealed for file in files):
        checker.add_finding(_cut_off_text(info, checker.last_at_us, last_text), damage=False)
        return True
    return False


def _cut_off_text(info: SessionInfo, last_at_us: int | None, last_text: str) -> str:
    """Return a sentence about what is missing at the end of a session."""
    if (
        info.ended_at_us is not None
        and info.ended_at_us - (last_at_us or 0) > _MAX_TIME_LOST_BY_KILL_US
    ):
        return (
            f"the recorder could not write any more: the last record is of {last_text}; all that "
            f"happened after that, up to {millisecond_text(info.ended_at_us)}, is missing"
        )
    return (
        f"the recorder was cut off: the last record is of {last_text}; what happened"
        " after that is missing: at most a second if the process was killed, all up to its end"
        " if its disk was full, or if this was packed or copied before that"
    )
