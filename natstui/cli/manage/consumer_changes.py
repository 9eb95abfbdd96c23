"""`natstui consumer add|copy|edit|pause|…`: what changes a consumer."""

from __future__ import annotations

import functools
import json
from typing import Any

import click

from natstui.cli.complete import consumer_name, on_stream
from natstui.cli.manage.assets import AssetFlags, add_asset, edit_asset
from natstui.cli.manage.names import given_name
from natstui.cli.manage.options import (
    WithSwitches,
    argument_options,
    config_options,
    file_options,
    read_files,
)
from natstui.cli.manage.writing import (
    change_confirmed,
    change_flags,
    print_changed,
    run_with_writer,
)
from natstui.cli.options import SEQUENCE, connection_options, connection_options_beside_config
from natstui.cli.sections import command
from natstui.config import Connection
from natstui.errors import UsageError
from natstui.jetstream.managing.configure import read_config
from natstui.model.assets.fields import without_server_metadata
from natstui.model.natscli.spellings import is_time
from natstui.model.records.managing import Action, Change


def _do(
    connection: Connection,
    action: Action,
    names: tuple[str, str],
    body: dict[str, Any],
    words: dict[str, Any],
) -> None:
    stream, name = map(given_name, names)
    change = Change(0, action, stream, name, json.dumps(body))
    print_changed(change_confirmed(connection, change, words), words["as_json"])


@command()
@on_stream
@consumer_name
@click.argument("until")
@change_flags
@connection_options
def pause(connection: Connection, stream: str, name: str, until: str, **words: Any) -> None:
    """Pause a consumer until a time.

    UNTIL is a time with a zone, or a duration from now such as 1h30m.
    """
    try:
        is_time(until)
    except ValueError as error:
        raise UsageError(f"UNTIL: {error}") from error
    body = {"pause_until": until}
    _do(connection, "pause_consumer", (stream, name), body, words)


@command()
@on_stream
@consumer_name
@change_flags
@connection_options
def resume(connection: Connection, stream: str, name: str, **words: Any) -> None:
    """Resume a paused consumer."""
    _do(connection, "resume_consumer", (stream, name), {}, words)


@command()
@on_stream
@consumer_name
@click.option(
    "--seq", "--sequence", "seq", type=SEQUENCE,
    help="Sequence to start from; default: the ack floor.",
)  # fmt: skip
@change_flags
@connection_options
def reset(connection: Connection, stream: str, name: str, seq: int | None, **words: Any) -> None:
    """Deliver again from a sequence. NAME is a consumer on STREAM."""
    body = {"seq": seq} if seq else {}
    _do(connection, "reset_consumer", (stream, name), body, words)


@command()
@on_stream
@consumer_name
@change_flags
@connection_options
def rm(connection: Connection, stream: str, name: str, **words: Any) -> None:
    """Delete the consumer NAME on STREAM."""
    _do(connection, "delete_consumer", (stream, name), {}, words)


@command("step-down")
@on_stream
@consumer_name
@argument_options("step_down_consumer")
@change_flags
@connection_options
def step_down(
    connection: Connection, stream: str, name: str, asked: dict[str, Any], **words: Any
) -> None:
    """Elect another leader of a consumer."""
    _do(connection, "step_down_consumer", (stream, name), asked, words)


@command()
@on_stream
@consumer_name
@click.argument("group")
@change_flags
@connection_options
def unpin(connection: Connection, stream: str, name: str, group: str, **words: Any) -> None:
    """Unpin the client of a priority group. Another client of GROUP is pinned then."""
    _do(connection, "unpin_consumer", (stream, name), {"group": group}, words)


@command(
    cls=WithSwitches,
    examples=(
        "natstui consumer add ORDERS shipping --filter-subjects 'orders.*.paid'",
        "natstui consumer add ORDERS audit --deliver-policy new --max-ack-pending 500",
        "natstui consumer add ORDERS mail --deliver-subject mail --deliver-group mail",
    ),
)
@on_stream
@click.argument("name", required=False)
@click.option(
    "--ephemeral", is_flag=True, help="The server deletes the consumer when no client uses it."
)
@functools.partial(file_options, adding=True)
@change_flags
@config_options("consumer", adding=True)
@connection_options_beside_config
def add(
    connection: Connection, stream: str, name: str | None, ephemeral: bool, **words: Any
) -> None:
    """Create the consumer NAME on STREAM.

    Without NAME, uses the name in the file. An ephemeral consumer needs no name.
    """
    words.pop("settings")
    filed = read_files("consumer", words["file"], words["whole"])
    if name is None:
        name = str(filed.get("durable_name") or filed.get("name") or "") or None
    if name is None and not ephemeral:
        raise UsageError("the consumer has no name: add NAME, a name in the file, or --ephemeral")
    has_file = words["file"] or words["whole"]
    start: dict[str, object] = {} if has_file else {"ack_policy": "explicit"}
    start |= {} if ephemeral else {"durable_name": given_name(name or "")}
    asked = AssetFlags(
        kind="consumer", stream=given_name(stream), consumer=name, filed=filed, **words
    )
    add_asset(connection, asked, start)


@command(cls=WithSwitches)
@on_stream
@consumer_name
@click.argument("new")
@functools.partial(file_options, adding=True)
@change_flags
@config_options("consumer", adding=True)
@connection_options_beside_config
def copy(connection: Connection, stream: str, name: str, new: str, **words: Any) -> None:
    """Create NEW with the configuration of NAME.

    Both are consumers on STREAM. NEW has delivered nothing yet.
    """
    words.pop("settings")
    owner, source = given_name(stream), given_name(name)
    filed = read_files("consumer", words["file"], words["whole"])
    start = run_with_writer(connection, True, lambda w: read_config(w, "consumer", owner, source))
    subject = start.get("deliver_subject")
    asked = AssetFlags(
        kind="consumer", stream=owner, consumer=given_name(new), filed=filed, **words
    )
    if subject and not (asked.file or asked.whole or "deliver_subject" in asked.values):
        raise UsageError(
            f"{name} delivers to {subject!r}, where its clients would receive every message "
            "twice: use --deliver-subject, or --pull"
        )
    add_asset(connection, asked, without_server_metadata(start))


@command(cls=WithSwitches)
@on_stream
@consumer_name
@functools.partial(file_options, adding=False)
@change_flags
@config_options("consumer", adding=False)
@connection_options_beside_config
def edit(connection: Connection, stream: str, name: str, **words: Any) -> None:
    """Change the consumer NAME on STREAM.

    An empty value removes an option, --no-X switches X off.
    """
    words.pop("settings")
    filed = read_files("consumer", words["file"], words["whole"])
    owner, consumer = given_name(stream), given_name(name)
    asked = AssetFlags(kind="consumer", stream=owner, consumer=consumer, filed=filed, **words)
    edit_asset(connection, asked)
