"""How many messages the demo's shop sends, and when. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Wave:
    """A rate that swings around its middle, with a burst now and then."""

    middle_per_s: float
    swing_ratio: float = 0.6
    """Of the middle, up and down."""
    period_s: float = 40.0
    burst_per_s: float = 0.0
    """On top of the wave while a burst lasts."""
    burst_every_s: float = 60.0
    burst_s: float = 5.0

    def per_s(self, at_s: float) -> float:
        """Return the rate at a moment, in messages per second."""
        wave = self.middle_per_s * (
            1 + self.swing_ratio * math.sin(2 * math.pi * at_s / self.period_s)
        )
        in_burst = at_s % self.burst_every_s < self.burst_s
        return wave + (self.burst_per_s if in_burst else 0.0)


@dataclass(slots=True)
class DueMessages:
    """Turns a wave into whole messages, losing none to rounding."""

    wave: Wave
    at_s: float = 0.0
    owed: float = 0.0
    """A part of the next message."""

    def due(self, until_s: float) -> int:
        """Return how many messages are due since the last call."""
        # After the machine slept, the messages of that time are not sent.
        since_s = max(self.at_s, until_s - 2.0)
        self.owed += self.wave.per_s((since_s + until_s) / 2) * (until_s - since_s)
        self.at_s = until_s
        whole = int(self.owed)
        self.owed -= whole
        return whole


@dataclass(frozen=True, slots=True)
class Pickers:
    """Slow workers who get help while the backlog is too long."""

    slow_per_s: float = 3.0
    fast_per_s: float = 40.0
    too_long_msgs: int = 1_500
    nearly_gone_msgs: int = 50

    def hurries(self, backlog_msgs: int, hurried: bool) -> bool:
        """Return whether help is there, given whether it was."""
        return backlog_msgs > (self.nearly_gone_msgs if hurried else self.too_long_msgs)

    def per_s(self, hurries: bool) -> float:
        """Return the messages per second they manage."""
        return self.fast_per_s if hurries else self.slow_per_s
