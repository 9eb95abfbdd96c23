"""How much of a thing polling may use: seconds of its use in each second of time.

The server is used for as long as it works for us, a link for as long as it carries our bytes.
Moments are given by the caller, in seconds on any clock that never goes back.
"""

from __future__ import annotations

from collections import deque

SERVER_SHARE = 0.05
"""Of one core of the server."""
LINK_SHARE = 0.5
"""Of the link, once there is a first complete view."""
FIRST_VIEW_WORK_S = 2.5
"""What a first view may cost the server at once; it is saved over the minute that follows."""
_CREDIT_TIME_S = 60.0
_SAVED_TIME_S = 2.0
"""What was not used for so long may be used later."""


class Share:
    """What may be used of one thing; a credit at the beginning is paid back within a minute."""

    def __init__(self, share: float, credit_s: float, now_s: float) -> None:
        self.share = share
        self._credit_s = credit_s
        self._began_s = now_s
        self._earned_until_s = now_s
        self._balance_s = 0.0

    def spend(self, used_s: float, now_s: float) -> None:
        """Note that it was used for so long."""
        self._earn(now_s)
        self._balance_s -= used_s

    def left_s(self, now_s: float) -> float:
        """Return for how long it may be used now; negative when it was used too much."""
        self._earn(now_s)
        unpaid = max(0.0, 1 - (now_s - self._began_s) / _CREDIT_TIME_S)
        return self._balance_s + unpaid * self._credit_s

    def due_in_s(self, now_s: float) -> float:
        """Return how long it must rest."""
        return max(0.0, -self.left_s(now_s) / self.share)

    def forgive(self, now_s: float) -> None:
        """Forget what was used so far."""
        self._earn(now_s)
        self._balance_s = max(0.0, self._balance_s)

    def _earn(self, now_s: float) -> None:
        earned_s = self.share * (now_s - self._earned_until_s)
        self._earned_until_s = now_s
        most_s = max(self.share * _SAVED_TIME_S, earned_s)
        self._balance_s = min(most_s, self._balance_s + earned_s)


_REQUEST_US = 30.0
_BYTE_US = 0.04
"""What nats-server 2.15 needs on a common machine: measured as its processor time."""
_LONGEST_US = 300_000
"""An answer that took longer waited for a frozen server or an election: that is no work."""
_RECENT_COUNT = 32


class WorkMeter:
    """What answers cost the server: by their size, and by how much slower than usual it works.

    A server counts as slow when three quarters of its last answers were slow: the others waited
    for a processor or the network, which is nobody's work. Until then it counts as usual.
    """

    def __init__(self) -> None:
        self._ratios = deque([1.0] * _RECENT_COUNT, maxlen=_RECENT_COUNT)
        """Of the newest groups of answers: the time they took to the usual time."""
        self._group_us, self._group_usual_us = 0.0, 1.0
        self._usual_us: dict[str, float] = {}

    def work_us(self, kind: str, size_bytes: int, measured_us: int | None) -> float:
        """Return what an answer cost, which seems to have taken the server `measured_us`.

        None is for one that came together with the answer before: they took the time together.
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
        """How many times as long as usual the server needs."""
        return max(1.0, sorted(self._ratios)[_RECENT_COUNT // 4])

    def forget_newest(self) -> None:
        """Do not learn from the newest measured answer: it was not work."""
        self._group_us = 0.0

    def usual_us(self, kind: str) -> float:
        """Return what an answer of a kind costs as a rule."""
        return self._usual_us.get(kind, _REQUEST_US)
