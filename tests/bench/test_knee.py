"""The rate is stepped up until latency breaks, and the result says where."""

import re

import pytest

from natstui.bench.run.knee import KneeDetector
from natstui.config.connection import Connection
from natstui.model.bench.counts import Latencies
from natstui.model.bench.latency import from_latencies
from natstui.model.bench.plan import BenchmarkPlan, RateSegment, Role, StreamPlan
from tests.accounts import Account
from tests.bench.running import plan, run_plan

STEPS = tuple(RateSegment(2.0, rate, rate) for rate in (1000, 5000, 20_000, 80_000))
MS = 1_000_000


def knee(*p99_ms: float, steps: tuple[RateSegment, ...] = STEPS) -> KneeDetector:
    found = KneeDetector(
        BenchmarkPlan("t", "", (Role("p", "publish", schedule=steps),), None, None)
    )
    for number, ms in enumerate(p99_ms):
        for at_s in (0.1, 1.9):
            found.add(2 * number + at_s, Latencies(ack=from_latencies([round(ms * MS)] * 9)))
    return found


def test_the_first_step_that_is_too_much_is_named_once_it_is_over() -> None:
    found = knee(1, 2, 300, 900)
    assert found.sharp_rise_text(5.9) is None
    text = found.sharp_rise_text(6.1) or ""
    assert "above 5000 msgs/s: p99 is 2" in text
    assert re.search(r"there, and 3\d\dms at 20.0k msgs/s", text)


@pytest.mark.parametrize("p99_ms", [(1, 2, 4, 8), (0.1, 0.2, 0.9, 9), (30, 40, 90, 120)])
def test_latency_that_grows_a_little_or_stays_short_is_no_break(p99_ms: tuple[float, ...]) -> None:
    found = knee(*p99_ms)
    assert found.sharp_rise_text(8.0) is None
    assert "no sharp rise of latency up to 80.0k msgs/s" in (found.no_sharp_rise_text(8.1) or "")


def test_a_break_in_the_last_step_is_one_too() -> None:
    found = knee(1, 2, 4, 900)
    assert found.sharp_rise_text(7.9) is None
    assert re.search(r"there, and 9\d\dms at 80.0k msgs/s", found.sharp_rise_text(8.1) or "")


def test_a_last_step_that_measured_nothing_says_nothing() -> None:
    found = knee(1, 2)
    assert (found.sharp_rise_text(8.1), found.no_sharp_rise_text(8.1)) == (None, None)


def test_without_steps_upwards_there_is_no_knee() -> None:
    for steps in (STEPS[:2], STEPS[::-1], (RateSegment(None, 5, 5),), ()):
        found = knee(1, 900, steps=steps)
        assert found.sharp_rise_text(9.0) is None
        assert found.no_sharp_rise_text(9.0) is None


@pytest.mark.server
async def test_a_run_ends_when_its_latency_breaks(account: Account) -> None:
    steps = tuple(RateSegment(1.0, rate, rate) for rate in (10, 20, 800, 900, 1000, 1100))
    slow = Role("subs", "js-consume", think_s=0.005, max_ack_pending_msgs=5)
    what = plan(
        slow,
        Role("pubs", "js-publish-async", schedule=steps),
        stream=StreamPlan("KNEE", subjects=("bench",)),
        drain_s=1.0,
    )
    result, _ = await run_plan(Connection(servers=(account.url,)), what)
    assert any(note.startswith("latency rises sharply above ") for note in result.notes), (
        result.notes
    )
    assert result.verdict == "ok"
    assert result.counts.sent_msgs < 20_000
