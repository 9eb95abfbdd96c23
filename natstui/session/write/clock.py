"""Two clocks, and whether the wall clock was set."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from natstui.clock import steady_us, wall_us

_STEP_US = 500_000
"""A smaller step is the usual slow correction of the clock."""


@dataclass(frozen=True, slots=True)
class Clock:
    """Where the time comes from."""

    wall_us: Callable[[], int] = wall_us
    steady_us: Callable[[], int] = steady_us


class StepWatch:
    """Notices that the wall clock was set."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._offset_us = clock.wall_us() - clock.steady_us()

    def step_us(self) -> int:
        """Return how far the clock was set since the last call; 0 when it was not."""
        offset_us = self._clock.wall_us() - self._clock.steady_us()
        step_us = offset_us - self._offset_us
        self._offset_us = offset_us
        return step_us if abs(step_us) > _STEP_US else 0
