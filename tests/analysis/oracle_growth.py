"""When a level meets its limit, in plain Python: from its growth in parts of equal length."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence

T_975 = {
    3: 3.182446, 4: 2.776445, 5: 2.570582, 6: 2.446912, 7: 2.364624, 8: 2.306004, 9: 2.262157,
    10: 2.228139, 11: 2.200985, 12: 2.178813, 13: 2.160369, 14: 2.144787, 15: 2.131450,
    16: 2.119905, 17: 2.109816, 18: 2.100922, 19: 2.093024, 20: 2.085963, 21: 2.079614,
    22: 2.073873, 23: 2.068658, 24: 2.063899, 25: 2.059539, 26: 2.055529, 27: 2.051831,
    28: 2.048407, 29: 2.045230,
}  # fmt: skip
"""Quantiles of Student's t by degrees of freedom."""


class Part:
    """The mean, spread, trend and memory of some of the paces of a series."""

    def __init__(self, paces: Sequence[float | None], places: range) -> None:
        """`places` are those of the paces in question; one before each is its predecessor."""
        pairs = [
            (paces[place - 1] if place else None, now)
            for place in places
            if (now := paces[place]) is not None
        ]
        values = [now for _, now in pairs]
        self.count = len(values)
        self.mean = statistics.fmean(values) if values else math.nan
        self.spread = statistics.stdev(values) if len(values) > 1 else math.nan
        r = _alike([(before, now) for before, now in pairs if before is not None])
        # Of few values it is estimated too low, on average by so much (Kendall).
        r += (1 + 3 * r) / self.count if self.count else 0.0
        self.memory = min(max(r, 0.0), 0.9)
        self.places, self.values = [place for place in places if paces[place] is not None], values

    @property
    def worth(self) -> float:
        """How many parts are worth as much as a single one without memory."""
        return (1 + self.memory) / (1 - self.memory)

    @property
    def error(self) -> float:
        """Standard error of the mean."""
        return self.spread * math.sqrt(self.worth / self.count)

    @property
    def error_beside_trend(self) -> float:
        """The same of what a straight line through the paces leaves."""
        slope, begin = statistics.linear_regression(self.places, self.values)
        rest = [
            (value - begin - slope * place) ** 2
            for place, value in zip(self.places, self.values, strict=True)
        ]
        return math.sqrt(math.fsum(rest) / (self.count - 2) * self.worth / self.count)

    @property
    def t(self) -> float:
        """How many errors the true mean may be away."""
        return T_975[min(self.count, 30) - 1]


def _alike(pairs: Sequence[tuple[float, float]]) -> float:
    if len(pairs) < 2:
        return 0.0
    means = [statistics.fmean(values) for values in zip(*pairs, strict=True)]
    moved = [(a - means[0], b - means[1]) for a, b in pairs]
    spread = math.sqrt(sum(a * a for a, _ in moved) * sum(b * b for _, b in moved))
    return sum(a * b for a, b in moved) / spread if spread else 0.0


def forecast(
    paces: Sequence[float | None], part_s: float, room: float | None
) -> tuple[float | None, float | None, float | None]:
    """Return when the room is used up, the earliest and the latest, in seconds; None is never.

    All are None where there are too few parts to tell, unless it is used up already.
    """
    if room is not None and room <= 0:
        return 0.0, 0.0, 0.0
    known = [place for place, pace in enumerate(paces) if pace is not None]
    third = max(math.ceil(len(known) / 3), 4)
    recent = Part(paces, _places(known[-third:]))
    if room is None or recent.count < 4:
        return None, None, None
    earlier, every = Part(paces, _places(known[-2 * third : -third])), Part(paces, _places(known))
    change, far = 0.0, 0.0
    if earlier.count >= 4:
        recent.memory = max(recent.memory, earlier.memory)
        change = recent.mean - earlier.mean
        far = earlier.t * math.hypot(recent.error_beside_trend, earlier.error_beside_trend)
    certain = all(one.mean > one.t * one.error for one in (recent, every))
    third_s = recent.count * part_s

    def left_s(sign: int) -> float | None:
        # A change that may be chance is none, but as to the earliest time.
        is_certain = sign > 0 or abs(change) > far
        acceleration = (change + sign * far) / third_s if is_certain else 0.0
        pace = recent.mean + acceleration * third_s / 2
        if sign:
            ahead = max(room / (recent.mean * part_s), 1.0) if recent.mean else 1.0
            worth = recent.worth * (1 / recent.count + 1 / ahead)
            pace += sign * recent.t * recent.spread * math.sqrt(worth)
        root = pace * pace + 2 * acceleration * room
        return 2 * room / (pace + math.sqrt(root)) if pace > 0 and root >= 0 else None

    return left_s(0) if certain else None, left_s(1), left_s(-1)


def _places(known: Sequence[int]) -> range:
    return range(known[0], known[-1] + 1) if known else range(0)
