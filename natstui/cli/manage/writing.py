"""What the commands that change a server share: a writer, a confirmation, a printed difference."""

from __future__ import annotations

import dataclasses
import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from natstui.clean import clean_line
from natstui.cli.connected import run_connected
from natstui.config import Connection
from natstui.errors import Refused
from natstui.jetstream.connection.journal import Journal
from natstui.jetstream.connection.writer import READ_ONLY, Config, Writer
from natstui.jetstream.managing.apply import apply, preview_change
from natstui.jetstream.managing.configure import Changed
from natstui.jetstream.managing.names_in_use import warnings_of
from natstui.model.assets.differences import AssetKind, Difference
from natstui.model.records.managing import Change, Preview, PreviewChange

T = TypeVar("T")


_YES = "Do not ask; in production --confirm is needed."


def change_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--read-only`, `--yes`, `--confirm` and `--json`."""
    for option in (
        click.option("--json", "-j", "as_json", is_flag=True, help="Answer in JSON."),
        click.option("--confirm", metavar="NAME", help="The name of what is changed, typed out."),
        click.option("--yes", "--force", "-f", is_flag=True, help=_YES),
        click.option("--read-only", is_flag=True, help="Refuse every change."),
    ):
        command = option(command)
    return command


def run_with_writer(
    connection: Connection,
    read_only: bool,
    work: Callable[[Writer], Awaitable[T]],
    *,
    decided_on: tuple[int, ...] | None = None,
    prints: bool = False,
) -> T:
    """Connect, do the work, close; `read_only` adds to what the connection says.

    `decided_on` is which one the user confirmed: another one is left alone. `prints`: the
    work itself writes to the terminal.
    """
    guarded = dataclasses.replace(connection, read_only=connection.read_only or read_only)
    return run_connected(
        guarded,
        lambda client: work(Writer(client, Journal(), decided_on=decided_on)),
        prints=prints,
    )


def confirmation(
    connection: Connection, name: str, question: str, *, yes: bool, confirm: str | None
) -> str | None:
    """Return the name as the user confirmed it: by flag, or typed at the terminal."""
    if confirm is not None or (yes and not connection.production):
        click.echo(f"{question}.", err=True)
        return confirm if confirm is not None else name
    if not sys.stdin.isatty():
        need = f"--confirm {name}" if connection.production else "--yes"
        raise Refused(f"not confirmed: {question}; say {need}")
    click.echo(f"{question}.", err=True)
    answer: str = click.prompt(f"Type {name} to do it", err=True, default="", show_default=False)
    if answer != name:
        raise Refused(f"not confirmed: {answer!r} is not {name!r}: nothing was done")
    return answer


def refuse_read_only(connection: Connection, read_only: bool) -> None:
    """Raise Refused before the user confirms what would be refused anyway."""
    if connection.read_only or read_only:
        raise Refused(READ_ONLY)


def done_when_confirmed(
    connection: Connection, change: PreviewChange, words: Mapping[str, Any]
) -> Changed:
    """Count what a change removes, let the user confirm it where needed, then do it."""
    refuse_read_only(connection, words["read_only"])
    seen = run_with_writer(connection, True, lambda writer: preview_change(writer, change))
    confirmed = confirmed_of(connection, seen, words)
    decided = Change(
        change.command_id,
        change.action,
        change.stream,
        change.consumer,
        change.body_json,
        confirmed=confirmed,
        created_at_us=seen.created_at_us,
        previewed_msgs=seen.most_msgs,
    )
    return run_with_writer(connection, words["read_only"], lambda w: apply(w, decided))


def confirmed_of(connection: Connection, seen: Preview, words: Mapping[str, Any]) -> str | None:
    """Return the name as the user confirmed it, where that is needed; raises Refused."""
    if not seen.final and not connection.production:
        confirm: str | None = words["confirm"]
        return confirm
    question, confirm = clean_line(seen.question), words["confirm"]
    return confirmation(connection, seen.name, question, yes=words["yes"], confirm=confirm)


def print_warnings(
    connection: Connection, kind: AssetKind, stream: str, consumer: str | None, config: Config
) -> None:
    """Print the warnings about a configuration to stderr, before it is sent."""

    async def ask(writer: Writer) -> tuple[str, ...]:
        return await warnings_of(writer.client, kind, stream, consumer, config)

    for warning in run_with_writer(connection, True, ask):
        click.echo(f"natstui: {clean_line(warning)}", err=True)


def print_changed(changed: Changed, as_json: bool) -> None:
    """Print what a change did; what the server did not take goes to stderr."""
    if as_json:
        body = {
            "text": changed.text,
            "before": changed.before,
            "after": changed.after,
            "not_taken": [dataclasses.asdict(item) for item in changed.not_taken],
        }
        click.echo(json.dumps(body))
    else:
        click.echo(clean_line(changed.text))
    for item in changed.not_taken:
        text = f"{item.label}: asked for {item.before}, the server made it {item.after or 'unset'}"
        click.echo(f"natstui: {clean_line(text)}", err=True)


def print_differences(found: Sequence[Difference], as_json: bool) -> None:
    """Print a difference, one field per line."""
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(item) for item in found]))
        return
    for item in found:
        refused = f"   refused: {item.refused}" if item.refused else ""
        line = f"{item.label}: {item.before or 'unset'} → {item.after or 'unset'}{refused}"
        click.echo(clean_line(line))
