"""How much Spark has to do: each job costs a moment, whatever is in it."""

from __future__ import annotations

import pytest

from tests.analysis.locally import Answers

pytestmark = pytest.mark.spark

MOST_JOBS = 121
"""So many were counted once for a small recording, with most tables empty: it was too many."""


def test_sessions_with_rows_for_every_table_take_few_jobs(answers: Answers) -> None:
    assert answers.jobs_count < MOST_JOBS
