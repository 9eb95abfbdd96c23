"""The files of one recording while it is written. Everything here may raise OSError."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from pathlib import Path

from natstui.errors import SessionError
from natstui.session.entry import encode_keyframe
from natstui.session.folder import (
    LOCK,
    folder_name,
    lock,
    segment_path,
    sync_folder,
)
from natstui.session.index import SegmentIndex
from natstui.session.info import Dropped, SessionInfo, new_info, write_info
from natstui.session.keyframe import Keyframe
from natstui.session.seal import seal
from natstui.session.segment import OpenSegment
from natstui.units import bytes_text, duration_text


@dataclass(frozen=True, slots=True)
class RecorderSettings:
    """Where and how a recording is written."""

    sessions: Path
    """The folder that holds all sessions."""
    name: str = ""
    retain_s: float | None = None
    """Sealed segments older than this are deleted."""
    max_bytes: int | None = None
    """When the segments take more, the oldest sealed ones are deleted."""
    payloads: bool = False
    segment_s: float = 60.0
    """A segment is sealed after this long,"""
    segment_bytes: int = 32 << 20
    """or when it is this large."""


class Disk:
    """The folder, its open segment, and those still to be sealed."""

    def __init__(self, settings: RecorderSettings, keyframe: Keyframe, at_us: int) -> None:
        self._settings = settings
        self.info = replace(
            new_info(settings.name, at_us),
            payloads=settings.payloads,
            retain_s=settings.retain_s,
            max_bytes=settings.max_bytes,
        )
        settings.sessions.mkdir(parents=True, exist_ok=True, mode=0o700)
        self.folder = _new_folder(settings.sessions, folder_name(at_us, settings.name))
        self._number = 0
        self._to_seal: list[int] = []
        self._sealed: list[SegmentIndex] = []
        self._records_count: dict[str, int] = {}
        self._lock: int | None = None
        self._open: OpenSegment | None = None
        try:
            self._begin(keyframe)
        except (OSError, SessionError):
            self.abandon()
            raise

    def _begin(self, keyframe: Keyframe) -> None:
        """Take the folder and open the first segment in it."""
        write_info(self.folder, self.info)
        self._lock = lock(self.folder)
        self._open = self._opened(keyframe)

    def abandon(self) -> None:
        """Close what is open and leave it as it is."""
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
        return self.segment_bytes + sum(index.size_bytes for index in self._sealed)

    def append(self, lines: bytes) -> None:
        """Write lines, all or none; FileNotFoundError when the folder was removed."""
        self._there().append(lines)

    def _there(self) -> OpenSegment:
        if self._open is None or not self._open.is_there():
            raise FileNotFoundError(2, "the folder was removed", str(self.folder))
        return self._open

    def check(self) -> None:
        """Raise when the next segment could not be made here."""
        self._there()
        if not os.access(self.folder, os.W_OK | os.X_OK):
            raise PermissionError(13, "no permission to write", str(self.folder))

    def restore(self, keyframe: Keyframe) -> bool:
        """Make the folder again when it is gone; tell whether it was.

        Only the folder itself: when what holds it is gone too, a disk is probably not mounted.
        """
        if self._open is not None and self._open.is_there():
            return False
        self.abandon()
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self._to_seal, self._sealed = [], []
        self._begin(keyframe)
        return True

    def rotate(self, keyframe: Keyframe) -> None:
        """Begin another segment; the one before waits to be sealed."""
        before, opened = self._there(), self._opened(keyframe)
        before.close()
        self._to_seal.append(self._number - 1)
        self._open = opened

    def seal(self) -> None:
        """Seal what waits for it."""
        while self._to_seal:
            index = seal(self.folder, self._to_seal[0])
            del self._to_seal[0]
            if index is not None:
                # Marks would grow for as long as it records, and are of use to readers only.
                self._sealed.append(replace(index, marks=()))
                for kind, count in index.records_count.items():
                    self._records_count[kind] = self._records_count.get(kind, 0) + count

    def keep_within_limits(self, now_us: int) -> None:
        """Delete the oldest sealed segments that the limits do not allow, and note the gap."""
        dropping, reason = self._beyond_limits(now_us)
        if not dropping:
            return
        kept = self._sealed[len(dropping) :]
        until_us = (kept[0].first_at_us if kept else dropping[-1].last_at_us) or now_us
        before_count = self.info.dropped.segments_count if self.info.dropped else 0
        # Noted first: a note about a segment that is still there does no harm.
        self.tell(
            replace(self.info, dropped=Dropped(before_count + len(dropping), until_us, reason))
        )
        for index in dropping:
            segment_path(self.folder, index.number, sealed=True).unlink(missing_ok=True)
        self._sealed = kept

    def _beyond_limits(self, now_us: int) -> tuple[list[SegmentIndex], str]:
        settings, dropping, reason = self._settings, [], ""
        size_bytes = self.size_bytes
        for index in self._sealed:
            last_us = index.last_at_us
            if settings.max_bytes is not None and size_bytes > settings.max_bytes:
                reason = f"--max-bytes {bytes_text(settings.max_bytes)}"
            elif settings.retain_s is not None and (
                last_us is not None and last_us < now_us - settings.retain_s * 1_000_000
            ):
                reason = f"--retain {duration_text(settings.retain_s)}"
            else:
                break
            dropping.append(index)
            size_bytes -= index.size_bytes
        return dropping, reason

    def tell(self, info: SessionInfo) -> None:
        """Write session.json when there is something new in it."""
        if info != self.info:
            write_info(self.folder, info)
            self.info = info

    def finish(self, ended_at_us: int) -> None:
        """Seal everything and say that the recording is whole."""
        try:
            self._there()
            self._to_seal.append(self._number)
            self.seal()
            self.tell(
                replace(self.info, ended_at_us=ended_at_us, records_count=self._records_count)
            )
            (self.folder / LOCK).unlink(missing_ok=True)
        finally:
            self.abandon()


def _new_folder(sessions: Path, name: str) -> Path:
    """Make a folder nobody else has."""
    for number in range(1, 1000):
        folder = sessions / (name if number == 1 else f"{name}-{number}")
        try:
            folder.mkdir(mode=0o700)
        except FileExistsError:
            continue
        sync_folder(sessions)
        return folder
    raise FileExistsError(17, "too many sessions of this name", str(sessions / name))
