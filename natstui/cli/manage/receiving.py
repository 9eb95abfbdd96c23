"""`natstui consumer sub` and `next`: receive the messages of a consumer."""

from __future__ import annotations

import os
import sys
from typing import Any

import click

from natstui.clean import clean_line
from natstui.cli.complete import consumer_argument, stream_of_consumer_argument
from natstui.cli.core.options import parse_optional_seconds
from natstui.cli.core.printer import MessagePrinter, output_format
from natstui.cli.losses import LossCounter
from natstui.cli.manage.names import parse_name
from natstui.cli.manage.writing import (
    change_flags,
    refuse_read_only,
    write_confirmed,
)
from natstui.cli.options import COUNT, connection_options
from natstui.cli.sections import command
from natstui.cli.terminal_line import print_stderr
from natstui.config import Connection
from natstui.engine.stopping import make_stop_event
from natstui.errors import ActionRefusal, PermissionDenied, UsageError
from natstui.jetstream.connection.decode.consumers import ConsumerRow
from natstui.jetstream.connection.storing import check_ack_consumer
from natstui.jetstream.connection.writer import Config, Writer
from natstui.jetstream.messages.pull import describe_receiving_loss, pull_next, send_ack
from natstui.jetstream.messages.receive import Receiver
from natstui.model.records.messages import AnswerMessage, PulledMessage, PullNext
from natstui.units import counted, duration_text


@command()
@stream_of_consumer_argument
@consumer_argument
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
    duration: str | None, **flags: Any,
) -> None:  # fmt: skip
    """Print the messages of a consumer.

    Runs until it is stopped. Other clients of the consumer do not receive these messages: with
    --ack never, otherwise only after the ack wait. Each receipt counts as a delivery.
    """
    refuse_read_only(connection, flags["read_only"])
    duration_s, printer = (
        parse_optional_seconds(duration, "--duration"),
        MessagePrinter(output_format(flags)),
    )
    stream, name = parse_name(stream), parse_name(name)
    receivers: list[Receiver] = []
    loss_counter = LossCounter("no messages are received in the meantime")

    async def receive_messages(writer: Writer, confirmed_name: str | None) -> None:
        info = await writer.client.consumer_info(stream, name)
        config = info.read_config()
        _check_ack_flag(info, name, ack)
        loss_text = await _read_loss_text(writer, stream, info, count, acks=ack)
        if not receivers:
            print_stderr(_ack_text(config, ack))
        receiver = Receiver(
            stream, name, info, ack, count, duration_s,
            lambda pulled_message: printer.write_stored(
                pulled_message.message, delivery_details(pulled_message)
            ),
            lambda: print_stderr(f"receiving from {name} on {stream}"),
            make_stop_event(),
        )  # fmt: skip
        receivers[:] = [receiver]
        await receiver.receive(writer, confirmed_name, loss_text)

    try:
        write_confirmed(connection, flags, receive_messages, on_link=loss_counter.add)
    except BrokenPipeError:
        # The reader has closed the pipe; what Python still flushes is thrown away.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    finally:
        if receivers:
            print_stderr(f"{_received_summary_text(receivers[0])}{loss_counter.end_text}")


def _check_ack_flag(info: ConsumerRow, name: str, ack: bool) -> None:
    """Raise UsageError for an ack flag without effect, ActionRefusal for one that would ack
    messages of another client.
    """
    config = info.read_config()
    if ack and config.get("ack_policy") == "none":
        raise UsageError(f"{name} has ack policy none: omit --ack")
    if ack and info.push_bound and not config.get("deliver_group"):
        raise ActionRefusal(
            f"{name} delivers the same messages to another client: --ack would acknowledge "
            "messages that it is still processing"
        )


async def _read_loss_text(
    writer: Writer, stream: str, info: ConsumerRow, count: int | None, *, acks: bool
) -> str | None:
    """Return a sentence that says which messages other clients will not receive.

    None if there are no such messages. If the stream cannot be read, prints a note and returns
    None.
    """
    try:
        return await describe_receiving_loss(writer.client, stream, info, count, acks=acks)
    except PermissionDenied:
        print_stderr(_unknown_loss_text(stream))
        return None


def _unknown_loss_text(name: str) -> str:
    return f"not known what other clients will not receive: you may not read {clean_line(name)}"


def _ack_text(config: Config, ack: bool) -> str:
    """Return a sentence that says whether printed messages are acked, or when they are
    redelivered.
    """
    policy = config.get("ack_policy")
    if policy == "none":
        return "this consumer has ack policy none: received messages are not redelivered"
    if ack:
        ack_all_text = ", together with all earlier ones" if policy == "all" else ""
        return f"each message is acknowledged after printing{ack_all_text}, and is not redelivered"
    ack_wait_ns = (config.get("backoff") or [config.get("ack_wait") or 0])[0]
    max_deliver = config.get("max_deliver") or -1
    end_text = (
        f"; after {counted(max_deliver, 'delivery')} it is dropped" if max_deliver > 0 else ""
    )
    return (
        "nothing is acknowledged: each message is redelivered after "
        f"{duration_text(ack_wait_ns / 1e9)}, and this receipt counts as a delivery{end_text}"
    )


def _received_summary_text(receiver: Receiver) -> str:
    text = f"{counted(receiver.received_count, 'message')}, "
    text += f"{receiver.acknowledged_count} acknowledged"
    if receiver.unseen_messages_count:
        text += f"; {receiver.unseen_messages_count} more arrived but were not printed"
    if receiver.dropped_messages_count:
        text += (
            f"; {receiver.dropped_messages_count} dropped unseen: they came faster than they were "
            "printed"
        )
    if receiver.foreign_messages_count:
        text += (
            f"; {receiver.foreign_messages_count} of other senders on the deliver subject left out"
        )
    return text


@command("next")
@stream_of_consumer_argument
@consumer_argument
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
def receive_next(
    connection: Connection,
    stream: str,
    name: str,
    ack: bool | None,
    count: int,
    wait: str,
    **flags: Any,
) -> None:
    """Receive the next message of a consumer.

    NAME is a pull consumer on STREAM. No other client receives the message: with --ack never, with
    --no-ack only after the ack wait. Each receipt counts as a delivery.
    """
    if ack is None:
        raise UsageError(
            "use --ack (no other client receives the message) or --no-ack (redelivered after "
            "the ack wait)"
        )
    wait_s = parse_optional_seconds(wait, "--wait") or 0.0
    stream, name = parse_name(stream), parse_name(name)
    printer = MessagePrinter(output_format(flags))

    async def receive_messages(writer: Writer, confirmed_name: str | None) -> None:
        loss_text, has_acks, created_at_us = None, True, None
        try:
            info = await writer.client.consumer_info(stream, name)
            has_acks = info.read_config().get("ack_policy") != "none"
            created_at_us = info.created_at_us
            loss_text = await _read_loss_text(writer, stream, info, count, acks=ack)
        except PermissionDenied:
            print_stderr(_unknown_loss_text(name))
        if not ack and not has_acks:
            raise UsageError(
                f"{name} has ack policy none, and never redelivers a message: use --ack"
            )
        if ack and has_acks:
            await check_ack_consumer(writer.client, stream, name)
        for _ in range(count):
            pull_command = PullNext(0, stream, name, wait_s, confirmed=confirmed_name)
            pull_result = await pull_next(writer, pull_command, loss_text, created_at_us)
            # What was confirmed once is not confirmed again between two messages.
            confirmed_name, loss_text = name, None
            printer.write_stored(pull_result.message, delivery_details(pull_result))
            if ack and has_acks:
                reply = pull_result.reply
                ack_command = AnswerMessage(0, name, reply, "double_ack", confirmed=name)
                await send_ack(writer, ack_command)

    write_confirmed(connection, flags, receive_messages)


def delivery_details(pull_result: PulledMessage) -> dict[str, object]:
    """Return the details of a delivery for the printer: deliveries, pending messages, reply
    subject.
    """
    return {
        "deliveries_count": pull_result.deliveries_count,
        "pending_msgs": pull_result.pending_msgs,
        "reply": pull_result.reply,
    }
