"""`natstui pub` and `natstui request`: send messages from the command line."""

from __future__ import annotations

import json
from typing import Any

import click

from natstui.clean import clean_line
from natstui.cli.core.options import MessageOptions, message_options, parse_optional_seconds
from natstui.cli.core.printer import MessagePrinter, output_format
from natstui.cli.manage.writing import write_confirmed
from natstui.cli.options import COUNT, COUNT_OR_ZERO, change_flags, connection_options
from natstui.cli.sections import command
from natstui.config import Connection
from natstui.engine.stopping import cancel_on_signal
from natstui.errors import Interrupted, NatstuiError, RequestFailed, UsageError
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.messages.publish import MessageBatch, publish_batch, request_replies
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
    "is_jetstream",
    is_flag=True,
    help="Wait until a stream has stored each message.",
)
@change_flags
@connection_options
def pub(
    connection: Connection,
    subject: str,
    message: MessageOptions,
    count: int,
    sleep: str | None,
    reply: str,
    is_jetstream: bool,
    **flags: Any,
) -> None:
    """Publish PAYLOAD to SUBJECT.

    Without PAYLOAD, the payload is read from stdin. When the command ends, the server has received
    all messages; with -J, a stream has stored them.
    """
    if is_jetstream and reply:
        raise UsageError("--reply and --jetstream: the stream's acknowledgement is the reply")
    sleep_s = parse_optional_seconds(sleep, "--sleep") or 0.0

    def create_batch(confirmed_name: str | None) -> MessageBatch:
        return MessageBatch(
            subject, message.payloads(count), count, len(message.payload), message.headers,
            reply, sleep_s, is_jetstream, confirmed_name,
        )  # fmt: skip

    create_batch(None)  # raises before there is a connection
    batches: list[MessageBatch] = []

    async def send(writer: Writer, confirmed_name: str | None) -> None:
        batches[:] = [create_batch(confirmed_name)]
        with cancel_on_signal("publishing"):
            await publish_batch(writer, batches[0])

    try:
        write_confirmed(connection, flags, send)
    except NatstuiError as error:
        is_stopped = isinstance(error, Interrupted)
        if batches and (batches[0].sent_count or is_stopped):
            text = _sent_text(batches[0])
            if is_jetstream:
                text += ", all acknowledged,"
            elif batches[0].sent_count:
                # Without acknowledgements, what arrived is known only at the end.
                text = f"at most {text}, arrived"
            if is_stopped and batches[0].unacked_payload is not None:
                text += " and 1 more without an acknowledgement"
            click.echo(clean_line(f"natstui: {text} before this:"), err=True)
        raise
    _print_batch(batches[0], as_json=flags["as_json"])
    if batches[0].kept_no_message and (text := _not_kept_text(batches[0])):
        raise RequestFailed(text)


def _print_batch(batch: MessageBatch, *, as_json: bool) -> None:
    last_ack = batch.acks[-1] if batch.acks else None
    if as_json:
        result: dict[str, Any] = {
            "subject": batch.subject,
            "sent_msgs": batch.sent_count,
            "payload_bytes": batch.payload_bytes,
        }
        if last_ack is not None:
            result |= {
                "stream": last_ack.stream,
                "domain": last_ack.domain,
                "first_seq": batch.acks[0].stored_seq,
                "last_seq": last_ack.stored_seq,
                "duplicate_msgs": batch.duplicates_count,
                "not_kept_msgs": batch.not_kept[0] if batch.not_kept else 0,
            }
        click.echo(json.dumps(result))
        return
    text = _sent_text(batch)
    if last_ack is not None:
        stored_count = batch.sent_count - batch.duplicates_count
        stored_text = f"{stored_count:,} of them " if batch.duplicates_count else ""
        acked_or_stored_text = (
            "acknowledged by"
            if batch.kept_no_message or not batch.is_kept_count_known
            else "stored in"
        )
        text += f", {stored_text}{acked_or_stored_text} {last_ack.stream_text}"
        text += f" up to sequence {last_ack.stored_seq}" if stored_count else ""
        if batch.duplicates_count:
            text += (
                f"; {batch.duplicates_count:,} not stored: within the duplicate window the stream "
                "had a message with the same Nats-Msg-Id, which may be removed by now"
            )
        if (not_kept_text := _not_kept_text(batch)) and not batch.kept_no_message:
            text += f"; {not_kept_text}"
    click.echo(clean_line(f"{text}."))


def _not_kept_text(batch: MessageBatch) -> str:
    """Return a text with the number of acked messages that were not kept, and why; empty for
    none.
    """
    if batch.not_kept is None:
        return ""
    count, reason = batch.not_kept
    return f"{counted(f'{count:,}', 'message')} acknowledged and not kept by {reason}"


def _sent_text(batch: MessageBatch) -> str:
    messages_text = counted(batch.sent_count, "message")
    return f"{messages_text}, {bytes_text(batch.payload_bytes)}, sent to {batch.subject}"


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
    message: MessageOptions,
    timeout: str,
    replies: int,
    raw: bool,
    **flags: Any,
) -> None:
    """Send PAYLOAD to SUBJECT and print the reply."""
    timeout_s = parse_optional_seconds(timeout, "--timeout") or 0.0
    payloads = tuple(message.payloads(1))
    printer = MessagePrinter(output_format({**flags, "raw": raw}))

    async def send_request(writer: Writer, confirmed_name: str | None) -> None:
        payload_bytes = len(message.payload)
        batch = MessageBatch(
            subject, payloads, 1, payload_bytes, message.headers, confirmed=confirmed_name
        )
        await request_replies(writer, batch, replies, timeout_s, printer.write)

    write_confirmed(connection, flags, send_request)
