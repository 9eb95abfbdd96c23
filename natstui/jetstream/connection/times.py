"""RFC 3339 with nanoseconds and any offset → UTC microseconds."""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

_RFC3339 = re.compile(
    r"(\d{4}-\d\d-\d\d[Tt]\d\d:\d\d):(\d\d)(?:\.(\d+))?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NEVER = "0001-01-01T00:00:00Z"
"""Go's zero time, which the server writes where there is none."""


@lru_cache(maxsize=8192)
def _minute_s(minute: str, offset: str) -> int:
    """Return the seconds since 1970 of a whole minute; rows of one list share few of them."""
    zone = "+00:00" if offset in "Zz" else offset
    since = datetime.fromisoformat(minute + ":00" + zone) - _EPOCH
    return since.days * 86_400 + since.seconds


def time_us(text: str) -> int:
    """Return microseconds since 1970, rounded down; raise ValueError for anything else."""
    if text[19:20] == "." and text.endswith("Z") and text.isascii():
        # As the server writes nearly all times, of which a big answer holds tens of thousands.
        second, fraction = text[17:19], text[20:-1]
        if text[16] == ":" and second.isdigit() and fraction.isdigit():
            micros = int(fraction[:6].ljust(6, "0"))
            return (_minute_s(text[:16], "Z") + int(second)) * 1_000_000 + micros
    match = _RFC3339.fullmatch(text)
    if match is None:
        raise ValueError(f"{text[:40]!r} is not a time")
    minute, second, fraction, offset = match.groups()
    micros = int(fraction[:6].ljust(6, "0")) if fraction else 0
    return (_minute_s(minute, offset) + int(second)) * 1_000_000 + micros


def time_or_never_us(text: str | None) -> int | None:
    """Return microseconds since 1970; None for an absent or zero time."""
    return None if text is None or text == NEVER else time_us(text)
