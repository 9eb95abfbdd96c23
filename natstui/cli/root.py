"""The command line: `natstui` opens the viewer, `natstui COMMAND` does one thing."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click
from click.shell_completion import CompletionItem

from natstui import __version__
from natstui.clean import clean_line
from natstui.cli.options import ViewerFlags, engine_options, viewer_flags
from natstui.cli.sections import LazyGroup, command
from natstui.errors import ActionRefusal, Interrupted, NatstuiError, RequestFailed, UsageError
from natstui.output import OUTPUT_FAILED_EXIT_CODE, OutputFailed

if TYPE_CHECKING:
    from natstui.config import Connection
    from natstui.config.settings import Settings
    from natstui.model.findings.catalogue.kind import Kind


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
            "natstui.cli.root:engine", "Run the engine: read a server for a screen"
        ),
        "help": CommandEntry("natstui.cli.root:help_", "Explain a command, a group or a finding"),
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


@command()
@click.option(
    "--resume-recording",
    type=click.Path(path_type=Path),
    hidden=True,
    help="Continue the recording of an engine that was killed.",
)
@engine_options
def engine(settings: Settings, connection: Connection, resume_recording: Path | None) -> None:
    """Run the engine: read a server for a screen.

    Records are written to stdout, commands are read from stdin, until stdin ends.
    """
    from natstui.engine.process import run_engine

    run_engine(settings, connection, resume_recording)


def _command_help(context: click.Context, topic_parts: tuple[str, ...]) -> str | None:
    """Return the help of a command; None if it does not exist."""
    command: click.Command = root
    group_context = click.Context(root, info_name="natstui", terminal_width=context.terminal_width)
    for name in topic_parts:
        subcommand = (
            command.get_command(group_context, name) if isinstance(command, click.Group) else None
        )
        if subcommand is None:
            return None
        command = subcommand
        group_context = click.Context(command, parent=group_context, info_name=name)
    return command.get_help(group_context)


def _group_help(topic_parts: tuple[str, ...]) -> str | None:
    """Return the list of a group of commands by its title, such as `change`; None if it does not
    exist.
    """
    title = " ".join(topic_parts).lower()
    for topic, commands in COMMANDS_BY_TOPIC.items():
        if topic.lower() == title:
            formatter = click.HelpFormatter()
            with formatter.section(topic):
                formatter.write_dl(
                    [(name, command_entry.help) for name, command_entry in commands.items()]
                )
            return formatter.getvalue().rstrip()
    return None


def _finding_help(topic_parts: tuple[str, ...]) -> str | None:
    """Return the explanation of a finding by its code or label; None if it does not exist."""
    from natstui.model.findings.catalogue.every import KINDS

    title = " ".join(topic_parts).lower()
    kinds = [kind for kind in KINDS.values() if title in (kind.code.lower(), kind.word.lower())]
    return "\n\n".join(map(_kind_help, kinds)) or None


def _kind_help(kind: Kind) -> str:
    lines = [
        f"{kind.code} {kind.word}: {kind.severity}, of a {kind.entity}",
        f"  means  {kind.sentence}",
        f"  check  {kind.check}",
        f"  do     {kind.act}",
        f"  reported after {kind.enter_s:g} s, over when absent for {kind.leave_s:g} s",
    ]
    if kind.thresholds:
        lines.append(f"  thresholds  {', '.join(kind.thresholds)} (natstui health --list)")
    return "\n".join(lines)


def _complete_topic(
    _context: click.Context, _parameter: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    from natstui.model.findings.catalogue.every import KINDS

    commands = {
        name: command_entry.help
        for topic in COMMANDS_BY_TOPIC.values()
        for name, command_entry in topic.items()
    }
    kinds = {kind.code: kind.word for kind in KINDS.values()}
    help_by_topic = {**commands, **kinds}
    return [
        CompletionItem(name, help=text)
        for name, text in help_by_topic.items()
        if name.lower().startswith(incomplete.lower())
    ]


@command("help")
@click.argument("topic", nargs=-1, shell_complete=_complete_topic)
@click.pass_context
def help_(context: click.Context, topic: tuple[str, ...]) -> None:
    """Explain a command, a group or a finding.

    `natstui help stream add`, `natstui help stores`, `natstui help NT-C07`, `natstui help 'no
    open pulls'`. Without TOPIC: the list of all commands.
    """
    text = _command_help(context, topic) or _group_help(topic) or _finding_help(topic)
    if text is None:
        topic_text = " ".join(topic)
        raise UsageError(
            f"there is no help on {topic_text!r}: TOPIC is a command or group of natstui "
            "--help, or a "
            "finding of natstui health --list"
        )
    click.echo(text)


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
