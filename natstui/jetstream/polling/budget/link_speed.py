"""How fast the link is, learned from the answers that come over it."""

from __future__ import annotations

from collections import deque
from statistics import median_low

from natstui.jetstream.connection.client import Answer

_MEASURED_BYTES = 2_000
_MEASURES_COUNT = 3


class LinkSpeed:
    """Bytes per second, from bytes that came one after the other."""

    def __init__(self) -> None:
        self._bytes_per_s: deque[float] = deque(maxlen=_MEASURES_COUNT)

    @property
    def usual_bytes_per_s(self) -> float | None:
        """What the link usually carries; None while no answer was long enough to measure it."""
        return median_low(self._bytes_per_s) if self._bytes_per_s else None

    @property
    def most_bytes_per_s(self) -> float:
        """What it carried at best lately; infinite while that is not known."""
        return max(self._bytes_per_s, default=float("inf"))

    def forget(self) -> None:
        """Begin again: the link is another one."""
        self._bytes_per_s.clear()

    def came(self, answer: Answer) -> None:
        """Learn from an answer."""
        came = answer.arrival
        count = came.all_bytes - came.first_bytes
        elapsed_us = came.ended_mono_us - came.began_mono_us
        # While we computed ourselves, bytes may have waited for us: that is not the link's speed.
        is_ours = 2 * (came.ended_own_us - came.began_own_us) > elapsed_us
        if count >= _MEASURED_BYTES and elapsed_us > 0 and not is_ours:
            self._bytes_per_s.append(count * 1e6 / elapsed_us)

    def carried(self, count_bytes: int, elapsed_s: float) -> None:
        """Correct what was measured too low: the link has carried so many bytes in this time.

        On a busy machine a process waits between two reads, and a quick link looks slow; what it
        seems to carry would keep us from asking for what shows that it is quick.
        """
        if elapsed_s > 0:
            least = count_bytes / elapsed_s
            self._bytes_per_s = deque(
                (max(each, least) for each in self._bytes_per_s), _MEASURES_COUNT
            )
