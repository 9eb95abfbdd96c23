"""`natstui kv …`: buckets and their keys."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import Any

import click

from natstui.cli.core.payload import given_payload
from natstui.cli.manage.writing import (
    change_confirmed,
    change_flags,
    print_changed,
    write_confirmed,
)
from natstui.cli.options import connection_options
from natstui.cli.sections import Group, command
from natstui.cli.stores.options import (
    bucket_options,
    given_bucket,
    given_key,
    in_bucket,
    key_name,
    make_bucket,
)
from natstui.cli.stores.reading import get, history, keys, ls, watch_keys
from natstui.config import Connection
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.managing.configure import ChangeResult
from natstui.jetstream.managing.keys import KeyChange, change_key
from natstui.model.assets.buckets import KV, BucketOptions, bucket_config
from natstui.model.records.managing import Change


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
    change = Change(0, "delete_stream", f"{KV}{given_bucket(bucket)}")
    print_changed(change_confirmed(connection, change, words), words["as_json"])


def _value_options(command: Any) -> Any:
    command = click.option("--file", metavar="FILE", help="The value is in a file; - is stdin.")(
        command
    )
    return click.argument("value", required=False)(command)


@command()
@in_bucket
@key_name
@_value_options
@click.option(
    "--if-revision", type=click.IntRange(min=0),
    help="Write only if this is the newest revision; 0: if there is no value.",
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
    """Set KEY in BUCKET to VALUE. Without VALUE it is read from a pipe."""
    content = given_payload(value, file)
    asked = KeyChange("put_key", given_bucket(bucket), given_key(key), content, if_revision)
    _do(connection, asked, words)


@command()
@in_bucket
@click.argument("key")
@_value_options
@click.option("--ttl", metavar="TIME", help="How long it is kept; the bucket has to allow it.")
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
    content = given_payload(value, file)
    asked = KeyChange("put_key", given_bucket(bucket), given_key(key), content, 0, ttl)
    _do(connection, asked, words)


@command("del")
@in_bucket
@key_name
@change_flags
@connection_options
def delete(connection: Connection, bucket: str, key: str, **words: Any) -> None:
    """Delete KEY in BUCKET. Earlier revisions stay, as many as the bucket keeps."""
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


@click.group(cls=Group)
def kv() -> None:
    """Read and change key-value buckets."""


for _command in (add, create, delete, get, history, keys, ls, purge, put, rm, watch_keys):
    kv.add_command(_command)
