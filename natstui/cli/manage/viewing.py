"""`natstui stream view|get|subjects`: what a stream has, read without a consumer."""

from __future__ import annotations

import base64
import json
import os
import sys
from dataclasses import asdict, replace
from typing import Any

import click

from natstui.clean import clean_line
from natstui.cli.complete import stream_name
from natstui.cli.connected import run_connected
from natstui.cli.core.arrived import Printer, form_of
from natstui.cli.core.options import moment_of
from natstui.cli.manage.names import given_name, given_subject
from natstui.cli.options import COUNT, SEQUENCE, connection_options
from natstui.cli.options import as_json as json_flag
from natstui.cli.sections import command
from natstui.cli.text_table import print_rows
from natstui.config import Connection
from natstui.errors import NotFound, UsageError
from natstui.jetstream.connection.client import Client
from natstui.jetstream.messages.browse import browse, count_subjects, read_message
from natstui.jetstream.messages.decode import from_api
from natstui.model.assets.subjects import is_subject
from natstui.model.records.messages import BrowseMessages, ReadMessage, StoredMessage
from natstui.units import counted

_WHOLE_BYTES = 2**31
"""A payload is never longer."""


@command()
@stream_name
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
    **words: Any,
) -> None:
    """Print the newest messages of a stream. Prints SIZE messages; creates no consumer."""
    if sum(one is not None for one in (from_seq, since, before)) > 1:
        raise UsageError("use only one of --id, --since and --before")
    subject, moment = _subject(words["subject"]), moment_of(since, "--since")
    asked = BrowseMessages(
        0,
        given_name(name),
        newer=from_seq is not None,
        from_seq=from_seq or before,
        from_time=None if moment is None else moment.isoformat(),
        filter_subject=subject,
        last_per_subject=words["last_per_subject"],
        preview_bytes=_WHOLE_BYTES,
    )
    printer = Printer(form_of(words))
    try:
        left = run_connected(connection, lambda c: _print(c, asked, size, printer), prints=True)
    except BrokenPipeError:
        # The reader has closed the pipe; what Python still flushes is thrown away.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return
    text = f"natstui: {counted(printer.printed_count, 'message')}{left}"
    click.echo(clean_line(text), err=True)


def _subject(text: str | None) -> str | None:
    if text is not None and not is_subject(text):
        raise UsageError(f"--subject: {text!r} is not a valid subject")
    return text


async def _print(client: Client, asked: BrowseMessages, size: int, printer: Printer) -> str:
    """Print pages until there are enough; return what there is beyond, in words."""
    while True:
        page = await browse(client, replace(asked, page_msgs=size - printer.printed_count))
        for message in page.messages[: size - printer.printed_count]:
            printer.show(message, {})
        forwards = asked.newer or asked.from_time is not None
        if not forwards:
            return f"; for earlier ones: --before {page.older_seq}" if page.older_seq else ""
        if page.newer_seq is None or not page.messages:
            return ""
        if printer.printed_count >= size:
            return f"; for later ones: --id {page.newer_seq}"
        asked = replace(asked, newer=True, from_seq=page.newer_seq, from_time=None)


@command()
@stream_name
@click.argument("seq", type=SEQUENCE, required=False)
@click.option(
    "--last-for",
    metavar="SUBJECT",
    callback=given_subject,
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
    **_words: Any,
) -> None:
    """Print the payload of a stored message.

    Prints the payload unchanged; --json adds sequence, time and headers.
    """
    given_name(name)
    if (seq is None) == (last_for is None):
        raise UsageError("add a sequence, or --last-for SUBJECT")

    async def work(client: Client) -> StoredMessage:
        if seq is not None:
            return await read_message(client, ReadMessage(0, name, seq))
        body = {"last_by_subj": last_for}
        return from_api(await client.request(f"STREAM.MSG.GET.{name}", body), None)

    try:
        message = run_connected(connection, work)
    except NotFound as error:
        if error.err_code != 10037:
            raise
        raise NotFound(f"stream {name} has no such message") from error
    if as_json:
        click.echo(json.dumps(asdict(message)))
        return
    sys.stdout.buffer.write(base64.b64decode(message.payload_base64))


@command()
@stream_name
@click.argument("wanted", metavar="[SUBJECT]", default=">")
@click.option("--sort", type=click.Choice(("messages", "name")), default="messages")
@json_flag
@connection_options
def subjects(
    connection: Connection, name: str, wanted: str, sort: str, as_json: bool, **_words: Any
) -> None:
    """Count the messages of each subject. NAME is the stream."""
    stream, subject = given_name(name), _subject(wanted) or ">"
    found = run_connected(connection, lambda client: count_subjects(client, stream, subject))
    rows = sorted(found.items(), key=lambda row: (-row[1], row[0]) if sort == "messages" else row)
    if as_json:
        click.echo(json.dumps(dict(rows)))
        return
    print_rows(
        ("SUBJECT", "MESSAGES"), [(one, f"{count:,}") for one, count in rows], words_count=1
    )
