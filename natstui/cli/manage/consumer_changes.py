"""`natstui consumer add|copy|edit|pause|…`: commands that change a consumer."""

from __future__ import annotations

import functools
import json
from typing import Any

import click

from natstui.cli.complete import consumer_argument, stream_of_consumer_argument
from natstui.cli.manage.assets import AssetFlags, add_asset, edit_asset
from natstui.cli.manage.names import parse_name
from natstui.cli.manage.options import (
    SwitchCommand,
    argument_options,
    config_options,
    file_options,
    read_files,
)
from natstui.cli.manage.writing import (
    change_flags,
    connect_and_apply,
    print_change_result,
    run_with_writer,
)
from natstui.cli.options import SEQUENCE, connection_options, connection_options_without_config
from natstui.cli.sections import command
from natstui.config import Connection
from natstui.errors import UsageError
from natstui.jetstream.managing.configure import read_config
from natstui.model.assets.fields import without_server_metadata
from natstui.model.natscli.spellings import is_time
from natstui.model.records.managing import Action, Change


def _change_consumer(
    connection: Connection,
    action: Action,
    stream_and_consumer: tuple[str, str],
    body: dict[str, Any],
    flags: dict[str, Any],
) -> None:
    stream, name = map(parse_name, stream_and_consumer)
    change = Change(0, action, stream, name, json.dumps(body))
    print_change_result(connect_and_apply(connection, change, flags), flags["as_json"])


@command()
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


@command()
@stream_of_consumer_argument
@consumer_argument
@change_flags
@connection_options
def resume(connection: Connection, stream: str, name: str, **flags: Any) -> None:
    """Resume a paused consumer."""
    _change_consumer(connection, "resume_consumer", (stream, name), {}, flags)


@command()
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


@command()
@stream_of_consumer_argument
@consumer_argument
@change_flags
@connection_options
def rm(connection: Connection, stream: str, name: str, **flags: Any) -> None:
    """Delete the consumer NAME on STREAM."""
    _change_consumer(connection, "delete_consumer", (stream, name), {}, flags)


@command("step-down")
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


@command()
@stream_of_consumer_argument
@consumer_argument
@click.argument("group")
@change_flags
@connection_options
def unpin(connection: Connection, stream: str, name: str, group: str, **flags: Any) -> None:
    """Unpin the client of a priority group. Another client of GROUP is pinned then."""
    _change_consumer(connection, "unpin_consumer", (stream, name), {"group": group}, flags)


@command(
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


@command(cls=SwitchCommand)
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


@command(cls=SwitchCommand)
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
    flags.pop("settings")
    file_config = read_files("consumer", flags["file"], flags["config_file"])
    stream_name, consumer = parse_name(stream), parse_name(name)
    asset_flags = AssetFlags(
        kind="consumer", stream=stream_name, consumer=consumer, file_config=file_config, **flags
    )
    edit_asset(connection, asset_flags)
