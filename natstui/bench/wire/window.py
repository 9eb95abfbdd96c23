"""The window of messages in flight, which wait for their acks for a limited time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import numpy as np

from natstui.bench.job.digits import Int64s
from natstui.bench.job.tally import Tally
from natstui.bench.wire.frames import ProtocolBroken

_CHECK_S = 0.1
"""Interval of the checks for a lost connection and for a timeout."""


class Window:
    """A ring of open messages by their number; a reply to any other message is an error.

    Replies to messages that were given up are ignored: a frozen server replies late.
    """

    def __init__(self, tally: Tally, size: int) -> None:
        self._tally = tally
        self._size = size
        self._ring = 1 << max(size * 2 - 1, 1).bit_length()
        self._due_ns = np.zeros(self._ring, np.int64)
        self._sent_ns = np.zeros(self._ring, np.int64)
        self._open = np.zeros(self._ring, np.bool_)
        self._changed = asyncio.Event()
        self._answered_ns = time.monotonic_ns()
        self._given_up_below = 0
        self.open_count = 0
        self.next_number = 0
        """Number of the next message to open; messages older than the ring are not open."""

    @property
    def room(self) -> int:
        """Return how many more messages may be opened."""
        oldest = self.next_number - self._ring
        blocked = oldest >= 0 and bool(self._open[oldest & (self._ring - 1)])
        return 0 if blocked else self._size - self.open_count

    def open(self, due_ns: Int64s, sent_ns: int) -> Int64s:
        """Add messages in flight, with their due times, and return their numbers."""
        numbers = np.arange(self.next_number, self.next_number + len(due_ns))
        slots = numbers & (self._ring - 1)
        self._due_ns[slots] = due_ns
        self._sent_ns[slots] = sent_ns
        self._open[slots] = True
        if not self.open_count:
            self._answered_ns = time.monotonic_ns()
        self.open_count += len(due_ns)
        self.next_number += len(due_ns)
        return numbers

    def close(self, numbers: Int64s, now_ns: int) -> tuple[Int64s, Int64s]:
        """Remove messages that got a reply; return due and sent times of those that were open.

        Raises ProtocolBroken if one is not open: it had a reply before, or was never sent.
        """
        numbers = numbers[numbers >= self._given_up_below]
        slots = numbers & (self._ring - 1)
        if not self._open[slots].all() or len(np.unique(slots)) != len(slots):
            raise ProtocolBroken("a reply arrived for a message that expects none")
        self._open[slots] = False
        self.open_count -= len(slots)
        self._answered_ns = now_ns
        self._changed.set()
        return self._due_ns[slots], self._sent_ns[slots]

    def open_among(self, numbers: Int64s) -> Int64s:
        """Return those of the messages that are open.

        For a refusal: the timeout of replies starts again.
        """
        self._answered_ns = time.monotonic_ns()
        valid_numbers = numbers[numbers >= self._given_up_below]
        open_numbers: Int64s = valid_numbers[self._open[valid_numbers & (self._ring - 1)]]
        return open_numbers

    def due_ns(self, numbers: Int64s) -> Int64s:
        """Return the due times of open messages."""
        due_ns: Int64s = self._due_ns[numbers & (self._ring - 1)]
        return due_ns

    def unanswered(self, numbers: Int64s, now_ns: int) -> None:
        """Remove messages that will get no reply, and count them as unanswered."""
        due_ns, _ = self.close(numbers, now_ns)
        self._tally.add("unanswered_msgs", len(due_ns))

    def acked(self, numbers: Int64s, now_ns: int, *, duplicate: bool = False) -> None:
        """Remove acked messages, count them and record their latency.

        `duplicate`: the stream had them before.
        """
        due_ns, sent_ns = self.close(numbers, now_ns)
        self._tally.acked(due_ns, sent_ns, now_ns, len(due_ns) if duplicate else 0)

    def give_up(self) -> None:
        """Remove all open messages, and count them as unanswered."""
        self._tally.add("unanswered_msgs", self.open_count)
        self._open[:] = False
        self._given_up_below = self.next_number
        self.open_count = 0
        self._changed.set()

    def wake(self) -> None:
        """Wake waiting tasks to check again, after a change outside the window."""
        self._changed.set()

    async def wait(
        self, is_enough: Callable[[], bool], timeout_s: float, check: Callable[[], None]
    ) -> None:
        """Wait until `is_enough()`; count messages without a reply after `timeout_s` as
        unanswered.

        `check` is called at intervals; what it raises ends the wait.
        """
        while not is_enough():
            check()
            idle_s = (time.monotonic_ns() - self._answered_ns) / 1e9
            if self.open_count and idle_s > timeout_s:
                self.give_up()
                return
            self._changed.clear()
            try:
                async with asyncio.timeout(_CHECK_S):
                    await self._changed.wait()
            except TimeoutError:
                continue
