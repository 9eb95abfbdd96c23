"""What the answers are computed from: the silver tables of the sessions in question."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame


@dataclass(frozen=True, slots=True)
class Silver:
    """The rows of the chosen sessions, one frame per table."""

    stream_sample: DataFrame
    consumer_sample: DataFrame
    poll: DataFrame
    segment: DataFrame
    advisory: DataFrame
    ack_sample: DataFrame
    event: DataFrame
    configuration: DataFrame
    bench_interval: DataFrame
    bench_latency: DataFrame
    bench_result: DataFrame


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What counts as worth telling."""

    bucket_s: int = 60
    """Rates and busiest moments are told per bucket of this length."""
    stuck_after_s: float = 30.0
    """A floor that did not move for this long with messages outstanding is stuck."""
    behind_after_s: float = 10.0
    """Shorter periods of lag are not told."""
    api_slow_factor_ratio: float = 3.0
    """A bucket whose median round trip is this many times the session's median is slow."""
    peer_lag_msgs: int = 100
    """A replica further behind is told."""
    hot_msgs: int = 5
    """Repeated deliveries in one bucket that make a hot spot."""
    baseline: tuple[str, ...] = ()
    """Sessions to compare the others with; empty: the earliest one."""
