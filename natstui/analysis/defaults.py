"""What an analysis does unless told otherwise: its options, and from where on things count."""

from __future__ import annotations

from dataclasses import dataclass

from natstui.model.findings.thresholds import STUCK_AFTER_S

MASTER = "local[*]"
MEMORY = "1g"
"""Heap of Spark's driver, and of each executor."""
PARTITION_BYTES = 8 * 1024 * 1024
"""Recorded text for each partition of a sort: its rows are some ten times as large."""
ROWS_COUNT = 200
"""Rows of each table in a result."""
SMALL_BYTES = 32 * 1024 * 1024
"""Up to so much recorded text, Spark starts and plans for little."""
USUAL_LEVEL = 3
"""The levels of load below hold the seconds in which a run began and ended."""
LEAST_RISE_RATIO = 1.5
"""A run whose highest load is less than this many times its lowest has no knee: it is steady."""
BUCKET_S = 60
"""Length of the buckets of rates and busiest moments."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From where on something counts."""

    bucket_s: int = BUCKET_S
    stuck_after_s: float = STUCK_AFTER_S
    """A floor that did not move for this long with messages outstanding is stuck."""
    behind_after_s: float = 10.0
    """Shorter periods of lag are left out."""
    api_slow_factor_ratio: float = 3.0
    """A bucket whose median round trip is this many times the session's median is slow."""
    hot_msgs: int = 5
    """Repeated deliveries in one bucket that make a hot spot."""
    baseline: tuple[str, ...] = ()
    """Sessions to compare the others with; empty: the earliest one of the same system."""

    @property
    def bucket_us(self) -> int:
        """Return the length of a bucket."""
        return self.bucket_s * 1_000_000
