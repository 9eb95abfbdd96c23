"""The share of a resource that polling may use, and how many requests may be open at once.

A share is in seconds of use per second: the server is used while it works for us, a link while it
carries our bytes. Times are passed by the caller, in seconds on any monotonic clock.
"""

from __future__ import annotations

from collections import deque

SERVER_SHARE = 0.05
"""Share of one core of the server."""
LINK_SHARE = 0.5
"""Share of the link, after the first complete view."""
FIRST_VIEW_WORK_S = 2.5
"""Work for the first view that is allowed at once; it is subtracted over the next minute."""
_CREDIT_TIME_S = 60.0
_SAVED_TIME_S = 2.0
"""Maximum period whose unused time may be used later."""


class Share:
    """The share of one resource; a credit at the beginning is paid back within a minute."""

    def __init__(self, share: float, credit_s: float, now_s: float) -> None:
        self.share = share
        self._credit_s = credit_s
        self._began_s = now_s
        self._earned_until_s = now_s
        self._balance_s = 0.0

    def spend(self, used_s: float, now_s: float) -> None:
        """Subtract a use of the resource."""
        self._earn(now_s)
        self._balance_s -= used_s

    def left_s(self, now_s: float) -> float:
        """Return the seconds of use that are allowed now; negative after too much use."""
        self._earn(now_s)
        unpaid = max(0.0, 1 - (now_s - self._began_s) / _CREDIT_TIME_S)
        return self._balance_s + unpaid * self._credit_s

    def due_in_s(self, now_s: float) -> float:
        """Return the seconds for which the resource must not be used; 0 if it may be used now."""
        return max(0.0, -self.left_s(now_s) / self.share)

    def cancel_debt(self, now_s: float) -> None:
        """Set a negative balance to zero, so that use so far causes no pause."""
        self._earn(now_s)
        self._balance_s = max(0.0, self._balance_s)

    def _earn(self, now_s: float) -> None:
        earned_s = self.share * (now_s - self._earned_until_s)
        self._earned_until_s = now_s
        max_s = max(self.share * _SAVED_TIME_S, earned_s)
        self._balance_s = min(max_s, self._balance_s + earned_s)


_REQUEST_US = 30.0
_BYTE_US = 0.04
"""Work per byte of nats-server 2.15 on a common machine: measured as its processor time."""
_MAX_REPLY_US = 300_000
"""Longest reply time that counts as work: a longer one waited for a frozen server or an
election.
"""
_RECENT_COUNT = 32


class WorkMeter:
    """Computes the server's work for replies, from their size and how slow the server is.

    A server counts as slow when three quarters of its last replies were slow: the others waited
    for a processor or the network, which is no work. Until then it counts as usual.
    """

    def __init__(self) -> None:
        self._ratios = deque([1.0] * _RECENT_COUNT, maxlen=_RECENT_COUNT)
        """Time of the newest groups of replies, divided by their usual time."""
        self._group_us, self._group_usual_us = 0.0, 1.0
        self._usual_us: dict[str, float] = {}

    def work_us(self, kind: str, size_bytes: int, measured_us: int | None) -> float:
        """Return the work of a reply in µs, for which the server seemed to need `measured_us`.

        `measured_us` is None if the reply arrived together with the previous one: their time
        cannot be separated.
        """
        usual_us = _REQUEST_US + _BYTE_US * size_bytes
        if measured_us is None:
            self._group_usual_us += usual_us
        else:
            self._ratios.append(self._group_us / self._group_usual_us)
            self._group_us = min(measured_us, _MAX_REPLY_US)
            self._group_usual_us = usual_us
        work_us = usual_us * self.slowness
        before_us = self._usual_us.get(kind, work_us)
        self._usual_us[kind] = before_us + (work_us - before_us) / 8
        return work_us

    @property
    def slowness(self) -> float:
        """Return the factor by which the server is slower than usual; 1 at least."""
        return max(1.0, sorted(self._ratios)[_RECENT_COUNT // 4])

    def discard_newest(self) -> None:
        """Discard the newest measurement, which was not work."""
        self._group_us = 0.0

    def usual_us(self, kind: str) -> float:
        """Return the usual work of a reply of a kind, in µs."""
        return self._usual_us.get(kind, _REQUEST_US)


MAX_OPEN_COUNT = 128
_QUEUE_S = 0.02
"""Limit of the delay that our own requests may cause for others at the server."""
_SLOWER_RATIO = 1.5


class Window:
    """The limit of open requests: it grows with each fast reply and is halved by a slow one."""

    def __init__(self) -> None:
        self._size = 1.0
        self._doubles = True
        """True until the first slow reply."""
        self._halved_at_s = float("-inf")

    @property
    def count(self) -> int:
        """Return the limit of requests that are open at once."""
        return int(self._size)

    def record_reply(
        self, waited_s: float, usual_s: float, requested_s: float, now_s: float
    ) -> None:
        """Adapt the limit to the time of a reply, and to the usual time without queueing."""
        if waited_s <= _SLOWER_RATIO * usual_s + _QUEUE_S:
            more = 1 if self._doubles else 1 / self._size
            self._size = min(MAX_OPEN_COUNT, self._size + more)
        elif requested_s >= self._halved_at_s:
            # Replies to earlier requests are slow for the same reason.
            self.halve(now_s)

    def halve(self, now_s: float) -> None:
        """Halve the limit: a reply was slow."""
        self._size = max(1.0, self._size / 2)
        self._doubles = False
        self._halved_at_s = now_s

    def reset(self) -> None:
        """Reset the limit to one request, for a new link."""
        self._size, self._doubles = 1.0, True
