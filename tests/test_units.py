"""Numbers as people read them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from natstui.units import (
    bytes_text,
    counted,
    is_or_are,
    parse_bytes,
    parse_count,
    parse_duration_ns,
    parse_moment,
    quantity_text,
    rate_text,
    was_or_were,
)


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
    assert (is_or_are(1), is_or_are(2), was_or_were(1), was_or_were(0)) == (
        "is",
        "are",
        "was",
        "were",
    )


DAY_NS = 86_400 * 10**9


@pytest.mark.parametrize(
    ("text", "duration_ns"),
    [
        ("1ns", 1), ("1us", 10**3), ("1µs", 10**3), ("1μs", 10**3), ("1ms", 10**6),
        ("1s", 10**9), ("1m", 60 * 10**9), ("1h", 3600 * 10**9), ("1d", DAY_NS), ("1D", DAY_NS),
        ("1w", 7 * DAY_NS), ("1W", 7 * DAY_NS), ("2M", 60 * DAY_NS), ("2m", 120 * 10**9),
        ("1y", 365 * DAY_NS), ("1Y", 365 * DAY_NS), ("1y2M3m", 425 * DAY_NS + 180 * 10**9),
        ("1.5h", 5400 * 10**9), ("9007199254740993ns", 9_007_199_254_740_993), ("0", 0),
    ],
)  # fmt: skip
def test_a_duration_means_what_it_means_to_the_nats_cli(text: str, duration_ns: int) -> None:
    assert parse_duration_ns(text) == duration_ns


@pytest.mark.parametrize("text", ["1H", "1S", "1MS", "1Ms", "5", "1", "-1s", "1h!", "", "293y"])
def test_what_is_no_duration_to_the_nats_cli_is_none_here(text: str) -> None:
    with pytest.raises(ValueError):
        parse_duration_ns(text)


@pytest.mark.parametrize(
    ("text", "size_bytes"),
    [
        ("128", 128), ("1K", 1024), ("1kb", 1024), ("1KiB", 1024), ("2M", 2 << 20),
        ("2mib", 2 << 20), ("1GB", 1 << 30), ("1T", 1 << 40), ("1PB", 1 << 50), ("1E", 1 << 60),
        ("9007199254740993", 9_007_199_254_740_993), ("1.5GiB", 3 << 29), ("7B", 7),
    ],
)  # fmt: skip
def test_a_size_means_what_it_means_to_the_nats_cli(text: str, size_bytes: int) -> None:
    assert parse_bytes(text) == size_bytes


@pytest.mark.parametrize("text", ["1iB", "5i", "8E", "1X", "-1", "1.5"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError):
        parse_bytes(text)


@pytest.mark.parametrize("text", ["1.5", "1.0005k", "0.1"])
def test_a_part_of_a_message_is_no_count(text: str) -> None:
    with pytest.raises(ValueError, match="is not a whole number"):
        parse_count(text)


def test_large_counts_are_exact() -> None:
    assert (parse_count("1.5k"), parse_count("2.0")) == (1500, 2)
    assert parse_count("9007199254740993") == 9_007_199_254_740_993


@pytest.mark.parametrize(
    ("text", "moment"),
    [
        ("now", "2026-11-20T12:00:00+00:00"),
        ("2m ago", "2026-11-20T11:58:00+00:00"),
        ("1d 3h ago", "2026-11-19T09:00:00+00:00"),
        ("in 1h30m", "2026-11-20T13:30:00+00:00"),
        ("2026-01-31T12:00:00Z", "2026-01-31T12:00:00+00:00"),
        ("2026-01-31T12:00:00+02:00", "2026-01-31T12:00:00+02:00"),
    ],
)
def test_a_moment_may_be_told_from_now(text: str, moment: str) -> None:
    now = datetime(2026, 11, 20, 12, tzinfo=UTC)
    assert parse_moment(text, now).isoformat() == moment


@pytest.mark.parametrize("text", ["", "ago", "soon", "2x ago", "in 300y", "2026-13-01", "1h"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is not a|is too long"):
        parse_moment(text)
