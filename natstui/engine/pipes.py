"""Commands as lines on stdin, records as lines on stdout.

For a slow reader, replaced snapshots are dropped first and then the oldest announcements; nothing
else. The engine ends with its stdin.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from natstui.lines import encode_record
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.listening import Listened
from natstui.model.records.record import AckSample, Advisory, Record, Restored, Unavailable
from natstui.output import write_all

_LONGEST_LINE_BYTES = 64 * 1024 * 1024
MOST_WAITING_LINES = 100
"""Commands that are read from stdin and not executed yet, at most; further ones wait in the pipe.
"""


def lines_of(fd: int) -> Iterator[bytes]:
    """Yield the lines of a descriptor until it ends, or until one is longer than 64 MiB or than
    the memory there is.

    It reads with os.read, which works for pipes, terminals and files alike.
    """
    buffer = bytearray()
    while (data := os.read(fd, 65536)) and len(buffer) < _LONGEST_LINE_BYTES:
        try:
            buffer += data
        except MemoryError:
            return
        if b"\n" in data:
            *lines, buffer = buffer.split(b"\n")
            yield from map(bytes, lines)


class LineReader:
    """Reads lines of a descriptor in a thread, for the running loop; the thread waits for room.

    A reader blocked in it does not keep the interpreter from ending.
    """

    def __init__(self, fd: int, on_end: Callable[[], None]) -> None:
        """Start the thread; `on_end` is called in the loop after the last line."""
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()
        self._room = threading.Semaphore(MOST_WAITING_LINES)
        self._loop = asyncio.get_running_loop()
        threading.Thread(target=self._read, args=(fd, on_end), name="stdin", daemon=True).start()

    async def get(self) -> bytes:
        """Return the next line, waiting for it; empty at the end."""
        line = await self._lines.get()
        self._room.release()
        return line

    def _read(self, fd: int, on_end: Callable[[], None]) -> None:
        for line in lines_of(fd):
            self._room.acquire()
            self._call(self._lines.put_nowait, line)
        self._call(on_end)

    def _call(self, callback: Callable[..., None], *arguments: bytes) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *arguments)


_BACKLOG_BYTES = 64 * 1024 * 1024
_PARTS_BYTES = 16 * 1024 * 1024
"""Limit of all waiting snapshots that each have a part of the rows."""
_AT_ONCE_BYTES = 64 * 1024
_EVENTS = "events"


@dataclass(slots=True)
class _Entry:
    line: bytes
    """The encoded record; empty after it was dropped."""


class LineWriter:
    """A sink that writes in a thread of its own, so that a stalled reader blocks nobody.

    A waiting snapshot is dropped when a newer one has all rows; partial ones wait together, up to
    16 MiB, as each row comes again only in the next round. Of the listening screen's updates, only
    the newest is kept. Beyond 64 MiB of backlog the oldest announcements are dropped, which
    Unavailable("events") reports.
    """

    def __init__(self, fd: int, on_broken: Callable[[], None]) -> None:
        """Write to a file descriptor; `on_broken` is called in the thread when its reader has
        closed.
        """
        self._fd = fd
        self._on_broken = on_broken
        self._entries: deque[_Entry] = deque()
        self._droppable: deque[_Entry] = deque()
        self._snapshots: deque[_Entry] = deque()
        self._snapshots_bytes = 0
        self._listened: _Entry | None = None
        self._backlog_bytes = 0
        self._dropping = False
        self._closing = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._write, name="stdout", daemon=True)
        self._thread.start()

    def add(self, record: Record) -> None:
        """Queue a record for writing; returns at once."""
        entry = _Entry(encode_record(record))
        with self._changed:
            if isinstance(record, Snapshot):
                self._replace(record, entry)
            elif isinstance(record, Listened):
                self._drop(self._listened)
                self._listened = entry
            elif isinstance(record, Advisory | AckSample):
                self._droppable.append(entry)
            self._append(entry)
            self._bound()
            self._changed.notify()

    def close(self, timeout_s: float) -> None:
        """Write what is waiting, for at most `timeout_s`, and end."""
        with self._changed:
            self._closing = True
            self._changed.notify()
        self._thread.join(timeout_s)

    def _append(self, entry: _Entry) -> None:
        self._entries.append(entry)
        self._backlog_bytes += len(entry.line)

    def _replace(self, newer: Snapshot, entry: _Entry) -> None:
        """Drop the waiting snapshots that a newer one replaces, and partial ones above the
        limit.
        """
        is_complete = newer.streams_complete and newer.consumers_complete
        self._snapshots_bytes += len(entry.line)
        while self._snapshots and (is_complete or self._snapshots_bytes > _PARTS_BYTES):
            oldest = self._snapshots.popleft()
            self._snapshots_bytes -= len(oldest.line)
            self._drop(oldest)
        self._snapshots.append(entry)

    def _drop(self, entry: _Entry | None) -> None:
        if entry is not None:
            self._backlog_bytes -= len(entry.line)
            entry.line = b""

    def _bound(self) -> None:
        """Drop the oldest announcements of a backlog above the limit, and report it once."""
        while self._backlog_bytes > _BACKLOG_BYTES and self._droppable:
            self._drop(self._droppable.popleft())
            if not self._dropping:
                self._dropping = True
                reason = "the screen was too slow: the oldest events were left out"
                report = Unavailable(time.time_ns() // 1000, _EVENTS, reason)
                self._append(_Entry(encode_record(report)))

    def _take(self) -> bytes:
        """Wait for queued lines and return a batch of them; empty at the end."""
        with self._changed:
            while not self._entries and not self._closing and not self._dropping:
                self._changed.wait()
            if not self._entries and self._dropping:
                self._dropping = False
                report = Restored(time.time_ns() // 1000, _EVENTS)
                self._append(_Entry(encode_record(report)))
            lines: list[bytes] = []
            taken_bytes = 0
            while self._entries and taken_bytes < _AT_ONCE_BYTES:
                entry = self._entries.popleft()
                self._backlog_bytes -= len(entry.line)
                if self._snapshots and entry is self._snapshots[0]:
                    self._snapshots_bytes -= len(self._snapshots.popleft().line)
                elif entry is self._listened:
                    self._listened = None
                if self._droppable and entry is self._droppable[0]:
                    self._droppable.popleft()
                lines.append(entry.line)
                taken_bytes += len(entry.line)
            return b"".join(lines)

    def _write(self) -> None:
        try:
            while (data := self._take()) or not self._closing:
                write_all(self._fd, data)
        except OSError:
            self._on_broken()
