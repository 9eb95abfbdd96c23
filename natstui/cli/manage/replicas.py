"""`natstui stream scale|move|peer-remove`: on how many servers a stream is, and on which."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import click

from natstui.cli.complete import stream_name
from natstui.cli.manage.names import given_name
from natstui.cli.manage.options import argument_options
from natstui.cli.manage.writing import (
    WriterSession,
    change_confirmed,
    change_flags,
    print_changed,
    refuse_read_only,
    session_change,
)
from natstui.cli.options import connection_options
from natstui.cli.sections import command
from natstui.config import Connection
from natstui.errors import UsageError
from natstui.jetstream.connection.writer import Config
from natstui.jetstream.managing.configure import ChangeResult, read_config
from natstui.jetstream.managing.replicas import settled
from natstui.model.records.managing import Change

_MOST_REPLICAS = 5


@command()
@stream_name
@click.argument("replicas", type=click.IntRange(1, _MOST_REPLICAS))
@change_flags
@connection_options
def scale(connection: Connection, name: str, replicas: int, **words: Any) -> None:
    """Change the replicas of the stream NAME. Waits until all of them have all of it."""

    def with_replicas(config: Config) -> Config:
        return {**config, "num_replicas": replicas}

    _place(connection, name, with_replicas, lambda now: len(now) == replicas, words)


@command()
@stream_name
@click.option("--cluster", metavar="NAME", help="To servers of this cluster.")
@click.option("--tag", "tags", metavar="TAG", multiple=True, help="To servers with this tag.")
@change_flags
@connection_options
def move(
    connection: Connection, name: str, cluster: str | None, tags: tuple[str, ...], **words: Any
) -> None:
    """Move the stream NAME to other servers.

    Waits until they have all of it. It is served meanwhile. Give --tag again for servers that
    have all of several tags.
    """
    if cluster is None and not tags:
        raise UsageError("say where to: --cluster NAME, or --tag TAG")
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
        now = session.run(lambda w: settled(w, stream, holds))
    print_changed(replace(changed, text=f"{changed.text}; {now}"), words["as_json"])


@command("peer-remove")
@stream_name
@argument_options("remove_peer_stream")
@change_flags
@connection_options
def peer_remove(connection: Connection, name: str, asked: dict[str, Any], **words: Any) -> None:
    """Replace the copy of NAME on one server. Another server makes a new copy."""
    if "peer" not in asked:
        raise UsageError("say which copy is given up: --peer SERVER")
    change = Change(0, "remove_peer_stream", given_name(name), None, json.dumps(asked))
    changed: ChangeResult = change_confirmed(connection, change, words)
    print_changed(changed, words["as_json"])
