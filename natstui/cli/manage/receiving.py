"""`natstui consumer sub` and `next`: receive the messages of a consumer."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from natstui.clean import clean_line
from natstui.cli.complete import consumer_name, on_stream
from natstui.cli.core.arrived import Printer, form_of
from natstui.cli.core.options import seconds_of
from natstui.cli.manage.names import given_name
from natstui.cli.manage.writing import (
    change_flags,
    refuse_read_only,
    write_confirmed,
)
from natstui.cli.options import COUNT, connection_options
from natstui.cli.sections import command
from natstui.config import Connection
from natstui.engine.stopping import stopped_by_signal
from natstui.errors import Refused, UsageError
from natstui.jetstream.connection.writer import Config, Writer
from natstui.jetstream.messages.pull import answer, pull_next
from natstui.jetstream.messages.receive import Receiver, read_consumer
from natstui.model.records.messages import AnswerMessage, PulledMessage, PullNext
from natstui.units import counted, duration_text


@command()
@on_stream
@consumer_name
@click.option(
    "--ack/--no-ack", default=False,
    help="Acknowledge each message after printing; otherwise messages are redelivered.",
)  # fmt: skip
@click.option("--count", metavar="NUMBER", type=COUNT, help="End after this many messages.")
@click.option("--duration", metavar="TIME", help="End after this time: 500ms, 2s.")
@click.option("--raw", "-r", is_flag=True, help="Print only the unchanged payloads, one per line.")
@click.option("--headers-only", is_flag=True, help="No payloads.")
@change_flags
@connection_options
def sub(
    connection: Connection, stream: str, name: str, ack: bool, count: int | None,
    duration: str | None, **words: Any,
) -> None:  # fmt: skip
    """Print the messages of a consumer.

    Runs until it is stopped. Other clients of the consumer do not receive these messages: with
    --ack never, otherwise only after the ack wait. Each receipt counts as a delivery.
    """
    refuse_read_only(connection, words["read_only"])
    most_s, printer = seconds_of(duration, "--duration"), Printer(form_of(words))
    stream, name = given_name(stream), given_name(name)
    begun: list[Receiver] = []

    async def receive(writer: Writer, confirmed: str | None) -> None:
        info = await read_consumer(writer.client, stream, name)
        config = info["config"]
        _check_ack(info, name, ack)
        if not begun:
            _tell(_meaning(config, ack))
        receiver = Receiver(
            stream, name, config, ack, count, most_s,
            lambda pulled: printer.show(pulled.message, more_of(pulled)),
            lambda: _tell(f"receiving from {name} on {stream}"),
            stopped_by_signal(),
        )  # fmt: skip
        begun[:] = [receiver]
        await receiver.receive(writer, confirmed)

    try:
        write_confirmed(connection, words, receive)
    except BrokenPipeError:
        # The reader has closed the pipe; what Python still flushes is thrown away.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        if begun:
            _tell(_account(begun[0]))


def _check_ack(info: Config, name: str, ack: bool) -> None:
    """Refuse acknowledgements that mean nothing, or that take messages from who has them."""
    config = info["config"]
    if ack and config.get("ack_policy") == "none":
        raise UsageError(f"{name} has ack policy none: omit --ack")
    if ack and info.get("push_bound") and not config.get("deliver_group"):
        raise Refused(
            f"{name} delivers the same messages to another client: --ack would acknowledge "
            "messages that it is still processing"
        )


def _meaning(config: Config, ack: bool) -> str:
    """Return what becomes of the messages that are printed."""
    policy = config.get("ack_policy")
    if policy == "none":
        return "this consumer has ack policy none: received messages are not redelivered"
    if ack:
        before = ", together with all earlier ones" if policy == "all" else ""
        return f"each message is acknowledged after printing{before}, and is not redelivered"
    wait_ns = (config.get("backoff") or [config.get("ack_wait") or 0])[0]
    most = config.get("max_deliver") or -1
    end = f"; after {counted(most, 'delivery')} it is dropped" if most > 0 else ""
    return (
        "nothing is acknowledged: each message is redelivered after "
        f"{duration_text(wait_ns / 1e9)}, and this receipt counts as a delivery{end}"
    )


def _account(receiver: Receiver) -> str:
    text = f"{counted(receiver.received_count, 'message')}, "
    text += f"{receiver.acknowledged_count} acknowledged"
    if receiver.unseen_count:
        text += f"; {receiver.unseen_count} more arrived but were not printed"
    if receiver.foreign_count:
        text += f"; {receiver.foreign_count} of other senders on the deliver subject left out"
    if receiver.lost_count:
        text += f"; the connection was lost {counted(receiver.lost_count, 'time')}"
    return text


def _tell(text: str) -> None:
    click.echo(clean_line(f"natstui: {text}"), err=True)


@command("next")
@on_stream
@consumer_name
@click.option(
    "--ack/--no-ack", default=None, help="Whether to ack the messages; one of both is required."
)
@click.option("--count", metavar="NUMBER", type=COUNT, default=1, help="How many.")
@click.option(
    "--wait", metavar="TIME", default="5s", help="Longest wait for each message: 500ms, 2s."
)
@click.option("--raw", "-r", is_flag=True, help="Print only the unchanged payloads, one per line.")
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

    NAME is a pull consumer on STREAM. No other client receives the message: with --ack never, with
    --no-ack only after the ack wait.
    """
    if ack is None:
        raise UsageError(
            "use --ack (no other client receives the message) or --no-ack (redelivered after "
            "the ack wait)"
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
