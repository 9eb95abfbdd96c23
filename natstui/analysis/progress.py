"""Progress and result of a run: lines of JSON for the parent process, or text for people."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from natstui.errors import AnalysisError
from natstui.files import open_log, writing
from natstui.output import text_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Send = Callable[[dict[str, Any]], None]


def open_pipe() -> Send:
    """Return a function that writes lines to stdout; SIGINT is sent when stdin ends."""
    out = text_file(os.dup(1), "utf-8", "strict")
    stdin = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    # The JVM would inherit our stdin and read from it.
    os.dup2(null, 0)
    os.close(null)
    threading.Thread(target=_interrupt_after, args=(stdin,), daemon=True).start()
    lock = threading.Lock()

    def send(line: dict[str, Any]) -> None:
        with lock:
            _write(out, line)

    return send


def print_into(log: Path) -> None:
    """Redirect stdout and stderr into a file; raises AnalysisError and WriteFailed."""
    with writing(log, AnalysisError):
        descriptor = open_log(log, mode=0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


def _write(out: TextIO, line: dict[str, Any]) -> None:
    try:
        out.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
        out.flush()
    except BrokenPipeError:
        os.kill(os.getpid(), signal.SIGINT)


def _interrupt_after(stdin: int) -> None:
    while os.read(stdin, 65536):
        pass
    os.kill(os.getpid(), signal.SIGINT)


class TextSend:
    """Prints each step of a run once, for people or the log of a cluster."""

    def __init__(self) -> None:
        self._step = ""

    def __call__(self, line: dict[str, Any]) -> None:
        """Print a line of progress or result."""
        if line["kind"] == "progress":
            if line["text"] != self._step:
                self._step = line["text"]
                sys.stderr.write(f"natstui: {self._step}\n")
        elif line["kind"] == "failed":
            sys.stderr.write(f"natstui: {line['text']}\n")
        else:
            _print_counts(line)


def _print_counts(line: dict[str, Any]) -> None:
    counts = {name: len(table["rows"]) for name, table in line["tables"].items()}
    sys.stdout.write(json.dumps({"out": line["out"], "rows": counts}) + "\n")


EVERY_S = 0.5


class Progress:
    """Sends each new step at once, and its progress every `EVERY_S`."""

    def __init__(self, send: Send, steps_count: int) -> None:
        self._send = send
        self._steps_count = steps_count
        self._done_count = -1
        self._text = ""
        self._check: Callable[[], None] = lambda: None
        self._ended = threading.Event()
        self._lock = threading.Lock()

    def step(self, text: str) -> None:
        """Start a step; raises KeyboardInterrupt after the run was cancelled."""
        self._check()
        with self._lock:
            self._done_count += 1
            self._text = text
        self._send_progress(0, 0)

    def wait(self) -> None:
        """Send that this run waits for another run with the same tables."""
        self._text = "waiting for another analysis that writes the same tables"
        self._send_progress(0, 0)

    def watch(self, spark: SparkSession, check: Callable[[], None]) -> None:
        """Send Spark's task counts from a thread; a Connect server has none.

        `check` is called before each step and raises after the run was cancelled.
        """
        self._check = check
        context = getattr(spark, "_jsc", None) and spark.sparkContext
        if context:
            tracker = context.statusTracker()
            threading.Thread(target=self._follow, args=(tracker,), daemon=True).start()

    def end(self) -> None:
        """Stop the thread that sends task counts."""
        self._ended.set()

    def _follow(self, tracker: Any) -> None:
        last_counts = (0, 0)
        while not self._ended.wait(EVERY_S):
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
            known_stages = [stage for stage in stages if stage is not None]
            counts = (
                sum(stage.numCompletedTasks for stage in known_stages),
                sum(stage.numTasks for stage in known_stages),
            )
            if counts != last_counts and not self._ended.is_set():
                self._send_progress(*counts)
            last_counts = counts

    def _send_progress(self, tasks_done_count: int, tasks_count: int) -> None:
        self._send(
            {
                "kind": "progress",
                "text": self._text,
                # One that begins again has more steps than it was thought to have.
                "done_count": min(max(self._done_count, 0), self._steps_count),
                "steps_count": self._steps_count,
                "tasks_done_count": tasks_done_count,
                "tasks_count": tasks_count,
            }
        )
