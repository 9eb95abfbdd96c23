"""How much Spark has to do for a small recording: each job costs a moment, whatever is in it."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tests.analysis.damaged import small
from tests.analysis.locally import analysed_into

pytestmark = pytest.mark.spark

MOST_JOBS = 121
"""So many were counted once, and it was called too many."""


def jobs_count(spark: SparkSession) -> int:
    """Return how many jobs a session has begun."""
    assert spark.sparkContext._jsc is not None
    return int(spark.sparkContext._jsc.sc().dagScheduler().numTotalJobs())


def test_a_small_recording_takes_few_jobs(
    spark: SparkSession, sessions: Path, tmp_path: Path
) -> None:
    folder, before = small(sessions), jobs_count(spark)
    analysed_into(spark, tmp_path / "out", [folder])
    count = jobs_count(spark) - before
    assert count < MOST_JOBS, count
