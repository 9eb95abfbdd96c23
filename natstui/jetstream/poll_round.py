"""How much one poll may ask: requests within the budget, and work within 5 % of a core."""

from __future__ import annotations

import time
from dataclasses import dataclass
from statistics import median

from natstui.jetstream.metered import MeteredApi

SERVER_SHARE = 0.05
"""Of a core of the server, which polling may cost."""
_FEWEST_COUNT = 4
_MOST_COUNT = 60
_LONGEST_S = 10.0


@dataclass(frozen=True, slots=True)
class Round:
    """The allowance of one poll."""

    api: MeteredApi
    allowance_count: int
    work_us: int
    end_mono_s: float
    """When the next poll is due: after it only what must be is asked."""

    @property
    def left_count(self) -> int:
        """How many requests may still be made."""
        return max(0, self.allowance_count - self.api.requests_count)

    @property
    def in_time(self) -> bool:
        """Tell whether the next poll is not due yet."""
        return time.monotonic() < self.end_mono_s

    @property
    def has_room(self) -> bool:
        """Tell whether one more optional request is within the allowance."""
        return self.in_time and self.left_count > 0 and self.api.server_us < self.work_us

    @property
    def has_half(self) -> bool:
        """Tell whether half of the work is still to be given away."""
        return self.has_room and self.api.server_us < self.work_us // 2


class Rhythm:
    """Finds the pause between polls that keeps the server's share small."""

    def __init__(self, requests_per_s: int) -> None:
        self._requests_per_s = requests_per_s
        self._work_us: list[int] = []
        self.interval_s = 0.0

    def next_round(self, api: MeteredApi, wanted_s: float) -> Round:
        """Return the allowance of the next poll, which starts `wanted_s` after the last one."""
        self.interval_s = max(self.interval_s, wanted_s)
        count = int(self._requests_per_s * self.interval_s)
        work_us = int(SERVER_SHARE * self.interval_s * 1e6)
        end_mono_s = time.monotonic() + self.interval_s
        return Round(api, min(_MOST_COUNT, max(_FEWEST_COUNT, count)), work_us, end_mono_s)

    def forget(self) -> None:
        """Start anew: the server is another one, or woke up."""
        self._work_us, self.interval_s = [], 0.0

    def after(self, server_us: int, wanted_s: float) -> str | None:
        """Set the pause from the work of a poll; return why it is longer than wanted.

        The middle of the last three counts, because one slow answer is no slow server.
        """
        self._work_us = [*self._work_us[-2:], server_us]
        work_s = median(self._work_us) / 1e6
        self.interval_s = max(wanted_s, min(_LONGEST_S, work_s / SERVER_SHARE))
        if self.interval_s <= wanted_s:
            return None
        return f"one poll costs the server {work_s * 1000:.0f} ms"
