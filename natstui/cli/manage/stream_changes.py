"""`natstui stream add|copy|edit|purge|rm|scale|move|…`: commands that change a stream."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from typing import Any

import click

from natstui.cli.complete import stream_argument
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
    WriterSession,
    confirm_and_apply,
    connect_and_apply,
    print_change_result,
    refuse_read_only,
    run_with_writer,
)
from natstui.cli.options import (
    SEQUENCE,
    change_flags,
    connection_options,
    connection_options_without_config,
)
from natstui.cli.sections import command
from natstui.config import Connection
from natstui.config.template_files import load_templates
from natstui.errors import RequestFailed, UsageError
from natstui.jetstream.connection.writer import Asset
from natstui.jetstream.managing.configure import ChangeResult, read_asset, read_config
from natstui.jetstream.managing.replicas import wait_for_replicas
from natstui.model.assets.fields import Config, without_server_metadata
from natstui.model.assets.loss import replicas_of
from natstui.model.assets.stream_fields import NEW_STREAM_CONFIG
from natstui.model.assets.templates import template_config
from natstui.model.records.managing import Change

_MAX_REPLICAS = 5


@command(
    cls=SwitchCommand,
    examples=(
        "natstui stream add ORDERS --subjects 'orders.>' --max-age 7d",
        "natstui stream add JOBS --subjects 'jobs.*' --retention workqueue --replicas 3",
        "natstui stream add ORDERS --file orders.yaml --dry-run",
    ),
)
@click.argument("name", required=False)
@functools.partial(file_options, is_new=True)
@click.option("--template", metavar="NAME", help="A template to start from; `?` lists templates.")
@click.option("--clone", metavar="STREAM", help="An existing stream to start from.")
@change_flags
@config_options("stream", is_new=True)
@connection_options_without_config
def add(
    connection: Connection,
    name: str | None,
    template: str | None,
    clone: str | None,
    **flags: Any,
) -> None:
    """Create the stream NAME. Without NAME, uses the name in the file."""
    flags.pop("settings")
    if template == "?":
        _template_config(template)
    file_config = read_files("stream", flags["file"], flags["config_file"])
    name = name or str(file_config.get("name") or "")
    if not name:
        raise UsageError("the stream has no name: add NAME, or a name in the file")
    start_config = {} if flags["file"] or flags["config_file"] else dict(NEW_STREAM_CONFIG)
    if template is not None:
        start_config = _template_config(template)
    if clone is not None:
        start_config = run_with_writer(
            connection, True, lambda writer: read_config(writer, "stream", clone)
        )
    asset_flags = AssetFlags(
        kind="stream", stream=parse_name(name), consumer=None, file_config=file_config, **flags
    )
    add_asset(connection, asset_flags, without_server_metadata(start_config))


def _template_config(name: str) -> Config:
    all_templates = load_templates()
    if name == "?":
        for template in all_templates:
            click.echo(f"{template.name}: {template.help}")
        sys.exit(0)
    named_template = next((template for template in all_templates if template.name == name), None)
    if named_template is None:
        names = ", ".join(template.name for template in all_templates)
        raise UsageError(f"there is no template {name!r}: there are {names}")
    return template_config(named_template)


@command(cls=SwitchCommand)
@stream_argument
@click.argument("new")
@functools.partial(file_options, is_new=True)
@change_flags
@config_options("stream", is_new=True)
@connection_options_without_config
def copy(connection: Connection, name: str, new: str, **flags: Any) -> None:
    """Create NEW with the configuration of NAME. No message is copied."""
    flags.pop("settings")
    source = parse_name(name)
    file_config = read_files("stream", flags["file"], flags["config_file"])
    start_config = run_with_writer(
        connection, True, lambda writer: read_config(writer, "stream", source)
    )
    asset_flags = AssetFlags(
        kind="stream", stream=parse_name(new), consumer=None, file_config=file_config, **flags
    )
    add_asset(connection, asset_flags, without_server_metadata(start_config))


@command(cls=SwitchCommand)
@stream_argument
@functools.partial(file_options, is_new=False)
@change_flags
@config_options("stream", is_new=False)
@connection_options_without_config
def edit(connection: Connection, name: str, **flags: Any) -> None:
    """Change the stream NAME. An empty value removes an option, --no-X switches X off."""
    flags.pop("settings")
    file_config = read_files("stream", flags["file"], flags["config_file"])
    asset_flags = AssetFlags(
        kind="stream", stream=parse_name(name), consumer=None, file_config=file_config, **flags
    )
    edit_asset(connection, asset_flags)


@command()
@stream_argument
@argument_options("purge_stream")
@change_flags
@connection_options
def purge(connection: Connection, name: str, arguments: dict[str, object], **flags: Any) -> None:
    """Remove messages of the stream NAME."""
    change = Change(0, "purge_stream", parse_name(name), None, json.dumps(arguments))
    print_change_result(connect_and_apply(connection, change, flags), flags["as_json"])


@command()
@stream_argument
@change_flags
@connection_options
def rm(connection: Connection, name: str, **flags: Any) -> None:
    """Delete the stream NAME. Deletes its messages and consumers, too."""
    change = Change(0, "delete_stream", parse_name(name))
    print_change_result(connect_and_apply(connection, change, flags), flags["as_json"])


@command()
@stream_argument
@click.argument("seq", type=SEQUENCE)
@change_flags
@connection_options
def rmm(connection: Connection, name: str, seq: int, **flags: Any) -> None:
    """Delete the message SEQ of the stream NAME."""
    body = json.dumps({"seq": seq})
    change = Change(0, "delete_message", parse_name(name), None, body)
    print_change_result(connect_and_apply(connection, change, flags), flags["as_json"])


@command("step-down")
@stream_argument
@argument_options("step_down_stream")
@change_flags
@connection_options
def step_down(connection: Connection, name: str, arguments: dict[str, Any], **flags: Any) -> None:
    """Elect another leader of the stream NAME."""
    change = Change(0, "step_down_stream", parse_name(name), None, json.dumps(arguments))
    print_change_result(connect_and_apply(connection, change, flags), flags["as_json"])


@command()
@stream_argument
@change_flags
@connection_options
def seal(connection: Connection, name: str, **flags: Any) -> None:
    """Make the stream NAME read-only for ever.

    Messages can no longer be stored or deleted.
    """
    refuse_read_only(connection, flags["read_only"])
    stream = parse_name(name)
    with WriterSession(connection) as session:
        config = session.run(lambda writer: read_config(writer, "stream", stream))
        change_result = confirm_and_apply(session, seal_change(stream, config), flags)
    print_change_result(change_result, flags["as_json"])


def seal_change(stream: str, config: Config) -> Change:
    """Return the change that seals a stream, which becomes read-only for ever.

    `config` is its current configuration.
    """
    body, current_json = json.dumps({**config, "sealed": True}), json.dumps(config)
    return Change(0, "edit_stream", stream, None, body, current_json)


@command()
@stream_argument
@click.argument("replicas", type=click.IntRange(1, _MAX_REPLICAS))
@change_flags
@connection_options
def scale(connection: Connection, name: str, replicas: int, **flags: Any) -> None:
    """Change the replicas of the stream NAME. Waits until all replicas have all messages."""

    def set_replicas(asset: Asset) -> Config:
        return {**asset.config, "num_replicas": replicas}

    _change_placement(connection, name, set_replicas, flags)


@command()
@stream_argument
@click.option("--cluster", metavar="NAME", help="Target: servers of this cluster.")
@click.option(
    "--tag",
    "tags",
    metavar="TAG",
    multiple=True,
    help="Target: servers with this tag. Repeat for several tags.",
)
@change_flags
@connection_options
def move(
    connection: Connection, name: str, cluster: str | None, tags: tuple[str, ...], **flags: Any
) -> None:
    """Move the stream NAME to other servers.

    Waits until they have all messages. The stream stays available during the move. With several
    --tag, the servers must have all tags.
    """
    if cluster is None and not tags:
        raise UsageError("the target is missing: use --cluster NAME, or --tag TAG")
    placement = {"cluster": cluster, "tags": list(tags)}

    def set_placement(asset: Asset) -> Config:
        # A server alone takes any placement, and moves nothing.
        if asset.stream_info.cluster is None or not asset.stream_info.cluster.name:
            raise RequestFailed(f"the server of {name} is in no cluster: there is no other one")
        return {
            **asset.config,
            "placement": {key: value for key, value in placement.items() if value},
        }

    _change_placement(connection, name, set_placement, flags)


def _change_placement(
    connection: Connection,
    name: str,
    change_config: Callable[[Asset], Config],
    flags: dict[str, Any],
) -> None:
    """Change the placement or the replicas of a stream, and print on which servers it is
    afterwards.
    """
    stream = parse_name(name)
    refuse_read_only(connection, flags["read_only"])
    with WriterSession(connection) as session:
        asset = session.run(lambda writer: read_asset(writer, "stream", stream))
        new_config = change_config(asset)
        # While a stream is moved, servers before 2.15 list the old servers beside the new ones.
        replicas_count = replicas_of(new_config)
        body = json.dumps(new_config)
        current_json, created_at_us = json.dumps(asset.config), asset.created_at_us
        change = Change(
            0, "edit_stream", stream, None, body, current_json, created_at_us=created_at_us
        )
        edit_result = confirm_and_apply(session, change, flags)
        change_result = session.run(
            lambda writer: wait_for_replicas(
                writer, stream, created_at_us, lambda now: len(now) == replicas_count, edit_result
            )
        )
    print_change_result(change_result, flags["as_json"])


@command("peer-remove")
@stream_argument
@argument_options("remove_peer_stream")
@change_flags
@connection_options
def peer_remove(
    connection: Connection, name: str, arguments: dict[str, Any], **flags: Any
) -> None:
    """Replace the copy of NAME on one server. Another server creates a new copy."""
    if "peer" not in arguments:
        raise UsageError("name the server whose copy is replaced: --peer SERVER")
    change = Change(0, "remove_peer_stream", parse_name(name), None, json.dumps(arguments))
    change_result: ChangeResult = connect_and_apply(connection, change, flags)
    print_change_result(change_result, flags["as_json"])
