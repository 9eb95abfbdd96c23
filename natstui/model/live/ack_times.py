"""Sampled times from delivery to acknowledgement of one consumer, in bounded memory.

The newest minutes are kept as one histogram each: these merge exactly, so a percentile is always
one of all samples of the window, and never a mean of percentiles.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from natstui.model.bench.latency import (
    EMPTY,
    PERCENTILES,
    SAMPLED_PERCENTILES,
    LatencyCounts,
    merge,
)
from natstui.units import counted, duration_text

WINDOW_MINUTES = 5
"""So many minutes are kept, the present one included."""
_MINUTE_US = 60_000_000


@dataclass(frozen=True, slots=True)
class AckMinute:
    """The samples of one minute."""

    began_at_us: int
    times: LatencyCounts = EMPTY
    repeated_count: int = 0
    """Samples of messages that had been delivered before."""
    left_out_count: int = 0
    """Samples that came too fast to be read."""


@dataclass(frozen=True, slots=True)
class AckTimes:
    """The samples of the newest minutes, the oldest first."""

    minutes: tuple[AckMinute, ...] = ()
    last_at_us: int = 0

    def after(
        self, at_us: int, times: LatencyCounts, repeated_count: int, left_out_count: int = 0
    ) -> AckTimes:
        """Return the samples after more of one moment."""
        began_us, known = _minute_of(at_us), self.minutes
        if not known or known[-1].began_at_us < began_us:
            known = (*_within(known, began_us), AckMinute(began_us))
        # What comes late counts for the newest minute: they stay in order.
        newest = known[-1]
        newest = replace(
            newest,
            times=merge((newest.times, times)),
            repeated_count=newest.repeated_count + repeated_count,
            left_out_count=newest.left_out_count + left_out_count,
        )
        return AckTimes((*known[:-1], newest), max(at_us, self.last_at_us))

    def until(self, now_at_us: int) -> AckWindow:
        """Return the samples of the window that ends now."""
        kept = _within(self.minutes, _minute_of(now_at_us))
        return AckWindow(
            times=merge(one.times for one in kept),
            repeated_count=sum(one.repeated_count for one in kept),
            left_out_count=sum(one.left_out_count for one in kept),
            window_s=(now_at_us - kept[0].began_at_us) / 1e6 if kept else 0.0,
        )


@dataclass(frozen=True, slots=True)
class AckWindow:
    """The samples of the last minutes, together."""

    times: LatencyCounts
    repeated_count: int
    left_out_count: int
    window_s: float
    """Since the oldest minute with samples began."""


NO_ACKS = AckTimes()


def times_text(times: LatencyCounts) -> str:
    """Return the times for people: `p50 12ms, p99 80ms, most 1.2s`; empty without any."""
    named = ((name, times.percentile_ns(PERCENTILES[name])) for name in SAMPLED_PERCENTILES)
    parts = (*named, ("most", times.max_ns))
    return ", ".join(f"{name} {duration_text(ns / 1e9)}" for name, ns in parts if ns is not None)


def window_text(window: AckWindow) -> str:
    """Return the samples of the last minutes for people; empty without any."""
    if not window.times.total_count:
        return ""
    count = counted(f"{window.times.total_count:,}", "sample")
    text = f"{times_text(window.times)}, of {count} in {duration_text(window.window_s)}"
    if window.left_out_count:
        text += f"; {window.left_out_count:,} more arrived too fast to be read"
    return text


def _minute_of(at_us: int) -> int:
    return at_us - at_us % _MINUTE_US


def _within(minutes: tuple[AckMinute, ...], newest_us: int) -> tuple[AckMinute, ...]:
    oldest_us = newest_us - WINDOW_MINUTES * _MINUTE_US
    return tuple(minute for minute in minutes if minute.began_at_us > oldest_us)
