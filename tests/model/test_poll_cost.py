from __future__ import annotations

import pytest

from natstui.model.live.rates import own_requests_per_s
from natstui.model.live.snapshot import PollCost
from natstui.model.live.state import TimedPollCost


def polled(second: float, requests_count: int) -> TimedPollCost:
    mono_us = round(second * 1e6)
    return TimedPollCost(
        mono_us, mono_us, PollCost(requests_count, 0, 0, None, 0, None), None, None
    )


@pytest.mark.parametrize(
    ("costs", "per_s"),
    [
        ([], None),
        ([polled(1, 5)], None),
        ([polled(1, 5), polled(2, 3), polled(3, 4)], 3.5),
        # Only the last minute counts, and the last two polls when it holds no more than one.
        ([polled(0, 9), polled(100, 9), polled(110, 5)], 0.5),
        ([polled(0, 9), polled(120, 6)], 0.05),
        ([polled(1, 5), polled(1, 3)], None),
    ],
)
def test_requests_of_the_last_minute_are_told_or_nothing(
    costs: list[TimedPollCost], per_s: float | None
) -> None:
    assert own_requests_per_s(costs) == per_s
