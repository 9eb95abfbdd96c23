"""The command line: `natstui` opens the viewer, `natstui COMMAND` does one thing."""

from __future__ import annotations

import json
import os
import re
import shlex
import sys
from typing import NamedTuple

import click

from natstui import __version__
from natstui.clean import clean_line, clean_text
from natstui.cli.lazy_group import LazyGroup
from natstui.cli.options import ViewerFlags, viewer_flags
from natstui.errors import NatstuiError, RequestFailed, UsageError
from natstui.output import OutputFailed


class Listed(NamedTuple):
    """A command in the list of all: loaded when it is used, not when it is listed."""

    target: str
    """`module:function`: no command pays for another's imports."""
    help: str
    """How its own help begins: at most 45 characters."""


TOPICS: dict[str, dict[str, Listed]] = {
    "Watch": {
        "overview": Listed(
            "natstui.cli.overview:overview", "Print one screen: what is wrong, what moves"
        ),
        "watch": Listed(
            "natstui.cli.watch.command:watch", "Print streams and consumers as they change"
        ),
        "health": Listed(
            "natstui.cli.health.command:health", "Report what is wrong, and what to do"
        ),
        "stuck": Listed("natstui.cli.health.command:stuck", "Explain what one consumer waits for"),
        "connections": Listed(
            "natstui.cli.clients.command:connections", "List the connections of the account"
        ),
        "servers": Listed(
            "natstui.cli.servers:servers", "List servers, leaders and the meta group"
        ),
        "serve": Listed("natstui.cli.serve.command:serve", "Show the screens in a browser"),
        "alert": Listed(
            "natstui.cli.alerts.command:alert", "Notify of findings: webhook, command, bell"
        ),
        "metrics": Listed("natstui.cli.metrics.command:metrics", "Serve metrics for Prometheus"),
    },
    "Change": {
        "stream": Listed(
            "natstui.cli.manage.stream:stream", "Create, change, read and delete streams"
        ),
        "consumer": Listed(
            "natstui.cli.manage.consumer:consumer", "Create, change, read and delete consumers"
        ),
        "balance": Listed("natstui.cli.servers:balance", "Spread leaders evenly over the servers"),
        "meta": Listed("natstui.cli.servers:meta", "Manage the meta group of the cluster"),
        "kick": Listed("natstui.cli.clients.command:kick", "Close one client connection"),
        "journal": Listed(
            "natstui.cli.manage.journal:journal", "List the changes made from this machine"
        ),
        "undo": Listed("natstui.cli.manage.journal:undo", "Undo the last change on this server"),
    },
    "Stores": {
        "kv": Listed("natstui.cli.stores.kv:kv", "Read and change key-value buckets"),
        "object": Listed(
            "natstui.cli.stores.object:object_store", "Store and fetch files in object stores"
        ),
    },
    "Keep": {
        "backup": Listed(
            "natstui.cli.backups:backup", "Back up every stream of the account into DIR"
        ),
        "restore": Listed(
            "natstui.cli.backups:restore", "Restore every stream of an account's backup"
        ),
    },
    "Messages": {
        "pub": Listed("natstui.cli.core.pub:pub", "Publish PAYLOAD to SUBJECT"),
        "request": Listed(
            "natstui.cli.core.pub:request", "Send PAYLOAD to SUBJECT and print the reply"
        ),
        "reply": Listed("natstui.cli.core.reply:reply", "Reply to requests on SUBJECT with BODY"),
        "sub": Listed("natstui.cli.core.sub:sub", "Print what is published to SUBJECT"),
        "messages": Listed(
            "natstui.cli.copies:messages", "Copy messages, or send dropped ones again"
        ),
    },
    "Measure": {
        "bench": Listed(
            "natstui.cli.bench.command:bench", "Put load on NATS and measure it honestly"
        ),
    },
    "Record, replay, analyse": {
        "record": Listed(
            "natstui.cli.sessions.record:record", "Record everything that can be watched"
        ),
        "replay": Listed(
            "natstui.cli.sessions.replay:replay", "Replay a recording in the screens"
        ),
        "sessions": Listed(
            "natstui.cli.sessions.command:sessions", "List, check, share and delete recordings"
        ),
        "export": Listed(
            "natstui.cli.sessions.command:export", "Write a recording as flat tables"
        ),
        "analyze": Listed("natstui.cli.sessions.analyze:analyze", "Analyse recordings with Spark"),
    },
    "Set up": {
        "demo": Listed("natstui.cli.demo:demo", "Start a real cluster with a busy shop"),
        "check": Listed("natstui.cli.check:check", "Try the connection step by step"),
        "context": Listed("natstui.cli.contexts:context", "Manage contexts of the NATS CLI"),
        "config": Listed("natstui.cli.config:config", "Print the effective settings"),
        "engine": Listed(
            "natstui.cli.engine:engine", "Run the engine: read a server for a screen"
        ),
        "help": Listed("natstui.cli.help:help_", "Explain a command, a group or a finding"),
    },
}
_HIDDEN = {"replay-engine": "natstui.cli.sessions.replay:replay_engine"}
COMMANDS: dict[str, str] = {
    name: listed.target for topic in TOPICS.values() for name, listed in topic.items()
} | _HIDDEN


class Root(LazyGroup):
    """All commands, listed by topic without importing any."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands by topic."""
        for topic, commands in TOPICS.items():
            with formatter.section(topic):
                formatter.write_dl([(name, listed.help) for name, listed in commands.items()])


def _reset_terminal(ctx: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted:
        from natstui.tui.kit.terminal import reset_terminal

        reset_terminal()
        ctx.exit()


@click.group(cls=Root, targets=COMMANDS, invoke_without_command=True)
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
    """Run a command; an error becomes one sentence on stderr and its exit code.

    With --json that sentence is JSON too, also for a command line that is wrong.
    """
    try:
        try:
            _run()
        finally:
            # What Python could not write when it ends would be a traceback.
            sys.stdout.flush()
    except OutputFailed as error:
        click.echo(f"natstui: the output cannot be written: {error.strerror}", err=True)
        _drop_output()
        sys.exit(_OUTPUT_FAILED)
    except BrokenPipeError:
        _drop_output()
        sys.exit(_NOBODY_READS)
    except UnicodeEncodeError:
        wrong = next((word for word in sys.argv[1:] if _SURROGATE.search(word)), None)
        if wrong is None:
            raise
        text = f"{clean_line(wrong)!r} is not UTF-8: write it in the encoding of the terminal"
        click.echo(f"natstui: {text}", err=True)
        sys.exit(UsageError.exit_code)


_OUTPUT_FAILED, _NOBODY_READS = 6, 1
_SURROGATE = re.compile("[\ud800-\udfff]")
"""What Python makes of bytes of a command line that are not UTF-8."""


def _drop_output() -> None:
    """Let nothing more be written to the standard output."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _run() -> None:
    as_json = _wants_json(sys.argv[1:])
    try:
        code = root(prog_name="natstui", standalone_mode=not as_json)
    except NatstuiError as error:
        # The message may hold text from a server, a file or a recording.
        text = clean_text(str(error))
        click.echo(_error_json(error) if as_json else f"natstui: {text}", err=True)
        sys.exit(error.exit_code)
    except click.ClickException as error:
        wrong = UsageError(error.format_message())
        click.echo(_error_json(wrong), err=True)
        sys.exit(error.exit_code)
    except click.Abort:
        click.echo(_error_json(NatstuiError("natstui was stopped")), err=True)
        sys.exit(1)
    if as_json and isinstance(code, int):
        sys.exit(code)


def _wants_json(words: list[str]) -> bool:
    """Return whether a command line asks for JSON, as far as that is known before it is read."""
    flags = words[: words.index("--")] if "--" in words else words
    return "--json" in flags or "-j" in flags


def _error_json(error: NatstuiError) -> str:
    """Return an error as JSON: `code` is the exit code, `err_code` the server's own number."""
    told: dict[str, object] = {"error": str(error), "code": error.exit_code}
    if isinstance(error, RequestFailed) and error.err_code is not None:
        told["err_code"] = error.err_code
    return json.dumps(told).replace("\x7f", "\\u007f")
