"""What people write when they seek, as values."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from natstui.errors import UsageError
from natstui.model.records.recording import ReplayPosition
from natstui.tui.app.controls.replay import moment_us


def at(text: str) -> int:
    return round(datetime.fromisoformat(text).replace(tzinfo=UTC).timestamp() * 1e6)


REPLAY = ReplayPosition(
    at("2026-11-20T23:50:00"),
    at("2026-11-20T22:00:00"),
    at("2026-11-21T02:00:00"),
    1,
    False,
    False,
)


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("+30s", "2026-11-20T23:50:30"),
        ("-5m", "2026-11-20T23:45:00"),
        ("23:10", "2026-11-20T23:10:00"),
        ("1:05:07.5", "2026-11-21T01:05:07.500000"),
        ("2026-11-20T22:30", "2026-11-20T22:30:00"),
        ("2026-11-20T23:30+01:00", "2026-11-20T22:30:00"),
        (" 14:00 ", "2026-11-20T14:00:00"),
    ],
)
def test_a_moment_is_found_near_the_one_shown(text: str, moment: str) -> None:
    assert moment_us(text, REPLAY, UTC) == at(moment)


@pytest.mark.parametrize("text", ["", "noon", "25:00", "12:61x", "+fast", "12:00:60"])
def test_what_is_no_moment_is_told(text: str) -> None:
    with pytest.raises(UsageError, match=r"is not? "):
        moment_us(text, REPLAY, UTC)


@pytest.mark.parametrize("text", ["0001-01-01", "0001-01-01T00:00"])
def test_a_moment_that_no_zone_holds_is_told(text: str) -> None:
    with pytest.raises(UsageError, match="is no time"):
        moment_us(text, REPLAY)
