"""`natstui pub` and `natstui request`: send messages from the command line."""

from __future__ import annotations

import json
from typing import Any

import click

from natstui.clean import clean_line
from natstui.cli.core.arrived import Printer, form_of
from natstui.cli.core.options import MessageOptions, message_options, seconds_of
from natstui.cli.manage.writing import (
    change_flags,
    write_confirmed,
)
from natstui.cli.options import COUNT, COUNT_OR_ZERO, connection_options
from natstui.cli.sections import command
from natstui.config import Connection
from natstui.errors import NatstuiError, RequestFailed, UsageError
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.messages.publish import Batch, publish_batch, request_replies
from natstui.units import bytes_text, counted


@command()
@click.argument("subject")
@message_options
@click.option("--count", metavar="NUMBER", type=COUNT, default=1, help="How many.")
@click.option("--sleep", metavar="TIME", help="Pause between two messages: 100ms, 2s.")
@click.option("--reply", metavar="SUBJECT", default="", help="The subject for replies.")
@click.option(
    "--jetstream",
    "-J",
    "stored",
    is_flag=True,
    help="Wait until a stream has stored each message.",
)
@change_flags
@connection_options
def pub(
    connection: Connection,
    subject: str,
    given: MessageOptions,
    count: int,
    sleep: str | None,
    reply: str,
    stored: bool,
    **words: Any,
) -> None:
    """Publish PAYLOAD to SUBJECT.

    Without PAYLOAD, the payload is read from stdin. When the command ends, the server has received
    all messages; with -J, a stream has stored them.
    """
    if stored and reply:
        raise UsageError("--reply and --jetstream: the stream's acknowledgement is the reply")
    sleep_s = seconds_of(sleep, "--sleep") or 0.0

    def batch(confirmed: str | None) -> Batch:
        return Batch(
            subject, given.payloads(count), count, len(given.payload), given.headers,
            reply, sleep_s, stored, confirmed,
        )  # fmt: skip

    batch(None)  # what is wrong with it is said before there is a connection
    sent: list[Batch] = []

    async def send(writer: Writer, confirmed: str | None) -> None:
        sent[:] = [batch(confirmed)]
        await publish_batch(writer, sent[0])

    try:
        write_confirmed(connection, words, send)
    except NatstuiError:
        if sent and sent[0].sent_count:
            click.echo(f"natstui: {_sent_text(sent[0])} before this:", err=True)
        raise
    _print(sent[0], as_json=words["as_json"])
    if sent[0].is_lost and (text := _not_kept_text(sent[0])):
        raise RequestFailed(text)


def _print(batch: Batch, *, as_json: bool) -> None:
    last = batch.acks[-1] if batch.acks else None
    if as_json:
        told: dict[str, Any] = {
            "subject": batch.subject,
            "sent_msgs": batch.sent_count,
            "payload_bytes": batch.payload_bytes,
        }
        if last is not None:
            told |= {
                "stream": last.stream,
                "first_seq": batch.acks[0].stored_seq,
                "last_seq": last.stored_seq,
                "duplicate_msgs": batch.duplicates_count,
                "not_kept_msgs": batch.not_kept[0] if batch.not_kept else 0,
            }
        click.echo(json.dumps(told))
        return
    text = _sent_text(batch)
    if last is not None:
        stored_count = batch.sent_count - batch.duplicates_count
        how_many = f"{stored_count:,} of them " if batch.duplicates_count else ""
        verb = "acknowledged by" if batch.is_lost or not batch.is_checked else "stored in"
        text += f", {how_many}{verb} {last.stream}"
        text += f" up to sequence {last.stored_seq}" if stored_count else ""
        if batch.duplicates_count:
            text += (
                f"; {batch.duplicates_count:,} not stored: within the duplicate window the stream "
                "had a message with the same Nats-Msg-Id, which may be removed by now"
            )
        if (not_kept := _not_kept_text(batch)) and not batch.is_lost:
            text += f"; {not_kept}"
    click.echo(clean_line(f"{text}."))


def _not_kept_text(batch: Batch) -> str:
    """Return how many messages did not stay, and why; empty when all did."""
    if batch.not_kept is None:
        return ""
    count, reason = batch.not_kept
    return f"{counted(f'{count:,}', 'message')} acknowledged and not kept by {reason}"


def _sent_text(batch: Batch) -> str:
    what = counted(batch.sent_count, "message")
    return f"{what}, {bytes_text(batch.payload_bytes)}, sent to {batch.subject}"


@command()
@click.argument("subject")
@message_options
@click.option("--timeout", metavar="TIME", default="5s", help="How long to wait: 500ms, 2s.")
@click.option(
    "--replies", metavar="NUMBER", type=COUNT_OR_ZERO, default=1,
    help="Replies to wait for; 0: all that arrive in time.",
)  # fmt: skip
@click.option("--raw", "-r", is_flag=True, help="Print only the unchanged payload.")
@change_flags
@connection_options
def request(
    connection: Connection,
    subject: str,
    given: MessageOptions,
    timeout: str,
    replies: int,
    raw: bool,
    **words: Any,
) -> None:
    """Send PAYLOAD to SUBJECT and print the reply."""
    timeout_s = seconds_of(timeout, "--timeout") or 0.0
    payloads = tuple(given.payloads(1))
    printer = Printer(form_of({**words, "raw": raw}))

    async def ask(writer: Writer, confirmed: str | None) -> None:
        length_bytes = len(given.payload)
        asked = Batch(subject, payloads, 1, length_bytes, given.headers, confirmed=confirmed)
        await request_replies(writer, asked, replies, timeout_s, printer.write)

    write_confirmed(connection, words, ask)
