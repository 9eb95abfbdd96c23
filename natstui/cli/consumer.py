"""`natstui consumer …`: make, change, read, pause and remove consumers without the viewer."""

from __future__ import annotations

import click

from natstui.cli.consumer_actions import pause, reset, resume, rm
from natstui.cli.consumer_config import add, edit, info, ls


@click.group()
def consumer() -> None:
    """Make, change, look into, pause and remove consumers."""


for _command in (add, edit, info, ls, pause, resume, reset, rm):
    consumer.add_command(_command)
