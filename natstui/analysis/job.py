"""The pipeline as a program: for spark-submit, and for the child process of natstui.

    spark-submit --py-files natstui.zip natstui/analysis/job.py SESSION… --out DIR

With `--pipe` it writes lines of JSON to stdout, `progress` … then one `result` or `failed`, and
ends when its stdin ends. What Spark prints goes to the log. While sessions, options and code are
those of the last run into the same folder, its result is sent again and Spark is not started.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

from natstui.analysis import defaults
from natstui.analysis.folders import check_disk_space, prepare_tables_folder, resolve_sessions
from natstui.analysis.launch import REMOTE_FROM_ENVIRONMENT, REMOTE_VARIABLE
from natstui.analysis.progress import LineSender, TextPrinter, open_pipe, redirect_output
from natstui.analysis.result_cache import read_cached_result, run_fingerprint
from natstui.errors import AnalysisError, NatstuiError
from natstui.files import choose_write_error_type
from natstui.model.findings.thresholds import STUCK_AFTER_SAME_ACK_FLOOR_S

CANCELLED_EXIT_CODE = 130
_SPARK_OPTIONS = {
    "--conf": "setting of Spark, KEY=VALUE; may be repeated",
    "--packages": "Maven coordinates that Spark fetches",
    "--jars": "jars that Spark loads",
}


def main(arguments: list[str] | None = None) -> int:
    """Run the analysis that the command line describes; returns the exit code."""
    options = create_parser().parse_args(arguments)
    if options.remote == REMOTE_FROM_ENVIRONMENT:
        # Removed from the environment: it may have a token, and no child process needs it.
        options.remote = os.environ.pop(REMOTE_VARIABLE, None)
    send = open_pipe() if options.pipe else TextPrinter()
    try:
        with _scratch_folder(options.scratch) as scratch_folder:
            log = Path(options.log or f"{scratch_folder}/spark.log")
            if options.pipe:
                redirect_output(log)
            result = _load_or_compute_result(options, Path(scratch_folder), log, send)
        # The receiver of the result closes stdin, which would interrupt the removal of the folder.
        send({"kind": "result", **result})
    except NatstuiError as error:
        send({"kind": "failed", "text": str(error), "exit_code": error.exit_code})
        return error.exit_code
    except KeyboardInterrupt:
        send({"kind": "failed", "text": "cancelled", "exit_code": CANCELLED_EXIT_CODE})
        return CANCELLED_EXIT_CODE
    return 0


def _scratch_folder(parent: str | None) -> tempfile.TemporaryDirectory[str]:
    """Create a folder for temporary data of this run; raises AnalysisError or WriteFailed."""
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
        kind = choose_write_error_type(error, AnalysisError)
        raise kind(f"cannot write to the scratch folder {path}: {error.strerror}") from error


def _load_or_compute_result(
    options: argparse.Namespace, scratch: Path, log: Path, send: LineSender
) -> dict[str, Any]:
    sessions = resolve_sessions(options.sessions)
    options.out = prepare_tables_folder(options.out)
    fingerprint = None if options.remote else run_fingerprint(options, sessions)
    if (
        fingerprint is not None
        and (result := read_cached_result(options.out, fingerprint)) is not None
    ):
        return result
    check_disk_space(options.out)
    # Imported only here: the import of Spark lasts a second.
    from natstui.analysis.pipeline import run_pipeline

    return run_pipeline(options, sessions, fingerprint, scratch, log, send)


def create_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    argument_parser = argparse.ArgumentParser(prog="natstui-analysis", description=__doc__)
    add_argument = argument_parser.add_argument
    add_argument("sessions", nargs="+", metavar="SESSION", help="folder, glob or URL of a session")
    add_argument("--out", required=True, help="folder or URL of the tables")
    add_argument("--master", help=f"Spark master; {defaults.MASTER} unless submitted")
    add_argument("--remote", help="Spark Connect server, sc://host:port")
    add_argument("--memory", default=defaults.MEMORY, help="heap of driver and executors")
    add_argument("--scratch", default=None, help="folder for temporary data of Spark")
    add_argument("--ui", action="store_true", help="open Spark's own web page")
    add_argument("--bucket", type=int, default=defaults.BUCKET_S, help="seconds per bucket")
    add_argument(
        "--stuck-after",
        type=float,
        default=STUCK_AFTER_SAME_ACK_FLOOR_S,
        help="seconds without progress until a consumer counts as stuck",
    )
    add_argument(
        "--baseline", action="append", default=[], help="session to compare the others with"
    )
    for name, help_text in _SPARK_OPTIONS.items():
        add_argument(name, action="append", default=[], help=help_text)
    add_argument(
        "--rows",
        type=int,
        default=defaults.MAX_TABLE_ROWS_COUNT,
        help="rows of each table in the result",
    )
    add_argument("--pipe", action="store_true", help="write the result as lines of JSON")
    add_argument("--log", help="file for the output of Spark")
    return argument_parser


if __name__ == "__main__":
    sys.exit(main())
