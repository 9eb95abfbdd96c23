"""The whole pipeline as a program: for spark-submit, and for the process natstui starts.

    spark-submit --py-files natstui.zip natstui/analysis/job.py SESSION… --out DIR

With `--pipe` it writes lines of JSON to stdout, `progress` … then one `result` or `failed`, and
ends when its stdin ends. What Spark prints goes to the log. While sessions, options and code are
those of the last run into the same folder, its result is told again and Spark is not started.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from natstui.analysis import defaults
from natstui.analysis.folders import check_room, check_sessions, prepare_out
from natstui.analysis.known import kept_result, state_of
from natstui.analysis.launch import FROM_ENVIRONMENT, REMOTE_VARIABLE
from natstui.analysis.progress import Send, TextSend, open_pipe, print_into
from natstui.errors import AnalysisError, NatstuiError
from natstui.files import failure_kind
from natstui.model.findings.thresholds import STUCK_AFTER_S

CANCELLED = 130
_FOR_SPARK = {
    "--conf": "setting of Spark, KEY=VALUE; may be repeated",
    "--packages": "Maven coordinates that Spark fetches",
    "--jars": "jars that Spark loads",
}


def main(arguments: list[str] | None = None) -> int:
    """Run the analysis of the command line; returns the exit code."""
    options = parser().parse_args(arguments)
    if options.remote == FROM_ENVIRONMENT:
        # Taken out: nothing that this process starts needs it.
        options.remote = os.environ.pop(REMOTE_VARIABLE, None)
    send = open_pipe() if options.pipe else TextSend()
    try:
        with _scratch_folder(options.scratch) as scratch:
            log = Path(options.log or f"{scratch}/spark.log")
            if options.pipe:
                print_into(log)
            result = _result(options, Path(scratch), log, send)
        # Who gets it closes stdin, which would interrupt the removal of the folder.
        send({"kind": "result", **result})
    except NatstuiError as error:
        send({"kind": "failed", "text": str(error), "exit_code": error.exit_code})
        return error.exit_code
    except KeyboardInterrupt:
        send({"kind": "failed", "text": "cancelled", "exit_code": CANCELLED})
        return CANCELLED
    return 0


def _scratch_folder(parent: str | None) -> tempfile.TemporaryDirectory[str]:
    """Create a folder for temporary data of this run; raises AnalysisError."""
    if "," in (parent or tempfile.gettempdir()):
        # The rest of the path would be a folder in the current one.
        raise AnalysisError(
            f"the scratch folder {parent or tempfile.gettempdir()} has a comma in its path, at "
            "which Spark takes it for two folders: use --scratch with another folder"
        )
    try:
        return tempfile.TemporaryDirectory(prefix="natstui-analysis-", dir=parent)
    except OSError as error:
        path = parent or tempfile.gettempdir()
        kind = failure_kind(error, AnalysisError)
        raise kind(f"cannot write to the scratch folder {path}: {error.strerror}") from error


def _result(options: argparse.Namespace, scratch: Path, log: Path, send: Send) -> dict[str, Any]:
    sessions = check_sessions(options.sessions)
    options.out = prepare_out(options.out)
    state = None if options.remote else state_of(options, sessions)
    if state is not None and (result := kept_result(options.out, state)) is not None:
        return result
    check_room(options.out)
    # Spark takes seconds to import and to start: only where there is something new.
    from natstui.analysis.pipeline import run

    return run(options, sessions, state, scratch, log, send)


def parser() -> argparse.ArgumentParser:
    """Return the parser of the program's options."""
    argument_parser = argparse.ArgumentParser(prog="natstui-analysis", description=__doc__)
    add = argument_parser.add_argument
    add("sessions", nargs="+", metavar="SESSION", help="folder, glob or URL of a session")
    add("--out", required=True, help="folder or URL of the tables")
    add("--master", help=f"Spark master; {defaults.MASTER} unless submitted")
    add("--remote", help="Spark Connect server, sc://host:port")
    add("--memory", default=defaults.MEMORY, help="heap of driver and executors")
    add("--scratch", default=None, help="folder for temporary data of Spark")
    add("--ui", action="store_true", help="open Spark's own web page")
    add("--bucket", type=int, default=defaults.BUCKET_S, help="seconds per bucket")
    add(
        "--stuck-after",
        type=float,
        default=STUCK_AFTER_S,
        help="seconds without progress until a consumer counts as stuck",
    )
    add("--baseline", action="append", default=[], help="session to compare the others with")
    for name, help_text in _FOR_SPARK.items():
        add(name, action="append", default=[], help=help_text)
    add("--rows", type=int, default=defaults.ROWS_COUNT, help="rows of each table in the result")
    add("--pipe", action="store_true", help="write the result as lines of JSON")
    add("--log", help="file for the output of Spark")
    return argument_parser


if __name__ == "__main__":
    sys.exit(main())
