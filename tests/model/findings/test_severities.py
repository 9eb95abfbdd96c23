"""Severities have one order, and one way to be counted in words."""

from __future__ import annotations

import pytest

from natstui.model.findings.severities import WORST_FIRST, is_at_least, severity_text


@pytest.mark.parametrize(
    ("severity", "count", "text"),
    [
        ("critical", 4, "4 critical"),
        ("warning", 1, "1 warning"),
        ("warning", 7, "7 warnings"),
        ("info", 2, "2 info"),
    ],
)
def test_as_many_as_there_are(severity: str, count: int, text: str) -> None:
    (known,) = [each for each in WORST_FIRST if each == severity]
    assert severity_text(known, count) == text


def test_the_worst_is_at_least_all_others() -> None:
    assert [is_at_least("warning", least) for least in WORST_FIRST] == [False, True, True]
