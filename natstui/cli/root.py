"""The command line: `natstui` opens the viewer, `natstui COMMAND` does one thing."""

from __future__ import annotations

import importlib
import shlex
import sys

import click

from natstui import __version__
from natstui.clean import clean_text
from natstui.cli.options import viewer_flags
from natstui.errors import NatstuiError, UsageError

COMMANDS: dict[str, str] = {
    # command → "module:function". Loaded when used, so that no command pays for another's imports.
    "analyze": "natstui.cli.sessions.analyze:analyze",
    "bench": "natstui.cli.bench.command:bench",
    "check": "natstui.cli.check:check",
    "config": "natstui.cli.config:config",
    "engine": "natstui.cli.engine:engine",
    "demo": "natstui.cli.demo:demo",
    "watch": "natstui.cli.watch.command:watch",
    "alert": "natstui.cli.alerts.command:alert",
    "health": "natstui.cli.health.command:health",
    "stuck": "natstui.cli.health.command:stuck",
    "metrics": "natstui.cli.metrics.command:metrics",
    "export": "natstui.cli.sessions.export:export",
    "record": "natstui.cli.sessions.record:record",
    "replay": "natstui.cli.sessions.replay:replay",
    "replay-engine": "natstui.cli.sessions.replay:replay_engine",
    "sessions": "natstui.cli.sessions.command:sessions",
    "stream": "natstui.cli.manage.stream:stream",
    "consumer": "natstui.cli.manage.consumer:consumer",
    "journal": "natstui.cli.manage.journal:journal",
    "undo": "natstui.cli.manage.journal:undo",
}


class LazyGroup(click.Group):
    """A group whose commands are imported when they are asked for."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return every command's name."""
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import one command."""
        if cmd_name not in COMMANDS:
            return None
        module, function = COMMANDS[cmd_name].split(":")
        command: click.Command = getattr(importlib.import_module(module), function)
        return command


def _reset_terminal(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        from natstui.tui.kit.terminal import reset_terminal

        reset_terminal()
        ctx.exit()


@click.group(cls=LazyGroup, invoke_without_command=True)
@click.version_option(__version__, prog_name="natstui")
@click.option(
    "--engine", metavar="COMMAND", help="Command that starts the engine, for example with ssh."
)
@click.option(
    "--reset-terminal",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_reset_terminal,
    help="Restore a terminal after a viewer was killed, and exit.",
)
@viewer_flags
@click.pass_context
def root(ctx: click.Context, engine: str | None, arguments: list[str]) -> None:
    """Watch, manage, benchmark, record and analyse NATS JetStream.

    Without a command: open the screen.
    """
    if ctx.invoked_subcommand:
        if engine or arguments:
            # If they were ignored, the command would go to another server than the one typed.
            name = ctx.invoked_subcommand
            raise UsageError(f"flags belong behind the command: natstui {name} --server ...")
        return
    from natstui.cli.open_viewer import ENGINE, open_viewer

    open_viewer((*(_words(engine) if engine else ENGINE), *arguments))


def _words(engine: str) -> list[str]:
    """Return the words of a command line; raise UsageError for one that cannot be parsed."""
    try:
        words = shlex.split(engine)
    except ValueError as error:
        raise UsageError(f"--engine {engine!r}: {str(error).lower()}") from error
    if not words:
        raise UsageError("--engine needs a command")
    return words


def run() -> None:
    """Run a command; an error becomes one sentence on stderr and its exit code."""
    try:
        root(prog_name="natstui")
    except NatstuiError as error:
        # The message may hold text from a server, a file or a recording.
        click.echo(f"natstui: {clean_text(str(error))}", err=True)
        sys.exit(error.exit_code)
