"""How much Spark has to do: each job costs a moment, whatever is in it."""

from __future__ import annotations

import pytest

from tests.analysis.locally import OF_ALL_SESSIONS, Answers
from tests.analysis.planted import Analysed

pytestmark = pytest.mark.spark

MOST_JOBS = 121
"""So many were counted once for a small recording, with most tables empty: it was too many."""


def test_sessions_with_rows_for_every_table_take_few_jobs(
    answers: Answers, analysed: Analysed
) -> None:
    assert all(analysed.gold[name] for name in OF_ALL_SESSIONS)
    assert answers.jobs_count + analysed.answers.jobs_count < MOST_JOBS
