"""A recording without findings that nobody can judge is named, on whatever it is analysed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from natstui.analysis.bronze.sources import find_sources
from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold.rates import consumer_rate, stream_rate
from natstui.analysis.gold.session import SESSION_SUMMARY, session_summary, unknown_findings
from natstui.analysis.silver.build import build_silver
from natstui.analysis.silver.layer import read_silver
from natstui.analysis.spark.store import Store
from tests.analysis.damaged import NAME, small
from tests.analysis.planted import Analysed

pytestmark = pytest.mark.spark


def test_a_session_that_was_not_judged_is_named_with_the_reason(
    spark: SparkSession, sessions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = small(sessions)
    # As in the zip that is submitted to a cluster.
    monkeypatch.setitem(sys.modules, "natstui.session", None)
    store = Store(spark, str(tmp_path / "out"), "run")
    build_silver(spark, store, find_sources(spark, [str(folder)]), str)
    silver, thresholds = read_silver(store, [NAME]), Thresholds()
    rates = stream_rate(silver, thresholds), consumer_rate(silver, thresholds)
    (row,) = unknown_findings(session_summary(silver, *rates)).collect()
    assert (row["session"], row["cause"]) == (NAME, "not_judged")
    assert "the code that reads recordings is not installed" in row["evidence"]


def test_those_that_were_judged_are_not_named(analysed: Analysed) -> None:
    assert unknown_findings(analysed.store.gold(SESSION_SUMMARY)).collect() == []
