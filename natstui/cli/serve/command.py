"""`natstui serve`: the screens in a browser of this machine."""

from __future__ import annotations

import asyncio
import os
import shlex

import click

from natstui.children import module_command
from natstui.cli.open_viewer import ADDRESS_VARIABLE
from natstui.cli.options import ConnectionFlags, several_accounts_flags
from natstui.cli.sections import command
from natstui.errors import MissingExtra
from natstui.values import replace


@command()
@click.option(
    "--port", type=click.IntRange(0, 65535), default=0, help="Port; default: a free one."
)
@click.option("--allow-changes", is_flag=True, help="Allow changes of the server and of files.")
@several_accounts_flags
def serve(flags: ConnectionFlags, port: int, allow_changes: bool) -> None:
    """Show the screens in a browser.

    Prints the address to open, with a new token each time. Runs until it is stopped.
    Only this machine can connect. Without --allow-changes, the page refuses changes of the server
    and of this machine: it writes no files, and starts no programs.
    """
    try:
        from natstui.cli.serve.pages import serve_pages
    except ModuleNotFoundError as error:
        raise MissingExtra("serve", "serve") from error

    if flags.names_several_systems:
        flags.flags_by_system()
    else:
        flags.resolve()
    if flags.server is not None:
        # Every user of this machine can list command lines, and an address may hold a password.
        os.environ[ADDRESS_VARIABLE] = flags.server
    arguments = module_command("natstui", *replace(flags, server=None).arguments())
    viewer_command = shlex.join([*arguments, *([] if allow_changes else ["--read-only"])])
    asyncio.run(serve_pages(viewer_command, port, read_only=not allow_changes))
