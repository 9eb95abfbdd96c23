"""What is told of the time since a delivery does not depend on how the clock was set since."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

import pytest

from benchmarks._fleet import START_AT_US, Fault, Plan
from benchmarks._sessions import judged, records
from natstui.model.live.snapshot import Snapshot
from natstui.model.records.findings import FindingsChanged
from natstui.model.records.record import Record
from natstui.model.records.recording import ClockStepped

STEPPED_TICK = 60
PLAN = Plan(4, 6, 120, faults=(Fault("no_pull", 1, 20, 110),))


def stepped(by_us: int) -> Iterator[Record]:
    """Yield what a recorder writes of whom the clock is set after a minute; no server's is."""
    at_us, told = START_AT_US + STEPPED_TICK * 1_000_000, False
    for record in records(PLAN):
        poll = isinstance(record, Snapshot)
        moment_us = record.taken_at_us if poll else record.at_us
        if moment_us < at_us:
            yield record
            continue
        if not told:
            yield ClockStepped(at_us + by_us, by_us)
            told = True
        name = "taken_at_us" if poll else "at_us"
        yield replace(record, **{name: moment_us + by_us})


@pytest.mark.parametrize("by_s", [3600, -7200])
def test_the_last_delivery_is_as_long_ago_as_polls_saw_it(by_s: int) -> None:
    told = [
        int(found[1])
        for record in judged(stepped(by_s * 1_000_000))
        if isinstance(record, FindingsChanged)
        for finding in record.findings
        if (found := re.search(r"last delivery (\d+) s ago", finding.text))
    ]
    assert told
    # It delivered until tick 20, and the recording ends 100 s later.
    assert all(5 <= ago_s <= 101 for ago_s in told), told
    assert max(told) >= STEPPED_TICK - 20
