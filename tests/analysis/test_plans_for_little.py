"""Much to read: what is made of short tables alone is planned for little, and says the same."""

from __future__ import annotations

import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold.answer import Given
from natstui.analysis.gold.answers import ANSWERS, TABLES
from natstui.analysis.gold.build import build_gold
from natstui.analysis.report import result
from natstui.analysis.spark.compilers import compiler_options
from natstui.analysis.spark.session import SparkSettings, session_for_little
from natstui.analysis.spark.store import Store
from tests.analysis.alike import assert_alike
from tests.analysis.planted import Analysed

pytestmark = pytest.mark.spark

_SAMPLES = ("stream_sample", "consumer_sample", "ack_sample")


def test_an_answer_says_that_it_reads_samples(spark: SparkSession, analysed: Analysed) -> None:
    none: dict[str, Any] = dict.fromkeys(_SAMPLES)
    tables = {table.name: table for table in TABLES}
    given = Given(
        spark,
        tuple(analysed.records),
        replace(analysed.silver, **none),
        Thresholds(),
        lambda name: analysed.store.gold(tables[name]),
        lambda name: False,
    )
    short = [answer for answer in ANSWERS if not answer.reads_samples]
    assert all(answer.rows(given).columns for answer in short)
    for answer in ANSWERS:
        if answer.reads_samples:
            with pytest.raises(AttributeError, match="NoneType"):
                answer.rows(given)


@pytest.mark.usefixtures("much")
def test_two_sessions_of_one_spark_answer_as_one(
    spark: SparkSession, analysed: Analysed, tmp_path: Path
) -> None:
    store = Store(spark, analysed.store.root, "0123abcd")
    short = store.seen_by(session_for_little(spark, SparkSettings(tmp_path)))
    try:
        build_gold(store, short, list(analysed.records), Thresholds(), str)
        for answer in ANSWERS:
            name = answer.table.name
            rows = [row.asDict() for row in store.gold(answer.table).collect()]
            assert_alike(name, rows, analysed.gold[name])
            assert len(result.first_rows(short, answer, 1)) == min(len(rows), 1), name
    finally:
        store.discard()


def test_the_compiler_takes_what_it_is_told(tmp_path: Path) -> None:
    folder = tmp_path / "a folder"
    folder.mkdir()
    options = [option.replace('"', "") for option in compiler_options(folder).split(" -")]
    java = ["java", options[0], f"-{options[1]}", "-version"]
    ran = subprocess.run(java, capture_output=True, text=True, check=True)
    assert "1 compiler directives added" in ran.stdout
