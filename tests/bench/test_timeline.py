"""Counts in slices of time add up, whatever the reports they came in."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from natstui.model.bench.timeline import INITIAL_SLICE_US, TimelineBuilder

START_US = 1_700_000_000_000_000
reports = st.lists(
    st.tuples(
        st.integers(0, 900 * INITIAL_SLICE_US), st.integers(0, 3 * INITIAL_SLICE_US),
        st.integers(0, 1000), st.integers(0, 1000),
    )
)  # fmt: skip


@settings(max_examples=40)
@given(reports)
def test_nothing_is_lost_between_slices(some: list[tuple[int, int, int, int]]) -> None:
    builder = TimelineBuilder()
    for end_us, interval_us, published, received in some:
        builder.add(START_US + end_us, interval_us, published, received)
    whole = builder.timeline(START_US, START_US)
    sums = sum(one[2] for one in some), sum(one[3] for one in some)
    assert whole.between(0, 2 * START_US) == sums
    middle = START_US + 300 * INITIAL_SLICE_US
    parts = whole.between(0, middle), whole.between(middle, 2 * START_US)
    assert tuple(map(sum, zip(*parts, strict=True))) == sums


def test_an_interval_is_spread_evenly_over_its_slices() -> None:
    builder = TimelineBuilder()
    builder.add(START_US + INITIAL_SLICE_US // 2, INITIAL_SLICE_US, 100, 7)
    whole = builder.timeline(START_US, START_US)
    assert whole.published_msgs == (50, 50)
    assert sum(whole.received_msgs) == 7
    assert whole.first_at_us == START_US - INITIAL_SLICE_US


def test_a_long_run_has_wider_slices_and_the_same_sums() -> None:
    builder = TimelineBuilder()
    for number in range(20_000):
        builder.add(START_US + (number + 1) * INITIAL_SLICE_US, INITIAL_SLICE_US, 10, 0)
    whole = builder.timeline(START_US, START_US)
    assert (whole.slice_us, len(whole.published_msgs)) == (4 * INITIAL_SLICE_US, 5000)
    assert whole.between(START_US, START_US + 400 * INITIAL_SLICE_US) == (4000, 0)
