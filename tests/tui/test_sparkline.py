"""Small pictures show what the numbers are, and nothing where there are none."""

from hypothesis import given
from hypothesis import strategies as st

from natstui.tui.kit.sparkline import bar, scaled_sparkline, sparkline

values = st.lists(st.one_of(st.none(), st.floats()), max_size=60)


def test_a_sparkline_starts_at_zero_and_keeps_gaps() -> None:
    assert sparkline([0, 1, None, 4, 8], 5) == "▁▂ ▅█"
    assert sparkline([100, 101, 102], 4) == " ███"


def test_a_sparkline_keeps_the_newest_at_the_right() -> None:
    assert sparkline([8], 3) == "  █"
    assert sparkline([0, 0, 0, 0, 8, 8], 3) == "▁▁█"
    assert sparkline([], 3) == "   "


@given(values, st.integers(0, 20), st.one_of(st.none(), st.floats(0, 1e6)))
def test_a_sparkline_is_as_wide_as_asked(
    series: list[float | None], width: int, high: float | None
) -> None:
    assert len(sparkline(series, width, high)) == width


def test_a_scale_is_that_of_the_marks_not_of_single_values() -> None:
    text = scaled_sparkline([0.0, 10.0, 4.0, 4.0], 2, lambda value: f"{value:g}")
    assert text == f"{sparkline([0.0, 10.0, 4.0, 4.0], 2)} 0–5"
    assert scaled_sparkline([None, None], 2, str) == "–"


def test_a_bar_shows_eighths_and_more_than_nothing_as_more() -> None:
    assert [bar(share, 4) for share in (0, 0.001, 0.25, 0.3, 1, 7)] == [
        "░░░░", "▏░░░", "█░░░", "█▎░░", "████", "████",
    ]  # fmt: skip
