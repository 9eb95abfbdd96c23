"""A recording without findings that nobody can judge is named, on whatever it is analysed."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from natstui.analysis.bronze.sources import SessionSource
from natstui.analysis.gold.session import SESSION_SUMMARY, find_unjudged_recordings
from natstui.analysis.silver import events as silver_events
from natstui.analysis.silver.findings import (
    compute_finding_rows,
    read_finding_rows,
    sources_without_findings,
    write_finding_rows,
)
from natstui.analysis.silver.index import records_except_polls
from natstui.analysis.silver.tables import FINDING
from natstui.analysis.spark.store import TableStore
from natstui.errors import SessionError
from tests.analysis.clocks import CORRECTED
from tests.analysis.damaged import UNDESCRIBED, WHOLE
from tests.analysis.locally import Answers
from tests.analysis.planted import Analysed
from tests.analysis.test_silver import nothing_can_be_deleted, stored_lines
from tests.session.lost import LOST

pytestmark = pytest.mark.spark


def test_a_session_that_was_not_judged_is_named_with_the_reason(answers: Answers) -> None:
    with pytest.raises(SessionError) as refused:
        [*compute_finding_rows(answers.source(UNDESCRIBED))]
    (row,) = find_unjudged_recordings(answers.frame(SESSION_SUMMARY.name)).collect()
    assert (row["session"], row["cause"]) == (UNDESCRIBED, "not_judged")
    assert str(refused.value) in row["evidence"]


def test_without_the_code_that_reads_recordings_nothing_is_judged(
    answers: Answers, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As in the zip that is submitted to a cluster.
    monkeypatch.setitem(sys.modules, "natstui.session", None)
    with pytest.raises(SessionError, match="the code that reads recordings is not installed"):
        [*compute_finding_rows(answers.source(WHOLE))]


def test_a_session_that_is_not_on_this_machine_is_not_judged(
    spark: SparkSession, answers: Answers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = TableStore(spark, str(tmp_path), "1")
    remote = SessionSource(WHOLE, f"hdfs://cluster/{WHOLE}", "")
    with pytest.raises(SessionError, match="is not on the machine that runs the analysis"):
        write_finding_rows(store, remote, "0")
    assert read_finding_rows(store).collect() == []
    nothing_can_be_deleted(monkeypatch)
    connected = TableStore(spark, str(tmp_path), "2")
    with pytest.raises(SessionError, match="is on the Spark Connect server, not on this machine"):
        write_finding_rows(connected, answers.source(WHOLE), "0")


def test_of_a_session_that_cannot_be_judged_to_its_end_no_rows_are_kept(
    spark: SparkSession, tmp_path: Path
) -> None:
    def torn() -> Iterator[tuple[Any, ...]]:
        yield ("torn", *unknown)
        raise SessionError("the rest is missing")

    unknown = (None,) * (len(FINDING.columns) - 1)
    store = TableStore(spark, str(tmp_path), "1")
    assert store.write_rows(FINDING, "some", "0", [("complete", *unknown)] * 3) == 3
    with pytest.raises(SessionError, match="the rest is missing"):
        store.write_rows(FINDING, "some", "1", torn())
    assert [row["session"] for row in store.read_rows(FINDING, "some").collect()] == [
        "complete"
    ] * 3


def test_those_that_were_judged_are_not_named(analysed: Analysed) -> None:
    summaries = analysed.answers.frame(SESSION_SUMMARY.name)
    assert find_unjudged_recordings(summaries).collect() == []


def test_a_session_with_findings_is_not_judged_again_beside_one_with_losses(
    spark: SparkSession, answers: Answers
) -> None:
    # Of a session with a loss, two keyframes are read.
    names = (LOST, CORRECTED)
    lines = stored_lines(spark, answers).where(F.col("session").isin(*names))
    keyframes = silver_events.keyframes(records_except_polls(lines))
    keyframes = keyframes.orderBy(F.col("session") != LOST)
    assert [row["session"] for row in keyframes.collect()] == [LOST, LOST, CORRECTED]
    sources = [answers.source(name) for name in names]
    assert sources_without_findings(keyframes, sources) == []
