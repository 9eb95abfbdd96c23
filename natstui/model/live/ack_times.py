"""Sampled times from delivery to acknowledgement of one consumer, in bounded memory.

Each of the newest minutes has a histogram. Histograms merge exactly, so a percentile is of all
samples of the window, and never a mean of percentiles.
"""

from __future__ import annotations

from msgspec import Struct

from natstui.model.bench.latency import (
    EMPTY_HISTOGRAM,
    PERCENTILES,
    SAMPLED_PERCENTILES,
    LatencyCounts,
    merge,
)
from natstui.units import counted, duration_text
from natstui.values import replace

WINDOW_MINUTES = 5
"""Number of minutes that are kept, including the current one."""
_MINUTE_US = 60_000_000


class AckMinute(Struct, frozen=True):
    """The samples of one minute."""

    began_at_us: int
    times: LatencyCounts = EMPTY_HISTOGRAM
    repeated_count: int = 0
    """Samples of redelivered messages."""
    left_out_count: int = 0
    """Samples that arrived too fast to be read."""


class AckTimes(Struct, frozen=True):
    """The samples of the newest minutes, the oldest first."""

    minutes: tuple[AckMinute, ...] = ()
    last_at_us: int = 0

    def after(
        self, at_us: int, times: LatencyCounts, repeated_count: int, left_out_count: int = 0
    ) -> AckTimes:
        """Return the samples with those that arrived at `at_us` added, as their ack `times`.

        `repeated_count` of them are of redelivered messages; `left_out_count` more were not read.
        """
        minute_start_us, minutes = _start_of_minute(at_us), self.minutes
        if not minutes or minutes[-1].began_at_us < minute_start_us:
            minutes = (*_drop_old_minutes(minutes, minute_start_us), AckMinute(minute_start_us))
        # Delayed samples count for the newest minute, so the minutes stay in order.
        newest = minutes[-1]
        newest = replace(
            newest,
            times=merge((newest.times, times)),
            repeated_count=newest.repeated_count + repeated_count,
            left_out_count=newest.left_out_count + left_out_count,
        )
        return AckTimes((*minutes[:-1], newest), max(at_us, self.last_at_us))

    def until(self, now_at_us: int) -> AckWindow:
        """Return the samples of the window that ends at `now_at_us`."""
        recent_minutes = _drop_old_minutes(self.minutes, _start_of_minute(now_at_us))
        return AckWindow(
            times=merge(minute.times for minute in recent_minutes),
            repeated_count=sum(minute.repeated_count for minute in recent_minutes),
            left_out_count=sum(minute.left_out_count for minute in recent_minutes),
            window_s=(now_at_us - recent_minutes[0].began_at_us) / 1e6 if recent_minutes else 0.0,
        )


class AckWindow(Struct, frozen=True):
    """The samples of the last minutes, together."""

    times: LatencyCounts
    repeated_count: int
    left_out_count: int
    window_s: float
    """Time since the start of the oldest minute with samples."""


NO_ACKS = AckTimes()


def times_text(times: LatencyCounts) -> str:
    """Return ack times as text for people: `p50 12ms, p99 80ms, most 1.2s`; empty without any."""
    percentiles = ((name, times.percentile_ns(PERCENTILES[name])) for name in SAMPLED_PERCENTILES)
    labels_and_times = (*percentiles, ("most", times.max_ns))
    return ", ".join(
        f"{label} {duration_text(time_ns / 1e9)}"
        for label, time_ns in labels_and_times
        if time_ns is not None
    )


def window_text(window: AckWindow) -> str:
    """Return ack times, number and duration of sampled acks as text; empty without samples."""
    if not window.times.total_count:
        return ""
    count = counted(f"{window.times.total_count:,}", "sample")
    text = f"{times_text(window.times)}, of {count} in {duration_text(window.window_s)}"
    if window.left_out_count:
        text += f"; {window.left_out_count:,} more arrived too fast to be read"
    return text


def _start_of_minute(at_us: int) -> int:
    return at_us - at_us % _MINUTE_US


def _drop_old_minutes(
    minutes: tuple[AckMinute, ...], newest_minute_us: int
) -> tuple[AckMinute, ...]:
    oldest_us = newest_minute_us - WINDOW_MINUTES * _MINUTE_US
    return tuple(minute for minute in minutes if minute.began_at_us > oldest_us)
