"""What commands about recordings share: flags, a progress bar, a session as JSON."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from natstui.cli.json_line import print_json
from natstui.paths import user_path


def library_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `sessions: Path`, the folder of all sessions."""

    @click.option(
        "--sessions",
        metavar="DIR",
        help="Folder of the recordings, instead of the one in the settings.",
    )
    @click.option("--config", "--settings", "config", metavar="FILE", help="Configuration file.")
    @functools.wraps(command)
    def with_library(*, sessions: str | None, config: str | None, **others: Any) -> Any:
        return command(sessions=library(sessions, config), **others)

    return with_library


def library(named: str | None, config: str | None) -> Path:
    """Return the folder of all sessions."""
    if named is not None:
        return user_path(named)
    # Imported here, so that a command that names its folder does not pay for pydantic.
    from natstui.config.load import load
    from natstui.session.library import sessions_folder

    return sessions_folder(load(Path(config) if config else None).settings.session)


def progress(what: str) -> Callable[[int, int], None]:
    """Return a callback that draws a bar on stderr; nothing when that is no terminal."""
    shown = sys.stderr.isatty()

    def draw(done_count: int, all_count: int) -> None:
        if not shown:
            return
        share = done_count / all_count if all_count else 1.0
        filled = round(30 * share)
        end = "\n" if done_count == all_count else ""
        bar = "█" * filled + "░" * (30 - filled)
        sys.stderr.write(f"\r{what} {bar} {share:4.0%}{end}")
        sys.stderr.flush()

    return draw


def print_session(folder: Path) -> None:
    """Print the summary of a session as one JSON line."""
    print_json(session_object(folder))


def session_object(folder: Path) -> dict[str, object]:
    """Return the summary of a session; one that cannot be read says why in `problem`."""
    from natstui.session.library import summary_of

    return asdict(summary_of(folder))


def print_recorded(folder: Path, **first: str) -> None:
    """Print what there is of a recording that just ended, as one JSON line, `first` before it.

    `span_s` is from the first record to the last, as in `sessions ls`. `whole`: something was
    polled, it was closed, and nothing was given up or deleted. That every record can be read again
    is what `sessions verify` tells.
    """
    from natstui.session.library import records_count, summary_of
    from natstui.session.read.recording import Recording

    told = summary_of(folder)
    known = told.problem is None
    closed = told.status == "complete" and told.gaps_count == 0
    print_json({
        **first,
        **asdict(told),
        "span_s": (told.ended_at_us - told.started_at_us) / 1e6 if known else None,
        "records_count": records_count(Recording(folder)) if known else None,
        "whole": known and closed and told.polls_count > 0,
    })  # fmt: skip
