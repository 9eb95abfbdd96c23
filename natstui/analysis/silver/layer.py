"""What the answers are computed from: the silver tables of the sessions in question."""

from __future__ import annotations

from dataclasses import dataclass

from pyspark.sql import DataFrame

from natstui.analysis.silver.tables import TABLES
from natstui.analysis.spark.store import Store
from natstui.model.findings.status import STUCK_AFTER_S


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


def read_silver(store: Store, sessions: list[str]) -> Silver:
    """Return the silver rows of the sessions."""
    return Silver(**{table.name: store.silver(table, sessions) for table in TABLES})


@dataclass(frozen=True, slots=True)
class Thresholds:
    """From where on something counts."""

    bucket_s: int = 60
    """Length of the buckets of rates and busiest moments."""
    stuck_after_s: float = STUCK_AFTER_S
    """A floor that did not move for this long with messages outstanding is stuck."""
    behind_after_s: float = 10.0
    """Shorter periods of lag are left out."""
    api_slow_factor_ratio: float = 3.0
    """A bucket whose median round trip is this many times the session's median is slow."""
    peer_lag_msgs: int = 100
    """A replica this far behind has `replica_lag`."""
    hot_msgs: int = 5
    """Repeated deliveries in one bucket that make a hot spot."""
    baseline: tuple[str, ...] = ()
    """Sessions to compare the others with; empty: the earliest one."""
