"""Progress and result of a run: lines of JSON for the parent process, or text for people."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

from natstui.errors import AnalysisError
from natstui.files import open_log, translate_write_errors
from natstui.output import text_file

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LineSender = Callable[[dict[str, Any]], None]


def open_pipe() -> LineSender:
    """Return a function that writes a line of JSON to stdout.

    From now on this process gets SIGINT when its stdin ends; its children read an empty stdin.
    """
    out = text_file(os.dup(1), "utf-8", "strict")
    stdin = os.dup(0)
    null = os.open(os.devnull, os.O_RDONLY)
    # The JVM would inherit our stdin and read from it.
    os.dup2(null, 0)
    os.close(null)
    threading.Thread(target=_interrupt_at_end_of_stdin, args=(stdin,), daemon=True).start()
    lock = threading.Lock()

    def send(line: dict[str, Any]) -> None:
        with lock:
            _write_line(out, line)

    return send


def redirect_output(log: Path) -> None:
    """Redirect stdout and stderr to a file; raises AnalysisError or WriteFailed."""
    with translate_write_errors(log, AnalysisError):
        descriptor = open_log(log, mode=0o600)
    os.dup2(descriptor, 1)
    os.dup2(descriptor, 2)
    os.close(descriptor)


def _write_line(out: TextIO, line: dict[str, Any]) -> None:
    try:
        out.write(json.dumps(line, ensure_ascii=False, allow_nan=False) + "\n")
        out.flush()
    except BrokenPipeError:
        os.kill(os.getpid(), signal.SIGINT)


def _interrupt_at_end_of_stdin(stdin: int) -> None:
    while os.read(stdin, 65536):
        pass
    os.kill(os.getpid(), signal.SIGINT)


class TextPrinter:
    """Prints each step of a run once as text, then the result or error."""

    def __init__(self) -> None:
        self._printed_step = ""

    def __call__(self, line: dict[str, Any]) -> None:
        """Print a line of progress, error or result; an unchanged step is not printed again."""
        if line["kind"] == "progress":
            if line["text"] != self._printed_step:
                self._printed_step = line["text"]
                sys.stderr.write(f"natstui: {self._printed_step}\n")
        elif line["kind"] == "failed":
            sys.stderr.write(f"natstui: {line['text']}\n")
        else:
            _print_task_counts(line)


def _print_task_counts(line: dict[str, Any]) -> None:
    counts = {name: len(table["rows"]) for name, table in line["tables"].items()}
    sys.stdout.write(json.dumps({"out": line["out"], "rows": counts}) + "\n")


PROGRESS_INTERVAL_S = 0.5


class Progress:
    """Sends each new step at once, and changed task counts every `PROGRESS_INTERVAL_S`."""

    def __init__(self, send: LineSender, steps_count: int) -> None:
        self._send = send
        self._steps_count = steps_count
        self._done_steps_count = -1
        self._step_text = ""
        self._check_cancelled: Callable[[], None] = lambda: None
        self._end_event = threading.Event()
        self._lock = threading.Lock()

    def start_step(self, text: str) -> None:
        """Send that a step starts; raises KeyboardInterrupt if the run was cancelled."""
        self._check_cancelled()
        with self._lock:
            self._done_steps_count += 1
            self._step_text = text
        self._send_progress(0, 0)

    def send_waiting(self) -> None:
        """Send that this run waits for another run that writes the same tables."""
        self._step_text = "waiting for another analysis that writes the same tables"
        self._send_progress(0, 0)

    def start_task_counts(self, spark: SparkSession, check_cancelled: Callable[[], None]) -> None:
        """Start a thread that sends Spark's task counts; a Connect server has none.

        `check_cancelled` is called before each step, and raises KeyboardInterrupt if the run was
        cancelled.
        """
        self._check_cancelled = check_cancelled
        context = getattr(spark, "_jsc", None) and spark.sparkContext
        if context:
            tracker = context.statusTracker()
            threading.Thread(target=self._send_task_counts, args=(tracker,), daemon=True).start()

    def stop(self) -> None:
        """Stop the thread that sends task counts."""
        self._end_event.set()

    def _send_task_counts(self, tracker: Any) -> None:
        # Imported only here: it is there only with Spark.
        from py4j.protocol import Py4JError

        # When the JVM ends, the main thread reports it.
        with suppress(Py4JError, OSError):
            self._send_task_counts_until_end(tracker)

    def _send_task_counts_until_end(self, tracker: Any) -> None:
        last_task_counts = (0, 0)
        while not self._end_event.wait(PROGRESS_INTERVAL_S):
            stages = [tracker.getStageInfo(number) for number in tracker.getActiveStageIds()]
            active_stages = [stage for stage in stages if stage is not None]
            counts = (
                sum(stage.numCompletedTasks for stage in active_stages),
                sum(stage.numTasks for stage in active_stages),
            )
            if counts != last_task_counts and not self._end_event.is_set():
                self._send_progress(*counts)
            last_task_counts = counts

    def _send_progress(self, tasks_done_count: int, tasks_count: int) -> None:
        self._send(
            {
                "kind": "progress",
                "text": self._step_text,
                # A run that starts again has more steps than planned.
                "done_count": min(max(self._done_steps_count, 0), self._steps_count),
                "steps_count": self._steps_count,
                "tasks_done_count": tasks_done_count,
                "tasks_count": tasks_count,
            }
        )
