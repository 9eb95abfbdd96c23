"""`natstui backup|restore` and `natstui stream backup|restore`: streams kept in a folder."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from natstui.clean import clean_line
from natstui.cli.complete import stream_name
from natstui.cli.manage.names import given_name
from natstui.cli.manage.writing import (
    change_flags,
    confirmation,
    refuse_read_only,
    run_with_writer,
)
from natstui.cli.options import WrittenPath, connection_options
from natstui.cli.options import as_json as json_flag
from natstui.cli.sections import command
from natstui.cli.terminal_line import TerminalLine
from natstui.config import Connection
from natstui.engine.stopping import cancelled_by_signal
from natstui.errors import BackupError, NatstuiError, Refused, RequestFailed, UsageError
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.managing.backup import (
    Written,
    back_up_account,
    back_up_stream,
    consumers_text,
)
from natstui.jetstream.managing.backup_folder import (
    is_account,
    left_out_of,
    read_backup,
    streams_of,
)
from natstui.jetstream.managing.restore import (
    RestoredStream,
    RestoreRequest,
    name_to_type,
    read_backups,
    restore_all,
    restored_text,
    state_text,
)
from natstui.jetstream.managing.snapshot import Pace
from natstui.paths import user_path
from natstui.units import bytes_text, counted, parse_bytes

T = TypeVar("T")

rate_option = click.option("--rate", metavar="SIZE", help="Maximum bytes per second: 500KB, 10MB.")
consumers_option = click.option(
    "--consumers/--no-consumers", default=True, help="Include consumers (default: yes)."
)
_LEAST_RATE = 1024
_UNCHECKED = "frames complete; contents not checked: the backup has no checksum"
_REPLICAS = click.option(
    "--replicas",
    type=click.IntRange(min=1, max=5),
    help="Number of replicas, instead of the number in the backup.",
)


def pace_of(rate: str | None) -> Pace:
    """Return how fast it may go; raises UsageError."""
    if rate is None:
        return Pace()
    try:
        per_s = parse_bytes(rate.removesuffix("/s"))
    except ValueError as error:
        raise UsageError(f"--rate: {error}") from error
    if per_s < _LEAST_RATE:
        raise UsageError("--rate: at least 1KB, or the server gives up")
    return Pace(per_s)


def folder_of(text: str) -> Path:
    """Return the folder that was typed; raises UsageError."""
    return user_path(text)


class BytesLine(TerminalLine):
    """A line that shows how much of a stream or file has been sent."""

    def show_bytes(self, stream: str, done_bytes: int, whole_bytes: int | None = None) -> None:
        """Show how much of a stream has been sent."""
        of = f" of {bytes_text(whole_bytes)}" if whole_bytes else ""
        self.show(f"{stream}: {bytes_text(done_bytes)}{of}")


def stoppable(
    connection: Connection, read_only: bool, what: str, work: Callable[[Writer], Awaitable[T]]
) -> T:
    """Connect and do the work; Ctrl-C and SIGTERM let it clean up behind itself."""

    async def run(writer: Writer) -> T:
        with cancelled_by_signal(what):
            return await work(writer)

    return run_with_writer(connection, read_only, run, prints=True)


@command("backup")
@stream_name
@click.argument("folder", metavar="DIR", type=WrittenPath())
@consumers_option
@rate_option
@json_flag
@connection_options
def stream_backup(
    connection: Connection,
    name: str,
    folder: str,
    consumers: bool,
    rate: str | None,
    as_json: bool,
    **_words: Any,
) -> None:
    """Back up the stream NAME into DIR.

    Writes its configuration, consumers and messages. DIR must not exist; it appears when the
    backup is completely on disk.
    """
    stream, target = given_name(name), folder_of(folder)
    pace, shown = pace_of(rate), BytesLine()
    try:
        written = stoppable(
            connection, True, f"the backup of {stream}",
            lambda writer: back_up_stream(
                writer.client, stream, target, pace, shown.show_bytes, consumers=consumers
            ),
        )  # fmt: skip
    finally:
        shown.clear()
    _print_written([written], target, as_json=as_json)


@command()
@click.argument("words", metavar="[verify] DIR", nargs=-1, required=True, type=WrittenPath())
@consumers_option
@rate_option
@json_flag
@connection_options
def backup(
    connection: Connection,
    words: tuple[str, ...],
    consumers: bool,
    rate: str | None,
    as_json: bool,
    **_words: Any,
) -> None:
    """Back up every stream of the account into DIR.

    `natstui backup verify DIR` checks a backup. DIR must not exist; it appears when the backup is
    completely on disk.
    """
    *verb, folder = words
    if verb == ["verify"]:
        _verify(folder_of(folder), as_json=as_json)
        return
    if verb or folder == "verify":
        raise UsageError(
            "write backup DIR, or backup verify DIR; for a folder named verify, write ./verify"
        )
    target, pace, shown = folder_of(folder), pace_of(rate), BytesLine()
    left_out = list[str]()
    try:
        written = stoppable(
            connection, True, "the backup",
            lambda writer: back_up_account(
                writer.client, target, pace, shown.show_bytes, left_out, consumers=consumers
            ),
        )  # fmt: skip
    finally:
        shown.clear()
    _print_written(written, target, as_json=as_json)
    if left_out:
        raise RequestFailed(f"the backup is not complete: {'; '.join(left_out)}")


def _print_written(written: Sequence[Written], target: Path, *, as_json: bool) -> None:
    if as_json:
        rows = [dataclasses.asdict(one) for one in written]
        click.echo(json.dumps({"folder": str(target), "streams": rows}))
        return
    for one in written:
        consumers = consumers_text(one)
        size = f"{bytes_text(one.data_bytes)} in {target}"
        click.echo(clean_line(f"{one.stream}: {state_text(one.state)}, {consumers}; {size}"))


def _verify(folder: Path, *, as_json: bool) -> None:
    """Check every backup of a folder; raises BackupError for the first that is not complete."""
    if not folder.is_dir():
        raise BackupError(f"there is no folder {folder}")
    folders = streams_of(folder) if is_account(folder) else [folder]
    rows = []
    for one in map(read_backup, folders):
        rows.append({"stream": one.stream, "checksum": one.has_checksum, "state": one.state,
                     "consumers": one.consumers, "data_bytes": one.data_bytes})  # fmt: skip
        if not as_json:
            how = "whole" if one.has_checksum else _UNCHECKED
            click.echo(clean_line(f"{one.stream}: {state_text(one.state)}; {how}"))
    left_out = left_out_of(folder)
    _print_left_out(left_out)
    if as_json:
        found = {"folder": str(folder), "streams": rows, "left_out": left_out}
        click.echo(json.dumps(found))


def _print_left_out(left_out: Sequence[str]) -> None:
    if left_out:
        text = f"natstui: not in this backup: {'; '.join(left_out)}"
        click.echo(clean_line(text), err=True)


@command("restore")
@click.argument("folder", metavar="DIR")
@click.option("--as", "name", metavar="NAME", help="Under another name.")
@click.option(
    "--subjects", "--subject", "subjects", metavar="SUBJECT", multiple=True,
    help="New subjects of the stream; messages keep their subjects. Repeat for several.",
)  # fmt: skip
@_REPLICAS
@rate_option
@change_flags
@connection_options
def stream_restore(
    connection: Connection,
    folder: str,
    name: str | None,
    subjects: tuple[str, ...],
    replicas: int | None,
    rate: str | None,
    **words: Any,
) -> None:
    """Restore a stream from the backup in DIR.

    Compares the restored stream with the backup. Never replaces an existing stream.
    """
    pace, kept = pace_of(rate), read_backup(folder_of(folder))
    wanted = RestoreRequest(kept, given_name(name or kept.stream), replicas, subjects)
    _restore(connection, [wanted], pace, words)


@command()
@click.argument("folder", metavar="DIR")
@_REPLICAS
@rate_option
@change_flags
@connection_options
def restore(
    connection: Connection, folder: str, replicas: int | None, rate: str | None, **words: Any
) -> None:
    """Restore every stream of an account's backup.

    Reads the backup in DIR and compares each restored stream with it. Restores nothing if one of
    the streams exists already.
    """
    pace, place = pace_of(rate), folder_of(folder)
    if not place.is_dir() or not is_account(place):
        raise BackupError(
            f"{place} is not the backup of an account; for the backup of a stream use `natstui "
            "stream restore`"
        )
    every = [RestoreRequest(one, given_name(one.stream), replicas) for one in read_backups(place)]
    _print_left_out(left_out_of(place))
    _restore(connection, every, pace, words)


def _restore(
    connection: Connection, every: Sequence[RestoreRequest], pace: Pace, words: dict[str, Any]
) -> None:
    refuse_read_only(connection, words["read_only"])
    for one in every:
        _ = one.config  # what cannot work is said before there is a connection
    confirmed = _confirmed(connection, every, words)
    done, shown = list[RestoredStream](), BytesLine()

    async def work(writer: Writer) -> None:
        await restore_all(writer, every, pace, shown.show_bytes, done, confirmed=confirmed)

    try:
        stoppable(connection, words["read_only"], "the restore", work)
    except NatstuiError:
        if done:
            names = ", ".join(one.name for one in done)
            click.echo(clean_line(f"natstui: restored before this: {names}"), err=True)
        raise
    finally:
        shown.clear()
    _print_restored(done, as_json=words["as_json"])


def _confirmed(
    connection: Connection, every: Sequence[RestoreRequest], words: dict[str, Any]
) -> bool:
    """Ask in production; the name to type is that of the stream, or of the account's folder."""
    name = name_to_type([one.backup for one in every], every[0].name)
    if not connection.production and words["confirm"] is None:
        return False
    what = every[0].name if len(every) == 1 else counted(len(every), "stream")
    question = f"This is production: this creates {what}" if connection.production else what
    typed = confirmation(connection, name, question, yes=words["yes"], confirm=words["confirm"])
    if typed != name:
        raise Refused(f"not confirmed: {typed!r} is not {name!r}")
    return True


def _print_restored(done: Sequence[RestoredStream], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"streams": [dataclasses.asdict(one) for one in done]}))
        return
    for one in done:
        consumers = counted(one.consumers_count, "consumer")
        text = f"{restored_text(one)}, {consumers}"
        click.echo(clean_line("; ".join((text, *one.remarks))))
