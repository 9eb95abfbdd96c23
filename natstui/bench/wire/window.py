"""The window of messages in flight, which limits their number and the time without replies."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

import numpy as np

from natstui.bench.job.digits import Int64s
from natstui.bench.job.tally import Tally
from natstui.bench.wire.frames import ProtocolError

_CHECK_INTERVAL_S = 0.1
"""Interval of the checks for a lost connection and for a timeout."""


class Window:
    """A ring buffer of the messages in flight by their number; they are open until their reply.

    Replies to messages that were dropped as unanswered are ignored: a frozen server replies late.
    """

    def __init__(self, tally: Tally, max_open_count: int) -> None:
        self._tally = tally
        self._max_open_count = max_open_count
        self._ring_size = 1 << max(max_open_count * 2 - 1, 1).bit_length()
        self._due_ns = np.zeros(self._ring_size, np.int64)
        self._sent_ns = np.zeros(self._ring_size, np.int64)
        self._open_mask = np.zeros(self._ring_size, np.bool_)
        self._change_event = asyncio.Event()
        self._last_reply_ns = time.monotonic_ns()
        self._first_undropped_number = 0
        self.open_count = 0
        self.next_number = 0
        """Number of the next message to open."""

    @property
    def free_count(self) -> int:
        """Return how many more messages may be in flight."""
        oldest_number = self.next_number - self._ring_size
        is_blocked = oldest_number >= 0 and bool(
            self._open_mask[oldest_number & (self._ring_size - 1)]
        )
        return 0 if is_blocked else self._max_open_count - self.open_count

    def open(self, due_ns: Int64s, sent_ns: int) -> Int64s:
        """Add messages that were sent at `sent_ns`, with their due times; return their numbers."""
        numbers = np.arange(self.next_number, self.next_number + len(due_ns))
        slots = numbers & (self._ring_size - 1)
        self._due_ns[slots] = due_ns
        self._sent_ns[slots] = sent_ns
        self._open_mask[slots] = True
        if not self.open_count:
            self._last_reply_ns = time.monotonic_ns()
        self.open_count += len(due_ns)
        self.next_number += len(due_ns)
        return numbers

    def close(self, numbers: Int64s, now_ns: int) -> tuple[Int64s, Int64s]:
        """Remove messages that got a reply; return their due and sent times.

        Messages that were dropped as unanswered are left out. Raises ProtocolError for any other
        message that is not open.
        """
        numbers = numbers[numbers >= self._first_undropped_number]
        slots = numbers & (self._ring_size - 1)
        if not self._open_mask[slots].all() or len(np.unique(slots)) != len(slots):
            raise ProtocolError("a reply arrived for a message that expects none")
        self._open_mask[slots] = False
        self.open_count -= len(slots)
        self._last_reply_ns = now_ns
        self._change_event.set()
        return self._due_ns[slots], self._sent_ns[slots]

    def select_open(self, numbers: Int64s) -> Int64s:
        """Return the messages of `numbers` that are open.

        It also restarts the timeout of replies, because its callers have received one: a refusal.
        """
        self._last_reply_ns = time.monotonic_ns()
        valid_numbers = numbers[numbers >= self._first_undropped_number]
        open_numbers: Int64s = valid_numbers[
            self._open_mask[valid_numbers & (self._ring_size - 1)]
        ]
        return open_numbers

    def due_ns(self, numbers: Int64s) -> Int64s:
        """Return the due times of open messages."""
        due_ns: Int64s = self._due_ns[numbers & (self._ring_size - 1)]
        return due_ns

    def close_unanswered(self, numbers: Int64s, now_ns: int) -> None:
        """Remove messages, and count them as unanswered."""
        due_ns, _ = self.close(numbers, now_ns)
        self._tally.add("unanswered_msgs", len(due_ns))

    def close_acked(self, numbers: Int64s, now_ns: int, *, duplicate: bool = False) -> None:
        """Remove acked messages, count them and record their latency.

        `duplicate`: they are repeats, which the stream had before.
        """
        due_ns, sent_ns = self.close(numbers, now_ns)
        self._tally.count_acks(due_ns, sent_ns, now_ns, len(due_ns) if duplicate else 0)

    def drop_unanswered(self) -> None:
        """Remove all open messages, and count them as unanswered."""
        self._tally.add("unanswered_msgs", self.open_count)
        self._open_mask[:] = False
        self._first_undropped_number = self.next_number
        self.open_count = 0
        self._change_event.set()

    def wake(self) -> None:
        """Let waiting tasks check their condition again, after a change outside the window."""
        self._change_event.set()

    async def wait(
        self, is_enough: Callable[[], bool], timeout_s: float, check: Callable[[], None]
    ) -> None:
        """Wait until `is_enough()`, or until no reply was received for `timeout_s`.

        Open messages then count as unanswered. `check` is called every 0.1 s; an error that it
        raises ends the wait.
        """
        while not is_enough():
            check()
            idle_s = (time.monotonic_ns() - self._last_reply_ns) / 1e9
            if self.open_count and idle_s > timeout_s:
                self.drop_unanswered()
                return
            self._change_event.clear()
            try:
                async with asyncio.timeout(_CHECK_INTERVAL_S):
                    await self._change_event.wait()
            except TimeoutError:
                continue
