"""A recording without findings that nobody can judge is named, on whatever it is analysed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold.rates import consumer_rate, stream_rate
from natstui.analysis.gold.session import findings_not_known, session_summary
from natstui.analysis.silver.build import build_silver
from natstui.analysis.silver.layer import read_silver
from natstui.analysis.silver.sources import find_sources
from natstui.analysis.spark.store import Store
from tests.analysis.damaged import NAME, small

pytestmark = pytest.mark.spark


@pytest.mark.parametrize("reader", [True, False])
def test_a_session_that_was_not_judged_is_named_with_the_reason(
    spark: SparkSession,
    sessions: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    reader: bool,
) -> None:
    folder = small(sessions)
    if not reader:
        # As in the zip that is submitted to a cluster.
        monkeypatch.setitem(sys.modules, "natstui.session", None)
    store = Store(spark, str(tmp_path / "out"), "run")
    build_silver(spark, store, find_sources(spark, [str(folder)]), str)
    silver, thresholds = read_silver(store, [NAME]), Thresholds()
    rates = stream_rate(silver, thresholds), consumer_rate(silver, thresholds)
    found = findings_not_known(session_summary(silver, *rates)).collect()
    assert [(row["session"], row["cause"]) for row in found] == [(NAME, "not_judged")] * (
        not reader
    )
    assert all("no reader of recordings" in row["evidence"] for row in found)
