"""The command line: `natstui` opens the viewer, `natstui COMMAND` does one thing."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import signal
import sys
from typing import Any, NamedTuple

import click

from natstui import __version__
from natstui.clean import clean_line
from natstui.cli.options import ViewerFlags, viewer_flags
from natstui.cli.sections import LazyGroup
from natstui.errors import ActionRefusal, Interrupted, NatstuiError, RequestFailed, UsageError
from natstui.output import OUTPUT_FAILED_EXIT_CODE, OutputFailed


class CommandEntry(NamedTuple):
    """A command in the list of all commands, which is imported only when it is run."""

    import_path: str
    """`module:function`, so that a command does not pay for another's imports."""
    help: str
    """The beginning of its help: at most 45 characters."""


COMMANDS_BY_TOPIC: dict[str, dict[str, CommandEntry]] = {
    "Watch": {
        "overview": CommandEntry(
            "natstui.cli.overview:overview", "Print one screen: what is wrong, what moves"
        ),
        "watch": CommandEntry(
            "natstui.cli.watch.command:watch", "Print streams and consumers as they change"
        ),
        "health": CommandEntry(
            "natstui.cli.health.command:health", "Report what is wrong, and what to do"
        ),
        "stuck": CommandEntry(
            "natstui.cli.health.stuck:stuck", "Explain what one consumer waits for"
        ),
        "connections": CommandEntry(
            "natstui.cli.clients.command:connections", "List the connections of the account"
        ),
        "servers": CommandEntry(
            "natstui.cli.servers:servers", "List servers, leaders and the meta group"
        ),
        "serve": CommandEntry("natstui.cli.serve.command:serve", "Show the screens in a browser"),
        "alert": CommandEntry(
            "natstui.cli.alerts.command:alert", "Notify of findings: webhook, command, bell"
        ),
        "metrics": CommandEntry(
            "natstui.cli.metrics.command:metrics", "Serve metrics for Prometheus"
        ),
    },
    "Change": {
        "stream": CommandEntry(
            "natstui.cli.manage.stream:stream", "Create, change, read and delete streams"
        ),
        "consumer": CommandEntry(
            "natstui.cli.manage.consumer:consumer", "Create, change, read and delete consumers"
        ),
        "balance": CommandEntry(
            "natstui.cli.servers:balance", "Spread leaders evenly over the servers"
        ),
        "meta": CommandEntry("natstui.cli.servers:meta", "Manage the meta group of the cluster"),
        "kick": CommandEntry("natstui.cli.clients.command:kick", "Close one client connection"),
        "journal": CommandEntry(
            "natstui.cli.manage.journal:journal", "List the changes made from this machine"
        ),
        "undo": CommandEntry(
            "natstui.cli.manage.journal:undo", "Undo the last change on this server"
        ),
    },
    "Stores": {
        "kv": CommandEntry("natstui.cli.stores.kv:kv", "Read and change key-value buckets"),
        "object": CommandEntry(
            "natstui.cli.stores.object:object_store", "Store and fetch files in object stores"
        ),
    },
    "Keep": {
        "backup": CommandEntry(
            "natstui.cli.backups:backup", "Back up every stream of the account into DIR"
        ),
        "restore": CommandEntry(
            "natstui.cli.backups:restore", "Restore every stream of an account's backup"
        ),
    },
    "Messages": {
        "pub": CommandEntry("natstui.cli.core.pub:pub", "Publish PAYLOAD to SUBJECT"),
        "request": CommandEntry(
            "natstui.cli.core.pub:request", "Send PAYLOAD to SUBJECT and print the reply"
        ),
        "reply": CommandEntry(
            "natstui.cli.core.reply:reply", "Reply to requests on SUBJECT with BODY"
        ),
        "sub": CommandEntry("natstui.cli.core.sub:sub", "Print what is published to SUBJECT"),
        "messages": CommandEntry(
            "natstui.cli.copies:messages", "Copy messages, or send dropped ones again"
        ),
    },
    "Measure": {
        "bench": CommandEntry(
            "natstui.cli.bench.command:bench", "Put load on NATS and measure it honestly"
        ),
    },
    "Record, replay, analyse": {
        "record": CommandEntry(
            "natstui.cli.sessions.record:record", "Record everything that can be watched"
        ),
        "replay": CommandEntry(
            "natstui.cli.sessions.replay:replay", "Replay a recording in the screens"
        ),
        "sessions": CommandEntry(
            "natstui.cli.sessions.command:sessions", "List, check, share and delete recordings"
        ),
        "export": CommandEntry(
            "natstui.cli.sessions.command:export", "Write a recording as flat tables"
        ),
        "analyze": CommandEntry(
            "natstui.cli.sessions.analyze:analyze", "Analyse recordings with Spark"
        ),
    },
    "Set up": {
        "demo": CommandEntry("natstui.cli.demo:demo", "Start a real cluster with a busy shop"),
        "check": CommandEntry("natstui.cli.check:check", "Try the connection step by step"),
        "context": CommandEntry("natstui.cli.contexts:context", "Manage contexts of the NATS CLI"),
        "config": CommandEntry("natstui.cli.config:config", "Print the effective settings"),
        "engine": CommandEntry(
            "natstui.cli.engine:engine", "Run the engine: read a server for a screen"
        ),
        "help": CommandEntry("natstui.cli.help:help_", "Explain a command, a group or a finding"),
    },
}
_HIDDEN_COMMANDS = {"replay-engine": "natstui.cli.sessions.replay:replay_engine"}
COMMANDS: dict[str, str] = {
    name: entry.import_path
    for topic in COMMANDS_BY_TOPIC.values()
    for name, entry in topic.items()
} | _HIDDEN_COMMANDS


class Root(LazyGroup):
    """The group of all commands, listed by topic without imports."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command and return its result; translate errors that every command may raise.

        Raises Interrupted for Ctrl-C, ActionRefusal for a declined prompt, and UsageError for a
        path that is too long for the file system or that the user may not read.
        """
        try:
            return super().invoke(ctx)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                raise UsageError(f"{error.filename} is too long for the name of a file") from error
            if isinstance(error, PermissionError) and error.filename is not None:
                raise UsageError(f"no permission to reach {error.filename}") from error
            raise
        except KeyboardInterrupt:
            raise Interrupted("natstui was stopped", signal.SIGINT) from None
        except click.Abort as error:
            # At a prompt: Ctrl-C, or a declined one.
            if isinstance(error.__context__, KeyboardInterrupt):
                raise Interrupted("natstui was stopped", signal.SIGINT) from None
            raise ActionRefusal("not confirmed: nothing was changed") from None

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands into the help by topic, without importing them."""
        for topic, commands in COMMANDS_BY_TOPIC.items():
            with formatter.section(topic):
                formatter.write_dl([(name, entry.help) for name, entry in commands.items()])


def _reset_terminal(ctx: click.Context, _parameter: click.Parameter, is_requested: bool) -> None:
    if is_requested:
        from natstui.tui.kit.terminal import reset_terminal

        reset_terminal()
        ctx.exit()


@click.group(cls=Root, import_paths=COMMANDS, invoke_without_command=True)
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
    help="Restore a terminal after natstui was killed, and exit.",
)
@viewer_flags
@click.pass_context
def root(ctx: click.Context, engine: str | None, viewer: ViewerFlags) -> None:
    """Watch, manage, benchmark, record and analyse NATS JetStream.

    Without a command: open the screen.
    """
    arguments = viewer.arguments()
    if os.environ.get("NO_COLOR"):
        ctx.color = False
    if ctx.invoked_subcommand:
        if engine or arguments:
            # If they were ignored, the command would do something else than was typed.
            name = ctx.invoked_subcommand
            raise UsageError(
                f"options of the screen work only without a command: remove them before {name}"
            )
        return
    from natstui.cli.open_viewer import ENGINE_COMMAND, open_viewer

    open_viewer((*(_split_command(engine) if engine else ENGINE_COMMAND), *arguments))


def _split_command(engine: str) -> list[str]:
    """Return the arguments of a command line; raises UsageError if it cannot be parsed."""
    try:
        return shlex.split(engine)
    except ValueError as error:
        raise UsageError(f"--engine {engine!r}: {str(error).lower()}") from error


def run() -> None:
    """Run the command line of this process.

    An error becomes one sentence on stderr and its exit code; with --json it is a JSON object,
    also for an invalid command line.
    """
    try:
        try:
            _run_command()
        finally:
            # What Python could not write when it ends would be a traceback.
            sys.stdout.flush()
    except OutputFailed as error:
        click.echo(f"natstui: the output cannot be written: {error.strerror}", err=True)
        _drop_output()
        sys.exit(OUTPUT_FAILED_EXIT_CODE)
    except BrokenPipeError:
        _drop_output()
        sys.exit(_BROKEN_PIPE_EXIT_CODE)
    except KeyboardInterrupt:
        _drop_output()
        sys.exit(_INTERRUPTED_EXIT_CODE)
    except UnicodeEncodeError:
        invalid_argument = next(
            (argument for argument in sys.argv[1:] if _SURROGATE_PATTERN.search(argument)), None
        )
        if invalid_argument is None:
            raise
        text = f"{clean_line(invalid_argument)!r} is not UTF-8"
        click.echo(f"natstui: {text}: write it in the encoding of the terminal", err=True)
        sys.exit(UsageError.exit_code)


_BROKEN_PIPE_EXIT_CODE, _INTERRUPTED_EXIT_CODE = 1, 128 + signal.SIGINT
_SURROGATE_PATTERN = re.compile("[\ud800-\udfff]")
"""Characters that Python creates from bytes of a command line that are not UTF-8."""


def _drop_output() -> None:
    """Discard further output to stdout."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run_command() -> None:
    as_json = _wants_json(sys.argv[1:])
    try:
        exit_code = root(prog_name="natstui", standalone_mode=not as_json)
    except NatstuiError as error:
        # The message may hold text from a server, a file or a recording: in one line, since a line
        # break in a name would forge a sentence.
        text = clean_line(str(error))
        click.echo(_error_json(error) if as_json else f"natstui: {text}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        usage_error = UsageError(error.format_message())
        click.echo(_error_json(usage_error), err=True)
        sys.exit(error.exit_code)
    if as_json and isinstance(exit_code, int):
        sys.exit(exit_code)


def _wants_json(arguments: list[str]) -> bool:
    """Return whether a command line requests JSON, before it is parsed."""
    flags = arguments[: arguments.index("--")] if "--" in arguments else arguments
    return "--json" in flags or "-j" in flags


def _error_json(error: NatstuiError) -> str:
    """Return an error as JSON: `code` is the exit code, `err_code` the server's own number."""
    values: dict[str, object] = {"error": str(error), "code": error.exit_code}
    if isinstance(error, RequestFailed) and error.err_code is not None:
        values["err_code"] = error.err_code
    return json.dumps(values).replace("\x7f", "\\u007f")
