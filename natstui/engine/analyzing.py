"""Analyses in the engine: one at a time, in a process of its own, reported to the viewer.

The child is a program of its own (`python -m natstui.analysis.job … --pipe`) that writes lines of
JSON and ends with its stdin; nothing of Spark is imported here.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Literal

from platformdirs import user_cache_path

from natstui.children import own_program
from natstui.errors import AnalysisError, MissingExtra, NatstuiError, Refused, UsageError
from natstui.feed import Sink
from natstui.model.records.analysis import (
    AnalysisCommand,
    AnalysisFinished,
    AnalysisProgress,
    AnalysisRecord,
    StartAnalysis,
    StopAnalysis,
)
from natstui.model.records.messages import Answered
from natstui.session.library import find, session_folders

_LARGEST_LINE_BYTES = 32 * 1024 * 1024
_CANCELLED = 130
_NICE = 3
"""The nice level of the child: it uses every core, and the engine and the screen have priority."""


class Analyzing:
    """Runs the analyses that the viewer requests; a child ends with the engine, whose pipe it
    reads.
    """

    def __init__(self, sessions: Path, viewer: Sink, newest: Path | None = None) -> None:
        """Create without a child; `viewer` receives records from a thread, `newest` is the default
        session.
        """
        self._sessions = sessions
        self._viewer = viewer
        self._newest = newest
        self._child: subprocess.Popen[bytes] | None = None
        self._stopping = False

    def execute(self, command: AnalysisCommand) -> None:
        """Start or stop, and reply; progress and result are added as records."""
        try:
            match command:
                case StartAnalysis():
                    self._start(command)
                case StopAnalysis():
                    self._stop()
        except Refused as error:
            self._reply(command, "refused", str(error))
        except NatstuiError as error:
            self._viewer.add(_failed(command.command_id, None, str(error)))
            self._reply(command, "failed", str(error))
        else:
            is_start = isinstance(command, StartAnalysis)
            self._reply(command, "done", "started" if is_start else "stopping")

    def _reply(
        self, command: AnalysisCommand, status: Literal["done", "refused", "failed"], text: str
    ) -> None:
        self._viewer.add(Answered(time.time_ns() // 1000, command.command_id, status, text))

    def _start(self, command: StartAnalysis) -> None:
        if self._child is not None:
            raise Refused("an analysis runs already")
        folder = self._folder(command.session)
        if importlib.util.find_spec("pyspark") is None:
            raise MissingExtra("analyze", "spark")
        self._stopping = False
        self._child = child = start_child(folder)
        # Python and Spark take a while before the child says anything.
        progress_fields = (
            time.time_ns() // 1000,
            command.command_id,
            folder.name,
            "starting Spark",
        )
        self._viewer.add(AnalysisProgress(*progress_fields, 0, 0, 0, 0))
        arguments = (child, command.command_id, folder.name)
        threading.Thread(target=self._follow, args=arguments, name="analysis", daemon=True).start()

    def _folder(self, session: str | None) -> Path:
        """Return the folder of a session, or of the newest if None; raises UsageError when there
        is none.
        """
        if session is not None:
            return find(self._sessions, session).resolve()
        newest = self._newest or next(iter(session_folders(self._sessions)), None)
        if newest is None:
            raise UsageError(f"there is no session in {self._sessions} yet: record one first")
        return newest.resolve()

    def _stop(self) -> None:
        if self._child is None:
            raise Refused("no analysis runs")
        assert self._child.stdin is not None
        self._stopping = True
        self._child.stdin.close()

    def _follow(self, child: subprocess.Popen[bytes], run_id: int, session: str) -> None:
        """Add a record for each line of the child, in a thread, until it has ended."""
        final_record = self._end_of(child, run_id, session)
        self._child = None
        self._viewer.add(final_record or _unfinished(run_id, session, cancelled=self._stopping))

    def _end_of(
        self, child: subprocess.Popen[bytes], run_id: int, session: str
    ) -> AnalysisFinished | None:
        """Add a record for each progress line of a child; return its last record, or None without
        one.
        """
        assert child.stdout is not None and child.stdin is not None
        final_record: AnalysisFinished | None = None
        while (line := child.stdout.readline(_LARGEST_LINE_BYTES)).endswith(b"\n"):
            record = record_of(run_id, session, line)
            if isinstance(record, AnalysisFinished):
                final_record = record
            else:
                self._viewer.add(record)
        child.stdin.close()
        child.stdout.close()
        child.wait()
        return final_record


def start_child(folder: Path) -> subprocess.Popen[bytes]:
    """Start the analysis of a folder; raise AnalysisError where it does not start."""
    output_folder = user_cache_path("natstui") / "analysis"
    arguments = own_program("natstui.analysis.job", str(folder), "--pipe")
    try:
        child = subprocess.Popen(
            [*arguments, f"--out={output_folder}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
    except OSError as error:
        raise AnalysisError(f"the analysis cannot be started: {error.strerror}") from error
    os.setpriority(os.PRIO_PROCESS, child.pid, _NICE)
    return child


def record_of(run_id: int, session: str, line: bytes) -> AnalysisRecord:
    """Return the record of one line of the child; any other line is a failure."""
    now_us = time.time_ns() // 1000
    try:
        fields: dict[str, Any] = json.loads(line)
        if fields["kind"] == "progress":
            counts = (int(fields[name]) for name in _COUNTS)
            return AnalysisProgress(now_us, run_id, session, str(fields["text"]), *counts)
        if fields["kind"] == "result":
            text = f"analysed {session}"
            return AnalysisFinished(now_us, run_id, session, "done", text, line.decode())
        cancelled = fields["exit_code"] == _CANCELLED
        status: Literal["cancelled", "failed"] = "cancelled" if cancelled else "failed"
        return AnalysisFinished(now_us, run_id, session, status, str(fields["text"]))
    except (ValueError, KeyError, TypeError):
        reason = f"the analysis wrote an unexpected line: {line[:80]!r}"
        return _failed(run_id, session, reason)


_COUNTS = ("done_count", "steps_count", "tasks_done_count", "tasks_count")


def _unfinished(run_id: int, session: str, *, cancelled: bool) -> AnalysisFinished:
    """Return the last record of a run whose process ended without one."""
    if cancelled:
        return AnalysisFinished(time.time_ns() // 1000, run_id, session, "cancelled", "cancelled")
    reason = "the analysis ended without a result: its process was killed"
    return _failed(run_id, session, reason)


def _failed(run_id: int, session: str | None, text: str) -> AnalysisFinished:
    return AnalysisFinished(time.time_ns() // 1000, run_id, session, "failed", text)
