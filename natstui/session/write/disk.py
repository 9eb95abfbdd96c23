"""The files of one recording while it is written. Everything here may raise OSError."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from natstui.clock import steady_us
from natstui.errors import SessionError
from natstui.files import sync_folder
from natstui.paths import private_folder
from natstui.session.files.entry import encode_keyframe
from natstui.session.files.folder import (
    LOCK,
    folder_name,
    lock,
    segment_path,
    segments,
)
from natstui.session.files.index import SegmentIndex, read_index
from natstui.session.files.info import (
    DroppedSegments,
    SessionInfo,
    new_info,
    read_info_to_change,
    write_info,
)
from natstui.session.files.keyframe import Keyframe
from natstui.session.files.segment import OpenSegment
from natstui.session.write.seal import seal
from natstui.session.write.settings import RecorderSettings
from natstui.units import bytes_text, duration_text


class _Sealed(NamedTuple):
    """The fields of a sealed segment that limits depend on."""

    number: int
    size_bytes: int
    first_at_us: int | None
    last_at_us: int | None
    sealed_steady_us: int
    """When this process sealed it, or found it sealed, on the clock that is never set."""


class Disk:
    """The folder of a recording, its open segment, and the segments still to be sealed."""

    def __init__(
        self,
        settings: RecorderSettings,
        keyframe: Keyframe,
        at_us: int,
        unfinished: Path | None = None,
        steady_us: Callable[[], int] = steady_us,
    ) -> None:
        """Create a folder, or continue in one that a killed recorder left `unfinished`."""
        self._settings = settings
        self._steady_us = steady_us
        self._number = 0
        self._to_seal: dict[int, int] = {}
        """Number of a segment to seal → its bytes."""
        self._sealed: deque[_Sealed] = deque()
        """Sealed segments, the oldest first, which limits may delete; empty without a limit."""
        self._sealed_bytes = 0
        """Of all that are still there."""
        self._last_sealed_us: int | None = None
        self._records_count: dict[str, int] = {}
        self._lock: int | None = None
        self._open: OpenSegment | None = None
        self.continued_from_us: int | None = None
        """Time of the last earlier record, in a recording that is continued."""
        if unfinished is None:
            self.info = replace(
                new_info(settings.name, at_us),
                payloads=settings.payloads,
                retain_s=settings.retain_s,
                max_bytes=settings.max_bytes,
            )
            private_folder(settings.sessions)
            self.folder = _new_folder(settings.sessions, folder_name(at_us, settings.name))
        else:
            self.info = replace(read_info_to_change(unfinished), ended_at_us=None, cut_off=False)
            self.folder = unfinished
        try:
            self._begin(keyframe, continued=unfinished is not None)
        except (OSError, SessionError):
            self.abandon()
            raise

    def _begin(self, keyframe: Keyframe, *, continued: bool = False) -> None:
        """Lock the folder and open the first segment in it, or the next one."""
        self._lock = lock(self.folder)
        if continued:
            self._continue()
        write_info(self.folder, self.info)
        self._open = self._opened(keyframe)

    def _continue(self) -> None:
        """Seal the segments that a killed recorder left open, and count their records."""
        indexes = read_index(self.folder)
        for segment in segments(self.folder):
            self._number = segment.number
            if not segment.sealed:
                self._to_seal[segment.number] = segment.path.stat().st_size
            elif segment.number in indexes:
                self._count(indexes[segment.number], self._steady_us())
        self.seal()
        self.continued_from_us = self._last_sealed_us or self.info.started_at_us

    def abandon(self) -> None:
        """Close the open segment without sealing it, and unlock the folder."""
        if self._open is not None:
            self._open.close()
        if self._lock is not None:
            os.close(self._lock)
        self._open = self._lock = None

    def _opened(self, keyframe: Keyframe) -> OpenSegment:
        number = self._number + 1
        segment = OpenSegment(segment_path(self.folder, number, sealed=False))
        try:
            segment.append(encode_keyframe(keyframe))
        except OSError:
            segment.close()
            segment.path.unlink(missing_ok=True)
            raise
        self._number = number
        return segment

    @property
    def segment_bytes(self) -> int:
        """Bytes in the open segment."""
        return self._open.size_bytes if self._open else 0

    @property
    def size_bytes(self) -> int:
        """Bytes of all segments."""
        return self.segment_bytes + sum(self._to_seal.values()) + self._sealed_bytes

    def append(self, lines: bytes) -> None:
        """Write all lines or none; raises FileNotFoundError when the folder was removed."""
        self._open_segment().append(lines)

    def _open_segment(self) -> OpenSegment:
        if self._open is None or not self._open.is_there():
            raise FileNotFoundError(2, "the folder was removed", str(self.folder))
        return self._open

    def check(self) -> None:
        """Raise OSError when the next segment cannot be created."""
        self._open_segment()
        if not os.access(self.folder, os.W_OK | os.X_OK):
            raise PermissionError(13, "no permission to write", str(self.folder))

    def restore(self, keyframe: Keyframe) -> bool:
        """Create the folder again if it was removed; return whether it was.

        Only the folder itself: when its parent is missing too, a disk is probably not mounted.
        """
        if self._open is not None and self._open.is_there():
            return False
        self.abandon()
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self._to_seal, self._sealed, self._sealed_bytes = {}, deque(), 0
        self._begin(keyframe)
        return True

    def rotate(self, keyframe: Keyframe) -> None:
        """Begin another segment; the previous one is queued for sealing."""
        before, opened_segment = self._open_segment(), self._opened(keyframe)
        before.close()
        self._to_seal[self._number - 1] = before.size_bytes
        self._open = opened_segment

    def seal(self) -> None:
        """Seal every finished segment."""
        while self._to_seal:
            number = next(iter(self._to_seal))
            # Before it can be seen: who sees it may set the clock.
            began_us = self._steady_us()
            index = seal(self.folder, number)
            del self._to_seal[number]
            if index is not None:
                self._count(index, began_us)

    def _count(self, index: SegmentIndex, sealed_steady_us: int) -> None:
        last_us = index.last_at_us
        self._sealed_bytes += index.size_bytes
        if last_us is not None:
            self._last_sealed_us = max(last_us, self._last_sealed_us or last_us)
        if self._settings.max_bytes is not None or self._settings.retain_s is not None:
            # Not more of it: a recording may last for months.
            self._sealed.append(
                _Sealed(
                    index.number, index.size_bytes, index.first_at_us, last_us, sealed_steady_us
                )
            )
        for kind, count in index.records_count.items():
            self._records_count[kind] = self._records_count.get(kind, 0) + count

    def keep_within_limits(self, now_us: int) -> None:
        """Delete the oldest sealed segments above the limits, and note the gap.

        Their age is by the steady clock: the wall clock may be set, and set back. `now_us` is only
        a label.
        """
        dropping, reason = self._beyond_limits()
        if not dropping:
            return
        oldest_kept = next(islice(self._sealed, len(dropping), None), None)
        until_us = (oldest_kept.first_at_us if oldest_kept else dropping[-1].last_at_us) or now_us
        before_count = self.info.dropped.segments_count if self.info.dropped else 0
        # Noted first: a note about a segment that still exists does no harm after a crash.
        self.update_info(
            replace(
                self.info, dropped=DroppedSegments(before_count + len(dropping), until_us, reason)
            )
        )
        for _ in dropping:
            oldest = self._sealed[0]
            segment_path(self.folder, oldest.number, sealed=True).unlink(missing_ok=True)
            self._sealed.popleft()
            self._sealed_bytes -= oldest.size_bytes

    def _beyond_limits(self) -> tuple[list[_Sealed], str]:
        settings, dropping, reason = self._settings, [], ""
        now_steady_us = self._steady_us()
        size_bytes = self.size_bytes
        for index in self._sealed:
            age_us = now_steady_us - index.sealed_steady_us
            if settings.max_bytes is not None and size_bytes > settings.max_bytes:
                reason = f"--max-bytes {bytes_text(settings.max_bytes)}"
            elif settings.retain_s is not None and age_us > settings.retain_s * 1_000_000:
                reason = f"--retain {duration_text(settings.retain_s)}"
            else:
                break
            dropping.append(index)
            size_bytes -= index.size_bytes
        return dropping, reason

    def update_info(self, info: SessionInfo) -> None:
        """Write session.json when it has changed."""
        if info != self.info:
            write_info(self.folder, info)
            self.info = info

    def finish(self, ended_at_us: int, *, cut_off: bool = False) -> None:
        """Seal everything and write the end into session.json.

        `cut_off`: the last records could not be written.
        """
        try:
            last = self._open_segment()
            self._to_seal[self._number] = last.size_bytes
            self._open = None
            last.close()
            self.seal()
            self.update_info(
                replace(
                    self.info, ended_at_us=ended_at_us, cut_off=cut_off,
                    records_count=self._records_count,
                )
            )  # fmt: skip
            (self.folder / LOCK).unlink(missing_ok=True)
        finally:
            self.abandon()


def _new_folder(sessions: Path, name: str) -> Path:
    """Make a new folder."""
    for number in range(1, 1000):
        folder = sessions / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        sync_folder(sessions)
        return folder
    raise FileExistsError(17, "too many sessions of this name", str(sessions / name))
