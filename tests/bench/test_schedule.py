"""DueMessages times are a pure function of the plan."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from natstui.bench.job.schedule import Schedule, segment_at
from natstui.model.bench.plan import RateSegment

SECOND = 1_000_000_000
_rates = st.floats(1, 5000)
_segments = st.lists(
    st.builds(RateSegment, st.floats(0.1, 5), _rates, _rates), min_size=1, max_size=4
)


def test_at_a_fixed_rate_message_i_is_due_at_i_over_rate() -> None:
    schedule = Schedule([RateSegment(None, 1000, 1000)])
    assert schedule.due_ns(0, 3).tolist() == [0, 1_000_000, 2_000_000]
    assert schedule.due_count(0) == 1
    assert schedule.due_count(SECOND) == 1001
    assert schedule.due_count_before(SECOND) == 1000
    assert schedule.total_count() is None


def test_workers_share_the_messages_of_a_role_without_gap_or_overlap() -> None:
    shares = [Schedule([RateSegment(1, 900, 900)], which, 3) for which in range(3)]
    times = np.sort(np.concatenate([share.due_ns(0, 300) for share in shares]))
    assert times.tolist() == Schedule([RateSegment(1, 900, 900)]).due_ns(0, 900).tolist()
    assert [share.total_count() for share in shares] == [300, 300, 300]


def test_a_schedule_knows_the_step_it_is_in() -> None:
    steps = [RateSegment(2.0, rate, rate) for rate in (100, 500, 900)]
    at = [segment_at(steps, elapsed_s).end_per_s for elapsed_s in (0, 1.9, 2.0, 5.9, 60)]
    assert at == [100, 100, 500, 900, 900]
    assert segment_at([RateSegment(2.0, 0, 70), RateSegment(None, 70, 70)], 0.1).end_per_s == 70


def test_a_burst_is_due_all_at_once() -> None:
    schedule = Schedule([RateSegment(None, 100, 100, burst_msgs=50)])
    assert schedule.due_ns(0, 100).tolist() == [0] * 50 + [SECOND // 2] * 50
    assert schedule.due_count(0) == 50
    assert schedule.due_count(SECOND // 2) == 100


def test_steps_follow_each_other() -> None:
    schedule = Schedule([RateSegment(1, 10, 10), RateSegment(1, 100, 100)])
    assert schedule.total_count() == 110
    assert schedule.due_ns(10, 2).tolist() == [SECOND, SECOND + SECOND // 100]


@given(_segments, st.floats(0, 1))
def test_what_is_due_agrees_with_the_due_times(segments: list[RateSegment], part: float) -> None:
    schedule = Schedule(segments)
    total = schedule.total_count()
    assert total is not None
    times = schedule.due_ns(0, total)
    assert (np.diff(times) >= 0).all()
    moment = round(part * sum(segment.duration_s or 0 for segment in segments) * SECOND)
    due = schedule.due_count(moment)
    slack = 20_000
    assert due >= int(np.count_nonzero(times <= moment - slack))
    assert due <= int(np.count_nonzero(times <= moment + slack))


def test_a_changed_rate_keeps_what_was_due_and_counts_on_from_there() -> None:
    schedule = Schedule([RateSegment(None, 100, 100)]).with_rate(SECOND, 1000)
    assert schedule.due_ns(99, 1).tolist() == [99 * SECOND // 100]
    assert schedule.due_ns(101, 1).tolist() == [SECOND + SECOND // 1000]


def test_no_message_is_sent_before_it_is_due_where_the_rate_changed_between_two() -> None:
    schedule = Schedule([RateSegment(None, 1000, 1000)]).with_rate(SECOND + 300_000, 1250)
    for moment in range(SECOND + 300_000, SECOND + 10_000_000, 100_000):
        last_ns = int(schedule.due_ns(schedule.due_count(moment) - 1, 1)[0])
        assert moment - 800_000 <= last_ns <= moment + 1
