"""The budget of one poll, and the start of the next one."""

from __future__ import annotations

from msgspec import Struct

from natstui.clock import steady_s
from natstui.jetstream.polling.budget.requests import PollingApi
from natstui.units import bytes_text
from natstui.values import replace

_UNLIMITED_REQUESTS_COUNT = 1_000_000
_MIN_REQUESTS_COUNT = 4
_MAX_PAUSE_S = 10.0
_MAX_LINK_PAUSE_S = 60.0
_MIN_REPORTED_INTERVAL_RATIO = 1.1
_LATE_POLL_INTERVAL_RATIO = 1.5


class PollAllowance(Struct, frozen=True):
    """The budget of one poll: requests, work of the server, time on the link, and duration."""

    api: PollingApi
    max_count: int
    """Limit of requests: the user's, or one that is never reached."""
    end_mono_s: float
    """When the next poll is due; no optional request is sent afterwards."""
    work_overdraft_s: float
    """Work of the server by which a started list may exceed the budget, to end in this poll."""

    def for_first_half(self) -> PollAllowance:
        """Return the allowance for the first half of a poll."""
        now_s = steady_s()
        return replace(self, end_mono_s=now_s + max(0.0, self.end_mono_s - now_s) / 2)

    def for_second_half(self, began_mono_s: float) -> PollAllowance:
        """Return the allowance for the second half of a poll: as much time as the first took.

        On a slow link, this may end later than the next poll was due.
        """
        return replace(self, end_mono_s=max(self.end_mono_s, 2 * steady_s() - began_mono_s))

    @property
    def left_requests_count(self) -> int:
        """Return how many more requests may be sent."""
        return max(0, self.max_count - self.api.requests_count)

    @property
    def is_before_next_poll(self) -> bool:
        """Return whether the next poll is not due yet."""
        return steady_s() < self.end_mono_s

    @property
    def has_room_for_request(self) -> bool:
        """Return whether one more optional request is within the allowance."""
        return self._has_room(0.0)

    @property
    def has_room_for_rest(self) -> bool:
        """Return whether one more request of a started list is within the allowance."""
        return self._has_room(self.work_overdraft_s)

    def _has_room(self, work_overdraft_s: float) -> bool:
        now_s = steady_s()
        if now_s >= self.end_mono_s or self.left_requests_count <= 0:
            return False
        if self.api.work.left_s(now_s) <= -work_overdraft_s:
            return False
        return self.api.is_link_free


class PollBudget:
    """Computes the allowance of each poll, and the pause after it."""

    def __init__(self, requests_per_s: float | None) -> None:
        self._requests_per_s = requests_per_s
        self.interval_s = 0.0

    def next_allowance(self, api: PollingApi, wanted_interval_s: float) -> PollAllowance:
        """Return the allowance of a poll.

        The next one is due after `wanted_interval_s`, or after the interval that was set if that
        is longer.
        """
        self.interval_s = max(self.interval_s, wanted_interval_s)
        max_count = _UNLIMITED_REQUESTS_COUNT
        if self._requests_per_s:
            max_count = max(_MIN_REQUESTS_COUNT, int(self._requests_per_s * self.interval_s))
        end_mono_s = steady_s() + self.interval_s
        work_overdraft_s = api.work.share * self.interval_s / 2
        return PollAllowance(api, max_count, end_mono_s, work_overdraft_s)

    @staticmethod
    def end_first_view(api: PollingApi) -> None:
        """Limit polling to its share of the link from now on: all rows were read once."""
        if not api.leaves_link_share:
            api.leaves_link_share = True
            api.link.cancel_debt(steady_s())

    def reset(self) -> None:
        """Reset the interval: the server is another one, or has recovered."""
        self.interval_s = 0.0

    def set_next_interval(
        self, api: PollingApi, elapsed_s: float, wanted_interval_s: float, *, is_immediate: bool
    ) -> str | None:
        """Set the interval to the next poll, after a poll of `elapsed_s`.

        Returns why it is longer than `wanted_interval_s`, or None if it is not.

        With `is_immediate` the next poll is due at once, because some rows were never read.
        """
        now_s = steady_s()
        work_pause_s = min(_MAX_PAUSE_S, api.work.due_in_s(now_s))
        link_pause_s = (
            min(_MAX_LINK_PAUSE_S, api.link.due_in_s(now_s)) if api.leaves_link_share else 0.0
        )
        pause_s = max(work_pause_s, link_pause_s)
        wanted_interval_s = elapsed_s if is_immediate else wanted_interval_s
        self.interval_s = max(wanted_interval_s, elapsed_s + pause_s if pause_s else 0.0)
        if (
            work_pause_s >= link_pause_s
            and work_pause_s
            and self.interval_s > _MIN_REPORTED_INTERVAL_RATIO * wanted_interval_s
        ):
            return f"one poll costs the server {api.work_us / 1000:.0f} ms"
        bytes_per_s = api.bytes_per_s
        if (
            bytes_per_s is None
            or max(self.interval_s, elapsed_s) < _LATE_POLL_INTERVAL_RATIO * wanted_interval_s
        ):
            return None
        if not link_pause_s and api.received_bytes / bytes_per_s < elapsed_s / 2:
            return None
        return f"one poll takes {elapsed_s:.1f} s: the link carries {bytes_text(bytes_per_s)}/s"
