"""Reads commands as lines from stdin, and writes records as lines to stdout.

For a slow reader, replaced snapshots are dropped, and then the oldest events; nothing else. The
engine ends with its stdin.
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

_MAX_LINE_BYTES = 64 * 1024 * 1024
MAX_WAITING_LINES = 100
"""Maximum of commands that are read from stdin and not executed; others wait in the pipe."""


def read_lines(fd: int) -> Iterator[bytes]:
    """Yield the lines of a descriptor until its end, or until a line longer than 64 MiB.

    It also ends without memory for a line. os.read works for pipes, terminals and files alike.
    """
    buffer = bytearray()
    while (data := os.read(fd, 65536)) and len(buffer) < _MAX_LINE_BYTES:
        try:
            buffer += data
        except MemoryError:
            return
        if b"\n" in data:
            *lines, buffer = buffer.split(b"\n")
            yield from map(bytes, lines)


class LineReader:
    """Reads lines of a descriptor in a thread, for the running event loop.

    The thread pauses while 100 lines are queued. A blocked read does not keep the interpreter from
    ending.
    """

    def __init__(self, fd: int, on_end: Callable[[], None]) -> None:
        """Start the thread; `on_end` is called in the loop after the last line."""
        self._lines: asyncio.Queue[bytes] = asyncio.Queue()
        self._free_slots = threading.Semaphore(MAX_WAITING_LINES)
        self._loop = asyncio.get_running_loop()
        threading.Thread(
            target=self._read_into_queue, args=(fd, on_end), name="stdin", daemon=True
        ).start()

    async def get(self) -> bytes:
        """Return the next line, waiting for it; empty at the end."""
        line = await self._lines.get()
        self._free_slots.release()
        return line

    def _read_into_queue(self, fd: int, on_end: Callable[[], None]) -> None:
        for line in read_lines(fd):
            self._free_slots.acquire()
            self._call_in_loop(self._lines.put_nowait, line)
        self._call_in_loop(on_end)

    def _call_in_loop(self, callback: Callable[..., None], *arguments: bytes) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *arguments)


_MAX_BACKLOG_BYTES = 64 * 1024 * 1024
_MAX_PARTIAL_BYTES = 16 * 1024 * 1024
"""Limit of the size of all queued partial snapshots, which have a part of the rows each."""
_BATCH_BYTES = 64 * 1024
_EVENTS = "events"


@dataclass(slots=True)
class _Entry:
    line: bytes
    """The encoded record; empty after it was dropped."""


class LineWriter:
    """A sink that writes records in a thread of its own, so that a slow reader does not block.

    A complete snapshot replaces all queued ones. Partial snapshots stay queued, up to 16 MiB: then
    the oldest is dropped. Of the updates of the listening screen only the newest stays queued.
    Beyond 64 MiB of backlog the oldest events are dropped, which Unavailable("events") reports.
    """

    def __init__(self, fd: int, on_broken: Callable[[], None]) -> None:
        """Start the thread; it calls `on_broken` when the descriptor has no reader any more."""
        self._fd = fd
        self._on_broken = on_broken
        self._entries: deque[_Entry] = deque()
        self._events: deque[_Entry] = deque()
        self._snapshots: deque[_Entry] = deque()
        self._snapshots_bytes = 0
        self._listening_update: _Entry | None = None
        self._backlog_bytes = 0
        self._has_reported_drop = False
        self._is_closing = False
        self._change_condition = threading.Condition()
        self._thread = threading.Thread(target=self._write, name="stdout", daemon=True)
        self._thread.start()

    def add(self, record: Record) -> None:
        """Queue a record for writing; returns at once."""
        entry = _Entry(encode_record(record))
        with self._change_condition:
            if isinstance(record, Snapshot):
                self._add_snapshot(record, entry)
            elif isinstance(record, Listened):
                self._drop_entry(self._listening_update)
                self._listening_update = entry
            elif isinstance(record, Advisory | AckSample):
                self._events.append(entry)
            self._append_entry(entry)
            self._drop_oldest_events()
            self._change_condition.notify()

    def close(self, timeout_s: float) -> None:
        """Write the backlog, for at most `timeout_s`, and end the thread."""
        with self._change_condition:
            self._is_closing = True
            self._change_condition.notify()
        self._thread.join(timeout_s)

    def _append_entry(self, entry: _Entry) -> None:
        self._entries.append(entry)
        self._backlog_bytes += len(entry.line)

    def _add_snapshot(self, newer: Snapshot, entry: _Entry) -> None:
        """Note a queued snapshot; drop those it replaces, and partial ones above the limit."""
        is_complete = newer.streams_complete and newer.consumers_complete
        self._snapshots_bytes += len(entry.line)
        while self._snapshots and (is_complete or self._snapshots_bytes > _MAX_PARTIAL_BYTES):
            oldest = self._snapshots.popleft()
            self._snapshots_bytes -= len(oldest.line)
            self._drop_entry(oldest)
        self._snapshots.append(entry)

    def _drop_entry(self, entry: _Entry | None) -> None:
        if entry is not None:
            self._backlog_bytes -= len(entry.line)
            entry.line = b""

    def _drop_oldest_events(self) -> None:
        """Drop the oldest events of a backlog above the limit, and report it once."""
        while self._backlog_bytes > _MAX_BACKLOG_BYTES and self._events:
            self._drop_entry(self._events.popleft())
            if not self._has_reported_drop:
                self._has_reported_drop = True
                reason = "the screen was too slow: the oldest events were left out"
                report = Unavailable(time.time_ns() // 1000, _EVENTS, reason)
                self._append_entry(_Entry(encode_record(report)))

    def _next_batch(self) -> bytes:
        """Return the next queued lines, waiting for them; empty at the end."""
        with self._change_condition:
            while not self._entries and not self._is_closing and not self._has_reported_drop:
                self._change_condition.wait()
            if not self._entries and self._has_reported_drop:
                self._has_reported_drop = False
                report = Restored(time.time_ns() // 1000, _EVENTS)
                self._append_entry(_Entry(encode_record(report)))
            lines: list[bytes] = []
            batch_bytes = 0
            while self._entries and batch_bytes < _BATCH_BYTES:
                entry = self._entries.popleft()
                self._backlog_bytes -= len(entry.line)
                if self._snapshots and entry is self._snapshots[0]:
                    self._snapshots_bytes -= len(self._snapshots.popleft().line)
                elif entry is self._listening_update:
                    self._listening_update = None
                if self._events and entry is self._events[0]:
                    self._events.popleft()
                lines.append(entry.line)
                batch_bytes += len(entry.line)
            return b"".join(lines)

    def _write(self) -> None:
        try:
            while (data := self._next_batch()) or not self._is_closing:
                write_all(self._fd, data)
        except OSError:
            self._on_broken()
