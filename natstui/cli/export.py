"""`natstui export`: a recording as flat tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from natstui.cli.library_options import library_options, progress

if TYPE_CHECKING:
    from natstui.session.export import Format


@click.command()
@click.argument("session")
@library_options
@click.option(
    "--to",
    "target",
    required=True,
    metavar="DIR",
    type=click.Path(path_type=Path),
    help="New folder for the tables.",
)
@click.option(
    "--format", "kind", type=click.Choice(["csv", "jsonl"]), default="csv", show_default=True
)
def export(sessions: Path, session: str, target: Path, kind: Format) -> None:
    """Write a recording as flat tables, one file each; `columns.csv` explains every column.

    Prints the rows of each table.
    """
    from natstui.session.export import export as exported
    from natstui.session.library import find
    from natstui.session.recording import Recording

    recording = Recording(find(sessions, session))
    counts = exported(recording, target, kind, progress("exporting"))
    for name, rows_count in counts.items():
        click.echo(f"{name}\t{rows_count}")
