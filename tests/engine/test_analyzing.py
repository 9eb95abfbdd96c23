"""The engine analyses a recording in a process of its own, tells how far it is, and cancels."""

from __future__ import annotations

import os
import queue
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks._fleet import Plan
from benchmarks._sessions import write_session
from natstui.engine.analyzing import AnalysisRunner, decode_child_line, make_missing_reply
from natstui.model.records.analysis import (
    AnalysisProgress,
    StartAnalysis,
    StopAnalysis,
)
from natstui.model.records.messages import Answered
from natstui.model.records.record import Record
from tests.cli.processes import wait_until_ended
from tests.engine.engine_process import EngineProcess

NOWHERE = "nats://127.0.0.1:1"


START = """
import os, sys
from pathlib import Path
from natstui.engine.analyzing import start_child
child = start_child(Path(sys.argv[1]))
print(os.getpriority(os.PRIO_PROCESS, child.pid))
child.stdin.close()
child.wait()
"""


class Told(queue.SimpleQueue[Record]):
    """A sink that keeps what it is told."""

    add = queue.SimpleQueue.put


@pytest.fixture
def sessions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "sessions"
    monkeypatch.setenv("NATSTUI_SESSION_FOLDER", str(folder))
    return folder


@pytest.fixture
def engine(sessions: Path) -> Iterator[EngineProcess]:
    write_session(sessions / "20260921T141320Z-old", Plan(2, 3, 10))
    write_session(sessions / "20260922T141320Z-new", Plan(2, 3, 10))
    with EngineProcess("--server", NOWHERE) as engine:
        yield engine


def children(pid: int) -> list[int]:
    found = subprocess.run(["pgrep", "-P", str(pid)], capture_output=True, text=True, check=False)
    return [int(word) for word in found.stdout.split()]


@pytest.mark.slow
def test_an_analysis_is_cancelled_and_another_started_which_a_killed_engine_takes_along(
    engine: EngineProcess,
) -> None:
    an_analysis_without_its_session_fails(engine)
    one_is_cancelled_and_another_started(engine)
    an_engine_that_is_killed_takes_its_analysis_along(engine)


def an_analysis_without_its_session_fails(engine: EngineProcess) -> None:
    engine.send(StartAnalysis(command_id=9, session="nothing"))
    ended = engine.next(Answered)
    assert ended.status == "failed" and "no session 'nothing'" in ended.text


def one_is_cancelled_and_another_started(engine: EngineProcess) -> None:
    engine.send(StartAnalysis(command_id=1))
    progress = engine.next(AnalysisProgress, s=60)
    assert (progress.command_id, progress.session) == (1, "20260922T141320Z-new")
    assert (progress.text, progress.done_count) == ("starting Spark", 0)
    engine.send(StartAnalysis(command_id=2))
    refused = engine.next(Answered, lambda reply: reply.command_id == 2)
    assert refused.text == "an analysis runs already"
    engine.send(StopAnalysis(command_id=3))
    ended = engine.next(Answered, lambda reply: reply.command_id == 1, s=60)
    assert (ended.status, ended.text, ended.body_json) == ("failed", "cancelled", None)
    engine.send(StopAnalysis(command_id=4))
    refused = engine.next(Answered, lambda reply: reply.command_id == 4)
    assert refused.text == "no analysis runs"
    engine.send(StartAnalysis(command_id=5, session="20260921"))
    again = engine.next(AnalysisProgress, s=60)
    assert (again.command_id, again.session) == (5, "20260921T141320Z-old")


def an_engine_that_is_killed_takes_its_analysis_along(engine: EngineProcess) -> None:
    (child,) = children(engine.process.pid)
    engine.process.kill()
    wait_until_ended(child)


def refusal(sessions: Path) -> str:
    """Return the sentence of an analysis that cannot even begin."""
    viewer = Told()
    AnalysisRunner(sessions, viewer).execute(StartAnalysis(command_id=1))
    record = viewer.get(timeout=60)
    assert isinstance(record, Answered) and record.status == "failed"
    return record.text


def test_without_any_session_the_sentence_says_to_record_one(sessions: Path) -> None:
    assert refusal(sessions).endswith("yet: record one first")


def test_without_pyspark_the_sentence_names_the_extra(
    sessions: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_session(sessions / "20260921T141320Z-old", Plan(1, 1, 3))
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert "pip install 'natstui[spark]'" in refusal(sessions)


@pytest.mark.long
def test_a_java_home_without_java_is_named(
    sessions: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_session(sessions / "20260921T141320Z-old", Plan(1, 1, 3))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    viewer = Told()
    AnalysisRunner(sessions, viewer).execute(StartAnalysis(command_id=1))
    while not isinstance(record := viewer.get(timeout=60), Answered):
        assert isinstance(record, AnalysisProgress)
    assert record.status == "failed"
    assert f"JAVA_HOME={tmp_path} has no bin/java" in record.text


def test_an_analysis_that_is_stopped_ends_as_cancelled_and_only_one_that_runs_is_stopped(
    sessions: Path,
) -> None:
    write_session(sessions / "20260921T141320Z-old", Plan(1, 1, 3))
    viewer = Told()
    analyzing = AnalysisRunner(sessions, viewer)
    analyzing.execute(StopAnalysis(command_id=1))
    analyzing.execute(StartAnalysis(command_id=2))
    analyzing.execute(StartAnalysis(command_id=3))
    analyzing.execute(StopAnalysis(command_id=4))
    told = list[Record]()
    while sum(isinstance(record, Answered) for record in told) < 4:
        told.append(viewer.get(timeout=60))
    replies = [record for record in told if isinstance(record, Answered)]
    # The process may end before the reply to its stop.
    by_id = sorted((reply.command_id, reply.status, reply.text) for reply in replies)
    assert by_id == [
        (1, "refused", "no analysis runs"),
        (2, "failed", "cancelled"),
        (3, "refused", "an analysis runs already"),
        (4, "done", "stopping"),
    ]


def test_a_process_that_ends_without_a_word_was_cancelled_or_killed() -> None:
    cancelled, killed = (make_missing_reply(7, cancelled=stopped) for stopped in (True, False))
    assert (cancelled.status, cancelled.text) == ("failed", "cancelled")
    assert killed.status == "failed" and "its process was killed" in killed.text


@pytest.mark.parametrize("line", [b"Exception in thread\n", b"[]\n", b'{"kind": "progress"}\n'])
def test_what_the_child_should_not_say_is_a_failure(line: bytes) -> None:
    record = decode_child_line(7, "it", line)
    assert isinstance(record, Answered) and record.status == "failed"
    assert "unexpected line" in record.text


@pytest.mark.slow
def test_the_child_of_a_nice_engine_is_as_nice(tmp_path: Path) -> None:
    """Only root may give a process a lower level: others got an error, and no reply."""
    command = ["nice", "-n", "10", sys.executable, "-c", START, str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
    assert int(ran.stdout) == min(19, os.nice(0) + 10)
