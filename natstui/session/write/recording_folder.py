"""The files of a recording while it is written. Every function may raise OSError."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from natstui.clock import steady_us
from natstui.errors import SessionError
from natstui.files import sync_folder
from natstui.model.records.findings import FindingReport, FindingsChanged
from natstui.model.records.record import kind_of
from natstui.paths import create_private_folder
from natstui.session.files.entry import encode_keyframe
from natstui.session.files.folder import (
    LOCK,
    folder_name,
    list_segments,
    lock_recording,
    segment_path,
)
from natstui.session.files.index import SegmentIndex, read_index
from natstui.session.files.info import (
    DroppedSegments,
    SessionInfo,
    create_info,
    read_info_to_change,
    write_info,
)
from natstui.session.files.keyframe import Keyframe
from natstui.session.files.segment import OpenSegment, decode_or_none, read_damaged
from natstui.session.write.seal import seal
from natstui.session.write.settings import RecorderSettings
from natstui.units import bytes_text, duration_text
from natstui.values import replace


class _SealedSegment(NamedTuple):
    """The fields of a sealed segment that limits depend on."""

    number: int
    size_bytes: int
    first_at_us: int | None
    last_at_us: int | None
    sealed_steady_us: int
    """When this process sealed the segment, or found it sealed, on the steady clock."""


class RecordingFolder:
    """The folder of a recording, with its open segment and the segments to seal."""

    def __init__(
        self,
        settings: RecorderSettings,
        keyframe: Keyframe,
        at_us: int,
        continued_folder: Path | None = None,
        steady_us: Callable[[], int] = steady_us,
    ) -> None:
        """Create a folder, or continue in `continued_folder`, which a killed recorder left."""
        self._settings = settings
        self._read_steady_clock_us = steady_us
        self._segment_number = 0
        self._bytes_by_closed_segment: dict[int, int] = {}
        """Number of a closed segment that is not sealed yet → its bytes."""
        self._sealed_segments: deque[_SealedSegment] = deque()
        """Sealed segments, the oldest first, which limits may delete; empty without a limit."""
        self._sealed_bytes = 0
        """Bytes of the sealed segments that are not deleted."""
        self._last_sealed_record_us: int | None = None
        self._records_count_by_kind: dict[str, int] = {}
        self._lock_descriptor: int | None = None
        self._segment: OpenSegment | None = None
        self._keyframe_bytes = 0
        """Bytes of the first line of the open segment."""
        self.continued_from_us: int | None = None
        """Time of the last earlier record, in a recording that is continued."""
        self.findings_left_open: tuple[FindingReport, ...] = ()
        """The findings that the killed recorder left open, in a recording that is continued."""
        if continued_folder is None:
            self.info = replace(
                create_info(settings.name, at_us),
                payloads=settings.payloads,
                retain_s=settings.retain_s,
                max_bytes=settings.max_bytes,
            )
            create_private_folder(settings.sessions)
            self.folder = _create_folder(settings.sessions, folder_name(at_us, settings.name))
        else:
            self.info = replace(
                read_info_to_change(continued_folder), ended_at_us=None, cut_off=False
            )
            self.folder = continued_folder
        try:
            self._start_recording(keyframe, is_continued=continued_folder is not None)
        except (OSError, SessionError):
            self.abandon()
            raise

    def _start_recording(self, keyframe: Keyframe, *, is_continued: bool = False) -> None:
        """Lock the folder and open the first segment in it, or the next one."""
        self._lock_descriptor = lock_recording(self.folder)
        if is_continued:
            self._continue_recording()
        write_info(self.folder, self.info)
        self._segment = self._open_next_segment(keyframe)

    def _continue_recording(self) -> None:
        """Seal the segments that a killed recorder left open, and count their records."""
        indexes = read_index(self.folder)
        for segment in list_segments(self.folder):
            if not segment.sealed:
                self._bytes_by_closed_segment[segment.number] = segment.path.stat().st_size
            elif segment.number in indexes:
                self._add_sealed(indexes[segment.number], self._read_steady_clock_us())
        self.seal()
        self.continued_from_us = self._last_sealed_record_us or self.info.started_at_us
        # Sealing deletes a segment without its first line: its number is not left out.
        segments = list_segments(self.folder)
        if self.info.dropped:
            self._segment_number = self.info.dropped.segments_count
        if segments:
            self._segment_number = segments[-1].number
            self.findings_left_open = _read_open_findings(segments[-1].path)

    def abandon(self) -> None:
        """Close the open segment without sealing it, and unlock the folder."""
        if self._segment is not None:
            self._segment.close()
        if self._lock_descriptor is not None:
            os.close(self._lock_descriptor)
        self._segment = self._lock_descriptor = None

    def _open_next_segment(self, keyframe: Keyframe) -> OpenSegment:
        number = self._segment_number + 1
        segment = OpenSegment(segment_path(self.folder, number, sealed=False))
        try:
            segment.append(encode_keyframe(keyframe))
        except OSError:
            segment.close()
            segment.path.unlink(missing_ok=True)
            raise
        self._segment_number, self._keyframe_bytes = number, segment.size_bytes
        return segment

    @property
    def segment_bytes(self) -> int:
        """Return the bytes in the open segment."""
        return self._segment.size_bytes if self._segment else 0

    @property
    def segment_records_bytes(self) -> int:
        """Return the bytes in the open segment without its keyframe."""
        return self.segment_bytes - self._keyframe_bytes

    @property
    def size_bytes(self) -> int:
        """Return the bytes of all segments."""
        return (
            self.segment_bytes + sum(self._bytes_by_closed_segment.values()) + self._sealed_bytes
        )

    def append(self, lines: bytes) -> None:
        """Write all lines or none; raises FileNotFoundError if the folder was removed."""
        self._require_open_segment().append(lines)

    def _require_open_segment(self) -> OpenSegment:
        if self._segment is None or not self._segment.exists():
            raise FileNotFoundError(2, "the folder was removed", str(self.folder))
        return self._segment

    def check_writable(self) -> None:
        """Raise OSError if the next segment cannot be created."""
        self._require_open_segment()
        if not os.access(self.folder, os.W_OK | os.X_OK):
            raise PermissionError(13, "no permission to write", str(self.folder))

    def restore(self, keyframe: Keyframe) -> bool:
        """Create the folder again if it was removed, with a segment that starts with `keyframe`;
        return whether it was removed.

        Only the folder itself is created: if its parent is missing, too, a disk is probably not
        mounted.
        """
        if self._segment is not None and self._segment.exists():
            return False
        self.abandon()
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self._bytes_by_closed_segment, self._sealed_segments, self._sealed_bytes = {}, deque(), 0
        self._start_recording(keyframe)
        return True

    def rotate(self, keyframe: Keyframe) -> None:
        """Start the next segment; the previous one is closed, and sealed by the next `seal`."""
        previous_segment, next_segment = (
            self._require_open_segment(),
            self._open_next_segment(keyframe),
        )
        previous_segment.close()
        self._bytes_by_closed_segment[self._segment_number - 1] = previous_segment.size_bytes
        self._segment = next_segment

    def seal(self) -> None:
        """Seal every closed segment."""
        while self._bytes_by_closed_segment:
            number = next(iter(self._bytes_by_closed_segment))
            # Read before the sealed segment is visible: from then on a user may set the clock.
            seal_began_us = self._read_steady_clock_us()
            index = seal(self.folder, number)
            del self._bytes_by_closed_segment[number]
            if index is not None:
                self._add_sealed(index, seal_began_us)

    def _add_sealed(self, index: SegmentIndex, sealed_steady_us: int) -> None:
        last_at_us = index.last_at_us
        self._sealed_bytes += index.size_bytes
        if index.last_wall_us is not None:
            self._last_sealed_record_us = index.last_wall_us
        if self._settings.max_bytes is not None or self._settings.retain_s is not None:
            # Not the complete index, as a recording may last for months.
            self._sealed_segments.append(
                _SealedSegment(
                    index.number, index.size_bytes, index.first_at_us, last_at_us, sealed_steady_us
                )
            )
        for kind, count in index.records_count.items():
            self._records_count_by_kind[kind] = self._records_count_by_kind.get(kind, 0) + count

    def delete_above_limits(self, now_us: int) -> None:
        """Delete the oldest sealed segments above the limits, and record that in session.json.

        Their age is measured by the steady clock, because the wall clock may be set. `now_us` is
        recorded as the end of the deleted time if the segments have no record.
        """
        segments_to_delete, reason = self._find_segments_above_limits()
        if not segments_to_delete:
            return
        oldest_kept_segment = next(
            islice(self._sealed_segments, len(segments_to_delete), None), None
        )
        until_us = (
            oldest_kept_segment.first_at_us
            if oldest_kept_segment
            else segments_to_delete[-1].last_at_us
        ) or now_us
        dropped_before_count = self.info.dropped.segments_count if self.info.dropped else 0
        # First the note: after a crash, a note about a segment that still exists does no harm.
        self.update_info(
            replace(
                self.info,
                dropped=DroppedSegments(
                    dropped_before_count + len(segments_to_delete), until_us, reason
                ),
            )
        )
        for _ in segments_to_delete:
            oldest_segment = self._sealed_segments[0]
            segment_path(self.folder, oldest_segment.number, sealed=True).unlink(missing_ok=True)
            self._sealed_segments.popleft()
            self._sealed_bytes -= oldest_segment.size_bytes

    def _find_segments_above_limits(self) -> tuple[list[_SealedSegment], str]:
        settings, segments_to_delete, reason = self._settings, [], ""
        now_steady_us = self._read_steady_clock_us()
        size_bytes = self.size_bytes
        for segment in self._sealed_segments:
            age_us = now_steady_us - segment.sealed_steady_us
            if settings.max_bytes is not None and size_bytes > settings.max_bytes:
                reason = f"--max-bytes {bytes_text(settings.max_bytes)}"
            elif settings.retain_s is not None and age_us > settings.retain_s * 1_000_000:
                reason = f"--retain {duration_text(settings.retain_s)}"
            else:
                break
            segments_to_delete.append(segment)
            size_bytes -= segment.size_bytes
        return segments_to_delete, reason

    def update_info(self, info: SessionInfo) -> None:
        """Write session.json if `info` has changed."""
        if info != self.info:
            write_info(self.folder, info)
            self.info = info

    def finish(self, ended_at_us: int, *, cut_off: bool = False) -> None:
        """Seal all segments and write the end into session.json.

        `cut_off`: the last records could not be written.
        """
        try:
            last_segment = self._require_open_segment()
            self._bytes_by_closed_segment[self._segment_number] = last_segment.size_bytes
            self._segment = None
            last_segment.close()
            self.seal()
            self.update_info(
                replace(
                    self.info, ended_at_us=ended_at_us, cut_off=cut_off,
                    records_count=self._records_count_by_kind,
                )
            )  # fmt: skip
            (self.folder / LOCK).unlink(missing_ok=True)
        finally:
            self.abandon()


def _read_open_findings(sealed_segment: Path) -> tuple[FindingReport, ...]:
    """Return the findings that are open at the end of a segment.

    Raises SessionError if the segment cannot be read.
    """
    content, _ = read_damaged(sealed_segment)
    keyframe_findings = content.keyframe.findings if content.keyframe else None
    reports = list(keyframe_findings.findings) if keyframe_findings else []
    for entry in content.entries:
        if entry.kind == kind_of(FindingsChanged):
            record = decode_or_none(entry)
            reports += record.findings if isinstance(record, FindingsChanged) else ()
    last_report_by_key = {
        (report.code, report.stream, report.consumer, report.created_at_us, report.part): report
        for report in reports
    }
    return tuple(report for report in last_report_by_key.values() if report.until_at_us is None)


def _create_folder(sessions: Path, name: str) -> Path:
    """Create the folder of a recording; a number is added to a name that exists."""
    for number in range(1, 1000):
        folder = sessions / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        sync_folder(sessions)
        return folder
    raise FileExistsError(17, "too many sessions of this name", str(sessions / name))
