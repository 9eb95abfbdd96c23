"""How many requests may be open at once: few where answers are slow, many where they are quick."""

from __future__ import annotations

MOST_COUNT = 128
_QUEUE_S = 0.02
"""So much may our own requests delay those of others at the server."""
_SLOWER_RATIO = 1.5


class Window:
    """Grows with every quick answer, and is halved by a slow one.

    Moments are given by the caller, in seconds on any clock that never goes back.
    """

    def __init__(self) -> None:
        self._size = 1.0
        self._doubles = True
        """Until the first slow answer."""
        self._halved_at_s = float("-inf")

    @property
    def count(self) -> int:
        """How many requests may be open at once."""
        return int(self._size)

    def answered(self, waited_s: float, usual_s: float, asked_s: float, now_s: float) -> None:
        """Note how long an answer took, and how long one takes that waits for no other."""
        if waited_s <= _SLOWER_RATIO * usual_s + _QUEUE_S:
            self._size = min(MOST_COUNT, self._size + (1 if self._doubles else 1 / self._size))
        elif asked_s >= self._halved_at_s:
            # Answers to what was asked before tell nothing new.
            self.halve(now_s)

    def halve(self, now_s: float) -> None:
        """Ask less at once: answers are slow, or others wait."""
        self._size = max(1.0, self._size / 2)
        self._doubles = False
        self._halved_at_s = now_s

    def forget(self) -> None:
        """Begin again: the link is another one."""
        self._size, self._doubles = 1.0, True
