"""What commands about backups share: how fast, how far, and how they are stopped."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import click

from natstui.clean import clean_line
from natstui.cli.manage.writing import run_with_writer
from natstui.config import Connection
from natstui.engine.stopping import cancelled_by_signal
from natstui.errors import UsageError
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.managing.snapshot import Pace
from natstui.paths import user_path
from natstui.units import bytes_text, parse_bytes

T = TypeVar("T")

rate_option = click.option(
    "--rate", metavar="SIZE", help="At most so much in a second: 500KB, 10MB."
)
consumers_option = click.option(
    "--consumers/--no-consumers", default=True, help="Include consumers (default: yes)."
)
_LEAST_RATE = 1024


def pace_of(rate: str | None) -> Pace:
    """Return how fast it may go; raises UsageError."""
    if rate is None:
        return Pace()
    try:
        per_s = parse_bytes(rate.removesuffix("/s"))
    except ValueError as error:
        raise UsageError(f"--rate: {error}") from error
    if per_s < _LEAST_RATE:
        raise UsageError("--rate: at least 1KB, or the server gives up")
    return Pace(per_s)


def folder_of(text: str) -> Path:
    """Return the folder that was typed; raises UsageError."""
    return user_path(text)


class Progress:
    """How far it is, on one line of a terminal; nothing where stderr is none."""

    def __init__(self) -> None:
        self._shown = sys.stderr.isatty()
        self._last = ""

    def tell(self, stream: str, done_bytes: int, whole_bytes: int | None = None) -> None:
        """Show how much of a stream has gone over."""
        if not self._shown:
            return
        of = f" of {bytes_text(whole_bytes)}" if whole_bytes else ""
        text = clean_line(f"{stream}: {bytes_text(done_bytes)}{of}")
        if text != self._last:
            click.echo(f"\r\x1b[K{text}", err=True, nl=False)
            self._last = text

    def end(self) -> None:
        """Clear the line."""
        if self._last:
            click.echo("\r\x1b[K", err=True, nl=False)


def stoppable(
    connection: Connection, read_only: bool, what: str, work: Callable[[Writer], Awaitable[T]]
) -> T:
    """Connect and do the work; Ctrl-C and SIGTERM let it clean up behind itself."""

    async def run(writer: Writer) -> T:
        with cancelled_by_signal(what):
            return await work(writer)

    return run_with_writer(connection, read_only, run, prints=True)
