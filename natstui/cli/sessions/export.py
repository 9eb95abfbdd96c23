"""`natstui export`: a recording as flat tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from natstui.clean import clean_line
from natstui.cli.complete import session_name
from natstui.cli.sessions.options import library_options, progress
from natstui.errors import DamagedSession

if TYPE_CHECKING:
    from natstui.session.share.export import Format


@click.command()
@session_name
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

    Prints the rows of each table. In CSV, unknown is empty and an empty text is two quotes; text
    is escaped as in JSON (\\n, \\u001b, \\\\); a ' stands before text that begins with = + - @ '.
    """
    from natstui.session.library import find
    from natstui.session.share.export import export as exported

    folder, damage = find(sessions, session), list[str]()
    counts = exported(folder, target, kind, progress("exporting"), damage.append)
    for name, rows_count in counts.items():
        click.echo(f"{name}\t{rows_count}")
    for text in damage:
        click.echo(clean_line(f"damaged: {text}"), err=True)
    if damage:
        raise DamagedSession(folder, "only what can be read of it was exported")
