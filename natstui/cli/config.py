"""`natstui config`: the effective settings, with their origins."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import click

from natstui.clean import clean_line
from natstui.cli.options import ConnectionFlags, connection_flags
from natstui.cli.sections import command

if TYPE_CHECKING:
    from collections.abc import Iterable


@command()
@connection_flags
@click.option("--path", "wants_path", is_flag=True, help="Print only the path of the file.")
@click.option("--example", is_flag=True, help="Print an example file with every setting.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per setting.")
def config(flags: ConnectionFlags, *, wants_path: bool, example: bool, as_json: bool) -> None:
    """Print the effective settings.

    Prints the origin of each setting; secrets are masked. The connection settings are those that
    other commands would use with the same flags.
    """
    # Imported here for the sake of `--help`: reading settings costs a third of a second.
    from natstui.config.example import example_text
    from natstui.config.listing import effective_settings

    if example:
        click.echo(example_text(), nl=False)
        return
    loaded_settings = flags.load()
    if wants_path:
        click.echo(str(loaded_settings.file))
        return
    rows = effective_settings(loaded_settings, flags.connection_names())
    if as_json:
        for key, value, origin in rows:
            click.echo(json.dumps({"key": key, "value": value, "origin": origin}))
    else:
        _print_settings_table(rows)


_MAX_COLUMN_CELLS = 60


def _print_settings_table(rows: Iterable[tuple[str, Any, str]]) -> None:
    """Print key, value and origin in columns."""
    from natstui.config.example import toml_value

    text_rows = [
        (key, "-" if value in (None, {}) else clean_line(toml_value(value)), clean_line(origin))
        for key, value, origin in rows
    ]
    column_widths = [
        min(max(len(row[column]) for row in text_rows), _MAX_COLUMN_CELLS) for column in (0, 1)
    ]
    for key, value, origin in text_rows:
        click.echo(f"{key:{column_widths[0]}}  {value:{column_widths[1]}}  {origin}")
