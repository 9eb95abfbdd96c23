"""Start the pipeline in a process of its own, and hand on what it tells. Imports no Spark.

The child is `python -m natstui.analysis.job … --pipe`. It writes lines of JSON to stdout:
`{"kind": "progress", "text", "done_count", "steps_count", "tasks_done_count", "tasks_count"}`,
then one `{"kind": "result", "out", "sessions", "tables"}` or `{"kind": "failed", "text",
"exit_code"}`. It is cancelled by closing its stdin or by SIGINT, and leaves nothing half-written.
"""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from natstui.errors import AnalysisError, MissingExtra, NatstuiError

CANCEL_WAIT_S = 15.0
_CONNECT = ("grpc", "grpc_status", "pandas", "pyarrow", "zstandard")
"""What a Spark Connect client imports beside pyspark."""


@dataclass(frozen=True, slots=True)
class Wish:
    """What to analyse, and how."""

    sessions: tuple[str, ...]
    """Folders, globs or URLs."""
    out: str
    master: str | None = None
    remote: str | None = None
    memory: str = "1g"
    partitions_count: int = 4
    scratch: str | None = None
    ui: bool = False
    bucket_s: int = 60
    stuck_after_s: float = 30.0
    baseline: tuple[str, ...] = ()
    rows_count: int = 200
    log: str | None = None
    classes: str | None = None
    """Folder that keeps Spark's classes for the next start."""


class Failed(AnalysisError):
    """The child said in one sentence why it failed."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def command(wish: Wish) -> list[str]:
    """Return the command line of the child; raise MissingExtra without pyspark."""
    if importlib.util.find_spec("pyspark") is None:
        raise MissingExtra("analyze", "spark")
    if wish.remote and not all(map(importlib.util.find_spec, _CONNECT)):
        raise MissingExtra("analyze --remote", "connect")
    words = [sys.executable, "-m", "natstui.analysis.job", *wish.sessions, "--pipe"]
    options: dict[str, Any] = {
        "--out": wish.out,
        "--master": wish.master,
        "--remote": wish.remote,
        "--memory": wish.memory,
        "--partitions": wish.partitions_count,
        "--scratch": wish.scratch,
        "--bucket": wish.bucket_s,
        "--stuck-after": wish.stuck_after_s,
        "--rows": wish.rows_count,
        "--log": wish.log,
        "--classes": wish.classes,
    }
    for name, value in options.items():
        if value is not None:
            words.append(f"{name}={value}")
    words += [f"--baseline={name}" for name in wish.baseline]
    return [*words, "--ui"] if wish.ui else words


def read_line(line: bytes) -> dict[str, Any]:
    """Return one line of the child; raise AnalysisError for anything else."""
    try:
        value = json.loads(line)
        if value["kind"] in ("progress", "result", "failed"):
            told: dict[str, Any] = value
            return told
    except (ValueError, KeyError, TypeError) as error:
        raise AnalysisError(f"the analysis said something unexpected: {line[:80]!r}") from error
    raise AnalysisError(f"the analysis said something unexpected: {line[:80]!r}")


def run_job(wish: Wish, on_progress: Callable[[dict[str, Any]], None]) -> dict[str, Any]:
    """Run the child to its end and return the result; raises NatstuiError.

    KeyboardInterrupt cancels the child and is passed on.
    """
    child = subprocess.Popen(
        command(wish),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        # Ctrl-C shall reach us alone: a JVM that got it too would die before it cleaned up.
        start_new_session=True,
    )
    try:
        return _followed(child, on_progress)
    finally:
        _end(child)


def _followed(
    child: subprocess.Popen[bytes], on_progress: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    assert child.stdout is not None
    for line in child.stdout:
        told = read_line(line)
        if told["kind"] == "result":
            return told
        if told["kind"] == "failed":
            raise _failure(told)
        on_progress(told)
    raise AnalysisError("the analysis ended without a result: its process was killed")


def _failure(told: dict[str, Any]) -> NatstuiError:
    return Failed(str(told["text"]), int(told["exit_code"]))


def _end(child: subprocess.Popen[bytes]) -> None:
    """Close its stdin, which ends it, and wait; kill it when it does not obey."""
    assert child.stdin is not None and child.stdout is not None
    child.stdin.close()
    try:
        child.wait(CANCEL_WAIT_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    child.stdout.close()
