"""Messages in flight: who waits for an acknowledgement, since when, and for how long at most."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import numpy as np

from natstui.bench.job.digits import Int64s
from natstui.bench.job.tally import Tally
from natstui.bench.wire.frames import ProtocolBroken

_LOOK_S = 0.1
"""How often who waits looks for what nobody tells of: a lost connection, no answer for long."""


class Window:
    """A ring of open messages, by their number; an answer to none of them fails loudly.

    But for what was given up: a server that was frozen answers late.
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
        """Of the next message to open; a message older than the ring cannot be open."""

    @property
    def room(self) -> int:
        """How many more messages may be opened."""
        oldest = self.next_number - self._ring
        blocked = oldest >= 0 and bool(self._open[oldest & (self._ring - 1)])
        return 0 if blocked else self._size - self.open_count

    def open(self, due_ns: Int64s, sent_ns: int) -> Int64s:
        """Put messages in flight and return their numbers."""
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
        """Take answered messages out; return the due and sent times of those that still waited.

        Raises ProtocolBroken when one is not open: it was answered twice, or never sent.
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

    def waiting(self, numbers: Int64s) -> Int64s:
        """Return which of these still wait for an answer; a refusal is a sign of life."""
        self._answered_ns = time.monotonic_ns()
        mine = numbers[numbers >= self._given_up_below]
        still: Int64s = mine[self._open[mine & (self._ring - 1)]]
        return still

    def due_ns(self, numbers: Int64s) -> Int64s:
        """Return when open messages were due."""
        due_ns: Int64s = self._due_ns[numbers & (self._ring - 1)]
        return due_ns

    def unanswered(self, numbers: Int64s, now_ns: int) -> None:
        """Take messages out that nobody will answer any more, and count them."""
        due_ns, _ = self.close(numbers, now_ns)
        self._tally.add("unanswered_msgs", len(due_ns))

    def acked(self, numbers: Int64s, now_ns: int, *, duplicate: bool = False) -> None:
        """Take acknowledged messages out and time them; `duplicate`: they were stored before."""
        due_ns, sent_ns = self.close(numbers, now_ns)
        self._tally.acked(due_ns, sent_ns, now_ns, len(due_ns) if duplicate else 0)

    def give_up(self) -> None:
        """Count everything open as unanswered."""
        self._tally.add("unanswered_msgs", self.open_count)
        self._open[:] = False
        self._given_up_below = self.next_number
        self.open_count = 0
        self._changed.set()

    def wake(self) -> None:
        """Let who waits look again: something else changed than the messages in flight."""
        self._changed.set()

    async def wait(
        self, enough: Callable[[], bool], timeout_s: float, check: Callable[[], None]
    ) -> None:
        """Wait until `enough()`; what is not answered in time is given up.

        `check` is called now and then and may raise.
        """
        while not enough():
            check()
            idle_s = (time.monotonic_ns() - self._answered_ns) / 1e9
            if self.open_count and idle_s > timeout_s:
                self.give_up()
                return
            self._changed.clear()
            try:
                async with asyncio.timeout(_LOOK_S):
                    await self._changed.wait()
            except TimeoutError:
                continue
