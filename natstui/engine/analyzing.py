"""Runs analyses in the engine, one at a time, in a child process; reports them to the viewer.

The child (`python -m natstui.analysis.job … --pipe`) writes lines of JSON, and ends with its
stdin. The engine imports nothing of Spark.
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

from natstui.children import module_command
from natstui.defects import report_defects
from natstui.errors import ActionRefusal, AnalysisError, MissingExtra, NatstuiError, UsageError
from natstui.feed import Sink
from natstui.model.records.analysis import (
    AnalysisCommand,
    AnalysisProgress,
    StartAnalysis,
    StopAnalysis,
)
from natstui.model.records.messages import Answered
from natstui.session.library import find_session, list_session_folders

Status = Literal["done", "refused", "failed"]

_MAX_LINE_BYTES = 32 * 1024 * 1024
_NICE_LEVEL = 3
"""The nice level of the child: it uses every core, but the engine and the viewer have priority."""


class AnalysisRunner:
    """Runs the analyses that the viewer requests, one at a time; a child ends with the engine."""

    def __init__(
        self, sessions_folder: Path, viewer: Sink, default_session_folder: Path | None = None
    ) -> None:
        """Create without a child; `sessions_folder` is the folder of all recordings.

        `viewer` receives records from a thread. A command without a session analyses
        `default_session_folder`, or the newest session if that is None.
        """
        self._sessions_folder = sessions_folder
        self._viewer = viewer
        self._default_session_folder = default_session_folder
        self._child: subprocess.Popen[bytes] | None = None
        self._is_stopping = False

    def execute(self, command: AnalysisCommand) -> None:
        """Start or stop an analysis; the reply to a start is sent at the end of the analysis.

        A defect is reported, and is a failed reply.
        """

        def reply_failed(text: str) -> None:
            self._viewer.add(_make_reply(command.command_id, "failed", text))

        try:
            with report_defects("the analysis", reply_failed):
                match command:
                    case StartAnalysis():
                        self._start_analysis(command)
                    case StopAnalysis():
                        self._stop_analysis()
                        self._viewer.add(_make_reply(command.command_id, "done", "stopping"))
        except NatstuiError as error:
            status: Status = "refused" if isinstance(error, ActionRefusal) else "failed"
            self._viewer.add(_make_reply(command.command_id, status, str(error)))

    def _start_analysis(self, command: StartAnalysis) -> None:
        if self._child is not None:
            raise ActionRefusal("an analysis runs already")
        folder = self._session_folder(command.session)
        if importlib.util.find_spec("pyspark") is None:
            raise MissingExtra("analyze", "spark")
        self._is_stopping = False
        self._child = child = start_child(folder)
        # The child needs time to start Python and Spark before its first line.
        progress_fields = (
            time.time_ns() // 1000,
            command.command_id,
            folder.name,
            "starting Spark",
        )
        self._viewer.add(AnalysisProgress(*progress_fields, 0, 0, 0, 0))
        arguments = (child, command.command_id, folder.name)
        threading.Thread(
            target=self._follow_child, args=arguments, name="analysis", daemon=True
        ).start()

    def _session_folder(self, session: str | None) -> Path:
        """Return the folder of a session, or of the default session for None.

        Raises UsageError if there is no such session.
        """
        if session is not None:
            return find_session(self._sessions_folder, session).resolve()
        default_session = self._default_session_folder or next(
            iter(list_session_folders(self._sessions_folder)), None
        )
        if default_session is None:
            raise UsageError(
                f"there is no session in {self._sessions_folder} yet: record one first"
            )
        return default_session.resolve()

    def _stop_analysis(self) -> None:
        if self._child is None:
            raise ActionRefusal("no analysis runs")
        assert self._child.stdin is not None
        self._is_stopping = True
        self._child.stdin.close()

    def _follow_child(self, child: subprocess.Popen[bytes], command_id: int, session: str) -> None:
        """Send the viewer a record for each line of the child until it ends; runs in a thread."""
        reply: Answered | None = None

        def set_failed_reply(text: str) -> None:
            nonlocal reply
            reply = _make_reply(command_id, "failed", text)

        with report_defects("the analysis", set_failed_reply):
            reply = self._forward_progress(child, command_id, session)
        self._child = None
        self._viewer.add(reply or make_missing_reply(command_id, cancelled=self._is_stopping))

    def _forward_progress(
        self, child: subprocess.Popen[bytes], command_id: int, session: str
    ) -> Answered | None:
        """Send the viewer a record for each progress line; return the reply, None without one."""
        assert child.stdout is not None and child.stdin is not None
        reply: Answered | None = None
        while (line := child.stdout.readline(_MAX_LINE_BYTES)).endswith(b"\n"):
            record = decode_child_line(command_id, session, line)
            if isinstance(record, Answered):
                reply = record
            else:
                self._viewer.add(record)
        child.stdin.close()
        child.stdout.close()
        child.wait()
        return reply


def start_child(folder: Path) -> subprocess.Popen[bytes]:
    """Start the process that analyses a session; raises AnalysisError if it cannot be started."""
    output_folder = user_cache_path("natstui") / "analysis"
    arguments = module_command("natstui.analysis.job", str(folder), "--pipe")
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
    # Only root may give a process a lower nice level than it has.
    nice_level = max(_NICE_LEVEL, os.getpriority(os.PRIO_PROCESS, child.pid))
    os.setpriority(os.PRIO_PROCESS, child.pid, nice_level)
    return child


def decode_child_line(command_id: int, session: str, line: bytes) -> AnalysisProgress | Answered:
    """Return the record of one line of the child; for an invalid line, a failed reply."""
    try:
        fields: dict[str, Any] = json.loads(line)
        if fields["kind"] == "progress":
            counts = (int(fields[name]) for name in _COUNT_FIELDS)
            at_us = time.time_ns() // 1000
            return AnalysisProgress(at_us, command_id, session, str(fields["text"]), *counts)
        if fields["kind"] == "result":
            return _make_reply(command_id, "done", f"analysed {session}", line.decode())
        return _make_reply(command_id, "failed", str(fields["text"]))
    except (ValueError, KeyError, TypeError):
        reason = f"the analysis wrote an unexpected line: {line[:80]!r}"
        return _make_reply(command_id, "failed", reason)


_COUNT_FIELDS = ("done_count", "steps_count", "tasks_done_count", "tasks_count")


def make_missing_reply(command_id: int, *, cancelled: bool) -> Answered:
    """Return the reply to a start whose process wrote no result: it was cancelled or killed."""
    reason = "the analysis ended without a result: its process was killed"
    return _make_reply(command_id, "failed", "cancelled" if cancelled else reason)


def _make_reply(
    command_id: int, status: Status, text: str, body_json: str | None = None
) -> Answered:
    return Answered(time.time_ns() // 1000, command_id, status, text, body_json)
