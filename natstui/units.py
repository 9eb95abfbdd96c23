"""Numbers with units → the text on the screen, and back, without side effects; None is an en
dash.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from fractions import Fraction

UNKNOWN = "–"


def count_text(count: int | float | None) -> str:
    """Return a number with at most 5 characters: `0`, `9999`, `12.3k`, `4.56M`; `–` for None."""
    if count is None:
        return UNKNOWN
    if count < 10_000:
        return str(round(count))
    for unit in "kMGTPE":
        count /= 1000
        if count < 999.5:
            decimals_count = 2 if count < 9.995 else 1 if count < 99.95 else 0
            return f"{count:.{decimals_count}f}{unit}"
    return f"{count:.0f}E"


def counted(count: int | str, noun: str) -> str:
    """Return a count with its noun: `1 message`, `2 messages`, `at most 1 reply`, `3 replies`."""
    if str(count).rpartition(" ")[2] == "1":
        return f"{count} {noun}"
    has_plural_ies = noun.endswith("y") and noun[-2] not in "aeou"
    return f"{count} {noun[:-1]}ies" if has_plural_ies else f"{count} {noun}s"


def is_or_are(count: int) -> str:
    """Return `is` for a count of 1, else `are`."""
    return "is" if count == 1 else "are"


def was_or_were(count: int) -> str:
    """Return `was` for a count of 1, else `were`."""
    return "was" if count == 1 else "were"


def bytes_text(size_bytes: int | float | None) -> str:
    """Return bytes in binary units: `0 B`, `1.5 KiB`, `12 MiB`; `–` for None."""
    if size_bytes is None:
        return UNKNOWN
    if size_bytes < 0:
        return "-" + bytes_text(-size_bytes)
    if size_bytes < 1024:
        return f"{size_bytes:.0f} B"
    for unit in ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB"):
        size_bytes /= 1024
        if size_bytes < 999.5:
            decimals_count = 2 if size_bytes < 9.995 else 1 if size_bytes < 99.95 else 0
            return f"{size_bytes:.{decimals_count}f} {unit}"
    return f"{size_bytes:.0f} EiB"


def rate_text(rate_per_s: float | None) -> str:
    """Return a rate without its unit: `0`, `0.05`, `3.2`, `950`, `12.3k`; `–` for None."""
    if rate_per_s is None:
        return UNKNOWN
    if rate_per_s == 0:
        return "0"
    # Limits are those of the rounded value: 0.999 is "1.0", not "1.00", and 99.97 is "100".
    if rate_per_s < 0.995:
        return f"{rate_per_s:.2f}"
    if rate_per_s < 99.95:
        return f"{rate_per_s:.1f}"
    return count_text(rate_per_s)


def duration_text(duration_s: float | None) -> str:
    """Return a duration in its two largest units: `0s`, `850ms`, `42s`, `3m12s`, `12d4h`; `–` for
    None.
    """
    if duration_s is None:
        return UNKNOWN
    if duration_s < 0:
        return "-" + duration_text(-duration_s)
    if 0 < duration_s < 1:
        return f"{duration_s * 1000:.0f}ms" if duration_s >= 0.001 else "<1ms"
    seconds = round(duration_s)
    if seconds < 60:
        return f"{seconds}s"
    if seconds < 3600:
        return f"{seconds // 60}m{seconds % 60:02d}s"
    if seconds < 86_400:
        return f"{seconds // 3600}h{seconds % 3600 // 60:02d}m"
    return f"{seconds // 86_400}d{seconds % 86_400 // 3600}h"


def seconds_text(duration_s: float) -> str:
    """Return a duration as `4.5 s` below a minute, else as `duration_text` does."""
    if duration_s >= 60:
        return duration_text(duration_s)
    return f"{duration_s:,.10g} s"


def moment_text(at_us: int | float | None) -> str:
    """Return a time in UTC to the second; `–` for None and for a time outside the calendar."""
    if at_us is None:
        return UNKNOWN
    try:
        return datetime.fromtimestamp(at_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return UNKNOWN


def local_text(at_us: int | float, time_format: str = "%H:%M:%S", digits: int = 0) -> str:
    """Return a time in local time, with `digits` decimals of its second; `–` outside the
    calendar.
    """
    try:
        local_time = datetime.fromtimestamp(at_us / 1e6, UTC).astimezone()
    except (ValueError, OverflowError, OSError):
        return UNKNOWN
    return local_time.strftime(time_format) + (
        f".{local_time.microsecond:06d}"[: digits + 1] if digits else ""
    )


_DURATION_UNITS_NS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
    "d": 86_400_000_000_000,
    "w": 604_800_000_000_000,
    "M": 2_592_000_000_000_000,
    "y": 31_536_000_000_000_000,
}
"""A month has 30 days and a year 365, as in the NATS CLI; only days, weeks and years have a large
letter too, because M is not m."""
_DURATION_PART_PATTERN = re.compile(r"(\d+(?:\.\d+)?)(ns|us|µs|μs|ms|s|m|h|d|D|w|W|M|y|Y)")
MAX_INT64, MAX_UINT64 = 2**63 - 1, 2**64 - 1
"""The largest numbers of servers: of a size, duration or limit, and of a sequence."""
_MAX_DIGITS = len(str(MAX_UINT64))


def parse_duration_ns(text: str) -> int:
    """Return the nanoseconds of `1d3h`, `1.5s`, `250ms`, `2M`, `0`; raises ValueError with a
    sentence.

    The units are those of the NATS CLI: ns us ms s m h d w M y.
    """
    compact_text = text.strip().replace(" ", "")
    if compact_text == "0":
        return 0
    parts = _DURATION_PART_PATTERN.findall(compact_text)
    if not parts or "".join(number + unit for number, unit in parts) != compact_text:
        raise ValueError(f"{quote(text)} is not a duration: write it as 1d3h, 1.5s, 250ms or 2M")
    total_ns = sum(_multiply_exactly(number, _duration_unit_ns(unit)) for number, unit in parts)
    if total_ns > MAX_INT64:
        raise ValueError(f"{quote(text)} is too long: the maximum of servers is 292 years")
    return total_ns


def _duration_unit_ns(unit: str) -> int:
    unit_key = unit.replace("μ", "µ") if unit == "M" else unit.replace("μ", "µ").lower()
    return _DURATION_UNITS_NS[unit_key]


def _multiply_exactly(number: str, multiplier: int) -> int:
    """Return `number` × `multiplier`, without the rounding error of a float for an integer.

    A number with too many digits gives a result above every limit.
    """
    if _has_too_many_digits(number):
        return MAX_UINT64 + 1
    return int(number) * multiplier if number.isdigit() else round(float(number) * multiplier)


def parse_integer(text: str, min_value: int, max_value: int) -> int:
    """Return the integer of an option; raises ValueError with a sentence, also outside the
    limits.
    """
    compact_text = text.strip()
    is_integer = compact_text.isascii() and compact_text.removeprefix("-").isdigit()
    if (
        is_integer
        and not _has_too_many_digits(compact_text)
        and min_value <= (number := int(compact_text)) <= max_value
    ):
        return number
    raise ValueError(f"{quote(text)} is not a whole number from {min_value:,} to {max_value:,}")


def _has_too_many_digits(number: str) -> bool:
    """Return whether a number is above every limit; Python refuses to parse thousands of
    digits.
    """
    return len(number.partition(".")[0].lstrip("0")) > _MAX_DIGITS


_MAX_QUOTED_CHARACTERS = 60


def quote(text: str) -> str:
    """Return a text of the user in quotes, shortened to 60 characters."""
    return repr(
        text if len(text) <= _MAX_QUOTED_CHARACTERS else f"{text[:_MAX_QUOTED_CHARACTERS]}…"
    )


MAX_TIME_US = 4_102_444_800_000_000
"""The start of the year 2100: nothing that natstui reads was recorded or measured after it."""


def is_possible_time(at_us: int) -> bool:
    """Return whether a time (UTC µs) is in the years 1970 to 2099."""
    return 0 <= at_us < MAX_TIME_US


_RELATIVE_TIME_PATTERN = re.compile(r"(.+)\s+ago|in\s+(.+)|now")


def parse_moment(text: str, now: datetime | None = None) -> datetime:
    """Return the time of `2m ago`, `in 1h`, `now` or a timestamp.

    A timestamp without a time zone is in local time. Raises ValueError for any other text, with a
    sentence that explains the format.
    """
    text = text.strip()
    if match := _RELATIVE_TIME_PATTERN.fullmatch(text):
        now = now or datetime.now(UTC)
        duration_ns = parse_duration_ns(match[1] or match[2] or "0")
        time_difference = timedelta(microseconds=duration_ns / 1000)
        return now - time_difference if match[1] else now + time_difference
    try:
        parsed_time = datetime.fromisoformat(text)
        parsed_time = parsed_time if parsed_time.tzinfo else parsed_time.astimezone()
        parsed_time.astimezone(UTC)  # not at the ends of the calendar
        return parsed_time
    except (ValueError, OverflowError):
        raise ValueError(
            f"{quote(text)} is not a time: write it as 2026-01-31T12:00:00Z, 2m ago or in 1h"
        ) from None


_SIZE_PATTERN = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kmgtpe])i?)?b?")


def parse_bytes(text: str) -> int:
    """Return the bytes of `128`, `256MB`, `1.5GiB`; MB and MiB both mean a power of 1024, as in
    the NATS CLI.

    Raises ValueError with a sentence.
    """
    match = _SIZE_PATTERN.fullmatch(text.strip().lower())
    if not match:
        raise ValueError(f"{quote(text)} is not a size: write it as 128, 64KB or 1.5GiB")
    power: int = " kmgtpe".index(match[2]) if match[2] else 0
    if not power and not match[1].isdigit():
        raise ValueError(f"{quote(text)} is not a size: write whole bytes")
    size_bytes = _multiply_exactly(match[1], int(1024**power))
    if size_bytes > MAX_INT64:
        raise ValueError(f"{quote(text)} is too large: the maximum of servers is 8 EiB")
    return size_bytes


_COUNT_PATTERN = re.compile(r"(\d+(?:\.\d{1,20})?)\s*([kmgb]?)")


def parse_count(text: str) -> int:
    """Return the number of `1000`, `15k`, `1.5M`; raises ValueError with a sentence."""
    match = _COUNT_PATTERN.fullmatch(text.strip().lower().replace("_", ""))
    if not match:
        raise ValueError(f"{quote(text)} is not a number: write it as 1000, 15k or 1.5M")
    power = {"": 0, "k": 1, "m": 2, "g": 3, "b": 3}[match[2]]
    too_large_text = f"{quote(text)} is too large: the maximum of servers is {MAX_UINT64:,}"
    if _has_too_many_digits(match[1]):
        raise ValueError(too_large_text)
    number = Fraction(match[1]) * 1000**power
    if number.denominator != 1:
        raise ValueError(f"{quote(text)} is not a whole number: write it as 1000, 15k or 1.5M")
    if number > MAX_UINT64:
        raise ValueError(too_large_text)
    return int(number)


def quantity_text(name: str, value: int | float) -> str:
    """Return the value of a column with its unit, which is the suffix of the column's `name`."""
    for suffixes, formatter in _FORMATTER_BY_SUFFIXES:
        if name.endswith(suffixes):
            return formatter(value)
    if float(value).is_integer() or abs(value) >= 1000:
        return count_text(value)
    return f"{value:.3g}"


_FORMATTER_BY_SUFFIXES: tuple[tuple[tuple[str, ...], Callable[[int | float], str]], ...] = (
    (("_at_us", "_since_us"), moment_text),
    (("bytes_per_s",), lambda value: f"{bytes_text(value)}/s"),
    (("_per_s",), rate_text),
    (("_bytes",), bytes_text),
    (("_us",), lambda value: duration_text(value / 1e6) if value >= 1e6 else f"{value:,.0f} µs"),
    (("_s",), duration_text),
    (("_share",), lambda value: f"{value * 100:.1f} %"),
    (("_change",), lambda value: f"{value * 100:+.1f} %"),
    (("p_value",), lambda value: f"{value:.2g}"),
    (("_seq", "_id", "_count"), lambda value: f"{value:.0f}"),
)
"""Suffix of a column name → the format of its numbers; the first match counts."""


_UNIT_SUFFIXES = (
    "_at_us",
    "_us",
    "_s",
    "_bytes",
    "_msgs",
    "_count",
    "_share",
    "_change",
    "_ratio",
)


def column_title_text(name: str) -> str:
    """Return a column's name without its unit, which the cells show; a rate keeps `/s` or
    `/min`.
    """
    for suffix, time_unit in (("_per_s", "/s"), ("_per_min", "/min")):
        if name.endswith(suffix):
            return name.removesuffix(suffix).replace("_", " ") + time_unit
    for suffix in _UNIT_SUFFIXES:
        if name.endswith(suffix) and name.removesuffix(suffix):
            name = name.removesuffix(suffix)
            break
    return name.replace("_", " ")
