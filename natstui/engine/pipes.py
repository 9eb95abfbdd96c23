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

    It also ends if there is no memory for a line. os.read works for pipes, terminals and files.
    """
    buffer = bytearray()
    while (read_bytes := os.read(fd, 65536)) and len(buffer) < _MAX_LINE_BYTES:
        try:
            buffer += read_bytes
        except MemoryError:
            return
        if b"\n" in read_bytes:
            *lines, buffer = buffer.split(b"\n")
            yield from map(bytes, lines)


class LineReader:
    """Reads lines of a descriptor in a thread, for the running event loop.

    The thread pauses while 100 lines are queued. A blocked read does not keep the interpreter from
    ending.
    """

    def __init__(self, fd: int, on_end: Callable[[], None]) -> None:
        """Start the thread; `on_end` is called in the event loop after the last line."""
        self._received_lines: asyncio.Queue[bytes] = asyncio.Queue()
        self._free_slots = threading.Semaphore(MAX_WAITING_LINES)
        self._loop = asyncio.get_running_loop()
        threading.Thread(
            target=self._read_into_queue, args=(fd, on_end), name="stdin", daemon=True
        ).start()

    async def get(self) -> bytes:
        """Return the next line, waiting for it; empty at the end."""
        line = await self._received_lines.get()
        self._free_slots.release()
        return line

    def _read_into_queue(self, fd: int, on_end: Callable[[], None]) -> None:
        for line in read_lines(fd):
            self._free_slots.acquire()
            self._call_in_loop(self._received_lines.put_nowait, line)
        self._call_in_loop(on_end)

    def _call_in_loop(self, callback: Callable[..., None], *arguments: bytes) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback, *arguments)


_MAX_BACKLOG_BYTES = 64 * 1024 * 1024
_MAX_PARTIAL_BYTES = 16 * 1024 * 1024
"""Limit of the size of all queued partial snapshots, which have a part of the rows each."""
_BATCH_BYTES = 64 * 1024
_UNAVAILABLE_EVENTS = "events"


@dataclass(slots=True)
class _QueuedLine:
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
        self._queued_lines: deque[_QueuedLine] = deque()
        self._queued_events: deque[_QueuedLine] = deque()
        self._queued_snapshots: deque[_QueuedLine] = deque()
        self._queued_snapshots_bytes = 0
        self._queued_listening_update: _QueuedLine | None = None
        self._backlog_bytes = 0
        self._has_reported_drop = False
        self._is_closing = False
        self._change_condition = threading.Condition()
        self._thread = threading.Thread(target=self._write_batches, name="stdout", daemon=True)
        self._thread.start()

    def add(self, record: Record) -> None:
        """Queue a record for writing; returns at once."""
        queued_line = _QueuedLine(encode_record(record))
        with self._change_condition:
            if isinstance(record, Snapshot):
                self._add_snapshot(record, queued_line)
            elif isinstance(record, Listened):
                self._drop_entry(self._queued_listening_update)
                self._queued_listening_update = queued_line
            elif isinstance(record, Advisory | AckSample):
                self._queued_events.append(queued_line)
            self._append_entry(queued_line)
            self._drop_oldest_events()
            self._change_condition.notify()

    def close(self, timeout_s: float) -> None:
        """Write the backlog, for at most `timeout_s`, and end the thread."""
        with self._change_condition:
            self._is_closing = True
            self._change_condition.notify()
        self._thread.join(timeout_s)

    def _append_entry(self, queued_line: _QueuedLine) -> None:
        self._queued_lines.append(queued_line)
        self._backlog_bytes += len(queued_line.line)

    def _add_snapshot(self, snapshot: Snapshot, queued_line: _QueuedLine) -> None:
        """Add a queued snapshot; drop those it replaces, and partial ones above the byte limit."""
        is_complete = snapshot.streams_complete and snapshot.consumers_complete
        self._queued_snapshots_bytes += len(queued_line.line)
        while self._queued_snapshots and (
            is_complete or self._queued_snapshots_bytes > _MAX_PARTIAL_BYTES
        ):
            oldest_snapshot = self._queued_snapshots.popleft()
            self._queued_snapshots_bytes -= len(oldest_snapshot.line)
            self._drop_entry(oldest_snapshot)
        self._queued_snapshots.append(queued_line)

    def _drop_entry(self, queued_line: _QueuedLine | None) -> None:
        if queued_line is not None:
            self._backlog_bytes -= len(queued_line.line)
            queued_line.line = b""

    def _drop_oldest_events(self) -> None:
        """Drop the oldest events of a backlog above the limit, and report it once."""
        while self._backlog_bytes > _MAX_BACKLOG_BYTES and self._queued_events:
            self._drop_entry(self._queued_events.popleft())
            if not self._has_reported_drop:
                self._has_reported_drop = True
                reason = "the screen was too slow: the oldest events were left out"
                report = Unavailable(time.time_ns() // 1000, _UNAVAILABLE_EVENTS, reason)
                self._append_entry(_QueuedLine(encode_record(report)))

    def _next_batch(self) -> bytes:
        """Return the next queued lines, waiting for them; empty at the end."""
        with self._change_condition:
            while not self._queued_lines and not self._is_closing and not self._has_reported_drop:
                self._change_condition.wait()
            if not self._queued_lines and self._has_reported_drop:
                self._has_reported_drop = False
                report = Restored(time.time_ns() // 1000, _UNAVAILABLE_EVENTS)
                self._append_entry(_QueuedLine(encode_record(report)))
            lines: list[bytes] = []
            batch_bytes = 0
            while self._queued_lines and batch_bytes < _BATCH_BYTES:
                queued_line = self._queued_lines.popleft()
                self._backlog_bytes -= len(queued_line.line)
                if self._queued_snapshots and queued_line is self._queued_snapshots[0]:
                    self._queued_snapshots_bytes -= len(self._queued_snapshots.popleft().line)
                elif queued_line is self._queued_listening_update:
                    self._queued_listening_update = None
                if self._queued_events and queued_line is self._queued_events[0]:
                    self._queued_events.popleft()
                lines.append(queued_line.line)
                batch_bytes += len(queued_line.line)
            return b"".join(lines)

    def _write_batches(self) -> None:
        try:
            while (batch := self._next_batch()) or not self._is_closing:
                write_all(self._fd, batch)
        except OSError:
            self._on_broken()
