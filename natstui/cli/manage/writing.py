"""Shared parts of commands that change a server: writer, confirmation, printed differences."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, TypeVar

import click
from msgspec import to_builtins

from natstui.clean import clean_line
from natstui.cli.connected import await_with_progress, run_connected, show_waiting_time
from natstui.cli.terminal_line import print_stderr
from natstui.config import Connection
from natstui.engine.stopping import remove_signal_handlers
from natstui.errors import ActionRefusal, RequestFailed
from natstui.jetstream.connection.client import connect
from natstui.jetstream.connection.journal import Journal
from natstui.jetstream.connection.link import OnLink
from natstui.jetstream.connection.writer import READ_ONLY, Config, MissingConfirmation, Writer
from natstui.jetstream.managing.apply import apply, preview
from natstui.jetstream.managing.configure import ChangeResult
from natstui.jetstream.managing.names_in_use import find_warnings
from natstui.jetstream.system.source import SystemConnection
from natstui.model.assets.differences import AssetKind, Difference
from natstui.model.records.confirmation import Confirmation
from natstui.model.records.managing import (
    Change,
)
from natstui.values import replace

T = TypeVar("T")


def run_with_writer(
    connection: Connection,
    read_only: bool,
    work: Callable[[Writer], Awaitable[T]],
    *,
    work_prints: bool = False,
) -> T:
    """Connect, return the result of the work, and close.

    Writing is refused if the connection is read-only or `read_only` is true. `work_prints`: the
    work itself writes to the terminal, so only connecting shows a progress line. Raises
    ConnectionFailed, and the errors of the work.
    """
    restricted_connection = replace(connection, read_only=connection.read_only or read_only)
    return run_connected(
        restricted_connection,
        lambda client: work(Writer(client, Journal())),
        work_prints=work_prints,
    )


def confirm_name(
    connection: Connection, name: str, prompt: str, *, yes: bool, confirm: str | None
) -> str:
    """Print `prompt`, and return the confirmed name: `confirm`, or typed at the terminal.

    In production `yes` is not enough: the name is required. Raises ActionRefusal for another name,
    or if there is no terminal to type it at.
    """
    if confirm is not None and confirm != name:
        raise ActionRefusal(_not_confirmed_text(confirm, name))
    prompt = clean_line(prompt)
    if confirm is not None or (yes and not connection.production):
        click.echo(f"{prompt}.", err=True)
        return name
    if not sys.stdin.isatty():
        required_flag = f"--confirm {name}" if connection.production else "--yes"
        raise ActionRefusal(f"not confirmed: {prompt}; use {required_flag}")
    click.echo(f"{prompt}.", err=True)
    typed_name: str = click.prompt(
        f"Type {clean_line(name)} to confirm", err=True, default="", show_default=False
    )
    if typed_name != name:
        raise ActionRefusal(_not_confirmed_text(typed_name, name))
    return typed_name


def _not_confirmed_text(typed_name: str, name: str) -> str:
    return f"not confirmed: {typed_name!r} is not {name!r}: nothing was changed"


def refuse_read_only(connection: Connection, read_only: bool) -> None:
    """Raise ActionRefusal if the connection or the flag is read-only, before the user is
    prompted.
    """
    if connection.read_only or read_only:
        raise ActionRefusal(READ_ONLY)


class WriterSession:
    """A context manager: one connection for reading, confirming and changing.

    Its asyncio loop runs only during `run`, so that a prompt between two calls blocks nothing.
    """

    def __init__(
        self, connection: Connection, read_only: bool = False, on_link: OnLink | None = None
    ) -> None:
        """Create a session without a connection; `read_only` makes it read-only even if
        `connection` is not.

        `on_link` is called for every change of the connection.
        """
        self.connection = replace(connection, read_only=connection.read_only or read_only)
        self._on_link = on_link
        self._runner = asyncio.Runner()

    def __enter__(self) -> WriterSession:
        """Connect, and return the session; raises ConnectionFailed if there is no connection."""
        try:
            connect_work = connect(self.connection, on_link=self._on_link)
            self._client = self._runner.run(await_with_progress(connect_work))
        except BaseException:
            self._runner.close()
            raise
        return self

    def run(
        self,
        work: Callable[[Writer], Awaitable[T]],
        shown_preview: Confirmation | None = None,
        *,
        work_prints: bool = False,
    ) -> T:
        """Return the result of the work, and raise its errors.

        `shown_preview` is the preview that the user confirmed: if the asset was changed since
        then, writing is refused. `work_prints`: the work itself writes to the terminal, so no
        progress line is shown.
        """

        async def run() -> T:
            async with show_waiting_time(is_shown=not work_prints):
                return await work(Writer(self._client, Journal(), decided_on=shown_preview))

        return self._runner.run(run())

    def __exit__(self, *_error: object) -> None:
        """Close the connection."""
        try:
            self._runner.run(self._client.close())
        finally:
            self._runner.close()


def connect_and_apply(
    connection: Connection, change: Change, flags: Mapping[str, Any]
) -> ChangeResult:
    """Connect, do a change after the required confirmation, close, and return its result.

    `flags` has `read_only`, `yes` and `confirm`. Raises ActionRefusal if the change is not
    confirmed or the connection is read-only, ConnectionFailed without a connection, RequestFailed
    if the server refuses the change or does not reply.
    """
    refuse_read_only(connection, flags["read_only"])
    with WriterSession(connection) as session:
        return confirm_and_apply(session, change, flags)


def confirm_and_apply(
    session: WriterSession, change: Change, flags: Mapping[str, Any]
) -> ChangeResult:
    """Do a change after the required confirmation, and return its result.

    `flags` has `yes` and `confirm`. Raises ActionRefusal if the change is not confirmed,
    RequestFailed if the server refuses it or does not reply.
    """
    shown_preview = session.run(lambda writer: preview(writer, change))
    return apply_previewed_change(
        session, change, shown_preview, confirm_preview(session.connection, shown_preview, flags)
    )


def apply_previewed_change(
    session: WriterSession, change: Change, shown_preview: Confirmation, name: str | None
) -> ChangeResult:
    """Do a change that was previewed, and return its result.

    `name` is the confirmed name, None if none was required. Raises ActionRefusal if the name is
    wrong or the asset was changed since the preview, RequestFailed if the server refuses the
    change or does not reply.
    """
    confirmed_change = replace(
        change,
        confirmed=name,
        created_at_us=shown_preview.created_at_us,
        place=shown_preview.place,
        previewed_msgs=shown_preview.most_msgs,
        previewed_last_seq=shown_preview.last_seq,
        previewed_last_at_us=shown_preview.last_at_us,
    )
    return session.run(lambda writer: apply(writer, confirmed_change))


def confirm_preview(
    connection: Connection, shown_preview: Confirmation, flags: Mapping[str, Any]
) -> str | None:
    """Return the confirmed name of a preview: of `--confirm`, or typed at the terminal.

    `flags` has `yes` and `confirm`. None if no name is required and none was typed. Raises
    ActionRefusal if the preview is not confirmed, and for the name of something else.
    """
    confirm: str | None = flags["confirm"]
    if confirm not in (None, shown_preview.name):
        raise ActionRefusal(_not_confirmed_text(confirm, shown_preview.name))
    if not shown_preview.needed:
        return confirm
    return confirm_name(
        connection, shown_preview.name, shown_preview.question, yes=flags["yes"], confirm=confirm
    )


def write_confirmed(
    connection: Connection,
    flags: Mapping[str, Any],
    work: Callable[[Writer, str | None], Awaitable[T]],
    *,
    on_link: OnLink | None = None,
) -> T:
    """Connect, return the result of work that writes, and close.

    `work` gets the confirmed name, None if none was typed. If it raises MissingConfirmation, the
    user is prompted, and `work` runs once more with the typed name. `on_link` is called for every
    change of the connection. Raises ActionRefusal if the prompt is not confirmed, ConnectionFailed
    and the errors of the work.
    """
    confirm: str | None = flags["confirm"]

    async def try_work(writer: Writer) -> T:
        try:
            return await work(writer, confirm)
        except MissingConfirmation:
            # The loop, which would handle a signal, does not run during the prompt.
            remove_signal_handlers()
            raise

    with WriterSession(connection, flags["read_only"], on_link) as session:
        try:
            return session.run(try_work, work_prints=True)
        except MissingConfirmation as error:
            if confirm is not None:
                raise
            required_confirmation = error.confirmation
        typed_name = confirm_preview(connection, required_confirmation, flags)
        return session.run(
            lambda writer: work(writer, typed_name), required_confirmation, work_prints=True
        )


def change_system(
    connection: Connection,
    flags: Mapping[str, Any],
    work: Callable[[Writer, SystemConnection, str | None], Awaitable[T]],
) -> T:
    """Connect with the system account, return the result of work that writes, and close.

    As `write_confirmed`: `work` gets the confirmed name, None if none was typed, and runs once
    more with the typed name if it raises MissingConfirmation. `flags` has `read_only`, `yes` and
    `confirm`. Raises ActionRefusal if the change is not confirmed, and the errors of the work.
    """
    refuse_read_only(connection, flags["read_only"])
    return asyncio.run(_change_system(connection, flags, work))


async def _change_system(
    connection: Connection,
    flags: Mapping[str, Any],
    work: Callable[[Writer, SystemConnection, str | None], Awaitable[T]],
) -> T:
    system, confirm = SystemConnection(connection), flags["confirm"]
    try:
        client = await system.client()
        try:
            return await work(Writer(client, Journal()), system, confirm)
        except MissingConfirmation as error:
            if confirm is not None:
                raise
            required_confirmation = error.confirmation
        typed_name = await asyncio.to_thread(
            confirm_preview, connection, required_confirmation, flags
        )
        confirmed_writer = Writer(client, Journal(), decided_on=required_confirmation)
        return await work(confirmed_writer, system, typed_name)
    finally:
        await system.close()


def print_warnings(
    session: WriterSession, kind: AssetKind, stream: str, consumer: str | None, config: Config
) -> None:
    """Print the warnings about a configuration to stderr, a sentence each, before it is sent."""

    async def read_warnings(writer: Writer) -> tuple[str, ...]:
        return await find_warnings(writer.client, kind, stream, consumer, config)

    for warning in session.run(read_warnings):
        print_stderr(warning)


def print_change_result(result: ChangeResult, as_json: bool) -> None:
    """Print the result of a change as text or JSON, and its shortfalls to stderr.

    With a shortfall (a part is not done, or not as requested) the command exits with the code of
    RequestFailed, so that a script does not continue.
    """
    if as_json:
        body = {
            "text": result.text,
            "before": result.before,
            "after": result.after,
            "not_taken": [to_builtins(difference) for difference in result.unapplied_settings],
        }
        click.echo(json.dumps(body))
    else:
        click.echo(clean_line(result.text))
    for shortfall in result.shortfalls:
        print_stderr(shortfall)
    if result.shortfalls:
        sys.exit(RequestFailed.exit_code)


def print_differences(diffs: Sequence[Difference], as_json: bool) -> None:
    """Print the differences between two configurations, one field per line, or as one JSON
    array.
    """
    if as_json:
        click.echo(json.dumps([to_builtins(diff) for diff in diffs]))
        return
    for diff in diffs:
        refusal_text = f"   refused: {diff.refused}" if diff.refused else ""
        line = f"{diff.label}: {diff.before or 'unset'} → {diff.after or 'unset'}{refusal_text}"
        click.echo(clean_line(line))
