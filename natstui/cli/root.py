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
    "analyze": "natstui.cli.analyze:analyze",
    "bench": "natstui.cli.bench:bench",
    "check": "natstui.cli.check:check",
    "config": "natstui.cli.config:config",
    "engine": "natstui.cli.engine:engine",
    "demo": "natstui.cli.demo:demo",
    "watch": "natstui.cli.watch:watch",
    "export": "natstui.cli.export:export",
    "record": "natstui.cli.record:record",
    "replay": "natstui.cli.replay:replay",
    "replay-engine": "natstui.cli.replay:replay_engine",
    "sessions": "natstui.cli.sessions:sessions",
    "stream": "natstui.cli.stream:stream",
    "consumer": "natstui.cli.consumer:consumer",
    "journal": "natstui.cli.journal:journal",
    "undo": "natstui.cli.journal:undo",
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
        from natstui.tui.terminal import reset_terminal

        reset_terminal()
        ctx.exit()


@click.group(cls=LazyGroup, invoke_without_command=True)
@click.version_option(__version__, prog_name="natstui")
@click.option(
    "--engine", metavar="COMMAND", help="Start the engine so, as by ssh on another host."
)
@click.option(
    "--reset-terminal",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_reset_terminal,
    help="Set a terminal right that a killed viewer left behind, and exit.",
)
@viewer_flags
@click.pass_context
def root(ctx: click.Context, engine: str | None, arguments: list[str]) -> None:
    """Watch, manage, benchmark, record and analyse NATS JetStream.

    Without a command: open the screen.
    """
    if ctx.invoked_subcommand:
        if engine or arguments:
            # Dropped, they would send a command to another server than the one that was typed.
            name = ctx.invoked_subcommand
            raise UsageError(f"flags belong behind the command: natstui {name} --server ...")
        return
    from natstui.cli.open_viewer import ENGINE, open_viewer

    open_viewer((*(_words(engine) if engine else ENGINE), *arguments))


def _words(engine: str) -> list[str]:
    """Return the words of a command line; raise UsageError for one that is none."""
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
        # What a server, a file or a recording says may be part of it.
        click.echo(f"natstui: {clean_text(str(error))}", err=True)
        sys.exit(error.exit_code)
