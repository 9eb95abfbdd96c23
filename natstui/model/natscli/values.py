"""Values in the format of the flags of the NATS CLI."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime

from natstui.model.assets.text import exact_duration


class FlagsInsufficientError(Exception):
    """Error of a configuration that no flags of the NATS CLI can express: it needs a file."""


_SIZE_UNITS_WITH_BITS = (("TB", 40), ("GB", 30), ("MB", 20), ("KB", 10), ("", 0))
_MAX_SIZE_NUMBER = 2**31
"""Limit of the digits of a size, which the NATS CLI reads as a 32-bit number."""


def format_size(size_bytes: int) -> str:
    """Return a size as text; raises FlagsInsufficientError if the NATS CLI cannot read it."""
    if size_bytes < 0:
        return "-1"
    for unit, bits in _SIZE_UNITS_WITH_BITS:
        if size_bytes % (1 << bits) == 0 and 0 < size_bytes >> bits < _MAX_SIZE_NUMBER:
            return f"{size_bytes >> bits}{unit}"
    raise FlagsInsufficientError


def format_duration(duration_ns: int) -> str:
    """Return a duration as text; `0s` for none, because `-1` is not valid everywhere."""
    return exact_duration(duration_ns) if duration_ns > 0 else "0s"


def format_pairs(metadata: Mapping[object, object]) -> list[str]:
    """Return metadata as `key=value`.

    Raises FlagsInsufficientError for a key that the NATS CLI would cut.
    """
    texts = [(str(key), str(value)) for key, value in metadata.items()]
    if not texts or any(not key or re.search("[:=]", key) for key, _ in texts):
        raise FlagsInsufficientError
    return [f"{key}={value}" for key, value in texts]


def format_time(text: str) -> str:
    """Return a time in the format of the NATS CLI, UTC without a zone; another text unchanged."""
    if match := re.fullmatch(r"(\d{4}-\d\d-\d\d)T(\d\d:\d\d:\d\d(?:\.\d+)?)Z", text):
        return f"{match[1]} {match[2]}"
    if "-" not in text:
        return text
    try:
        return datetime.fromisoformat(text).astimezone(UTC).replace(tzinfo=None).isoformat(" ")
    except (ValueError, OverflowError):
        return text
