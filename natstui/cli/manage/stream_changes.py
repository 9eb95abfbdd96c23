"""`natstui stream add|copy|edit|purge|rm|scale|move|…`: what changes a stream."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable
from typing import Any

import click

from natstui.cli.complete import stream_name
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
    WriterSession,
    change_confirmed,
    change_flags,
    print_changed,
    refuse_read_only,
    run_with_writer,
    session_change,
)
from natstui.cli.options import SEQUENCE, connection_options, connection_options_beside_config
from natstui.cli.sections import command
from natstui.config import Connection
from natstui.config.template_files import templates
from natstui.errors import UsageError
from natstui.jetstream.managing.configure import ChangeResult, read_config
from natstui.jetstream.managing.replicas import settled
from natstui.model.assets.fields import Config, without_server_metadata
from natstui.model.assets.stream_fields import NEW_STREAM
from natstui.model.assets.templates import started
from natstui.model.records.managing import Change

_MOST_REPLICAS = 5


@command(
    cls=WithSwitches,
    examples=(
        "natstui stream add ORDERS --subjects 'orders.>' --max-age 7d",
        "natstui stream add JOBS --subjects 'jobs.*' --retention workqueue --replicas 3",
        "natstui stream add ORDERS --file orders.yaml --dry-run",
    ),
)
@click.argument("name", required=False)
@functools.partial(file_options, adding=True)
@click.option("--template", metavar="NAME", help="A template to start from; `?` lists templates.")
@click.option("--clone", metavar="STREAM", help="An existing stream to start from.")
@change_flags
@config_options("stream", adding=True)
@connection_options_beside_config
def add(
    connection: Connection,
    name: str | None,
    template: str | None,
    clone: str | None,
    **words: Any,
) -> None:
    """Create the stream NAME. Without NAME, uses the name in the file."""
    words.pop("settings")
    if template == "?":
        _template(template)
    filed = read_files("stream", words["file"], words["whole"])
    name = name or str(filed.get("name") or "")
    if not name:
        raise UsageError("the stream has no name: add NAME, or a name in the file")
    start = {} if words["file"] or words["whole"] else dict(NEW_STREAM)
    if template is not None:
        start = _template(template)
    if clone is not None:
        start = run_with_writer(connection, True, lambda w: read_config(w, "stream", clone))
    asked = AssetFlags(kind="stream", stream=given_name(name), consumer=None, filed=filed, **words)
    add_asset(connection, asked, without_server_metadata(start))


def _template(name: str) -> Config:
    known = templates()
    if name == "?":
        for one in known:
            click.echo(f"{one.name}: {one.help}")
        sys.exit(0)
    found = next((one for one in known if one.name == name), None)
    if found is None:
        names = ", ".join(one.name for one in known)
        raise UsageError(f"there is no template {name!r}: there are {names}")
    return started(found)


@command(cls=WithSwitches)
@stream_name
@click.argument("new")
@functools.partial(file_options, adding=True)
@change_flags
@config_options("stream", adding=True)
@connection_options_beside_config
def copy(connection: Connection, name: str, new: str, **words: Any) -> None:
    """Create NEW with the configuration of NAME. No message is copied."""
    words.pop("settings")
    source = given_name(name)
    filed = read_files("stream", words["file"], words["whole"])
    start = run_with_writer(connection, True, lambda w: read_config(w, "stream", source))
    asked = AssetFlags(kind="stream", stream=given_name(new), consumer=None, filed=filed, **words)
    add_asset(connection, asked, without_server_metadata(start))


@command(cls=WithSwitches)
@stream_name
@functools.partial(file_options, adding=False)
@change_flags
@config_options("stream", adding=False)
@connection_options_beside_config
def edit(connection: Connection, name: str, **words: Any) -> None:
    """Change the stream NAME. An empty value removes an option, --no-X switches X off."""
    words.pop("settings")
    filed = read_files("stream", words["file"], words["whole"])
    asked = AssetFlags(kind="stream", stream=given_name(name), consumer=None, filed=filed, **words)
    edit_asset(connection, asked)


@command()
@stream_name
@argument_options("purge_stream")
@change_flags
@connection_options
def purge(connection: Connection, name: str, asked: dict[str, object], **words: Any) -> None:
    """Remove messages of the stream NAME."""
    change = Change(0, "purge_stream", given_name(name), None, json.dumps(asked))
    print_changed(change_confirmed(connection, change, words), words["as_json"])


@command()
@stream_name
@change_flags
@connection_options
def rm(connection: Connection, name: str, **words: Any) -> None:
    """Delete the stream NAME. Deletes its messages and consumers, too."""
    change = Change(0, "delete_stream", given_name(name))
    print_changed(change_confirmed(connection, change, words), words["as_json"])


@command()
@stream_name
@click.argument("seq", type=SEQUENCE)
@change_flags
@connection_options
def rmm(connection: Connection, name: str, seq: int, **words: Any) -> None:
    """Delete the message SEQ of the stream NAME."""
    body = json.dumps({"seq": seq})
    change = Change(0, "delete_message", given_name(name), None, body)
    print_changed(change_confirmed(connection, change, words), words["as_json"])


@command("step-down")
@stream_name
@argument_options("step_down_stream")
@change_flags
@connection_options
def step_down(connection: Connection, name: str, asked: dict[str, Any], **words: Any) -> None:
    """Elect another leader of the stream NAME."""
    change = Change(0, "step_down_stream", given_name(name), None, json.dumps(asked))
    print_changed(change_confirmed(connection, change, words), words["as_json"])


@command()
@stream_name
@change_flags
@connection_options
def seal(connection: Connection, name: str, **words: Any) -> None:
    """Make the stream NAME read-only for ever.

    Messages can no longer be stored or deleted.
    """
    seal_stream(connection, given_name(name), words)


def seal_stream(connection: Connection, stream: str, words: dict[str, Any]) -> None:
    """Seal a stream when that is confirmed, and print it."""
    refuse_read_only(connection, words["read_only"])
    with WriterSession(connection) as session:
        config = session.run(lambda w: read_config(w, "stream", stream))
        body = json.dumps({**config, "sealed": True})
        change = Change(0, "edit_stream", stream, None, body)
        print_changed(session_change(session, change, words), words["as_json"])


@command()
@stream_name
@click.argument("replicas", type=click.IntRange(1, _MOST_REPLICAS))
@change_flags
@connection_options
def scale(connection: Connection, name: str, replicas: int, **words: Any) -> None:
    """Change the replicas of the stream NAME. Waits until all replicas have all messages."""

    def with_replicas(config: Config) -> Config:
        return {**config, "num_replicas": replicas}

    _place(connection, name, with_replicas, lambda now: len(now) == replicas, words)


@command()
@stream_name
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
    connection: Connection, name: str, cluster: str | None, tags: tuple[str, ...], **words: Any
) -> None:
    """Move the stream NAME to other servers.

    Waits until they have all messages. The stream stays available during the move. With several
    --tag, the servers must have all tags.
    """
    if cluster is None and not tags:
        raise UsageError("the target is missing: use --cluster NAME, or --tag TAG")
    wanted = {"cluster": cluster, "tags": list(tags)}

    def placed(config: Config) -> Config:
        return {**config, "placement": {key: value for key, value in wanted.items() if value}}

    _place(connection, name, placed, bool, words)


def _place(
    connection: Connection,
    name: str,
    change_to: Callable[[Config], Config],
    holds: Callable[[list[str]], bool],
    words: dict[str, Any],
) -> None:
    """Change a configuration, and tell on which servers the stream is then."""
    stream = given_name(name)
    refuse_read_only(connection, words["read_only"])
    with WriterSession(connection) as session:
        config = session.run(lambda w: read_config(w, "stream", stream))
        body = json.dumps(change_to(config))
        change = Change(0, "edit_stream", stream, None, body)
        changed = session_change(session, change, words)
        changed = session.run(lambda w: settled(w, stream, holds, changed))
    print_changed(changed, words["as_json"])


@command("peer-remove")
@stream_name
@argument_options("remove_peer_stream")
@change_flags
@connection_options
def peer_remove(connection: Connection, name: str, asked: dict[str, Any], **words: Any) -> None:
    """Replace the copy of NAME on one server. Another server creates a new copy."""
    if "peer" not in asked:
        raise UsageError("name the server whose copy is replaced: --peer SERVER")
    change = Change(0, "remove_peer_stream", given_name(name), None, json.dumps(asked))
    changed: ChangeResult = change_confirmed(connection, change, words)
    print_changed(changed, words["as_json"])
