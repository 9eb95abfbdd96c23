"""`natstui consumer next`: take messages of a pull consumer, and say what becomes of them."""

from __future__ import annotations

from typing import Any

import click

from natstui.cli.complete import consumer_name, on_stream
from natstui.cli.core.arrived import Printer, form_of
from natstui.cli.core.options import seconds_of
from natstui.cli.manage.names import given_name
from natstui.cli.manage.writing import (
    change_flags,
    write_confirmed,
)
from natstui.cli.options import connection_options
from natstui.cli.sections import command
from natstui.config import Connection
from natstui.errors import UsageError
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.messages.pull import answer, pull_next
from natstui.model.records.messages import AnswerMessage, PulledMessage, PullNext


@command("next")
@on_stream
@consumer_name
@click.option("--ack/--no-ack", default=None, help="Ack them or not; one of both is required.")
@click.option("--count", metavar="NUMBER", type=click.IntRange(min=1), default=1, help="How many.")
@click.option("--wait", metavar="TIME", default="5s", help="For each, so long at most: 500ms, 2s.")
@click.option("--raw", "-r", is_flag=True, help="Only payloads, as they are, each on a line.")
@change_flags
@connection_options
def take_next(
    connection: Connection,
    stream: str,
    name: str,
    ack: bool | None,
    count: int,
    wait: str,
    **words: Any,
) -> None:
    """Receive the next message of a consumer.

    NAME is a pull consumer on STREAM. Nobody else receives the message meanwhile: with --ack
    never, with --no-ack again after the ack wait.
    """
    if ack is None:
        raise UsageError(
            "say --ack, and nobody else gets the message, or --no-ack, and it is delivered again "
            "when the ack wait is over"
        )
    wait_s = seconds_of(wait, "--wait") or 0.0
    stream, name = given_name(stream), given_name(name)
    printer = Printer(form_of(words))

    async def take(writer: Writer, confirmed: str | None) -> None:
        for _ in range(count):
            asked = PullNext(0, stream, name, wait_s, confirmed=confirmed)
            pulled = await pull_next(writer, asked)
            printer.show(pulled.message, more_of(pulled))
            if ack:
                reply = pulled.reply
                done = AnswerMessage(0, name, reply, "double_ack", confirmed=confirmed)
                await answer(writer, done)

    write_confirmed(connection, words, take)


def more_of(pulled: PulledMessage) -> dict[str, object]:
    """Return what is known of a message beside what is stored of it."""
    return {
        "deliveries_count": pulled.deliveries_count,
        "pending_msgs": pulled.pending_msgs,
        "reply": pulled.reply,
    }
