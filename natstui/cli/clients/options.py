"""How long a look takes, as flags of these commands."""

from __future__ import annotations

from natstui.errors import UsageError
from natstui.units import parse_duration_ns

LONGEST_S = 300.0


def seconds(text: str, option: str) -> float:
    """Return seconds of `5s`, `1m`; raises UsageError for nothing, and for more than 5 minutes."""
    try:
        wanted_s = parse_duration_ns(text) / 1e9
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error
    if not 0 < wanted_s <= LONGEST_S:
        raise UsageError(f"{option} {text}: it must be longer than 0 and at most {LONGEST_S:.0f}s")
    return wanted_s
