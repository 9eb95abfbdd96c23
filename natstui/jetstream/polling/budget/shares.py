"""The share of a resource that polling may use, and how many requests may be open at once.

A share is in seconds of use per second: the server is used while it works for us, a link while it
carries our bytes. Times are passed by the caller, in seconds on any monotonic clock.
"""

from __future__ import annotations

from collections import deque

FIRST_VIEW_WORK_S = 2.5
"""Work for the first reading of all rows, allowed at once and subtracted over a minute."""
_CREDIT_TIME_S = 60.0
_MAX_SAVED_TIME_S = 2.0
"""Maximum period whose unused time may be used later."""


class ResourceShare:
    """Limits the use of a resource to a share of the time.

    A credit at the start is repaid within a minute.
    """

    def __init__(self, share: float, credit_s: float, now_s: float) -> None:
        self.share = share
        self._credit_s = credit_s
        self._began_s = now_s
        self._earned_until_s = now_s
        self._balance_s = 0.0

    def spend(self, used_s: float, now_s: float) -> None:
        """Subtract `used_s` seconds of use from what is allowed."""
        self._add_earned_time(now_s)
        self._balance_s -= used_s

    def left_s(self, now_s: float) -> float:
        """Return the seconds of use that are allowed now; negative after too much use."""
        self._add_earned_time(now_s)
        unpaid_credit_ratio = max(0.0, 1 - (now_s - self._began_s) / _CREDIT_TIME_S)
        return self._balance_s + unpaid_credit_ratio * self._credit_s

    def due_in_s(self, now_s: float) -> float:
        """Return the seconds for which the resource must not be used; 0 if it may be used now."""
        return max(0.0, -self.left_s(now_s) / self.share)

    def cancel_debt(self, now_s: float) -> None:
        """Set a negative balance to zero, so that use so far causes no pause."""
        self._add_earned_time(now_s)
        self._balance_s = max(0.0, self._balance_s)

    def _add_earned_time(self, now_s: float) -> None:
        earned_s = self.share * (now_s - self._earned_until_s)
        self._earned_until_s = now_s
        max_saved_s = max(self.share * _MAX_SAVED_TIME_S, earned_s)
        self._balance_s = min(max_saved_s, self._balance_s + earned_s)


_WORK_PER_REQUEST_US = 30.0
_WORK_PER_BYTE_US = 0.04
"""Work per byte of nats-server 2.15 on a common machine: measured as its processor time."""
_MAX_COUNTED_REPLY_US = 300_000
"""Longest reply time that counts as work: a longer one waited for a frozen server or an
election.
"""
_KEPT_TIME_RATIOS_COUNT = 32


class WorkMeter:
    """Computes the server's work for replies, from their size and how slow the server is.

    A server counts as slow when three quarters of its last replies were slow. Fewer slow replies
    only waited for a processor or the network, which is no work.
    """

    def __init__(self) -> None:
        self._time_ratios = deque([1.0] * _KEPT_TIME_RATIOS_COUNT, maxlen=_KEPT_TIME_RATIOS_COUNT)
        """Time of the newest groups of replies, divided by their usual time."""
        self._measured_group_us, self._usual_group_us = 0.0, 1.0
        """Measured and usual time of the replies that arrived together last."""
        self._usual_us_by_kind: dict[str, float] = {}

    def work_us(self, kind: str, size_bytes: int, measured_us: int | None) -> float:
        """Return the work (µs) for a reply of this kind and size, which took `measured_us`.

        `measured_us` is None if the reply arrived together with the previous one: their time
        cannot be separated.
        """
        usual_us = _WORK_PER_REQUEST_US + _WORK_PER_BYTE_US * size_bytes
        if measured_us is None:
            self._usual_group_us += usual_us
        else:
            self._time_ratios.append(self._measured_group_us / self._usual_group_us)
            self._measured_group_us = min(measured_us, _MAX_COUNTED_REPLY_US)
            self._usual_group_us = usual_us
        work_us = usual_us * self.slowness
        previous_usual_us = self._usual_us_by_kind.get(kind, work_us)
        self._usual_us_by_kind[kind] = previous_usual_us + (work_us - previous_usual_us) / 8
        return work_us

    @property
    def slowness(self) -> float:
        """Return the factor by which the server is slower than usual; 1 at least."""
        return max(1.0, sorted(self._time_ratios)[_KEPT_TIME_RATIOS_COUNT // 4])

    def discard_newest(self) -> None:
        """Discard the newest measurement, which was not work."""
        self._measured_group_us = 0.0

    def usual_us(self, kind: str) -> float:
        """Return the usual work (µs) for a reply to a kind of request."""
        return self._usual_us_by_kind.get(kind, _WORK_PER_REQUEST_US)


MAX_OPEN_COUNT = 128
_MAX_QUEUE_DELAY_S = 0.02
"""Limit of the delay that our own requests may cause for others at the server."""
_SLOW_REPLY_RATIO = 1.5


class RequestWindow:
    """The limit of open requests: it grows with each fast reply and is halved by a slow one."""

    def __init__(self) -> None:
        self._max_open_requests = 1.0
        self._is_doubling = True
        """True until the first slow reply."""
        self._halved_at_s = float("-inf")

    @property
    def count(self) -> int:
        """Return the limit of requests that are open at once."""
        return int(self._max_open_requests)

    def record_reply(
        self, waited_s: float, usual_s: float, requested_s: float, now_s: float
    ) -> None:
        """Raise or halve the limit: a reply took `waited_s`, and takes `usual_s` if not queued."""
        if waited_s <= _SLOW_REPLY_RATIO * usual_s + _MAX_QUEUE_DELAY_S:
            limit_growth = 1 if self._is_doubling else 1 / self._max_open_requests
            self._max_open_requests = min(MAX_OPEN_COUNT, self._max_open_requests + limit_growth)
        elif requested_s >= self._halved_at_s:
            # Replies to earlier requests are slow for the same reason.
            self.halve_limit(now_s)

    def halve_limit(self, now_s: float) -> None:
        """Halve the limit: a reply was slow."""
        self._max_open_requests = max(1.0, self._max_open_requests / 2)
        self._is_doubling = False
        self._halved_at_s = now_s

    def reset(self) -> None:
        """Reset the limit to one request, for a new link."""
        self._max_open_requests, self._is_doubling = 1.0, True
