"""Converts RFC 3339 with nanoseconds and any offset to UTC microseconds."""

from __future__ import annotations

import re
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import lru_cache

_RFC3339_PATTERN = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d):(\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:?\d\d)", re.ASCII
)
"""Pattern of every time that the check of a reply's shape accepts."""
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
GO_ZERO_TIME = "0001-01-01T00:00:00Z"
"""Go's zero time, which the server writes for an unset time."""


@lru_cache(maxsize=8192)
def _minute_s(minute: str, offset: str) -> int:
    """Return the seconds since 1970 of a full minute with an offset from UTC, cached."""
    utc_offset = "+00:00" if offset in "Zz" else offset
    since_epoch = datetime.fromisoformat(minute + ":00" + utc_offset) - _EPOCH
    return since_epoch.days * 86_400 + since_epoch.seconds


def time_us(text: str) -> int:
    """Return an RFC 3339 time in microseconds since 1970; raises ValueError for other texts."""
    if text[19:20] == "." and text[10] in "Tt" and text[4] == text[7] == "-" and text[-1] == "Z":
        # The format of nearly all times of a server; a big reply has tens of thousands.
        with suppress(ValueError):
            return (datetime.fromisoformat(text) - _EPOCH) // _MICROSECOND
    match = _RFC3339_PATTERN.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a time")
    minute, second, fraction, offset = match.groups()
    micros = int(fraction[:6].ljust(6, "0")) if fraction else 0
    return (_minute_s(minute, offset) + int(second)) * 1_000_000 + micros


def time_or_never_us(text: str | None) -> int | None:
    """Return the microseconds since 1970 of a time; None if it is absent or Go's zero time."""
    return None if text is None or text == GO_ZERO_TIME else time_us(text)
