"""`natstui export`: a recording as flat tables."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from natstui.clean import clean_line
from natstui.cli.complete import session_name
from natstui.cli.json_line import print_json
from natstui.cli.sections import command
from natstui.cli.sessions.options import library_options, progress
from natstui.errors import DamagedSession

if TYPE_CHECKING:
    from natstui.session.share.export import Format


@command()
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
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
def export(sessions: Path, session: str, target: Path, kind: Format, *, as_json: bool) -> None:
    """Write a recording as flat tables.

    Each is a file; `columns.csv` explains every column. Prints the rows of each table. In CSV,
    unknown is empty and an empty text is two quotes; text is escaped as in JSON (\\n, \\u001b,
    \\\\); a ' stands before text that begins with = + - @ '.
    """
    from natstui.session.library import find
    from natstui.session.share.export import export as exported

    folder, damage = find(sessions, session), list[str]()
    counts = exported(folder, target, kind, progress("exporting"), damage.append)
    if as_json:
        told = {"folder": str(folder), "target": str(target), "format": kind}
        print_json({**told, "rows_count": counts, "damage": damage})
    else:
        _print(counts, damage)
    if damage:
        raise DamagedSession(folder, "only what can be read of it was exported")


def _print(counts: dict[str, int], damage: list[str]) -> None:
    for name, rows_count in counts.items():
        click.echo(f"{name}\t{rows_count}")
    for text in damage:
        click.echo(clean_line(f"damaged: {text}"), err=True)
