"""Small pictures show what the numbers are, and nothing where there are none."""

from hypothesis import given
from hypothesis import strategies as st

from natstui.tui.kit.sparkline import braille_strip, sparkline

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


@given(values, st.integers(0, 20), st.integers(0, 5))
def test_a_strip_has_the_size_that_was_asked_for(
    series: list[float | None], width: int, height: int
) -> None:
    lines = braille_strip(series, width, height)
    assert len(lines) == height
    assert all(len(line) == width for line in lines)


def test_a_strip_loses_no_spike_and_draws_nothing_in_a_gap() -> None:
    series: list[float | None] = [0.0] * 1000
    series[333] = 50.0
    top = braille_strip(series, 20, 3)[0]
    assert [i for i, char in enumerate(top) if char != "\u2800"] == [6]
    series = [*[1.0] * 20, *[None] * 20]
    assert braille_strip(series, 20, 1)[0][10:] == "\u2800" * 10
