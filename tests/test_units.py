"""Numbers as people read them."""

from __future__ import annotations

import pytest

from natstui.units import bytes_text, counted, quantity_text, rate_text


@pytest.mark.parametrize(
    ("per_s", "text"),
    [(0.05, "0.05"), (0.994, "0.99"), (0.9996, "1.0"), (1, "1.0"), (99.96, "100"), (100, "100")],
)
def test_a_rate_looks_alike_on_both_sides_of_a_border(per_s: float, text: str) -> None:
    assert rate_text(per_s) == text


def test_bytes_that_become_fewer_have_the_unit_of_those_that_become_more() -> None:
    assert bytes_text(-2105) == "-2.06 KiB"
    assert quantity_text("growth_bytes_per_s", -2105) == "-2.06 KiB/s"


def test_one_thing_is_not_told_as_many() -> None:
    said = [counted(1, "message"), counted("at most 1", "delivery")]
    assert said == ["1 message", "at most 1 delivery"]
    said = [counted(0, "message"), counted("at most 21", "delivery")]
    assert said == ["0 messages", "at most 21 deliveries"]
