"""`natstui kv ls|keys|get|history|watch`: what a bucket holds, and how it changes."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any

import click

from natstui.clean import clean_line
from natstui.cli.complete import buckets as bucket_names
from natstui.cli.connected import run_connected
from natstui.cli.core.options import seconds_of
from natstui.cli.options import as_json as json_flag
from natstui.cli.options import connection_options
from natstui.cli.sections import command
from natstui.cli.stores.entries import (
    HEADS,
    entry_line,
    entry_object,
    entry_row,
    print_object,
)
from natstui.cli.stores.options import (
    given_bucket,
    given_filter,
    given_key,
    in_bucket,
    key_name,
)
from natstui.cli.text_table import print_rows
from natstui.config import Connection
from natstui.engine.stopping import cancelled_by_signal
from natstui.errors import Interrupted, NotFound
from natstui.jetstream.connection.client import Client
from natstui.jetstream.messages.keys import (
    Entry,
    buckets,
    read_entries,
    read_key,
    watch,
)
from natstui.model.assets.buckets import KV
from natstui.units import bytes_text, count_text, counted, duration_text


@command()
@click.argument("bucket", required=False, shell_complete=bucket_names)
@json_flag
@connection_options
def ls(connection: Connection, bucket: str | None, as_json: bool, **_words: Any) -> None:
    """List the buckets, or the keys of BUCKET."""
    if bucket is not None:
        _print_keys(connection, given_bucket(bucket), ">", as_json=as_json)
        return
    rows = run_connected(connection, buckets)
    if as_json:
        click.echo(json.dumps(rows))
        return
    print_rows(
        ("BUCKET", "DESCRIPTION", "VALUES", "KEYS", "HISTORY", "TTL", "SIZE", "REPLICAS"),
        [
            (
                row["config"]["name"].removeprefix(KV),
                row["config"].get("description", ""),
                count_text(row["state"]["messages"]),
                count_text(row["state"].get("num_subjects", 0)),
                str(row["config"]["max_msgs_per_subject"]),
                duration_text(age / 1e9) if (age := row["config"].get("max_age")) else "none",
                bytes_text(row["state"]["bytes"]),
                str(row["config"].get("num_replicas", 1)),
            )
            for row in rows
        ],
        words_count=2,
    )


@command()
@in_bucket
@click.argument("wanted", metavar="[KEY]", default=">")
@json_flag
@connection_options
def keys(connection: Connection, bucket: str, wanted: str, as_json: bool, **_words: Any) -> None:
    """List the keys of BUCKET that have a value. KEY may have wildcards."""
    _print_keys(connection, given_bucket(bucket), given_filter(wanted), as_json=as_json)


def _print_keys(connection: Connection, bucket: str, wanted: str, *, as_json: bool) -> None:
    found = run_connected(
        connection,
        lambda client: read_entries(client, bucket, wanted, "last_per_subject", values=False),
    )
    names = sorted(one.key for one in found if one.operation == "PUT")
    if as_json:
        click.echo(json.dumps(names))
        return
    if names:
        click.echo("\n".join(map(clean_line, names)))


@command()
@in_bucket
@key_name
@click.option("--revision", type=click.IntRange(min=1), help="This one, and not the newest.")
@click.option("--raw", "-r", is_flag=True, hidden=True, help="Print the bytes alone: always so.")
@json_flag
@connection_options
def get(
    connection: Connection,
    bucket: str,
    key: str,
    revision: int | None,
    as_json: bool,
    **_words: Any,
) -> None:
    """Print the value of KEY in BUCKET.

    Prints it as it is; --json adds all that is known of it.
    """
    bucket, key = given_bucket(bucket), given_key(key)
    entry = run_connected(connection, lambda client: read_key(client, bucket, key, revision))
    if entry.operation != "PUT" and revision is None:
        raise NotFound(f"{bucket} has no key {key}: it was deleted at revision {entry.revision}")
    if as_json:
        print_object(entry)
        return
    sys.stdout.buffer.write(entry.value)


@command()
@in_bucket
@key_name
@json_flag
@connection_options
def history(connection: Connection, bucket: str, key: str, as_json: bool, **_words: Any) -> None:
    """List the revisions of KEY in BUCKET. Prints the oldest first. KEY may have wildcards."""
    bucket, wanted = given_bucket(bucket), given_filter(key)
    found = run_connected(connection, lambda client: read_entries(client, bucket, wanted, "all"))
    if not found:
        raise NotFound(f"{bucket} has no key {key}")
    if as_json:
        for one in found:
            print_object(one)
        return
    print_rows(HEADS, [entry_row(one) for one in found], words_count=len(HEADS))


@dataclass
class _Watching:
    """What is watched, and when it ends."""

    bucket: str
    wanted: str
    most_count: int | None
    quiet_s: float | None
    as_json: bool
    printed_count: int = 0

    async def run(self, client: Client, policy: Any) -> None:
        with cancelled_by_signal("watching"):
            async with aclosing(watch(client, self.bucket, self.wanted, policy)) as found:
                click.echo(f"natstui: watching {self.bucket} {self.wanted}", err=True)
                while self.most_count is None or self.printed_count < self.most_count:
                    try:
                        async with asyncio.timeout(self.quiet_s):
                            self._print(await anext(found))
                    except TimeoutError:
                        return

    def _print(self, entry: Entry) -> None:
        text = json.dumps(entry_object(entry)) if self.as_json else entry_line(entry)
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
        self.printed_count += 1


@command("watch")
@in_bucket
@click.argument("wanted", metavar="[KEY]", default=">")
@click.option("--history", is_flag=True, help="Begin with every revision that is kept.")
@click.option("--updates-only", is_flag=True, help="Begin with what comes from now on.")
@click.option("--count", type=click.IntRange(min=1), help="End after so many.")
@click.option("--wait", metavar="TIME", help="End when nothing came for so long: 500ms, 2s.")
@json_flag
@connection_options
def watch_keys(
    connection: Connection,
    bucket: str,
    wanted: str,
    count: int | None,
    wait: str | None,
    as_json: bool,
    **words: Any,
) -> None:
    """Print the values of BUCKET as they change.

    Prints the present ones first. Runs until it is stopped.
    """
    watching = _Watching(
        given_bucket(bucket), given_filter(wanted), count, seconds_of(wait, "--wait"), as_json
    )
    policy = "new" if words["updates_only"] else "all" if words["history"] else "last_per_subject"
    try:
        run_connected(connection, lambda client: watching.run(client, policy), prints=True)
    except Interrupted:
        pass
    except BrokenPipeError:
        # The reader has closed the pipe; what Python still flushes is thrown away.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    click.echo(f"natstui: {counted(watching.printed_count, 'change')}", err=True)
