"""One small Spark session for all tests of the room, and one analysis that they look at."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from natstui.analysis.spark.session import SparkSettings, open_session
from natstui.session.files.info import read_info, write_info
from natstui.values import replace
from tests.analysis import clocks, crowded, damaged, happened, storms, truths, versions
from tests.analysis.locally import Answers, Locally, analyse_locally, answers_of
from tests.analysis.planted import Analysed, Planted, write_planted
from tests.session import lost


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
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """Three sessions with planted truths."""
    return write_planted(tmp_path_factory.mktemp("planted"))


WRITE = (clocks.write, crowded.write, damaged.write, happened.write, lost.write, storms.write,
         truths.write, versions.write)  # fmt: skip
"""What writes sessions for tests, each with an account of its own: they are not compared."""


@pytest.fixture(scope="session")
def answers(
    spark: SparkSession, planted: Planted, tmp_path_factory: pytest.TempPathFactory
) -> Answers:
    """The answers to all sessions that tests write, as one analysis: to plan it is what costs.

    Those that are others without the other sessions are built when some sessions are asked for.
    """
    folder = tmp_path_factory.mktemp("sessions")
    for write in WRITE:
        write(folder)
    for session in folder.iterdir():
        write_info(session, replace(read_info(session), account=session.name))
    truths.write_systems(folder)
    damaged.write_undescribed(folder)
    patterns = [f"{folder}/*", *map(str, planted.folders), *map(str, versions.FROZEN)]
    return answers_of(spark, tmp_path_factory.mktemp("tables"), patterns, also_of_all=False)


@pytest.fixture(scope="session")
def analysed(planted: Planted, answers: Answers) -> Analysed:
    """All that an analysis says of the sessions with planted truths."""
    return Analysed(planted.folders, planted.records, answers.of(*planted.records))


@pytest.fixture(scope="session")
def locally(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Locally:
    """Two small sessions and all that an analysis on this machine says of them."""
    return analyse_locally(spark, tmp_path_factory.mktemp("locally"))


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    """A folder for the sessions of one test."""
    return tmp_path / "sessions"
