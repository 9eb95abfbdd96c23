"""`natstui watch`: what the viewer shows, as text or JSON, for scripts and plain terminals."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from natstui.cli.options import connection_options, interval_seconds
from natstui.errors import UsageError

if TYPE_CHECKING:
    from natstui.cli.watch.json_lines import Row
    from natstui.config import Connection
    from natstui.config.settings import Settings


_INTERRUPTED = 130


def _print_schema(context: click.Context, _option: click.Parameter, wanted: bool) -> None:
    if wanted:
        from natstui.cli.watch.json_lines import schema_text

        click.echo(schema_text())
        context.exit()


@click.command()
@click.option("--once", is_flag=True, help="Print one complete set, then exit.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@click.option("--interval", metavar="TIME", help="Time between two polls: 500ms, 2s.")
@click.option(
    "--schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_schema,
    help="Print the JSON Schema of --json, then exit.",
)
@click.option(
    "--metrics", metavar="HOST:PORT", help="Serve what `natstui metrics` serves beside, here."
)
@connection_options
def watch(
    settings: Settings,
    connection: Connection,
    once: bool,
    as_json: bool,
    interval: str | None,
    metrics: str | None,
) -> None:
    """Print streams, consumers, account and server as they change.

    With --json, each poll prints an object per stream and consumer that it saw. With --once, the
    exit code tells whether everything could be read.
    """
    import asyncio

    from natstui.cli.metrics.serving import metrics_at
    from natstui.cli.watch.run import Collector, watch_on, watch_once

    if once and metrics is not None:
        raise UsageError("--metrics serves for as long as one watches: leave --once out")
    monitor = settings.monitor
    interval_s = interval_seconds(interval) if interval else monitor.interval_s
    write = _write_json if as_json else _write_text
    try:
        if once:
            asyncio.run(watch_once(connection, interval_s, write))
            return
        budget = monitor.max_requests_per_s
        collector = Collector()
        with metrics_at(metrics, "--metrics", lambda: collector.state):
            watching = watch_on(connection, interval_s, budget, write, as_json, collector)
            asyncio.run(watching)
    except KeyboardInterrupt:
        # Ctrl-C is how one leaves a monitor; with --once it leaves a set incomplete.
        sys.exit(_INTERRUPTED if once else 0)
    except BrokenPipeError:
        # The reader has closed the pipe; what Python still flushes is thrown away.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _write_json(rows: Iterable[Row]) -> None:
    from natstui.cli.watch.json_lines import json_line

    _write("".join(json_line(row) + "\n" for row in rows))


def _write_text(rows: Iterable[Row]) -> None:
    from natstui.cli.watch.text import text_lines

    lines = text_lines(rows, _width_cells())
    _write("\n".join(lines) + "\n\n" if lines else "")


def _width_cells() -> int | None:
    """Return the width of the terminal; None for a pipe or a file."""
    if sys.stdout.isatty() or "COLUMNS" in os.environ:
        return shutil.get_terminal_size().columns
    return None


def _write(text: str) -> None:
    sys.stdout.write(text.encode(sys.stdout.encoding, "replace").decode(sys.stdout.encoding))
    sys.stdout.flush()
