"""Default options and thresholds of an analysis."""

from __future__ import annotations

from msgspec import Struct

from natstui.model.findings.thresholds import STUCK_AFTER_SAME_ACK_FLOOR_S

MASTER = "local[*]"
MEMORY = "1g"
"""Heap of Spark's driver, and of each executor."""
PARTITION_BYTES = 16 * 1024 * 1024
"""Bytes of recorded text per partition of a sort; its rows need about ten times as much memory."""
MAX_TABLE_ROWS_COUNT = 200
"""Maximum number of rows of each table in a result."""
MAX_SMALL_DATA_BYTES = 32 * 1024 * 1024
"""Maximum recorded text for which Spark starts with the settings for small data."""
FIRST_STEADY_LOAD_LEVEL = 3
"""Number of the first load level that counts: in lower ones the run starts and ends."""
MIN_LOAD_RATIO = 1.5
"""Minimum ratio of the highest to the lowest load of a run with a knee."""
BUCKET_S = 60
"""Length of the buckets of rates and of the busiest intervals."""


class Thresholds(Struct, frozen=True):
    """Length of a bucket, the limits from which findings are reported, and the baseline."""

    bucket_s: int = BUCKET_S
    stuck_after_s: float = STUCK_AFTER_SAME_ACK_FLOOR_S
    """Minimum time that a stuck consumer's ack floor does not move, with outstanding messages."""
    behind_after_s: float = 10.0
    """Minimum length of a period of lag; shorter ones are left out."""
    api_slow_factor_ratio: float = 3.0
    """Minimum ratio of a slow bucket's median round trip to that of the session."""
    hot_msgs: int = 5
    """Minimum redeliveries in a bucket that is a hot spot."""
    baseline: tuple[str, ...] = ()
    """Sessions to compare the others with; empty: the earliest one of the same system."""

    @property
    def bucket_us(self) -> int:
        """Return the length of a bucket in µs."""
        return self.bucket_s * 1_000_000
