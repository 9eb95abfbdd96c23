"""`natstui consumer …`: lists, creates, changes and deletes consumers, and receives messages."""

from __future__ import annotations

import functools
import json
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from natstui.clean import clean_line
from natstui.cli.complete import consumer_argument, stream_of_consumer_argument
from natstui.cli.listing import print_consumers
from natstui.cli.manage.names import parse_name
from natstui.cli.manage.options import (
    SwitchCommand,
    argument_options,
    config_options,
    file_options,
    read_files,
)
from natstui.cli.options import (
    COUNT,
    SEQUENCE,
    change_flags,
    connection_options,
    connection_options_without_config,
    json_flag,
)
from natstui.cli.sections import LazyGroup
from natstui.cli.terminal_line import print_stderr
from natstui.cli.text_table import print_columns
from natstui.errors import ActionRefusal, PermissionDenied, UsageError
from natstui.model.assets.fields import without_server_metadata
from natstui.model.columns.consumers import CONSUMER_COLUMNS
from natstui.model.natscli.spellings import is_time
from natstui.units import count_text, counted, duration_text

if TYPE_CHECKING:
    from natstui.config import Connection
    from natstui.jetstream.connection.decode.consumers import ConsumerRow
    from natstui.jetstream.connection.writer import Config, Writer
    from natstui.jetstream.messages.receive import Receiver
    from natstui.model.records.managing import Action
    from natstui.model.records.messages import PulledMessage


@click.group(
    cls=LazyGroup,
    import_paths={
        "info": "natstui.cli.manage.info:consumer_info",
        "clients": "natstui.cli.clients.consumer:clients",
        "find": "natstui.cli.watch.find:find_consumers",
        "report": "natstui.cli.watch.find:report_consumers",
    },
)
def consumer() -> None:
    """Create, change, read and delete consumers."""


@consumer.command()
@stream_of_consumer_argument
@json_flag
@connection_options
def ls(connection: Connection, stream: str, as_json: bool, **_flags: Any) -> None:
    """List the consumers of STREAM."""
    print_consumers(connection, parse_name(stream), _print_consumers, as_json=as_json)


def _print_consumers(rows: list[ConsumerRow]) -> None:
    print_columns(
        CONSUMER_COLUMNS,
        ("name", "ack", "pending", "ack_pending", "redelivered", "waiting"),
        [
            (
                row.name,
                row.read_config()["ack_policy"],
                count_text(row.num_pending),
                count_text(row.num_ack_pending),
                count_text(row.num_redelivered),
                count_text(row.num_waiting),
            )
            for row in rows
        ],
    )


@consumer.command(
    cls=SwitchCommand,
    examples=(
        "natstui consumer add ORDERS shipping --filter-subjects 'orders.*.paid'",
        "natstui consumer add ORDERS audit --deliver-policy new --max-ack-pending 500",
        "natstui consumer add ORDERS mail --deliver-subject mail --deliver-group mail",
    ),
)
@stream_of_consumer_argument
@click.argument("name", required=False)
@click.option(
    "--ephemeral", is_flag=True, help="The server deletes the consumer when no client uses it."
)
@functools.partial(file_options, is_new=True)
@change_flags
@config_options("consumer", is_new=True)
@connection_options_without_config
def add(
    connection: Connection, stream: str, name: str | None, ephemeral: bool, **flags: Any
) -> None:
    """Create the consumer NAME on STREAM.

    Without NAME, uses the name in the file. An ephemeral consumer needs no name.
    """
    from natstui.cli.manage.assets import AssetFlags, add_asset

    flags.pop("settings")
    file_config = read_files("consumer", flags["file"], flags["config_file"])
    if name is None:
        name = str(file_config.get("durable_name") or file_config.get("name") or "") or None
    if name is None and not ephemeral:
        raise UsageError("the consumer has no name: add NAME, a name in the file, or --ephemeral")
    has_file = flags["file"] or flags["config_file"]
    start_config: dict[str, object] = {} if has_file else {"ack_policy": "explicit"}
    start_config |= {} if ephemeral else {"durable_name": parse_name(name or "")}
    asset_flags = AssetFlags(
        kind="consumer", stream=parse_name(stream), consumer=name, file_config=file_config, **flags
    )
    add_asset(connection, asset_flags, start_config)


@consumer.command(cls=SwitchCommand)
@stream_of_consumer_argument
@consumer_argument
@click.argument("new")
@functools.partial(file_options, is_new=True)
@change_flags
@config_options("consumer", is_new=True)
@connection_options_without_config
def copy(connection: Connection, stream: str, name: str, new: str, **flags: Any) -> None:
    """Create NEW with the configuration of NAME.

    Both are consumers on STREAM. NEW has delivered nothing yet.
    """
    from natstui.cli.manage.assets import AssetFlags, add_asset
    from natstui.cli.manage.writing import run_with_writer
    from natstui.jetstream.managing.configure import read_config

    flags.pop("settings")
    stream_name, source = parse_name(stream), parse_name(name)
    file_config = read_files("consumer", flags["file"], flags["config_file"])
    start_config = run_with_writer(
        connection, True, lambda writer: read_config(writer, "consumer", stream_name, source)
    )
    subject = start_config.get("deliver_subject")
    asset_flags = AssetFlags(
        kind="consumer",
        stream=stream_name,
        consumer=parse_name(new),
        file_config=file_config,
        **flags,
    )
    if subject and "deliver_subject" not in {**file_config, **asset_flags.values}:
        raise UsageError(
            f"{name} delivers to {subject!r}, where its clients would receive every message "
            "twice: use --deliver-subject, or --pull"
        )
    add_asset(connection, asset_flags, without_server_metadata(start_config))


@consumer.command(cls=SwitchCommand)
@stream_of_consumer_argument
@consumer_argument
@functools.partial(file_options, is_new=False)
@change_flags
@config_options("consumer", is_new=False)
@connection_options_without_config
def edit(connection: Connection, stream: str, name: str, **flags: Any) -> None:
    """Change the consumer NAME on STREAM.

    An empty value removes an option, --no-X switches X off.
    """
    from natstui.cli.manage.assets import AssetFlags, edit_asset

    flags.pop("settings")
    file_config = read_files("consumer", flags["file"], flags["config_file"])
    stream_name, consumer = parse_name(stream), parse_name(name)
    asset_flags = AssetFlags(
        kind="consumer", stream=stream_name, consumer=consumer, file_config=file_config, **flags
    )
    edit_asset(connection, asset_flags)


def _change_consumer(
    connection: Connection,
    action: Action,
    stream_and_consumer: tuple[str, str],
    body: dict[str, Any],
    flags: dict[str, Any],
) -> None:
    from natstui.cli.manage.writing import connect_and_apply, print_change_result
    from natstui.model.records.managing import Change

    stream, name = map(parse_name, stream_and_consumer)
    change = Change(0, action, stream, name, json.dumps(body))
    print_change_result(connect_and_apply(connection, change, flags), flags["as_json"])


@consumer.command()
@stream_of_consumer_argument
@consumer_argument
@click.argument("until")
@change_flags
@connection_options
def pause(connection: Connection, stream: str, name: str, until: str, **flags: Any) -> None:
    """Pause a consumer until a time.

    UNTIL is a time with a zone, or a duration from now such as 1h30m.
    """
    try:
        is_time(until)
    except ValueError as error:
        raise UsageError(f"UNTIL: {error}") from error
    body = {"pause_until": until}
    _change_consumer(connection, "pause_consumer", (stream, name), body, flags)


@consumer.command()
@stream_of_consumer_argument
@consumer_argument
@change_flags
@connection_options
def resume(connection: Connection, stream: str, name: str, **flags: Any) -> None:
    """Resume a paused consumer."""
    _change_consumer(connection, "resume_consumer", (stream, name), {}, flags)


@consumer.command()
@stream_of_consumer_argument
@consumer_argument
@click.option(
    "--seq", "--sequence", "seq", type=SEQUENCE,
    help="Sequence to start from; default: the ack floor.",
)  # fmt: skip
@change_flags
@connection_options
def reset(connection: Connection, stream: str, name: str, seq: int | None, **flags: Any) -> None:
    """Deliver again from a sequence. NAME is a consumer on STREAM."""
    body = {"seq": seq} if seq else {}
    _change_consumer(connection, "reset_consumer", (stream, name), body, flags)


@consumer.command()
@stream_of_consumer_argument
@consumer_argument
@change_flags
@connection_options
def rm(connection: Connection, stream: str, name: str, **flags: Any) -> None:
    """Delete the consumer NAME on STREAM."""
    _change_consumer(connection, "delete_consumer", (stream, name), {}, flags)


@consumer.command("step-down")
@stream_of_consumer_argument
@consumer_argument
@argument_options("step_down_consumer")
@change_flags
@connection_options
def step_down(
    connection: Connection, stream: str, name: str, arguments: dict[str, Any], **flags: Any
) -> None:
    """Elect another leader of a consumer."""
    _change_consumer(connection, "step_down_consumer", (stream, name), arguments, flags)


@consumer.command()
@stream_of_consumer_argument
@consumer_argument
@click.argument("group")
@change_flags
@connection_options
def unpin(connection: Connection, stream: str, name: str, group: str, **flags: Any) -> None:
    """Unpin the client of a priority group. Another client of GROUP is pinned then."""
    _change_consumer(connection, "unpin_consumer", (stream, name), {"group": group}, flags)


@consumer.command()
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
    from natstui.cli.core.options import parse_optional_seconds
    from natstui.cli.core.printer import MessagePrinter, output_format
    from natstui.cli.losses import LossCounter
    from natstui.cli.manage.writing import refuse_read_only, write_confirmed
    from natstui.engine.stopping import make_stop_event
    from natstui.jetstream.messages.receive import Receiver

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
    from natstui.jetstream.messages.pull import describe_receiving_loss

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


@consumer.command("next")
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
    from natstui.cli.core.options import parse_optional_seconds
    from natstui.cli.core.printer import MessagePrinter, output_format
    from natstui.cli.manage.writing import write_confirmed
    from natstui.jetstream.connection.storing import check_ack_consumer
    from natstui.jetstream.messages.pull import pull_next, send_ack
    from natstui.model.records.messages import AnswerMessage, PullNext

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
