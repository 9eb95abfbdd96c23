"""`natstui stream …`: make, change, read and remove streams without the viewer."""

from __future__ import annotations

import click

from natstui.cli.stream_read import get, info, ls
from natstui.cli.stream_write import add, edit, purge, rm


@click.group()
def stream() -> None:
    """Make, change, look into and remove streams."""


for _command in (add, edit, info, ls, purge, rm, get):
    stream.add_command(_command)
