"""What the commands that change a server share: a writer, a confirmation, a printed difference."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import click

from natstui.clean import clean_line
from natstui.cli.connected import run_connected, waited_for, waiting
from natstui.config import Connection
from natstui.errors import Refused, RequestFailed
from natstui.jetstream.connection.client import connect
from natstui.jetstream.connection.journal import Journal
from natstui.jetstream.connection.writer import READ_ONLY, Config, NotConfirmed, Writer
from natstui.jetstream.managing.apply import apply, preview
from natstui.jetstream.managing.configure import ChangeResult
from natstui.jetstream.managing.names_in_use import warnings_of
from natstui.model.assets.differences import AssetKind, Difference
from natstui.model.records.managing import Change, Confirmation

T = TypeVar("T")


_YES = "Do not ask for confirmation; in production, use --confirm instead."


def change_flags(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command `--read-only`, `--yes`, `--confirm` and `--json`."""
    for option in (
        click.option("--json", "-j", "as_json", is_flag=True, help="Answer in JSON."),
        click.option(
            "--confirm", metavar="NAME", help="The name of the changed object, to confirm."
        ),
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
    prints: bool = False,
) -> T:
    """Connect, do the work, close; `read_only` adds to what the connection says.

    `prints`: the work itself writes to the terminal.
    """
    guarded = dataclasses.replace(connection, read_only=connection.read_only or read_only)
    return run_connected(
        guarded,
        lambda client: work(Writer(client, Journal())),
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
    answer: str = click.prompt(f"Type {name} to confirm", err=True, default="", show_default=False)
    if answer != name:
        raise Refused(f"not confirmed: {answer!r} is not {name!r}: nothing was changed")
    return answer


def refuse_read_only(connection: Connection, read_only: bool) -> None:
    """Raise Refused before the user confirms what would be refused anyway."""
    if connection.read_only or read_only:
        raise Refused(READ_ONLY)


class WriterSession:
    """One connection for all that a command reads, has confirmed and changes.

    The loop of asyncio rests while the user types.
    """

    def __init__(self, connection: Connection, read_only: bool = False) -> None:
        """`read_only` adds to what the connection says."""
        self.connection = dataclasses.replace(
            connection, read_only=connection.read_only or read_only
        )
        self._runner = asyncio.Runner()

    def __enter__(self) -> WriterSession:
        """Connect; raises ConnectionFailed."""
        try:
            self._client = self._runner.run(waited_for(connect(self.connection)))
        except BaseException:
            self._runner.close()
            raise
        return self

    def run(
        self,
        work: Callable[[Writer], Awaitable[T]],
        shown: Confirmation | None = None,
        *,
        prints: bool = False,
    ) -> T:
        """Return what the work returns.

        `shown` is what the user confirmed: another revision than that is left alone. `prints`:
        the work itself writes to the terminal.
        """

        async def run() -> T:
            async with waiting(shown=not prints):
                return await work(Writer(self._client, Journal(), decided_on=shown))

        return self._runner.run(run())

    def __exit__(self, *_error: object) -> None:
        """Close the connection."""
        try:
            self._runner.run(self._client.close())
        finally:
            self._runner.close()


def change_confirmed(
    connection: Connection, change: Change, flags: Mapping[str, Any]
) -> ChangeResult:
    """Connect, do a change once the user confirmed what the writer wants confirmed, close."""
    refuse_read_only(connection, flags["read_only"])
    with WriterSession(connection) as session:
        return session_change(session, change, flags)


def session_change(
    session: WriterSession, change: Change, flags: Mapping[str, Any]
) -> ChangeResult:
    """Do a change once the user confirmed what the writer wants confirmed; raises Refused."""
    shown = session.run(lambda writer: preview(writer, change))
    return apply_shown(session, change, shown, confirmed_name(session.connection, shown, flags))


def apply_shown(
    session: WriterSession, change: Change, shown: Confirmation, name: str | None
) -> ChangeResult:
    """Do a change of what was shown; `name` is what the user typed. Raises Refused."""
    confirmed = dataclasses.replace(
        change,
        confirmed=name,
        created_at_us=shown.created_at_us,
        place=shown.place,
        previewed_msgs=shown.most_msgs,
        previewed_last_seq=shown.last_seq,
    )
    return session.run(lambda writer: apply(writer, confirmed))


def confirmed_name(
    connection: Connection, shown: Confirmation, flags: Mapping[str, Any]
) -> str | None:
    """Return the name as the user confirmed it, where that is needed; raises Refused."""
    confirm: str | None = flags["confirm"]
    if not shown.needed:
        return confirm
    question = clean_line(shown.question)
    return confirmation(connection, shown.name, question, yes=flags["yes"], confirm=confirm)


def write_confirmed(
    connection: Connection,
    flags: Mapping[str, Any],
    work: Callable[[Writer, str | None], Awaitable[T]],
) -> T:
    """Connect, do what writes, again once the user confirmed it where that is needed, close.

    `work` gets the name as it was typed, None when it was not. Raises Refused.
    """
    confirm: str | None = flags["confirm"]
    with WriterSession(connection, flags["read_only"]) as session:
        try:
            return session.run(lambda writer: work(writer, confirm), prints=True)
        except NotConfirmed as error:
            if confirm is not None:
                raise
            shown = error.confirmation
        typed = confirmed_name(connection, shown, flags)
        return session.run(lambda writer: work(writer, typed), shown, prints=True)


def print_warnings(
    session: WriterSession, kind: AssetKind, stream: str, consumer: str | None, config: Config
) -> None:
    """Print the warnings about a configuration to stderr, before it is sent."""

    async def read_warnings(writer: Writer) -> tuple[str, ...]:
        return await warnings_of(writer.client, kind, stream, consumer, config)

    for warning in session.run(read_warnings):
        click.echo(f"natstui: {clean_line(warning)}", err=True)


def print_changed(changed: ChangeResult, as_json: bool) -> None:
    """Print what a change did; what is not as requested goes to stderr.

    Ends with the exit code of a failed request where a part of it is not done, or not as
    requested: scripts go on after 0.
    """
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
    for shortfall in changed.shortfalls:
        click.echo(clean_line(f"natstui: {shortfall}"), err=True)
    if changed.shortfalls:
        sys.exit(RequestFailed.exit_code)


def print_differences(found: Sequence[Difference], as_json: bool) -> None:
    """Print a difference, one field per line."""
    if as_json:
        click.echo(json.dumps([dataclasses.asdict(item) for item in found]))
        return
    for item in found:
        refused = f"   refused: {item.refused}" if item.refused else ""
        line = f"{item.label}: {item.before or 'unset'} → {item.after or 'unset'}{refused}"
        click.echo(clean_line(line))
