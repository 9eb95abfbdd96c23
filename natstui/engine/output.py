"""Records as lines on stdout: whoever reads too slowly misses whole snapshots, nothing else."""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from natstui.lines import encode_record
from natstui.model.record import AckSample, Advisory, Record, Restored, Unavailable
from natstui.model.snapshot import Snapshot

_BACKLOG_BYTES = 64 * 1024 * 1024
_AT_ONCE_BYTES = 64 * 1024
_EVENTS = "events"


@dataclass(slots=True)
class _Entry:
    line: bytes
    """Empty when it was dropped."""


class LineWriter:
    """A sink that writes in a thread of its own, so that a stalled reader stalls nobody.

    Of snapshots that wait only the newest is kept. Beyond 64 MiB of backlog the oldest
    announcements are dropped, and that is said with Unavailable("events").
    """

    def __init__(self, fd: int, on_broken: Callable[[], None]) -> None:
        """Write to a file descriptor; `on_broken` is called in the thread when nobody reads."""
        self._fd = fd
        self._on_broken = on_broken
        self._entries: deque[_Entry] = deque()
        self._droppable: deque[_Entry] = deque()
        self._snapshot: _Entry | None = None
        self._backlog_bytes = 0
        self._dropping = False
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._write, name="stdout", daemon=True)
        self._thread.start()

    def add(self, record: Record) -> None:
        """Take one record; returns at once."""
        entry = _Entry(encode_record(record))
        with self._changed:
            if isinstance(record, Snapshot):
                self._drop(self._snapshot)
                self._snapshot = entry
            elif isinstance(record, Advisory | AckSample):
                self._droppable.append(entry)
            self._append(entry)
            self._bound()
            self._changed.notify()

    def close(self, timeout_s: float) -> None:
        """Write what waits, as long as somebody reads it."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout_s)

    def _append(self, entry: _Entry) -> None:
        self._entries.append(entry)
        self._backlog_bytes += len(entry.line)

    def _drop(self, entry: _Entry | None) -> None:
        if entry is not None:
            self._backlog_bytes -= len(entry.line)
            entry.line = b""

    def _bound(self) -> None:
        """Drop the oldest announcements of a backlog that is too long, and say so once."""
        while self._backlog_bytes > _BACKLOG_BYTES and self._droppable:
            self._drop(self._droppable.popleft())
            if not self._dropping:
                self._dropping = True
                reason = "the reader was too slow: the oldest announcements were left out"
                told = Unavailable(time.time_ns() // 1000, _EVENTS, reason)
                self._append(_Entry(encode_record(told)))

    def _take(self) -> bytes:
        """Wait for lines and return some; empty at the end."""
        with self._changed:
            while not self._entries and not self._closing and not self._dropping:
                self._changed.wait()
            if not self._entries and self._dropping:
                self._dropping = False
                told = Restored(time.time_ns() // 1000, _EVENTS)
                self._append(_Entry(encode_record(told)))
            lines: list[bytes] = []
            taken_bytes = 0
            while self._entries and taken_bytes < _AT_ONCE_BYTES:
                line = self._pop()
                lines.append(line)
                taken_bytes += len(line)
            return b"".join(lines)

    def _pop(self) -> bytes:
        """Take the oldest line; empty when it was dropped."""
        entry = self._entries.popleft()
        self._backlog_bytes -= len(entry.line)
        if entry is self._snapshot:
            self._snapshot = None
        if self._droppable and entry is self._droppable[0]:
            self._droppable.popleft()
        return entry.line

    def _write(self) -> None:
        try:
            while (data := self._take()) or not self._closing:
                left = memoryview(data)
                while left:
                    left = left[os.write(self._fd, left) :]
        except OSError:
            self._on_broken()
