"""`natstui kv …`: buckets and their keys."""

from __future__ import annotations

import asyncio
import base64
import functools
import json
import os
import sys
from contextlib import aclosing
from dataclasses import dataclass, replace
from typing import Any

import click

from natstui.clean import clean_json, clean_line
from natstui.cli.complete import buckets as bucket_names
from natstui.cli.connected import run_connected
from natstui.cli.core.options import seconds_of
from natstui.cli.core.payload import given_payload
from natstui.cli.listing import list_streams
from natstui.cli.manage.writing import (
    change_flags,
    print_changed,
    write_confirmed,
)
from natstui.cli.options import COUNT, SEQUENCE, SEQUENCE_OR_ZERO, connection_options
from natstui.cli.options import as_json as json_flag
from natstui.cli.sections import Group, command
from natstui.cli.stores.options import (
    bucket_options,
    delete_bucket,
    given_bucket,
    given_filter,
    given_key,
    in_bucket,
    key_name,
    make_bucket,
    print_buckets,
)
from natstui.cli.text_table import cut, print_rows
from natstui.config import Connection
from natstui.engine.stopping import cancelled_by_signal
from natstui.errors import Interrupted, NotFound, UsageError
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.managing.configure import ChangeResult
from natstui.jetstream.managing.keys import KeyChange, change_key, ttl_s_of
from natstui.jetstream.messages.keys import (
    Entry,
    read_entries,
    read_key,
    watch,
)
from natstui.model.assets.buckets import KV, BucketOptions, bucket_config
from natstui.units import bytes_text, counted, local_text

_MOST_CELLS = 60
HEADS = ("REVISION", "KEY", "CREATED", "OPERATION", "SIZE", "VALUE")


@command()
@click.argument("bucket")
@functools.partial(bucket_options, of_keys=True)
@change_flags
@connection_options
def add(connection: Connection, bucket: str, options: BucketOptions, **words: Any) -> None:
    """Create the bucket BUCKET."""
    make_bucket(connection, bucket_config(given_bucket(bucket), options), words)


@command()
@in_bucket
@change_flags
@connection_options
def rm(connection: Connection, bucket: str, **words: Any) -> None:
    """Delete the bucket BUCKET and its contents."""
    delete_bucket(connection, KV, given_bucket(bucket), words)


def _value_options(command: Any) -> Any:
    command = click.option(
        "--file", metavar="FILE", help="Read the value from a file; - is stdin."
    )(command)
    return click.argument("value", required=False)(command)


@command()
@in_bucket
@key_name
@_value_options
@click.option(
    "--if-revision", type=SEQUENCE_OR_ZERO,
    help="Write only if this is the newest revision; 0: only if the key has no value.",
)  # fmt: skip
@change_flags
@connection_options
def put(
    connection: Connection,
    bucket: str,
    key: str,
    value: str | None,
    file: str | None,
    if_revision: int | None,
    **words: Any,
) -> None:
    """Set KEY in BUCKET to VALUE. Without VALUE, the value is read from stdin."""
    content = given_payload(value, file)
    asked = KeyChange("put_key", given_bucket(bucket), given_key(key), content, if_revision)
    _do(connection, asked, words)


@command()
@in_bucket
@click.argument("key")
@_value_options
@click.option("--ttl", metavar="TIME", help="Lifetime of the key; the bucket must allow it.")
@change_flags
@connection_options
def create(
    connection: Connection,
    bucket: str,
    key: str,
    value: str | None,
    file: str | None,
    ttl: str | None,
    **words: Any,
) -> None:
    """Create KEY in BUCKET if it has no value."""
    if ttl is not None:
        _check_ttl(ttl)
    content = given_payload(value, file)
    asked = KeyChange("put_key", given_bucket(bucket), given_key(key), content, 0, ttl)
    _do(connection, asked, words)


def _check_ttl(text: str) -> None:
    try:
        if text != "never":
            ttl_s_of(text)
    except ValueError as error:
        raise UsageError(f"--ttl: {error}") from error


@command("del")
@in_bucket
@key_name
@change_flags
@connection_options
def delete(connection: Connection, bucket: str, key: str, **words: Any) -> None:
    """Delete KEY in BUCKET. Earlier revisions stay, up to the history of the bucket."""
    _do(connection, KeyChange("delete_key", given_bucket(bucket), given_key(key)), words)


@command()
@in_bucket
@key_name
@change_flags
@connection_options
def purge(connection: Connection, bucket: str, key: str, **words: Any) -> None:
    """Delete KEY in BUCKET and all its revisions."""
    _do(connection, KeyChange("purge_key", given_bucket(bucket), given_key(key)), words)


def _do(connection: Connection, asked: KeyChange, words: dict[str, Any]) -> None:
    async def work(writer: Writer, confirmed: str | None) -> ChangeResult:
        return await change_key(writer, replace(asked, confirmed=confirmed))

    print_changed(write_confirmed(connection, words, work), words["as_json"])


@command()
@click.argument("bucket", required=False, shell_complete=bucket_names)
@json_flag
@connection_options
def ls(connection: Connection, bucket: str | None, as_json: bool, **_words: Any) -> None:
    """List the buckets, or the keys of BUCKET."""
    if bucket is not None:
        _print_keys(connection, given_bucket(bucket), ">", as_json=as_json)
        return
    streams = run_connected(connection, lambda client: list_streams(client, "$KV.>"))
    rows = [row for row in streams if row["config"]["name"].startswith(KV)]
    if as_json:
        click.echo(json.dumps(rows))
        return
    shown = ("bucket", "description", "values", "keys", "history", "ttl", "bytes", "replicas")
    print_buckets(rows, shown)


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
@click.option("--revision", type=SEQUENCE, help="Revision to print instead of the newest.")
@click.option(
    "--raw",
    "-r",
    is_flag=True,
    hidden=True,
    help="Print only the bytes: the default, accepted as in the NATS CLI.",
)
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

    Prints the value unchanged; --json adds revision, time and operation.
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
@click.option("--history", is_flag=True, help="Begin with all stored revisions.")
@click.option("--updates-only", is_flag=True, help="Print only changes from now on.")
@click.option("--count", type=COUNT, help="End after this many values.")
@click.option("--wait", metavar="TIME", help="End when nothing changed for this time: 500ms, 2s.")
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

    Prints the current values first. Runs until it is stopped.
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


def entry_object(entry: Entry) -> dict[str, Any]:
    """Return all that is known of a revision; `value` only where it is text."""
    told: dict[str, Any] = {
        "bucket": entry.bucket,
        "key": entry.key,
        "revision": entry.revision,
        "created_at_us": entry.created_at_us,
        "operation": entry.operation,
        "value_base64": base64.b64encode(entry.value).decode(),
    }
    try:
        return told | {"value": entry.value.decode()}
    except UnicodeDecodeError:
        return told | {"value": None}


def print_object(entry: Entry) -> None:
    """Print a revision as a line of JSON."""
    click.echo(clean_json(json.dumps(entry_object(entry))))


def entry_row(entry: Entry) -> tuple[str, ...]:
    """Return the cells of a revision, its value as a preview."""
    text = entry.value.decode("utf-8", "backslashreplace")
    size = bytes_text(len(entry.value)) if entry.operation == "PUT" else ""
    when = local_text(entry.created_at_us, "%Y-%m-%d %H:%M:%S")
    value = cut(clean_line(text), _MOST_CELLS)
    return str(entry.revision), entry.key, when, entry.operation, size, value


def entry_line(entry: Entry) -> str:
    """Return a revision on one line, as it comes."""
    revision, key, when, operation, _, value = entry_row(entry)
    return clean_line(f"{when}  {operation:<5}  {revision}  {key}  {value}").rstrip()


@click.group(cls=Group)
def kv() -> None:
    """Read and change key-value buckets."""


for _command in (add, create, delete, get, history, keys, ls, purge, put, rm, watch_keys):
    kv.add_command(_command)
