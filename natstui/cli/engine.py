"""`natstui engine`: the process behind the viewer; records on stdout, commands on stdin."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from natstui.cli.options import engine_options
from natstui.cli.sections import command

if TYPE_CHECKING:
    from natstui.config import Connection
    from natstui.config.settings import Settings


@command()
@click.option(
    "--resume-recording",
    type=click.Path(path_type=Path),
    hidden=True,
    help="Continue the recording of an engine that was killed.",
)
@engine_options
def engine(settings: Settings, connection: Connection, resume_recording: Path | None) -> None:
    """Run the engine: read a server for a screen.

    Records are written to stdout, commands are read from stdin, until stdin ends.
    """
    from natstui.engine.process import run_engine

    run_engine(settings, connection, resume_recording)
