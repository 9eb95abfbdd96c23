"""The budget of one poll, and the start of the next one."""

from __future__ import annotations

from dataclasses import dataclass, replace

from natstui.clock import steady_s
from natstui.jetstream.polling.budget.asking import PollingApi
from natstui.units import bytes_text

_ALL_COUNT = 1_000_000
_FEWEST_COUNT = 4
_LONGEST_S = 10.0
_LONGEST_LINK_S = 60.0
_LONGER_RATIO = 1.1
_LATE_RATIO = 1.5


@dataclass(frozen=True, slots=True)
class Allowance:
    """The budget of one poll: work of the server, time of the link, and its own time."""

    api: PollingApi
    most_count: int
    """Limit of requests, if the user has set one."""
    end_mono_s: float
    """When the next poll is due: after it no optional request is sent."""
    overdraft_s: float
    """How much a started list may exceed the budget, so that it ends in one poll."""

    def halved(self) -> Allowance:
        """Return the allowance for the first half of a poll."""
        now_s = steady_s()
        return replace(self, end_mono_s=now_s + max(0.0, self.end_mono_s - now_s) / 2)

    def as_long_again(self, began_mono_s: float) -> Allowance:
        """Return the allowance for the second half: as much time as the first half took.

        On a slow link that is later than the next poll was due.
        """
        return replace(self, end_mono_s=max(self.end_mono_s, 2 * steady_s() - began_mono_s))

    @property
    def left_count(self) -> int:
        """Return how many requests may still be sent."""
        return max(0, self.most_count - self.api.requests_count)

    @property
    def in_time(self) -> bool:
        """Return whether the next poll is not due yet."""
        return steady_s() < self.end_mono_s

    @property
    def has_room(self) -> bool:
        """Return whether one more optional request is within the allowance."""
        return self._has_room(0.0)

    @property
    def has_room_to_end(self) -> bool:
        """Return whether a started list may continue."""
        return self._has_room(self.overdraft_s)

    def _has_room(self, overdraft_s: float) -> bool:
        now_s = steady_s()
        if now_s >= self.end_mono_s or self.left_count <= 0:
            return False
        if self.api.work.left_s(now_s) <= -overdraft_s:
            return False
        return self.api.link_is_free


class Budget:
    """Computes the allowance of each poll, and the pause after it."""

    def __init__(self, requests_per_s: float | None) -> None:
        self._requests_per_s = requests_per_s
        self.interval_s = 0.0

    def next_allowance(self, api: PollingApi, wanted_s: float) -> Allowance:
        """Return the allowance of the next poll, which starts `wanted_s` after the last one."""
        self.interval_s = max(self.interval_s, wanted_s)
        most_count = _ALL_COUNT
        if self._requests_per_s:
            most_count = max(_FEWEST_COUNT, int(self._requests_per_s * self.interval_s))
        end_mono_s = steady_s() + self.interval_s
        overdraft_s = api.work.share * self.interval_s / 2
        return Allowance(api, most_count, end_mono_s, overdraft_s)

    @staticmethod
    def seen_all(api: PollingApi) -> None:
        """Note that everything was read once: from now on others have their part of the link."""
        if not api.spares_link:
            api.spares_link = True
            api.link.forgive(steady_s())

    def forget(self) -> None:
        """Reset: the server is another one, or has recovered."""
        self.interval_s = 0.0

    def after(
        self, api: PollingApi, elapsed_s: float, wanted_s: float, *, is_immediate: bool
    ) -> str | None:
        """Set the pause after a poll; return why it is longer than wanted.

        `is_immediate` requests the next poll at once: the first view is not complete.
        """
        now_s = steady_s()
        work_s = min(_LONGEST_S, api.work.due_in_s(now_s))
        link_s = min(_LONGEST_LINK_S, api.link.due_in_s(now_s)) if api.spares_link else 0.0
        rest_s = max(work_s, link_s)
        wanted_s = elapsed_s if is_immediate else wanted_s
        self.interval_s = max(wanted_s, elapsed_s + rest_s if rest_s else 0.0)
        if work_s >= link_s and work_s and self.interval_s > _LONGER_RATIO * wanted_s:
            return f"one poll costs the server {api.work_us / 1000:.0f} ms"
        per_s = api.bytes_per_s
        if per_s is None or max(self.interval_s, elapsed_s) < _LATE_RATIO * wanted_s:
            return None
        if not link_s and api.received_bytes / per_s < elapsed_s / 2:
            return None
        return f"one poll takes {elapsed_s:.1f} s: the link carries {bytes_text(per_s)}/s"
