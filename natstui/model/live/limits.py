"""Time to drain of a backlog and time to reach a limit.

Screens and `watch` call these rules; the analysis writes two of them as queries (`drain_s` of
`natstui.analysis.gold.lag`, `is_at_byte_limit` of `natstui.analysis.gold.capacity`), and a test
runs one set of cases through both. It forecasts limits from the entire recording instead
(`natstui.analysis.gold.shared.forecast`). The thresholds are those of
`natstui.model.findings.thresholds`.
"""

from __future__ import annotations

from msgspec import Struct

from natstui.model.findings.thresholds import MAX_BYTES_REACHED_SHARE, NEAR_LIMIT_SHARE


def is_near_limit(level: float, limit: float | None) -> bool:
    """Return whether a level is near or beyond its limit; False without a limit."""
    return limit is not None and limit > 0 and level >= NEAR_LIMIT_SHARE * limit


def used_percent(level: float, limit: int | None) -> float | None:
    """Return the used share of a limit in %; None without a limit."""
    return 100 * level / limit if limit else None


class StreamFill(Struct, frozen=True):
    """The stored messages and bytes of a stream, and their limits; None is unlimited."""

    stored_msgs: int
    stored_bytes: int
    max_msgs: int | None
    max_bytes: int | None


def time_to_drain_s(pending_msgs: int, trend_msgs_per_s: float | None) -> float | None:
    """Return the seconds until nothing is pending, by the trend; None if it does not shrink."""
    if pending_msgs == 0:
        return 0.0
    if trend_msgs_per_s is None or trend_msgs_per_s >= 0:
        return None
    return pending_msgs / -trend_msgs_per_s


def time_to_full_s(level: int, limit: int | None, trend_per_s: float | None) -> float | None:
    """Return the seconds until a level reaches its limit, by the trend; None if it does not."""
    if limit is None:
        return None
    if level >= limit:
        return 0.0
    return (limit - level) / trend_per_s if trend_per_s and trend_per_s > 0 else None


def bytes_are_full(fill: StreamFill, *, is_deleting: bool) -> bool:
    """Return whether a stream is at its limit of bytes: the next message does not fit.

    `is_deleting` is whether the stream deletes messages now.
    """
    if fill.max_bytes is None or not fill.stored_msgs:
        return False
    mean_bytes = fill.stored_bytes / fill.stored_msgs
    is_at_limit = is_deleting and fill.stored_bytes >= MAX_BYTES_REACHED_SHARE * fill.max_bytes
    return is_at_limit or fill.max_bytes - fill.stored_bytes < mean_bytes
