"""Flags of commands that work on recordings, and their progress bar."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

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
