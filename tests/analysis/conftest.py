"""One small Spark session for all tests of the room, and one pipeline run they look at."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from natstui.analysis.bronze.sources import find_sources
from natstui.analysis.defaults import Thresholds
from natstui.analysis.gold import build as gold
from natstui.analysis.gold.build import build_gold
from natstui.analysis.silver import build as silver
from natstui.analysis.silver.layer import read_silver
from natstui.analysis.spark.session import SparkSettings, open_session
from natstui.analysis.spark.store import Store
from tests.analysis.locally import Locally, analyse_locally
from tests.analysis.planted import Analysed, read, write_first, write_second, write_third
from tests.analysis.troubled import damage


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session on two threads that says nothing."""
    scratch = tmp_path_factory.mktemp("spark")
    kept, log = os.dup(2), os.open(scratch / "log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 2)
    try:
        session = open_session(SparkSettings(scratch, "local[2]", size_bytes=0))
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(log)
    yield session
    session.stop()


@contextmanager
def unset(spark: SparkSession, *names: str) -> Iterator[None]:
    """Have Spark use its own values of settings that a small input changes."""
    kept = {name: spark.conf.get(name) for name in names}
    for name in kept:
        spark.conf.unset(name)
    yield
    for name, value in kept.items():
        spark.conf.set(name, value)


@pytest.fixture
def broadcasting(spark: SparkSession) -> Iterator[None]:
    """The session joins as one for a large input does."""
    with unset(spark, "spark.sql.optimizer.disableHints", "spark.sql.autoBroadcastJoinThreshold"):
        yield


@pytest.fixture
def much(spark: SparkSession, broadcasting: None) -> Iterator[None]:
    """The session joins as one for a large input does, and tells its plans whole."""
    with unset(spark, "spark.sql.debug.maxToStringFields"):
        yield


@pytest.fixture(scope="session")
def analysed(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Analysed:
    """Three sessions with planted truths, through the whole pipeline."""
    folder = tmp_path_factory.mktemp("sessions")
    folders = (write_first(folder), write_second(folder), write_third(folder))
    records = {one.name: read(one) for one in folders}
    damage(folders[2])
    store = Store(spark, str(tmp_path_factory.mktemp("tables")), "run")
    sources = find_sources(spark, [f"{folder}/*"])
    silver.build_silver(spark, store, sources, str)
    names = [source.session for source in sources]
    layer = read_silver(store, names)
    build_gold(store, sources, Thresholds(), str)
    rows = {t.name: [r.asDict() for r in store.gold(t).collect()] for t in gold.TABLES}
    return Analysed(folders, records, layer, rows, store)


@pytest.fixture(scope="session")
def locally(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Locally:
    """Two small sessions and all that an analysis on this machine says of them."""
    return analyse_locally(spark, tmp_path_factory.mktemp("locally"))


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    """A folder for the sessions of one test."""
    return tmp_path / "sessions"
