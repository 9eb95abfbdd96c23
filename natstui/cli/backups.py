"""`natstui backup|restore` and `natstui stream backup|restore`: streams in a backup folder."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click
from msgspec import to_builtins

from natstui.clean import clean_line
from natstui.cli.complete import stream_argument
from natstui.cli.manage.names import parse_name
from natstui.cli.manage.writing import confirm_preview, refuse_read_only, run_with_writer
from natstui.cli.options import (
    ConnectionFlags,
    OutputPath,
    change_flags,
    connection_flags,
    connection_options,
    json_flag,
)
from natstui.cli.sections import command
from natstui.cli.terminal_line import TerminalLine
from natstui.config import Connection
from natstui.engine.stopping import cancel_on_signal
from natstui.errors import BackupError, NatstuiError, RequestFailed, UsageError
from natstui.jetstream.connection.decode.streams import read_state, state_fields
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.managing.backup import (
    WrittenBackup,
    back_up_account,
    back_up_stream,
    consumers_text,
    incomplete_texts,
)
from natstui.jetstream.managing.backup_folder import (
    find_stream_folders,
    is_account_backup,
    left_out_text,
    read_backup,
    read_left_out,
    removed_text,
)
from natstui.jetstream.managing.restore import (
    RestoredStream,
    RestoreRequest,
    read_backups,
    restore_all,
    restore_confirmation,
    restored_text,
    state_text,
)
from natstui.jetstream.managing.snapshot import RateLimit
from natstui.paths import expand_user_path
from natstui.units import bytes_text, counted, parse_bytes

T = TypeVar("T")

rate_option = click.option("--rate", metavar="SIZE", help="Maximum bytes per second: 500KB, 10MB.")
consumers_option = click.option(
    "--consumers/--no-consumers", default=True, help="Include consumers (default: yes)."
)
_MIN_BYTES_PER_S = 1024
_UNCHECKED_TEXT = "frames complete; contents not checked: the backup has no checksum"
_replicas_option = click.option(
    "--replicas",
    type=click.IntRange(min=1, max=5),
    help="Number of replicas, instead of the number in the backup.",
)


def parse_rate_limit(rate: str | None) -> RateLimit:
    """Return the limit of `--rate`: bytes per second, as `10MB` or `10MB/s`; None: unlimited.

    Raises UsageError for an invalid size, and below 1 KB.
    """
    if rate is None:
        return RateLimit()
    try:
        bytes_per_s = parse_bytes(rate.removesuffix("/s"))
    except ValueError as error:
        raise UsageError(f"--rate: {error}") from error
    if bytes_per_s < _MIN_BYTES_PER_S:
        raise UsageError("--rate: at least 1KB, or the server aborts the transfer")
    return RateLimit(bytes_per_s)


def parse_folder(text: str) -> Path:
    """Return the path of a typed folder, with `~` replaced.

    Raises UsageError for an unknown user, and for an empty text, which would be the current
    folder.
    """
    if not text.strip():
        raise UsageError("DIR is empty: for the current folder, write .")
    return expand_user_path(text)


class BytesLine(TerminalLine):
    """A terminal line that shows how much of a stream or file has been sent."""

    def show_bytes(self, name: str, done_bytes: int, total_bytes: int | None = None) -> None:
        """Show a name and the number of bytes that are done; with `total_bytes`, also the
        total.
        """
        total_text = f" of {bytes_text(total_bytes)}" if total_bytes else ""
        self.show(f"{name}: {bytes_text(done_bytes)}{total_text}")


def run_stoppable(
    connection: Connection, read_only: bool, label: str, work: Callable[[Writer], Awaitable[T]]
) -> T:
    """Connect, return the result of the work, and close.

    SIGINT, SIGTERM and SIGHUP cancel the work, which cleans up; then raises Interrupted with
    `label`. Also raises ConnectionFailed and the errors of the work.
    """

    async def run(writer: Writer) -> T:
        with cancel_on_signal(label):
            return await work(writer)

    return run_with_writer(connection, read_only, run, work_prints=True)


@command("backup")
@stream_argument
@click.argument("folder", metavar="DIR", type=OutputPath())
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
    **_flags: Any,
) -> None:
    """Back up the stream NAME into DIR.

    Writes its configuration, consumers and messages. DIR must not exist; it appears when the
    backup is completely on disk.
    """
    stream, target = parse_name(name), parse_folder(folder)
    rate_limit, progress_line = parse_rate_limit(rate), BytesLine()
    try:
        backup_results = run_stoppable(
            connection, True, f"the backup of {stream}",
            lambda writer: back_up_stream(
                writer.client, stream, target, rate_limit, progress_line.show_bytes,
                consumers=consumers,
            ),
        )  # fmt: skip
    finally:
        progress_line.clear()
    _print_backup_results([backup_results], target, [], as_json=as_json)


@command()
@click.argument("arguments", metavar="[verify] DIR", nargs=-1, required=True, type=OutputPath())
@consumers_option
@rate_option
@json_flag
@connection_flags
def backup(
    flags: ConnectionFlags,
    arguments: tuple[str, ...],
    consumers: bool,
    rate: str | None,
    as_json: bool,
) -> None:
    """Back up every stream of the account into DIR.

    `natstui backup verify DIR` checks a backup. DIR must not exist; it appears when the backup is
    completely on disk.
    """
    *subcommands, folder = arguments
    if subcommands == ["verify"]:
        _verify_backups(parse_folder(folder), as_json=as_json)
        return
    if subcommands or folder == "verify":
        raise UsageError(
            "write backup DIR, or backup verify DIR; for a folder named verify, write ./verify"
        )
    _, connection = flags.resolve()
    target, rate_limit, progress_line = parse_folder(folder), parse_rate_limit(rate), BytesLine()
    left_out_stream_texts = list[str]()
    try:
        backup_results = run_stoppable(
            connection, True, "the backup",
            lambda writer: back_up_account(
                writer.client, target, rate_limit, progress_line.show_bytes, left_out_stream_texts,
                consumers=consumers,
            ),
        )  # fmt: skip
    finally:
        progress_line.clear()
    _print_backup_results(backup_results, target, left_out_stream_texts, as_json=as_json)


def _print_backup_results(
    backup_results: Sequence[WrittenBackup],
    target: Path,
    left_out_stream_texts: Sequence[str],
    *,
    as_json: bool,
) -> None:
    """Print the result for each stream; raises RequestFailed if the backup is incomplete.

    `left_out_stream_texts` are the reasons why streams are not in the backup of an account.
    """
    if as_json:
        rows = [to_builtins(result) for result in backup_results]
        click.echo(json.dumps({"folder": str(target), "streams": rows}))
    for result in [] if as_json else backup_results:
        consumers = consumers_text(result)
        size_text = f"{bytes_text(result.data_bytes)} in {target}"
        text = f"{result.stream}: {state_text(read_state(result.state))}, {consumers}; {size_text}"
        remark = result.remark if result.is_whole else ""
        click.echo(clean_line("; ".join(filter(None, (text, remark)))))
    if problems := incomplete_texts(backup_results, left_out_stream_texts):
        raise RequestFailed(f"the backup is not complete: {'; '.join(problems)}")


def _verify_backups(folder: Path, *, as_json: bool) -> None:
    """Check every backup of a folder, and print the results.

    Raises BackupError at once for a damaged backup, and at the end if messages were removed during
    a backup, or if a stream is missing.
    """
    if not folder.is_dir():
        raise BackupError(f"there is no folder {folder}")
    folders = find_stream_folders(folder) if is_account_backup(folder) else [folder]
    rows, incomplete_names = [], list[str]()
    for stored_backup in map(read_backup, folders):
        rows.append(
            {
                "stream": stored_backup.stream,
                "checksum": stored_backup.has_checksum,
                "state": stored_backup.raw_state,
                "consumers": stored_backup.consumers,
                "data_bytes": stored_backup.data_bytes,
                "removed_msgs": stored_backup.removed_msgs,
                "whole": stored_backup.is_complete,
            }
        )
        if not stored_backup.is_complete:
            incomplete_names.append(stored_backup.stream)
        if not as_json:
            remarks = []
            if stored_backup.removed_msgs:
                remarks.append(removed_text(stored_backup.removed_msgs))
            if stored_backup.left_out_consumers:
                remarks.append(left_out_text(stored_backup.left_out_consumers))
            checksum_text = (
                "complete, checksum correct" if stored_backup.has_checksum else _UNCHECKED_TEXT
            )
            if remarks:
                checksum_text = "; ".join(["as written", *remarks])
            click.echo(
                clean_line(
                    f"{stored_backup.stream}: {state_text(stored_backup.state)}; {checksum_text}"
                )
            )
    left_out_stream_texts = read_left_out(folder)
    if as_json:
        result = {"folder": str(folder), "streams": rows, "left_out": left_out_stream_texts}
        click.echo(json.dumps(result))
    if problems := [*filter(None, [", ".join(incomplete_names)]), *left_out_stream_texts]:
        raise BackupError(f"not complete: {'; '.join(problems)}")


@command("restore")
@click.argument("folder", metavar="DIR")
@click.option("--as", "name", metavar="NAME", help="Under another name.")
@click.option(
    "--subjects", "--subject", "subjects", metavar="SUBJECT", multiple=True,
    help="New subjects of the stream; messages keep their subjects. Repeat for several.",
)  # fmt: skip
@_replicas_option
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
    **flags: Any,
) -> None:
    """Restore a stream from the backup in DIR.

    Compares the restored stream with the backup. Never replaces an existing stream.
    """
    rate_limit, stored_backup = parse_rate_limit(rate), read_backup(parse_folder(folder))
    restore_request = RestoreRequest(
        stored_backup, parse_name(name or stored_backup.stream), replicas, subjects
    )
    _restore_streams(connection, [restore_request], rate_limit, flags)


@command()
@click.argument("folder", metavar="DIR")
@_replicas_option
@rate_option
@change_flags
@connection_options
def restore(
    connection: Connection, folder: str, replicas: int | None, rate: str | None, **flags: Any
) -> None:
    """Restore every stream of an account's backup.

    Reads the backup in DIR and compares each restored stream with it. Restores nothing if one of
    the streams exists already.
    """
    rate_limit, account_folder = parse_rate_limit(rate), parse_folder(folder)
    if not account_folder.is_dir() or not is_account_backup(account_folder):
        raise BackupError(
            f"{account_folder} is not the backup of an account; for the backup of a stream use "
            "`natstui stream restore`"
        )
    restore_requests = [
        RestoreRequest(stored_backup, parse_name(stored_backup.stream), replicas)
        for stored_backup in read_backups(account_folder)
    ]
    if left_out_stream_texts := read_left_out(account_folder):
        text = f"natstui: not in this backup: {'; '.join(left_out_stream_texts)}"
        click.echo(clean_line(text), err=True)
    _restore_streams(connection, restore_requests, rate_limit, flags)


def _restore_streams(
    connection: Connection,
    restore_requests: Sequence[RestoreRequest],
    rate_limit: RateLimit,
    flags: dict[str, Any],
) -> None:
    refuse_read_only(connection, flags["read_only"])
    for restore_request in restore_requests:
        _ = restore_request.config  # raises before there is a connection
    confirmation = run_with_writer(
        connection,
        flags["read_only"],
        lambda writer: restore_confirmation(writer, restore_requests),
    )
    is_confirmed = confirm_preview(connection, confirmation, flags) == confirmation.name
    restored_streams, progress_line = list[RestoredStream](), BytesLine()

    async def work(writer: Writer) -> None:
        await restore_all(
            writer,
            restore_requests,
            rate_limit,
            progress_line.show_bytes,
            restored_streams,
            is_confirmed=is_confirmed,
        )

    try:
        run_stoppable(connection, flags["read_only"], "the restore", work)
    except NatstuiError:
        if restored_streams:
            names = ", ".join(stream.name for stream in restored_streams)
            click.echo(clean_line(f"natstui: restored before this: {names}"), err=True)
        raise
    finally:
        progress_line.clear()
    _print_restored_streams(restored_streams, as_json=flags["as_json"])


def _print_restored_streams(restored_streams: Sequence[RestoredStream], *, as_json: bool) -> None:
    if as_json:
        rows = [
            to_builtins(stream) | {"state": state_fields(stream.state)}
            for stream in restored_streams
        ]
        click.echo(json.dumps({"streams": rows}))
        return
    for stream in restored_streams:
        consumers = counted(stream.consumers_count, "consumer")
        text = f"{restored_text(stream)}, {consumers}"
        click.echo(clean_line("; ".join((text, *stream.remarks))))
