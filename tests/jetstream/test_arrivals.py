"""The silences between the bytes of a connection."""

from __future__ import annotations

import time

import pytest

from natstui.jetstream.connection.transport import Arrivals


def test_a_silence_is_forgotten_two_minutes_after_its_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now_s = 1_000.0

    def later(seconds: float) -> None:
        nonlocal now_s
        now_s += seconds
        arrivals.add(1)

    monkeypatch.setattr(time, "clock_gettime_ns", lambda _: int(now_s * 1e9))
    arrivals = Arrivals()
    later(1)
    assert arrivals.longest_gap_s == 0
    later(30)
    later(10)
    assert arrivals.longest_gap_s == 30
    later(109)
    assert arrivals.longest_gap_s == 109
    later(2)
    assert arrivals.longest_gap_s == 109
    later(118)
    later(1)
    assert arrivals.longest_gap_s == 118
    arrivals.reset_gaps()
    later(1)
    assert arrivals.longest_gap_s == 0
