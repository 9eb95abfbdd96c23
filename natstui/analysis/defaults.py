"""Default options and thresholds of an analysis."""

from __future__ import annotations

from dataclasses import dataclass

from natstui.model.findings.thresholds import STUCK_AFTER_S

MASTER = "local[*]"
MEMORY = "1g"
"""Heap of Spark's driver, and of each executor."""
PARTITION_BYTES = 16 * 1024 * 1024
"""Bytes of recorded text per partition of a sort; its rows take about ten times as much."""
ROWS_COUNT = 200
"""Maximum rows of each table in a result."""
SMALL_BYTES = 32 * 1024 * 1024
"""Maximum recorded text for which Spark starts with the settings for small data."""
USUAL_LEVEL = 3
"""First normal level of load: those below are the seconds in which a run started and ended."""
LEAST_RISE_RATIO = 1.5
"""Minimum ratio of the highest to the lowest load: a run below it is steady, without a knee."""
BUCKET_S = 60
"""Length of the buckets of rates and busiest moments."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """Thresholds from which an observation counts."""

    bucket_s: int = BUCKET_S
    stuck_after_s: float = STUCK_AFTER_S
    """Time without progress of the ack floor, with messages pending, until it is stuck."""
    behind_after_s: float = 10.0
    """Minimum lag of a consumer that is behind: shorter lags are left out."""
    api_slow_factor_ratio: float = 3.0
    """Ratio of a bucket's median round trip to that of the session from which it is slow."""
    hot_msgs: int = 5
    """Repeated deliveries in a bucket from which it is a hot spot."""
    baseline: tuple[str, ...] = ()
    """Sessions to compare the others with; empty: the earliest one of the same system."""

    @property
    def bucket_us(self) -> int:
        """Return the length of a bucket in µs."""
        return self.bucket_s * 1_000_000
