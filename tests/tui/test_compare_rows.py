"""The rows of a comparison, as they are read."""

from __future__ import annotations

from natstui.model.live.compare import Difference
from natstui.tui.sessions.compare import COMPARE_COLUMNS, CompareView


def texts(found: Difference) -> list[str]:
    view = CompareView([found])
    return [spec.cell(view, 0).text for spec in COMPARE_COLUMNS]


def test_numbers_have_their_thousands_and_a_change_its_sign() -> None:
    lag = Difference("ORDERS", "billing", "lag", "pending", "1000", "1234567", 1_233_567)
    row = ["ORDERS › billing", "lag", "pending", "1,000", "1,234,567", "+1,233,567"]
    assert texts(lag) == row
    less = Difference("ORDERS", None, "counter", "messages", "1000", "10", -990)
    assert texts(less) == ["ORDERS", "counter", "messages", "1,000", "10", "-990"]


def test_what_is_not_counted_stands_as_it_is_and_harmless() -> None:
    it = Difference("ORDERS", None, "configuration", "subjects", None, '["a\x1b]2;x"]')
    assert texts(it) == ["ORDERS", "configuration", "subjects", "–", '["a␛]2;x"]', ""]


def test_a_lag_that_grew_stands_out_and_one_that_shrank_does_not() -> None:
    change = COMPARE_COLUMNS[-1]
    for count, look in ((5, "warn"), (-5, "")):
        it = Difference("ORDERS", "billing", "lag", "pending", "10", str(10 + count), count)
        assert change.cell(CompareView([it]), 0).style_name == look


def test_what_was_made_removed_or_configured_is_a_problem_and_a_count_is_none() -> None:
    kinds = ("asset", "configuration", "lag", "counter")
    view = CompareView([Difference("ORDERS", None, kind, "f", None, None, None) for kind in kinds])
    problems = [kind for row, kind in enumerate(kinds) if view.has_problem(row)]
    assert problems == ["asset", "configuration"]
