"""The share of a resource that polling may use, and how many requests may be open at once.

A share is in seconds of use per second: the server is used while it works for us, a link while it
carries our bytes. Times are passed by the caller, in seconds on any clock that never goes back.
"""

from __future__ import annotations

from collections import deque

SERVER_SHARE = 0.05
"""Share of one core of the server."""
LINK_SHARE = 0.5
"""Share of the link, after the first complete view."""
FIRST_VIEW_WORK_S = 2.5
"""Work for the first view that is allowed at once; it is saved over the following minute."""
_CREDIT_TIME_S = 60.0
_SAVED_TIME_S = 2.0
"""Unused time that may be used later."""


class Share:
    """The share of one resource; a credit at the beginning is paid back within a minute."""

    def __init__(self, share: float, credit_s: float, now_s: float) -> None:
        self.share = share
        self._credit_s = credit_s
        self._began_s = now_s
        self._earned_until_s = now_s
        self._balance_s = 0.0

    def spend(self, used_s: float, now_s: float) -> None:
        """Subtract a use."""
        self._earn(now_s)
        self._balance_s -= used_s

    def left_s(self, now_s: float) -> float:
        """Return how long it may be used now; negative after too much use."""
        self._earn(now_s)
        unpaid = max(0.0, 1 - (now_s - self._began_s) / _CREDIT_TIME_S)
        return self._balance_s + unpaid * self._credit_s

    def due_in_s(self, now_s: float) -> float:
        """Return how long it must not be used."""
        return max(0.0, -self.left_s(now_s) / self.share)

    def forgive(self, now_s: float) -> None:
        """Reset the use so far."""
        self._earn(now_s)
        self._balance_s = max(0.0, self._balance_s)

    def _earn(self, now_s: float) -> None:
        earned_s = self.share * (now_s - self._earned_until_s)
        self._earned_until_s = now_s
        most_s = max(self.share * _SAVED_TIME_S, earned_s)
        self._balance_s = min(most_s, self._balance_s + earned_s)


_REQUEST_US = 30.0
_BYTE_US = 0.04
"""Work per byte of nats-server 2.15 on a common machine: measured as its processor time."""
_LONGEST_US = 300_000
"""Longest reply time that counts as work: a longer one waited for a frozen server or an
election.
"""
_RECENT_COUNT = 32


class WorkMeter:
    """The work of replies for the server: by their size, and by how much slower than usual it is.

    A server counts as slow when three quarters of its last replies were slow: the others waited
    for a processor or the network, which is no work. Until then it counts as usual.
    """

    def __init__(self) -> None:
        self._ratios = deque([1.0] * _RECENT_COUNT, maxlen=_RECENT_COUNT)
        """Of the newest groups of answers: the time they took to the usual time."""
        self._group_us, self._group_usual_us = 0.0, 1.0
        self._usual_us: dict[str, float] = {}

    def work_us(self, kind: str, size_bytes: int, measured_us: int | None) -> float:
        """Return the work of a reply, for which the server seemed to need `measured_us`.

        None is for one that came together with the previous reply: they took the time together.
        """
        usual_us = _REQUEST_US + _BYTE_US * size_bytes
        if measured_us is None:
            self._group_usual_us += usual_us
        else:
            self._ratios.append(self._group_us / self._group_usual_us)
            self._group_us = min(measured_us, _LONGEST_US)
            self._group_usual_us = usual_us
        work_us = usual_us * self.slowness
        before_us = self._usual_us.get(kind, work_us)
        self._usual_us[kind] = before_us + (work_us - before_us) / 8
        return work_us

    @property
    def slowness(self) -> float:
        """Return the factor by which the server is slower than usual."""
        return max(1.0, sorted(self._ratios)[_RECENT_COUNT // 4])

    def forget_newest(self) -> None:
        """Discard the newest measurement: it was not work."""
        self._group_us = 0.0

    def usual_us(self, kind: str) -> float:
        """Return the usual work of a reply of a kind."""
        return self._usual_us.get(kind, _REQUEST_US)


MOST_OPEN_COUNT = 128
_QUEUE_S = 0.02
"""Limit of the delay that our own requests may cause for others at the server."""
_SLOWER_RATIO = 1.5


class Window:
    """How many requests may be open: more with every fast reply, half as many after a slow one."""

    def __init__(self) -> None:
        self._size = 1.0
        self._doubles = True
        """Until the first slow answer."""
        self._halved_at_s = float("-inf")

    @property
    def count(self) -> int:
        """Return how many requests may be open at once."""
        return int(self._size)

    def answered(self, waited_s: float, usual_s: float, asked_s: float, now_s: float) -> None:
        """Adapt to the time of a reply, and to the usual time of one without queueing."""
        if waited_s <= _SLOWER_RATIO * usual_s + _QUEUE_S:
            more = 1 if self._doubles else 1 / self._size
            self._size = min(MOST_OPEN_COUNT, self._size + more)
        elif asked_s >= self._halved_at_s:
            # Answers to what was asked before tell nothing new.
            self.halve(now_s)

    def halve(self, now_s: float) -> None:
        """Halve the window at once: replies are slow, or others wait."""
        self._size = max(1.0, self._size / 2)
        self._doubles = False
        self._halved_at_s = now_s

    def forget(self) -> None:
        """Reset: the link is another one."""
        self._size, self._doubles = 1.0, True
