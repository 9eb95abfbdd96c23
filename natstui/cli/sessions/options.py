"""Shared parts of recording commands: flags, a progress bar, a session as JSON."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
from msgspec import to_builtins

from natstui.cli.json_line import print_json
from natstui.paths import expand_user_path


def library_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add `--sessions` and `--config` to a command.

    The command gets `sessions: Path`, the folder of all sessions.
    """

    @click.option(
        "--sessions",
        metavar="DIR",
        help="Folder of the recordings, instead of the one in the settings.",
    )
    @click.option("--config", "--settings", "config", metavar="FILE", help="Configuration file.")
    @functools.wraps(command)
    def run_with_library(*, sessions: str | None, config: str | None, **options: Any) -> Any:
        return command(sessions=library_folder(sessions, config), **options)

    return run_with_library


def library_folder(typed_folder: str | None, config: str | None) -> Path:
    """Return the folder of all sessions: the typed one, or that of the settings.

    `config` is the typed configuration file. Raises UsageError for invalid settings.
    """
    if typed_folder is not None:
        return expand_user_path(typed_folder)
    # Imported here, so that a command that names its folder does not pay for pydantic.
    from natstui.config.load import load
    from natstui.session.library import sessions_folder

    return sessions_folder(load(Path(config) if config else None).settings.session)


def progress_bar_callback(action: str) -> Callable[[int, int], None]:
    """Return a callback that draws a progress bar on stderr; it does nothing without a terminal.

    The callback gets the number of done steps, and that of all steps.
    """
    is_terminal = sys.stderr.isatty()

    def draw_bar(done_count: int, total_count: int) -> None:
        if not is_terminal:
            return
        done_ratio = done_count / total_count if total_count else 1.0
        filled_cells = round(30 * done_ratio)
        end = "\n" if done_count == total_count else ""
        bar = "█" * filled_cells + "░" * (30 - filled_cells)
        sys.stderr.write(f"\r{action} {bar} {done_ratio:4.0%}{end}")
        sys.stderr.flush()

    return draw_bar


def print_session(folder: Path) -> None:
    """Print the summary of a session as one line of JSON."""
    print_json(session_summary_fields(folder))


def session_summary_fields(folder: Path) -> dict[str, object]:
    """Return the summary of a session by field; that of an unreadable session has a `problem`."""
    from natstui.session.library import read_summary

    fields: dict[str, object] = to_builtins(read_summary(folder))
    return fields


def print_recording_summary(folder: Path, **first_fields: str) -> None:
    """Print the summary of an ended recording as one line of JSON, after the fields
    `first_fields`.

    `span_s` is the time from the first record to the last, as in `sessions ls`. `whole` is true if
    something was polled, and the recording was closed with nothing dropped or deleted. Only
    `sessions verify` checks whether every record can be read.
    """
    from natstui.session.library import count_records, read_summary
    from natstui.session.read.recording import Recording

    summary = read_summary(folder)
    is_readable = summary.problem is None
    is_closed_without_gaps = summary.status == "complete" and summary.gaps_count == 0
    print_json({
        **first_fields,
        **to_builtins(summary),
        "span_s": (summary.ended_at_us - summary.started_at_us) / 1e6 if is_readable else None,
        "records_count": count_records(Recording(folder)) if is_readable else None,
        "whole": is_readable and is_closed_without_gaps and summary.polls_count > 0,
    })  # fmt: skip
