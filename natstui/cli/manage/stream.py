"""`natstui stream …`: lists of streams and of gaps, and the messages that a stream stores."""

from __future__ import annotations

import base64
import json
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click
from msgspec import to_builtins

from natstui.clean import clean_line
from natstui.cli.complete import stream_argument
from natstui.cli.connected import run_connected
from natstui.cli.listing import print_streams
from natstui.cli.manage.names import parse_name, parse_subject
from natstui.cli.options import COUNT, SEQUENCE, connection_options, json_flag
from natstui.cli.sections import LazyGroup
from natstui.cli.text_table import cut_text, print_columns, print_rows
from natstui.errors import NotFound, UsageError
from natstui.model.assets.subjects import is_valid_subject
from natstui.model.columns.streams import STREAM_COLUMNS
from natstui.units import bytes_text, count_text, counted
from natstui.values import replace

if TYPE_CHECKING:
    from natstui.cli.core.printer import MessagePrinter
    from natstui.config import Connection
    from natstui.jetstream.connection.client import Client
    from natstui.jetstream.connection.decode.streams import StreamRow
    from natstui.model.records.messages import BrowseMessages, StoredMessage

_MAX_SUBJECTS_CELLS = 60
_MAX_PAYLOAD_BYTES = 2**31
"""Limit of a payload."""


@click.group(
    cls=LazyGroup,
    import_paths={
        "add": "natstui.cli.manage.stream_changes:add",
        "copy": "natstui.cli.manage.stream_changes:copy",
        "edit": "natstui.cli.manage.stream_changes:edit",
        "move": "natstui.cli.manage.stream_changes:move",
        "peer-remove": "natstui.cli.manage.stream_changes:peer_remove",
        "purge": "natstui.cli.manage.stream_changes:purge",
        "rm": "natstui.cli.manage.stream_changes:rm",
        "rmm": "natstui.cli.manage.stream_changes:rmm",
        "scale": "natstui.cli.manage.stream_changes:scale",
        "seal": "natstui.cli.manage.stream_changes:seal",
        "step-down": "natstui.cli.manage.stream_changes:step_down",
        "info": "natstui.cli.manage.info:stream_info",
        "backup": "natstui.cli.backups:stream_backup",
        "restore": "natstui.cli.backups:stream_restore",
        "find": "natstui.cli.watch.find:find_streams",
        "report": "natstui.cli.watch.find:report_streams",
        "publishers": "natstui.cli.clients.stream:publishers",
    },
)
def stream() -> None:
    """Create, change, read and delete streams."""


@stream.command()
@click.option(
    "--subject",
    metavar="SUBJECT",
    callback=parse_subject,
    help="Only streams that store this subject.",
)
@json_flag
@connection_options
def ls(connection: Connection, subject: str | None, as_json: bool, **_flags: Any) -> None:
    """List the streams."""
    print_streams(connection, _print_streams, as_json=as_json, subject=subject)


def _print_streams(rows: Sequence[StreamRow]) -> None:
    print_columns(
        STREAM_COLUMNS,
        ("name", "subjects", "msgs", "bytes", "consumers"),
        [
            (
                row.name,
                _fit_subjects(row.read_config().get("subjects") or ()),
                count_text(row.state.messages),
                bytes_text(row.state.bytes),
                str(row.state.consumer_count),
            )
            for row in rows
        ],
    )


def _fit_subjects(subjects: Sequence[str]) -> str:
    """Return the subjects that fit into a line as text, with the number of the other subjects."""
    text = ",".join(subjects[:_MAX_SUBJECTS_CELLS])
    if len(text) <= _MAX_SUBJECTS_CELLS:
        return text
    fitting_subjects: list[str] = []
    for subject in subjects:
        if fitting_subjects and len(",".join((*fitting_subjects, subject))) > _MAX_SUBJECTS_CELLS:
            break
        fitting_subjects.append(cut_text(subject, _MAX_SUBJECTS_CELLS))
    more_count = len(subjects) - len(fitting_subjects)
    return ",".join(fitting_subjects) + (f" +{more_count:,}" if more_count else "")


@stream.command()
@stream_argument
@json_flag
@connection_options
def gaps(connection: Connection, name: str, as_json: bool, **_flags: Any) -> None:
    """List missing sequences of the stream NAME. Only between its first and last sequence."""
    stream, body = parse_name(name), {"deleted_details": True}
    state = run_connected(connection, lambda client: client.stream_info(stream, body)).state
    # An empty stream says that 0 is missing, which no message can have.
    missing_ranges = ranges_of(sorted(seq for seq in state.deleted or () if seq))
    if as_json:
        rows = [
            {
                "first_seq": first_seq,
                "last_seq": last_seq,
                "missing_msgs": last_seq - first_seq + 1,
            }
            for first_seq, last_seq in missing_ranges
        ]
        click.echo(json.dumps(rows))
        return
    print_rows(
        ("FIRST", "LAST", "MESSAGES"),
        [
            (f"{first_seq}", f"{last_seq}", f"{last_seq - first_seq + 1:,}")
            for first_seq, last_seq in missing_ranges
        ],
        text_columns_count=0,
    )
    missing = counted(f"{state.num_deleted:,}", "message")
    click.echo(f"natstui: {missing} missing in {counted(len(missing_ranges), 'gap')}", err=True)


def ranges_of(numbers: list[int]) -> list[tuple[int, int]]:
    """Return first and last number of each run of consecutive numbers.

    `numbers` are sorted in ascending order, without duplicates.
    """
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and runs[-1][1] == number - 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return runs


@stream.command()
@stream_argument
@click.argument("size", type=COUNT, default=10)
@click.option("--id", "from_seq", type=SEQUENCE, help="First sequence to print.")
@click.option(
    "--since", metavar="TIME", help="Only messages stored since, e.g. 10m ago or a time."
)
@click.option("--before", type=SEQUENCE, help="Print the newest messages before this sequence.")
@click.option("--subject", metavar="SUBJECT", help="Only this subject, may have wildcards.")
@click.option("--last-per-subject", is_flag=True, help="Only the newest message of each subject.")
@click.option("--raw", "-r", is_flag=True, help="Print only the unchanged payloads, one per line.")
@click.option("--headers-only", is_flag=True, help="No payloads.")
@click.option("--subjects-only", is_flag=True, help="Only subjects.")
@click.option("--json", "-j", "as_json", is_flag=True, help="Print one JSON object per line.")
@connection_options
def view(
    connection: Connection,
    name: str,
    size: int,
    from_seq: int | None,
    since: str | None,
    before: int | None,
    **flags: Any,
) -> None:
    """Print the newest messages of a stream. Prints SIZE messages; creates no consumer."""
    from natstui.cli.core.options import parse_optional_time
    from natstui.cli.core.printer import MessagePrinter, output_format
    from natstui.model.records.messages import BrowseMessages

    starts_count = sum(start is not None for start in (from_seq, since, before))
    if starts_count + flags["last_per_subject"] > 1:
        raise UsageError("use only one of --id, --since, --before and --last-per-subject")
    subject, moment = _parse_subject(flags["subject"]), parse_optional_time(since, "--since")
    browse_command = BrowseMessages(
        0,
        parse_name(name),
        newer=from_seq is not None,
        from_seq=from_seq or before,
        from_time=None if moment is None else moment.isoformat(),
        filter_subject=subject,
        last_per_subject=flags["last_per_subject"],
        preview_bytes=_MAX_PAYLOAD_BYTES,
    )
    printer = MessagePrinter(output_format(flags))
    try:
        further_messages_hint = run_connected(
            connection,
            lambda client: _print_messages(client, browse_command, size, printer),
            work_prints=True,
        )
    except BrokenPipeError:
        # The reader has closed the pipe; what Python still flushes is thrown away.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    text = f"natstui: {counted(printer.printed_count, 'message')}{further_messages_hint}"
    click.echo(clean_line(text), err=True)


def _parse_subject(text: str | None) -> str | None:
    if text is not None and not is_valid_subject(text):
        raise UsageError(f"--subject: {text!r} is not a valid subject")
    return text


async def _print_messages(
    client: Client, browse_command: BrowseMessages, size: int, printer: MessagePrinter
) -> str:
    """Print messages page by page until `size` are printed; return how to print further messages.

    The returned text is a clause; it is empty if there are no further messages.
    """
    from natstui.jetstream.messages.browse import browse

    if browse_command.last_per_subject:
        page = await browse(client, browse_command)
        for message in page.messages[-size:]:
            printer.write_stored(message, {})
        more_count = len(page.messages) - printer.printed_count
        more_text = counted(f"{more_count:,}", "more subject")
        return f"; for {more_text}: a larger SIZE" if more_count else ""
    if not browse_command.newer and browse_command.from_time is None:
        older_seq = await _print_newest(client, browse_command, size, printer)
        return f"; for earlier ones: --before {older_seq}" if older_seq else ""
    while True:
        page = await browse(
            client, replace(browse_command, page_msgs=size - printer.printed_count)
        )
        for message in page.messages[: size - printer.printed_count]:
            printer.write_stored(message, {})
        if page.newer_seq is None or not page.messages:
            return ""
        if printer.printed_count >= size:
            return f"; for later ones: --id {page.newer_seq}"
        browse_command = replace(
            browse_command, newer=True, from_seq=page.newer_seq, from_time=None
        )


async def _print_newest(
    client: Client, browse_command: BrowseMessages, size: int, printer: MessagePrinter
) -> int | None:
    """Print the newest `size` messages in order of sequence; return the sequence before which
    there may be earlier ones, None if there are none.

    The pages are read backwards to find the oldest one, and those after it are read again to be
    printed: the memory may be too small for all of them.
    """
    from natstui.jetstream.messages.browse import browse

    page = await browse(client, replace(browse_command, page_msgs=size))
    last_seq = page.messages[-1].stream_seq or 0 if page.messages else 0
    older_seq, missing_count = page.older_seq, size - len(page.messages)
    while older_seq is not None and missing_count > 0:
        older_page = await browse(
            client, replace(browse_command, from_seq=older_seq, page_msgs=missing_count)
        )
        older_seq = older_page.older_seq
        missing_count -= len(older_page.messages)
        page = older_page if older_page.messages else page
    while True:
        for message in page.messages:
            # Later ones were stored since.
            if (message.stream_seq or 0) <= last_seq:
                printer.write_stored(message, {})
        next_seq = page.newer_seq
        if next_seq is None or next_seq > last_seq:
            return older_seq
        remaining_count = size - printer.printed_count
        page = await browse(
            client,
            replace(browse_command, newer=True, from_seq=next_seq, page_msgs=remaining_count),
        )


@stream.command()
@stream_argument
@click.argument("seq", type=SEQUENCE, required=False)
@click.option(
    "--last-for",
    metavar="SUBJECT",
    callback=parse_subject,
    help="The newest message of this subject.",
)
@json_flag
@connection_options
def get(
    connection: Connection,
    name: str,
    seq: int | None,
    last_for: str | None,
    as_json: bool,
    **_flags: Any,
) -> None:
    """Print the payload of a stored message.

    Prints the payload unchanged; --json adds sequence, time and headers.
    """
    from natstui.jetstream.connection.replies import NO_MESSAGE_CODE
    from natstui.jetstream.messages.browse import read_message
    from natstui.jetstream.messages.decode import decode_api_reply
    from natstui.model.records.messages import ReadMessage

    parse_name(name)
    if (seq is None) == (last_for is None):
        raise UsageError("add a sequence, or --last-for SUBJECT")

    async def read_stored(client: Client) -> StoredMessage:
        if seq is not None:
            return await read_message(client, ReadMessage(0, name, seq))
        body = {"last_by_subj": last_for}
        return decode_api_reply(await client.request(f"STREAM.MSG.GET.{name}", body), None)

    try:
        message = run_connected(connection, read_stored)
    except NotFound as error:
        if error.err_code != NO_MESSAGE_CODE:
            raise
        raise NotFound(f"stream {name} has no such message") from error
    if as_json:
        click.echo(json.dumps(to_builtins(message)))
        return
    sys.stdout.buffer.write(base64.b64decode(message.payload_base64))


@stream.command()
@stream_argument
@click.argument("subject_filter", metavar="[SUBJECT]", default=">")
@click.option("--sort", type=click.Choice(("messages", "name")), default="messages")
@json_flag
@connection_options
def subjects(
    connection: Connection, name: str, subject_filter: str, sort: str, as_json: bool, **_flags: Any
) -> None:
    """Count the messages of each subject. NAME is the stream."""
    from natstui.jetstream.messages.browse import count_subjects

    stream, subject = parse_name(name), _parse_subject(subject_filter) or ">"
    counts = run_connected(connection, lambda client: count_subjects(client, stream, subject))
    rows = sorted(counts.items(), key=lambda row: (-row[1], row[0]) if sort == "messages" else row)
    if as_json:
        click.echo(json.dumps(dict(rows)))
        return
    print_rows(
        ("SUBJECT", "MESSAGES"),
        [(subject_name, f"{count:,}") for subject_name, count in rows],
        text_columns_count=1,
    )
