"""Small pictures show what the numbers are, and nothing where there are none."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from natstui.tui.kit.sparkline import bar, means_by_time, scaled_sparkline, sparkline

values = st.lists(st.one_of(st.none(), st.floats()), max_size=60)


def test_a_sparkline_starts_at_zero_and_keeps_gaps() -> None:
    assert sparkline([0, 1, None, 4, 8], 5) == "▁▂ ▅█"
    assert sparkline([100, 101, 102], 4) == " ███"


def test_a_sparkline_keeps_the_newest_at_the_right() -> None:
    assert sparkline([8], 3) == "  █"
    assert sparkline([0, 0, 0, 0, 8, 8], 3) == "▁▁█"
    assert sparkline([], 3) == "   "


@pytest.mark.slow
@given(values, st.integers(0, 20), st.one_of(st.none(), st.floats(0, 1e6)))
def test_a_sparkline_is_as_wide_as_asked(
    series: list[float | None], width: int, high: float | None
) -> None:
    assert len(sparkline(series, width, high)) == width


def test_a_scale_is_that_of_the_marks_not_of_single_values() -> None:
    text = scaled_sparkline([0.0, 10.0, 4.0, 4.0], 2, lambda value: f"{value:g}")
    assert text == f"{sparkline([0.0, 10.0, 4.0, 4.0], 2)} 0–5"
    assert scaled_sparkline([None, None], 2, str) == "–"


def test_values_stand_where_their_time_is_and_what_is_not_known_is_a_gap() -> None:
    # Half of a minute is known: the other half is blank, not stretched.
    half = [(float(age), 8.0) for age in range(30, -1, -5)]
    assert sparkline(means_by_time(half, 12, 60, 5), 12) == "     ███████"
    # A part between two points has the later one, unless they are too far apart.
    sparse = [(55.0, 2.0), (35.0, 4.0), (5.0, 8.0)]
    assert means_by_time(sparse, 6, 60, 20) == [2.0, 4.0, 4.0, None, None, 8.0]
    # What is not known ends the line, what is older than the window is not shown.
    assert means_by_time([(90.0, 1.0), (12.0, None), (1.0, 3.0)], 4, 60, 100) == [
        None,
        None,
        None,
        3.0,
    ]
    assert means_by_time([(3.0, 2.0), (1.0, 4.0)], 2, 60, 5) == [None, 3.0]


def test_a_bar_shows_eighths_and_more_than_nothing_as_more() -> None:
    assert [bar(share, 4) for share in (0, 0.001, 0.25, 0.3, 1, 7)] == [
        "░░░░", "▏░░░", "█░░░", "█▎░░", "████", "████",
    ]  # fmt: skip
