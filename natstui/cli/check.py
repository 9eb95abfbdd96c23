"""`natstui check`: tests a connection step by step, or the requirements of an analysis."""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
import json
import os
from typing import TYPE_CHECKING

import click

from natstui.cli.options import connection_options
from natstui.cli.sections import command
from natstui.errors import MissingExtra, NatstuiError
from natstui.units import bytes_text

if TYPE_CHECKING:
    from natstui.config import Connection
    from natstui.config.settings import Settings


@command()
@connection_options
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object per step.")
@click.option(
    "--analysis", is_flag=True, help="Check Java, Spark and memory for analyses instead."
)
@click.pass_context
def check(
    ctx: click.Context,
    *,
    settings: Settings,
    connection: Connection,
    as_json: bool,
    analysis: bool,
) -> None:
    """Try the connection step by step.

    Prints the result of each step: address, TCP, greeting, TLS, authentication, server version,
    account, JetStream, permissions. Tries every address; the exit code is that of the last step
    that failed.
    """
    if analysis:
        ctx.exit(_check_analysis(as_json=as_json))
    ctx.exit(asyncio.run(_check_connection(connection, as_json=as_json)))


async def _check_connection(connection: Connection, *, as_json: bool) -> int:
    """Try to connect, and print every step; return the exit code of the last one that failed."""
    # Imported here for the sake of `--help`.
    from natstui.jetstream.connection.check import check_connection

    exit_code = 0
    async for step in check_connection(connection):
        exit_code = step.error.exit_code if step.error else exit_code
        _print_step(
            step.host_port, step.name, step.text, is_ok=step.error is None, as_json=as_json
        )
    return exit_code


def _check_analysis(*, as_json: bool) -> int:
    """Print the requirements of an analysis; return the exit code of the last one that failed."""
    exit_code = 0
    for name, describe_requirement in (
        ("Java", _describe_java),
        ("Spark", _describe_spark),
        ("memory", _describe_memory),
    ):
        error: NatstuiError | None = None
        try:
            text = describe_requirement()
        except NatstuiError as raised_error:
            error, text, exit_code = raised_error, str(raised_error), raised_error.exit_code
        _print_step("analysis", name, text, is_ok=error is None, as_json=as_json)
    return exit_code


def _describe_java() -> str:
    from natstui.analysis.spark.java import find_java

    java = find_java()
    return f"Java {java.version} of {java.origin}: {java.program}"


def _describe_spark() -> str:
    pyspark_spec = importlib.util.find_spec("pyspark")
    if pyspark_spec is None or pyspark_spec.origin is None:
        raise MissingExtra("analyze", "spark")
    spark_home = os.environ.get("SPARK_HOME") or os.path.dirname(pyspark_spec.origin)
    return f"pyspark {importlib.metadata.version('pyspark')}: {spark_home}"


def _describe_memory() -> str:
    from natstui.analysis.defaults import MEMORY

    machine_bytes = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return (
        f"{MEMORY} of heap (--memory changes it) and up to the same amount outside the heap; "
        f"this machine has {bytes_text(machine_bytes)}"
    )


def _print_step(location: str, name: str, text: str, *, is_ok: bool, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"place": location, "step": name, "ok": is_ok, "text": text}))
        return
    status_text = click.style("ok    ", fg="green") if is_ok else click.style("failed", fg="red")
    click.echo(f"{status_text}  {location}  {name:<14}  {text}")
