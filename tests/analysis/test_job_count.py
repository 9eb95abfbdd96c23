"""How much Spark has to do: each job and each task costs a moment, whatever is in it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold.gold_table import GoldInputs
from tests.analysis.damaged import small
from tests.analysis.locally import GOLD_TABLES, OF_ALL_SESSIONS, Answers, analysed_into, jobs_count
from tests.analysis.planted import Analysed

pytestmark = pytest.mark.spark

MOST_JOBS = 121
"""So many were counted once for a small recording, with most tables empty: it was too many."""
MOST_SMALL_JOBS, MOST_SMALL_TASKS = 85, 140
"""Of a complete run on a small recording, its results included: 77 and 125 were counted."""
GROUP = "a small run"


def test_sessions_with_rows_for_every_table_take_few_jobs(
    answers: Answers, analysed: Analysed
) -> None:
    assert all(analysed.gold[name] for name in OF_ALL_SESSIONS)
    assert answers.jobs_count + analysed.answers.jobs_count < MOST_JOBS


def test_a_small_recording_takes_few_jobs_and_tasks(spark: SparkSession, tmp_path: Path) -> None:
    session, before_count = small(tmp_path / "sessions"), jobs_count(spark)
    spark.sparkContext.setJobGroup(GROUP, GROUP)
    try:
        result = analysed_into(spark, tmp_path / "out", [session])
    finally:
        spark.sparkContext.setLocalProperty("spark.jobGroup.id", None)  # type: ignore[arg-type]
    assert result["tables"]["consumer_rate"]["rows"]
    found_count = jobs_count(spark) - before_count
    tasks_count = small_tasks_count(spark, found_count)
    assert found_count <= MOST_SMALL_JOBS, f"{found_count} jobs"
    assert tasks_count <= MOST_SMALL_TASKS, f"{tasks_count} tasks"


def small_tasks_count(spark: SparkSession, expected_jobs_count: int) -> int:
    """Return how many tasks the jobs of the run had, once Spark has heard of all their ends."""
    tracker = spark.sparkContext.statusTracker()
    give_up_at = time.monotonic() + 30
    while True:
        jobs = [tracker.getJobInfo(number) for number in tracker.getJobIdsForGroup(GROUP)]
        ended = [job for job in jobs if job is not None and job.status == "SUCCEEDED"]
        if len(ended) == expected_jobs_count:
            break
        assert time.monotonic() < give_up_at, f"{len(ended)} of {expected_jobs_count} jobs"
        time.sleep(0.05)
    stages = [tracker.getStageInfo(number) for job in ended for number in job.stageIds]
    # Stages whose rows an earlier job computed are left out.
    return sum(stage.numCompletedTasks for stage in stages if stage is not None)


READERS_OF_CONSUMER_SAMPLES = {
    "consumer_rate", "lag_period", "lag_share", "picture", "server_role", "stuck",
}  # fmt: skip
"""Gold tables that need every sample; all others are computed from the rates."""


def test_few_tables_read_the_consumer_samples(answers: Answers, analysed: Analysed) -> None:
    systems = {session: answers.source(session).system for session in analysed.records}
    store = answers.store
    inputs = GoldInputs(
        systems, answers.silver, Thresholds(), answers.frame,
        lambda name: store.is_empty(GOLD_TABLES[name].table), store.create_rows,
    )  # fmt: skip
    samples = {*answers.silver.consumer_sample.inputFiles()}
    readers = {
        name
        for name, gold_table in GOLD_TABLES.items()
        # These read gold tables, or are reduced while they are planned.
        if name not in {"comparison", "delay", "verdict"}
        and samples.intersection(gold_table.rows(inputs).inputFiles())
    }
    assert samples
    assert readers == READERS_OF_CONSUMER_SAMPLES
