"""What polling asks of a server, per second."""

from __future__ import annotations

from collections.abc import Sequence

from natstui.model.state import Cost

_MINUTE_US = 60_000_000


def own_requests_per_s(costs: Sequence[Cost]) -> float | None:
    """Return our API requests a second over the last minute of polls, or over the last two polls.

    None before there are two.
    """
    recent = [cost for cost in costs if cost.mono_us > costs[-1].mono_us - _MINUTE_US]
    recent = recent if len(recent) > 1 else list(costs[-2:])
    elapsed_us = recent[-1].mono_us - recent[0].mono_us if recent else 0
    asked_count = sum(cost.cost.requests_count for cost in recent[1:])
    return asked_count * 1e6 / elapsed_us if elapsed_us > 0 else None
