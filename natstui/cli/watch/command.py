"""`natstui watch`: the state as text or JSON, for scripts and plain terminals."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, NoReturn

import click

from natstui.cli.options import ConnectionFlags, parse_interval_seconds, several_accounts_flags
from natstui.cli.sections import command
from natstui.errors import Interrupted, UsageError
from natstui.values import replace

if TYPE_CHECKING:
    from collections.abc import Coroutine

    from natstui.cli.watch.lines import Row
    from natstui.config import Connection
    from natstui.config.settings import Settings


def _print_schema(context: click.Context, _option: click.Parameter, is_requested: bool) -> None:
    if is_requested:
        from natstui.cli.watch.lines import schema_text

        click.echo(schema_text())
        context.exit()


@command()
@click.option("--once", is_flag=True, help="Print everything once, then exit.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object per line.")
@click.option("--interval", metavar="TIME", help="Interval of polls: 500ms, 2s.")
@click.option(
    "--schema",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_schema,
    help="Print the JSON Schema of --json, then exit.",
)
@click.option(
    "--metrics",
    metavar="HOST:PORT",
    help="Also serve metrics at this address, as `natstui metrics`.",
)
@click.option(
    "--until-stdin-ends",
    is_flag=True,
    hidden=True,
    help="End when stdin is closed, as a child of another program.",
)
@several_accounts_flags
def watch(
    flags: ConnectionFlags,
    until_stdin_ends: bool,
    once: bool,
    as_json: bool,
    interval: str | None,
    metrics: str | None,
) -> None:
    """Print streams and consumers as they change.

    Prints account and server, too. With --json, each poll prints one object per stream and
    consumer. With --once, the exit code shows whether everything could be read. With --json,
    --context A,B,C watches several systems (or --profile A,B,C), and --account A,B,C other
    accounts of one system, each in its own process; every line names its system, and a hanging
    system does not disturb the others.
    """
    if until_stdin_ends:
        threading.Thread(target=_terminate_at_stdin_end, name="stdin", daemon=True).start()
    if once and metrics is not None:
        raise UsageError("--metrics serves for as long as one watches: leave --once out")
    if flags.names_several_systems:
        _watch_several_systems(
            flags, once=once, as_json=as_json, interval=interval, metrics=metrics
        )
    settings, connection = flags.resolve()
    write = _write_json_lines if as_json else _write_text_lines
    _run_and_exit(
        lambda: _watch_single_system(settings, connection, write, interval, metrics, once=once),
        once=once,
    )


def _terminate_at_stdin_end() -> None:
    """End this process like SIGTERM when its stdin is closed."""
    while os.read(0, 65536):
        pass
    os.kill(os.getpid(), signal.SIGTERM)


def _watch_single_system(
    settings: Settings,
    connection: Connection,
    write: Callable[[Iterable[Row]], None],
    interval: str | None,
    metrics: str | None,
    *,
    once: bool,
) -> None:
    import asyncio

    from natstui.cli.metrics.serving import serve_metrics
    from natstui.cli.watch.run import WatchCollector, watch_once, watch_until_cancelled

    monitor = settings.monitor
    interval_s = parse_interval_seconds(interval) if interval else monitor.interval_s
    if once:
        asyncio.run(watch_once(connection, interval_s, write))
        return
    max_requests_per_s, only_changed_rows = monitor.max_requests_per_s, write is _write_json_lines
    collector = WatchCollector()
    with serve_metrics(metrics, "--metrics", lambda: collector.state):
        watch_work = watch_until_cancelled(
            connection, interval_s, max_requests_per_s, write, only_changed_rows, collector
        )
        asyncio.run(_run_until_signal(watch_work))


async def _run_until_signal(watch_work: Coroutine[None, None, None]) -> None:
    """Watch until a signal to end; a line that is being written is completed."""
    from natstui.engine.stopping import cancel_on_signal

    with cancel_on_signal("watching"):
        await watch_work


def _watch_several_systems(
    flags: ConnectionFlags, *, once: bool, as_json: bool, interval: str | None, metrics: str | None
) -> NoReturn:
    """Watch several systems until a signal, or once, and exit."""
    import asyncio

    from natstui.cli.watch.run import WatchedSystem, watch_several_systems

    systems = [WatchedSystem(name, flags.system_flag) for name in flags.flags_by_system()]
    if metrics is not None:
        raise UsageError("--metrics serves one system: leave it out to watch several")
    if not as_json:
        raise UsageError("with several systems, add --json")
    arguments = [*(["--once"] if once else []), *(["--interval", interval] if interval else [])]
    if interval is not None:
        parse_interval_seconds(interval)
    arguments += _shared_arguments(flags)
    exit_code = 0

    def work() -> None:
        nonlocal exit_code
        exit_code = asyncio.run(
            watch_several_systems(systems, arguments, _write, _print_stderr, is_once=once)
        )

    _run_and_exit(work, once=once)
    sys.exit(exit_code)


def _shared_arguments(flags: ConnectionFlags) -> list[str]:
    """Return the flags for the process of each system; passes an address in the environment, where
    no other user can read it.
    """
    if flags.system_flag != "account":
        return replace(flags, context=None, profile=None).arguments()
    if flags.server is not None:
        os.environ["NATSTUI_CONNECTION_SERVER"] = flags.server
    return replace(flags, server=None, account=None).arguments()


def _run_and_exit(work: Callable[[], None], *, once: bool) -> None:
    """Run the work until a signal or a closed pipe, and exit cleanly."""
    try:
        work()
    except (KeyboardInterrupt, Interrupted):
        # Ctrl-C is how one leaves a monitor; with --once it leaves a set incomplete.
        if once:
            raise
        sys.exit(0)
    except BrokenPipeError:
        # The reader has closed the pipe; what Python still flushes is thrown away.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _print_stderr(sentence: str) -> None:
    click.echo(f"natstui: {sentence}", err=True)


def _write_json_lines(rows: Iterable[Row]) -> None:
    from natstui.cli.watch.lines import json_line

    _write("".join(json_line(row) + "\n" for row in rows))


def _write_text_lines(rows: Iterable[Row]) -> None:
    from natstui.cli.text_table import stdout_width
    from natstui.cli.watch.lines import text_lines

    lines = text_lines(rows, stdout_width())
    _write("\n".join(lines) + "\n\n" if lines else "")


def _write(text: str) -> None:
    # Only a terminal gets colours.
    encoding = sys.stdout.encoding
    click.echo(text.encode(encoding, "replace").decode(encoding), nl=False)
