"""`natstui check`: try a connection step by step."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING

import click

from natstui.cli.options import connection_options

if TYPE_CHECKING:
    from natstui.config import Connection
    from natstui.config.settings import Settings
    from natstui.jetstream.connection.check import Step


@click.command()
@connection_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per step.")
@click.pass_context
def check(
    ctx: click.Context, *, settings: Settings, connection: Connection, as_json: bool
) -> None:
    """Try the connection step by step and print what each step found.

    Steps: address, TCP, greeting, TLS, authentication, account, JetStream, permissions. Every
    address is tried; the exit code is that of the last step that failed.
    """
    ctx.exit(asyncio.run(_check(connection, as_json=as_json)))


async def _check(connection: Connection, *, as_json: bool) -> int:
    """Print every step; return the exit code of the last one that failed."""
    # Imported here for the sake of `--help`.
    from natstui.jetstream.connection.check import check as check_steps

    code = 0
    async for step in check_steps(connection):
        code = step.error.exit_code if step.error else code
        click.echo(_json_line(step) if as_json else _line(step))
    return code


def _line(step: Step) -> str:
    mark = click.style("failed", fg="red") if step.error else click.style("ok    ", fg="green")
    return f"{mark}  {step.place}  {step.name:<14}  {step.text}"


def _json_line(step: Step) -> str:
    return json.dumps(
        {"place": step.place, "step": step.name, "ok": step.error is None, "text": step.text}
    )
