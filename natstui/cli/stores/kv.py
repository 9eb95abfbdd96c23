"""`natstui kv …`: buckets and their keys."""

from __future__ import annotations

import base64
import functools
import json
import os
import sys
from dataclasses import dataclass
from typing import Any

import click

from natstui.clean import clean_json, clean_line
from natstui.cli.complete import complete_buckets
from natstui.cli.connected import run_connected
from natstui.cli.core.options import parse_optional_seconds
from natstui.cli.core.payload import read_payload
from natstui.cli.listing import print_streams
from natstui.cli.losses import LossCounter
from natstui.cli.manage.writing import print_change_result, write_confirmed
from natstui.cli.options import (
    COUNT,
    SEQUENCE,
    SEQUENCE_OR_ZERO,
    change_flags,
    connection_options,
    json_flag,
)
from natstui.cli.sections import command
from natstui.cli.stores.options import (
    StoreGroup,
    bucket_argument,
    bucket_options,
    create_bucket,
    delete_bucket,
    key_argument,
    parse_bucket,
    parse_key,
    parse_key_filter,
    print_buckets,
)
from natstui.cli.terminal_line import print_stderr
from natstui.cli.text_table import cut_text, print_rows
from natstui.config import Connection
from natstui.engine.stopping import cancel_on_signal
from natstui.errors import Interrupted, NotFound, UsageError
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.managing.configure import ChangeResult
from natstui.jetstream.managing.keys import KeyChange, change_key, parse_ttl_s
from natstui.jetstream.messages.keys import (
    KeyEntry,
    read_entries,
    read_key,
    watch,
)
from natstui.model.assets.buckets import KV, BucketOptions, bucket_config
from natstui.units import bytes_text, counted, local_text
from natstui.values import replace

_MAX_VALUE_CELLS = 60
ENTRY_HEADINGS = ("REVISION", "KEY", "CREATED", "OPERATION", "SIZE", "VALUE")


@command()
@click.argument("bucket")
@functools.partial(bucket_options, is_key_value=True)
@change_flags
@connection_options
def add(connection: Connection, bucket: str, options: BucketOptions, **flags: Any) -> None:
    """Create the bucket BUCKET."""
    create_bucket(connection, bucket_config(parse_bucket(bucket), options), flags)


@command()
@bucket_argument
@change_flags
@connection_options
def rm(connection: Connection, bucket: str, **flags: Any) -> None:
    """Delete the bucket BUCKET and its contents."""
    delete_bucket(connection, KV, parse_bucket(bucket), flags)


def _add_value_options(command: Any) -> Any:
    command = click.option(
        "--file", metavar="FILE", help="Read the value from a file; - is stdin."
    )(command)
    return click.argument("value", required=False)(command)


@command()
@bucket_argument
@key_argument
@_add_value_options
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
    **flags: Any,
) -> None:
    """Set KEY in BUCKET to VALUE. Without VALUE, the value is read from stdin."""
    content = _read_value(value, file)
    key_change = KeyChange("put_key", parse_bucket(bucket), parse_key(key), content, if_revision)
    _change_key(connection, key_change, flags)


@command()
@bucket_argument
@click.argument("key")
@_add_value_options
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
    **flags: Any,
) -> None:
    """Create KEY in BUCKET if it has no value."""
    if ttl is not None:
        _check_ttl(ttl)
    content = _read_value(value, file)
    key_change = KeyChange("put_key", parse_bucket(bucket), parse_key(key), content, 0, ttl=ttl)
    _change_key(connection, key_change, flags)


def _read_value(value: str | None, file: str | None) -> bytes:
    """Return the value: `value`, or the content of `file` or stdin.

    Prints a note to stderr if stdin is empty, because that may be a mistake.
    """
    content = read_payload(value, file)
    if not content and value is None and file in (None, "-"):
        print_stderr("stdin was empty: the value has 0 bytes")
    return content


def _check_ttl(text: str) -> None:
    try:
        if text != "never":
            parse_ttl_s(text)
    except ValueError as error:
        raise UsageError(f"--ttl: {error}") from error


@command("del")
@bucket_argument
@key_argument
@change_flags
@connection_options
def delete(connection: Connection, bucket: str, key: str, **flags: Any) -> None:
    """Delete KEY in BUCKET. Earlier revisions stay, up to the history of the bucket."""
    _change_key(connection, KeyChange("delete_key", parse_bucket(bucket), parse_key(key)), flags)


@command()
@bucket_argument
@key_argument
@change_flags
@connection_options
def purge(connection: Connection, bucket: str, key: str, **flags: Any) -> None:
    """Delete KEY in BUCKET and all its revisions."""
    _change_key(connection, KeyChange("purge_key", parse_bucket(bucket), parse_key(key)), flags)


def _change_key(connection: Connection, key_change: KeyChange, flags: dict[str, Any]) -> None:
    async def work(writer: Writer, confirmed_name: str | None) -> ChangeResult:
        return await change_key(writer, replace(key_change, confirmed=confirmed_name))

    print_change_result(write_confirmed(connection, flags, work), flags["as_json"])


@command()
@click.argument("bucket", required=False, shell_complete=complete_buckets)
@json_flag
@connection_options
def ls(connection: Connection, bucket: str | None, as_json: bool, **_flags: Any) -> None:
    """List the buckets, or the keys of BUCKET."""
    if bucket is not None:
        _print_keys(connection, parse_bucket(bucket), ">", as_json=as_json)
        return
    columns = ("bucket", "description", "values", "keys", "history", "ttl", "bytes", "replicas")
    print_streams(
        connection, lambda rows: print_buckets(rows, columns),
        as_json=as_json, subject="$KV.>", prefix=KV,
    )  # fmt: skip


@command()
@bucket_argument
@click.argument("key_filter", metavar="[KEY]", default=">")
@json_flag
@connection_options
def keys(
    connection: Connection, bucket: str, key_filter: str, as_json: bool, **_flags: Any
) -> None:
    """List the keys of BUCKET that have a value. KEY may have wildcards."""
    _print_keys(connection, parse_bucket(bucket), parse_key_filter(key_filter), as_json=as_json)


def _print_keys(connection: Connection, bucket: str, key_filter: str, *, as_json: bool) -> None:
    entries = run_connected(
        connection,
        lambda client: read_entries(
            client, bucket, key_filter, "last_per_subject", with_values=False
        ),
    )
    names = sorted(entry.key for entry in entries if entry.operation == "PUT")
    if as_json:
        click.echo(json.dumps(names))
        return
    if names:
        click.echo("\n".join(map(clean_line, names)))


@command()
@bucket_argument
@key_argument
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
    **_flags: Any,
) -> None:
    """Print the value of KEY in BUCKET.

    Prints the value unchanged; --json adds revision, time and operation.
    """
    bucket, key = parse_bucket(bucket), parse_key(key)
    entry = run_connected(connection, lambda client: read_key(client, bucket, key, revision))
    if entry.operation != "PUT" and revision is None:
        raise NotFound(f"{bucket} has no key {key}: it was deleted at revision {entry.revision}")
    if as_json:
        print_entry(entry)
        return
    if entry.operation != "PUT":
        # It would look like an empty value.
        raise NotFound(f"revision {revision} of key {key} of {bucket} is its deletion")
    sys.stdout.buffer.write(entry.value)


@command()
@bucket_argument
@key_argument
@json_flag
@connection_options
def history(connection: Connection, bucket: str, key: str, as_json: bool, **_flags: Any) -> None:
    """List the revisions of KEY in BUCKET. Prints the oldest first. KEY may have wildcards."""
    bucket, key_filter = parse_bucket(bucket), parse_key_filter(key)
    entries = run_connected(
        connection, lambda client: read_entries(client, bucket, key_filter, "all")
    )
    if not entries:
        raise NotFound(f"{bucket} has no key {key}")
    if as_json:
        for entry in entries:
            print_entry(entry)
        return
    print_rows(
        ENTRY_HEADINGS,
        [entry_row(entry) for entry in entries],
        text_columns_count=len(ENTRY_HEADINGS),
    )


@dataclass
class _KeyWatch:
    """Prints the changes of keys, until `max_values` are printed or none came for `quiet_s`."""

    bucket: str
    key_filter: str
    max_values: int | None
    quiet_s: float | None
    as_json: bool
    printed_count: int = 0

    async def run(self, client: Client, policy: Any) -> None:
        with cancel_on_signal("watching"):
            watch_arguments = self.bucket, self.key_filter, policy, self.quiet_s
            async with watch(client, *watch_arguments) as entries:
                click.echo(f"natstui: watching {self.bucket} {self.key_filter}", err=True)
                while self.max_values is None or self.printed_count < self.max_values:
                    entry = await anext(entries, None)
                    if entry is None:
                        return
                    self._print_entry(entry)

    def _print_entry(self, entry: KeyEntry) -> None:
        text = json.dumps(entry_json(entry)) if self.as_json else entry_line(entry)
        sys.stdout.write(text + "\n")
        sys.stdout.flush()
        self.printed_count += 1


@command("watch")
@bucket_argument
@click.argument("key_filter", metavar="[KEY]", default=">")
@click.option("--history", is_flag=True, help="Begin with all stored revisions.")
@click.option("--updates-only", is_flag=True, help="Print only changes from now on.")
@click.option("--count", type=COUNT, help="End after this many values.")
@click.option("--wait", metavar="TIME", help="End when nothing changed for this time: 500ms, 2s.")
@json_flag
@connection_options
def watch_keys(
    connection: Connection,
    bucket: str,
    key_filter: str,
    count: int | None,
    wait: str | None,
    as_json: bool,
    **flags: Any,
) -> None:
    """Print the values of BUCKET as they change.

    Prints the current values first. Runs until it is stopped.
    """
    key_watch = _KeyWatch(
        parse_bucket(bucket),
        parse_key_filter(key_filter),
        count,
        parse_optional_seconds(wait, "--wait"),
        as_json,
    )
    losses = LossCounter(
        "changes made in the meantime are printed later, if the history of the bucket keeps them"
    )
    policy = "new" if flags["updates_only"] else "all" if flags["history"] else "last_per_subject"
    try:
        run_connected(
            connection, lambda client: key_watch.run(client, policy), work_prints=True,
            on_link=losses.add,
        )  # fmt: skip
    except Interrupted:
        pass
    except BrokenPipeError:
        # The reader has closed the pipe; what Python still flushes is thrown away.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    print_stderr(f"{counted(key_watch.printed_count, 'change')}{losses.end_text}")


def entry_json(entry: KeyEntry) -> dict[str, Any]:
    """Return the fields of a revision for JSON; `created_at_us` is UTC µs.

    `value` is null if the value is not UTF-8; `value_base64` always has its bytes.
    """
    values: dict[str, Any] = {
        "bucket": entry.bucket,
        "key": entry.key,
        "revision": entry.revision,
        "created_at_us": entry.created_at_us,
        "operation": entry.operation,
        "value_base64": base64.b64encode(entry.value).decode(),
    }
    try:
        return values | {"value": entry.value.decode()}
    except UnicodeDecodeError:
        return values | {"value": None}


def print_entry(entry: KeyEntry) -> None:
    """Print a revision as one line of JSON."""
    click.echo(clean_json(json.dumps(entry_json(entry))))


def entry_row(entry: KeyEntry) -> tuple[str, ...]:
    """Return the cells of a revision in the order of `ENTRY_HEADINGS`; the value is cut at 60
    cells.
    """
    text = entry.value.decode("utf-8", "backslashreplace")
    size = bytes_text(len(entry.value)) if entry.operation == "PUT" else ""
    time_text = local_text(entry.created_at_us, "%Y-%m-%d %H:%M:%S")
    value = cut_text(clean_line(text), _MAX_VALUE_CELLS)
    return str(entry.revision), entry.key, time_text, entry.operation, size, value


def entry_line(entry: KeyEntry) -> str:
    """Return a revision as one line: time, operation, revision, key, beginning of the value."""
    revision, key, time_text, operation, _, value = entry_row(entry)
    return clean_line(f"{time_text}  {operation:<5}  {revision}  {key}  {value}").rstrip()


@click.group(cls=StoreGroup)
def kv() -> None:
    """Read and change key-value buckets."""


for _subcommand in (add, create, delete, get, history, keys, ls, purge, put, rm, watch_keys):
    kv.add_command(_subcommand)
