"""What a typed duration, size or number was understood as."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from natstui.model.assets.fields import Field, FieldKind
from natstui.model.assets.meaning import (
    duration_meaning,
    meaning_of,
    time_meaning,
)


@pytest.mark.parametrize(
    ("kind", "text", "means"),
    [
        ("duration", "2M", "60 days"),
        ("duration", "2m", "2 minutes"),
        ("duration", "1d3h", "1 day 3 hours"),
        ("duration", "1.5s", "1 second 500 milliseconds"),
        ("duration", "soon", ""),
        ("duration", "unlimited", ""),
        ("durations", "1s, 1m", "1 second, 1 minute"),
        ("bytes", "1GB", "1,073,741,824 bytes"),
        ("bytes", "100", ""),
        ("bytes", "much", ""),
        ("count", "15k", "15,000"),
        ("count", "15", ""),
        ("text", "2M", ""),
        ("time", "2026-01-31T12:00:00Z", ""),
    ],
)
def test_what_is_typed_is_said_in_words(kind: FieldKind, text: str, means: str) -> None:
    assert meaning_of(Field("x", "X", kind, "", "", default=1), text) == means


def test_an_answer_without_a_field_is_understood_too() -> None:
    assert duration_meaning("1m30s") == "1 minute 30 seconds"
    assert duration_meaning("soon") == duration_meaning("") == ""
    here = datetime(2026, 1, 31, 12, tzinfo=UTC).astimezone().strftime("%Y-%m-%d %H:%M:%S")
    assert time_meaning("2026-01-31T12:00:00Z") == here
    assert time_meaning("10m ago") > here
    assert time_meaning("yesterday") == time_meaning("") == ""
