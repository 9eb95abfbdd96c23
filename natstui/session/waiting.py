"""Records on their way to the recorder's thread: bounded, and nothing is dropped in silence."""

from __future__ import annotations

import queue

from natstui.model.record import Record
from natstui.model.snapshot import Snapshot

MOST_ROWS = 4_000_000
"""Rows that may wait: some minutes of the largest server."""


def _weight(record: Record) -> int:
    if isinstance(record, Snapshot):
        return 1 + len(record.streams.name) + len(record.consumers.name)
    return 1


class Waiting:
    """A queue from one thread to another; adding never waits."""

    def __init__(self, most_rows: int = MOST_ROWS) -> None:
        self._queue: queue.SimpleQueue[Record | None] = queue.SimpleQueue()
        self._most_rows = most_rows
        # One thread writes each of these counters, the other only reads it.
        self._added_rows = 0
        self._taken_rows = 0
        self._done_rows = 0
        self._lost_count = 0
        self._told_count = 0

    def add(self, record: Record) -> None:
        """Let a record wait; when there is no room it is counted as lost."""
        weight = _weight(record)
        if self._added_rows - self._taken_rows + weight > self._most_rows:
            self._lost_count += 1
            return
        self._added_rows += weight
        self._queue.put(record)

    @property
    def is_behind(self) -> bool:
        """Tell whether what was added is not all done."""
        return self._added_rows > self._done_rows

    def done(self) -> None:
        """Say that everything taken is dealt with."""
        self._done_rows = self._taken_rows

    def wake(self) -> None:
        """Make `take` return now."""
        self._queue.put(None)

    def take(self, timeout_s: float) -> list[Record]:
        """Return what waits, after waiting for something at most this long."""
        taken: list[Record] = []
        try:
            record = self._queue.get(timeout=timeout_s)
            while True:
                if record is not None:
                    self._taken_rows += _weight(record)
                    taken.append(record)
                record = self._queue.get_nowait()
        except queue.Empty:
            return taken

    def lost_count(self) -> int:
        """Return how many records found no room since the last call."""
        lost_count = self._lost_count - self._told_count
        self._told_count += lost_count
        return lost_count
