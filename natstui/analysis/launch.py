"""Runs an analysis in a child process and passes on its lines. Imports no Spark.

The child is `python -m natstui.analysis.job … --pipe`. It writes lines of JSON to stdout:
`{"kind": "progress", "text", "done_count", "steps_count", "tasks_done_count", "tasks_count"}`,
then one `{"kind": "result", "out", "sessions", "tables", …}` or `{"kind": "failed", "text",
"exit_code"}`. It is cancelled by closing its stdin or by SIGINT, and leaves no incomplete files.
"""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
from collections.abc import Callable
from typing import Any

from msgspec import Struct

from natstui.analysis.conf import check_conf_has_effect, read_conf
from natstui.analysis.defaults import BUCKET_S, MAX_TABLE_ROWS_COUNT, MEMORY
from natstui.children import module_command
from natstui.errors import AnalysisError, MissingExtra
from natstui.model.findings.thresholds import STUCK_AFTER_SAME_ACK_FLOOR_S

STARTING_SPARK = "starting Spark"
"""Text of the step in which Spark starts; a cached result has no such step."""
CANCEL_WAIT_S = 15.0
_CONNECT_MODULES = ("grpc", "grpc_status", "pandas", "pyarrow", "zstandard")
"""Modules that a Spark Connect client imports in addition to pyspark."""
REMOTE_VARIABLE, REMOTE_FROM_ENVIRONMENT = "NATSTUI_SPARK_REMOTE", "-"
"""Variable with the address of a Spark Connect server, which may have a token, and the value of
`--remote` that refers to it: all users can read command lines."""


class AnalysisRequest(Struct, frozen=True):
    """The sessions of an analysis with its options."""

    sessions: tuple[str, ...]
    """Folders, globs or URLs."""
    out: str
    master: str | None = None
    remote: str | None = None
    memory: str = MEMORY
    scratch: str | None = None
    ui: bool = False
    bucket_s: int = BUCKET_S
    stuck_after_s: float = STUCK_AFTER_SAME_ACK_FLOOR_S
    baseline: tuple[str, ...] = ()
    conf: tuple[str, ...] = ()
    """Settings of Spark, each KEY=VALUE."""
    packages: tuple[str, ...] = ()
    """Maven coordinates."""
    jars: tuple[str, ...] = ()
    rows_count: int = MAX_TABLE_ROWS_COUNT
    log: str | None = None


class AnalysisFailure(AnalysisError):
    """The error that the child reported, with its exit code."""

    def __init__(self, text: str, exit_code: int) -> None:
        super().__init__(text)
        self.exit_code = exit_code


def child_command(request: AnalysisRequest) -> list[str]:
    """Return the command line of the child process.

    Raises MissingExtra without pyspark, AnalysisError for settings that Spark does not accept.
    """
    check_conf_has_effect(
        read_conf(request.conf, request.packages, request.jars),
        is_remote=bool(request.remote),
        is_submitted=False,
    )
    if importlib.util.find_spec("pyspark") is None:
        raise MissingExtra("analyze", "spark")
    if request.remote and not all(map(importlib.util.find_spec, _CONNECT_MODULES)):
        raise MissingExtra("analyze --remote", "connect")
    arguments = module_command("natstui.analysis.job", *request.sessions, "--pipe")
    options: dict[str, Any] = {
        "--out": request.out,
        "--master": request.master,
        "--remote": REMOTE_FROM_ENVIRONMENT if request.remote else None,
        "--memory": request.memory,
        "--scratch": request.scratch,
        "--bucket": request.bucket_s,
        "--stuck-after": request.stuck_after_s,
        "--rows": request.rows_count,
        "--log": request.log,
    }
    for name, value in options.items():
        if value is not None:
            arguments.append(f"{name}={value}")
    for name in ("baseline", "conf", "packages", "jars"):
        arguments += [f"--{name}={value}" for value in getattr(request, name)]
    return [*arguments, "--ui"] if request.ui else arguments


def decode_job_line(line: bytes) -> dict[str, Any]:
    """Return the decoded JSON of a line of the child; raises AnalysisError for an invalid line."""
    try:
        value = json.loads(line)
        if value["kind"] in ("progress", "result", "failed"):
            fields: dict[str, Any] = value
            return fields
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise AnalysisError(f"the analysis wrote an unexpected line: {line[:80]!r}") from error
    raise AnalysisError(f"the analysis wrote an unexpected line: {line[:80]!r}")


def run_job(
    request: AnalysisRequest, on_progress: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    """Run the child to its end and return the result; `on_progress` gets each progress line.

    Raises AnalysisFailure for the error that the child reports, AnalysisError if it ends without a
    result, and the errors of `child_command`. KeyboardInterrupt cancels the child, and is raised
    again.
    """
    child = subprocess.Popen(
        child_command(request),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, REMOTE_VARIABLE: request.remote} if request.remote else None,
        # Only this process gets Ctrl-C: otherwise the JVM would end before its clean-up.
        start_new_session=True,
    )
    try:
        return _read_result(child, on_progress)
    finally:
        _end_child(child)


def _read_result(
    child: subprocess.Popen[bytes], on_progress: Callable[[dict[str, Any]], None]
) -> dict[str, Any]:
    assert child.stdout is not None
    for line in child.stdout:
        job_line = decode_job_line(line)
        if job_line["kind"] == "result":
            return job_line
        if job_line["kind"] == "failed":
            raise AnalysisFailure(str(job_line["text"]), int(job_line["exit_code"]))
        on_progress(job_line)
    raise AnalysisError("the analysis ended without a result: its process was killed")


def _end_child(child: subprocess.Popen[bytes]) -> None:
    """End the child by closing its stdin, and wait; kill it if it does not end."""
    assert child.stdin is not None and child.stdout is not None
    child.stdin.close()
    try:
        child.wait(CANCEL_WAIT_S)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    child.stdout.close()
