"""`natstui object …`: files in object stores."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import click
from msgspec import to_builtins

from natstui.clean import clean_json, clean_line
from natstui.cli.backups import BytesLine, run_stoppable
from natstui.cli.complete import complete_object_stores
from natstui.cli.connected import run_connected
from natstui.cli.listing import print_streams
from natstui.cli.manage.stream_changes import seal_change
from natstui.cli.manage.writing import print_change_result, write_confirmed
from natstui.cli.options import change_flags, connection_options, json_flag
from natstui.cli.sections import command
from natstui.cli.stores.options import (
    StoreGroup,
    bucket_options,
    change_bucket,
    create_bucket,
    delete_bucket,
    parse_bucket,
    print_buckets,
)
from natstui.cli.terminal_line import print_stderr
from natstui.cli.text_table import print_fields, print_rows
from natstui.config import Connection
from natstui.engine.stopping import cancel_on_signal
from natstui.errors import RequestFailed, UsageError
from natstui.files import file_name, open_user_file
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.decode.streams import read_stream
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.managing.configure import ChangeResult
from natstui.jetstream.managing.objects import (
    ObjectChange,
    ObjectLink,
    delete_object,
    link_object,
    put_object,
)
from natstui.jetstream.messages.objects import (
    StoreContent,
    StoredObject,
    WrittenObject,
    copy_object,
    find_names_with_chunks,
    read_object,
    read_store,
    save_object,
)
from natstui.jetstream.messages.unfinished_objects import (
    removal_command,
    unfinished_text,
)
from natstui.model.assets.buckets import OBJECTS, BucketOptions, object_store_config
from natstui.paths import expand_user_path
from natstui.units import bytes_text, count_text, counted, local_text
from natstui.values import replace

_MAX_SHOWN_COMMANDS = 5
_bucket_argument = click.argument("bucket", shell_complete=complete_object_stores)


@command()
@click.argument("bucket")
@functools.partial(bucket_options, is_key_value=False)
@change_flags
@connection_options
def add(connection: Connection, bucket: str, options: BucketOptions, **flags: Any) -> None:
    """Create the object store BUCKET."""
    create_bucket(connection, object_store_config(parse_bucket(bucket), options), flags)


@command()
@click.argument("bucket", required=False, shell_complete=complete_object_stores)
@json_flag
@connection_options
def ls(connection: Connection, bucket: str | None, as_json: bool, **_flags: Any) -> None:
    """List the object stores, or files in BUCKET."""
    if bucket is not None:
        _print_objects(connection, parse_bucket(bucket), as_json=as_json)
        return
    columns = ("bucket", "description", "bytes", "replicas", "sealed")
    print_streams(
        connection, lambda rows: print_buckets(rows, columns),
        as_json=as_json, subject="$O.>", prefix=OBJECTS,
    )  # fmt: skip


def _print_objects(connection: Connection, bucket: str, *, as_json: bool) -> None:
    content = run_connected(connection, lambda client: read_store(client, bucket))
    objects = content.objects
    _print_unlisted_objects(content.error_by_name)
    _print_unfinished_uploads(bucket, content)
    if as_json:
        rows = [to_builtins(stored_object) for stored_object in objects]
        click.echo(clean_json(json.dumps(rows)))
    else:
        _print_table(objects)
    if content.error_by_name:
        # What could be read is printed; scripts see that it is not all.
        sys.exit(RequestFailed.exit_code)


def _print_unlisted_objects(reasons: Mapping[str, str]) -> None:
    """Print to stderr why some objects cannot be listed."""
    for reason in reasons.values():
        click.echo(clean_line(f"natstui: {reason}"), err=True)


def _print_table(objects: Sequence[StoredObject]) -> None:
    print_rows(
        ("NAME", "STORED", "SIZE", "CHUNKS"),
        [
            (
                stored_object.name
                + (
                    f" → {stored_object.link_bucket}/{stored_object.link_name}"
                    if stored_object.link_bucket
                    else ""
                ),
                local_text(stored_object.stored_at_us, "%Y-%m-%d %H:%M:%S"),
                bytes_text(stored_object.size_bytes),
                count_text(stored_object.chunks_count),
            )
            for stored_object in objects
        ],
        text_columns_count=2,
    )


def _print_unfinished_uploads(bucket: str, content: StoreContent) -> None:
    """Print to stderr the remains of killed uploads, and how to delete them."""
    uploads, now_us = content.unfinished, content.server_at_us
    if not uploads:
        return
    click.echo(clean_line(f"natstui: {unfinished_text(uploads, now_us)}"), err=True)
    stale_uploads = [upload for upload in uploads if upload.may_be_running(now_us) is False]
    for upload in stale_uploads[:_MAX_SHOWN_COMMANDS]:
        click.echo(clean_line(f"  {removal_command(bucket, upload)}"), err=True)
    if len(stale_uploads) > _MAX_SHOWN_COMMANDS:
        click.echo(f"  and {len(stale_uploads) - _MAX_SHOWN_COMMANDS:,} more", err=True)


@command()
@_bucket_argument
@click.argument("name", required=False)
@json_flag
@connection_options
def info(
    connection: Connection, bucket: str, name: str | None, as_json: bool, **_flags: Any
) -> None:
    """Show a file, or the object store BUCKET. NAME is the file; without NAME, shows BUCKET."""
    bucket = parse_bucket(bucket)
    if name is None:
        reply, content = run_connected(connection, lambda client: _read_info(client, bucket))
        if content is not None:
            _print_unlisted_objects(content.error_by_name)
            _print_unfinished_uploads(bucket, content)
        if as_json:
            click.echo(clean_json(reply.decode()))
            return
        stream = read_stream(reply)
        sealed_text = "yes" if stream.read_config().get("sealed") else "no"
        size = bytes_text(stream.state.bytes)
        print_fields({"Bucket": bucket, "Size": size, "Sealed": sealed_text})
        return
    stored_object = run_connected(connection, lambda client: read_object(client, bucket, name))
    if as_json:
        click.echo(clean_json(json.dumps(to_builtins(stored_object))))
        return
    fields = {
        "Name": stored_object.name,
        "Bucket": stored_object.bucket,
        "Description": stored_object.description,
        "Size": bytes_text(stored_object.size_bytes),
        "Chunks": str(stored_object.chunks_count),
        "Digest": stored_object.digest,
        "Stored": local_text(stored_object.stored_at_us, "%Y-%m-%d %H:%M:%S"),
        "Link to": f"{stored_object.link_bucket}/{stored_object.link_name}".strip("/"),
    }
    print_fields({label: text for label, text in fields.items() if text})


async def _read_info(client: Client, bucket: str) -> tuple[bytes, StoreContent | None]:
    reply = await client.request(f"STREAM.INFO.{OBJECTS}{bucket}")
    try:
        return reply, await read_store(client, bucket)
    except RequestFailed as error:
        # The store is shown even if its files cannot be read.
        text = f"natstui: whether uploads were left unfinished is unknown: {error}"
        click.echo(clean_line(text), err=True)
        return reply, None


@command()
@_bucket_argument
@click.argument("file", metavar="[FILE]", default="-")
@click.option("--name", metavar="NAME", help="Name in the store; default: the local name.")
@click.option("--description", metavar="TEXT", default="", help="For people.")
@change_flags
@connection_options
def put(
    connection: Connection,
    bucket: str,
    file: str,
    name: str | None,
    description: str,
    **flags: Any,
) -> None:
    """Store FILE in BUCKET.

    Without FILE, or with -, reads stdin. The file appears when it is stored completely, and
    replaces a file of the same name.
    """
    if file == "-" and name is None:
        raise UsageError("a file from stdin needs --name")
    object_change = ObjectChange(parse_bucket(bucket), name or Path(file).name, description)
    line = BytesLine()
    source = _open_source(file)

    async def work(writer: Writer, confirmed_name: str | None) -> ChangeResult:
        confirmed_change = replace(object_change, confirmed=confirmed_name)
        with cancel_on_signal("putting"):
            return await put_object(
                writer, confirmed_change, source,
                functools.partial(line.show_bytes, object_change.name),
                find_names_with_chunks,
            )  # fmt: skip

    try:
        change_result = write_confirmed(connection, flags, work)
    finally:
        line.clear()
        source.close()
    if file == "-" and (change_result.after or {}).get("size") == 0:
        print_stderr("stdin was empty: the file has 0 bytes")
    print_change_result(change_result, flags["as_json"])


def _open_source(file: str) -> BinaryIO:
    # Without a buffer: at its end, Python waits for a thread that fills one.
    if file == "-":
        return getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
    try:
        return open_user_file(expand_user_path(file))
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error


@command()
@_bucket_argument
@click.argument("name")
@click.option("--output", "-O", metavar="FILE", help="File to write; - is stdout.")
@click.option("--force", "-f", is_flag=True, help="Overwrite an existing file.")
@click.option("--verify/--no-verify", default=True, help="Check size and digest of the file.")
@json_flag
@connection_options
def get(
    connection: Connection,
    bucket: str,
    name: str,
    output: str | None,
    force: bool,
    verify: bool,
    as_json: bool,
    **_flags: Any,
) -> None:
    """Download the file NAME of BUCKET.

    Writes the file under its own name or to --output. The file appears when it is complete and its
    digest is correct; --no-verify writes it anyway and reports what is wrong.
    """
    bucket, target = parse_bucket(bucket), _target_path(name, output)
    if target is not None and target.exists() and not force:
        raise UsageError(f"{target} exists already: use --force, or --output FILE")
    line = BytesLine()
    try:
        if target is None:
            result = run_stoppable(
                connection, True, "getting",
                lambda writer: _write_object(
                    writer.client, bucket, name, sys.stdout.buffer, line, verify
                ),
            )  # fmt: skip
            if result.problem:
                click.echo(
                    clean_line(f"natstui: {result.stored_object.name} {result.problem}"),
                    err=True,
                )
            return
        result = run_stoppable(
            connection, True, "getting",
            lambda writer: _save_object(writer.client, bucket, name, target, line, force, verify),
        )  # fmt: skip
    finally:
        line.clear()
    if as_json:
        fields = {**to_builtins(result.stored_object), "file": str(target),
                  "written_bytes": result.size_bytes,
                  "wrong": result.problem or None}  # fmt: skip
        click.echo(clean_json(json.dumps(fields)))
        return
    chunks_text = counted(result.stored_object.chunks_count, "chunk")
    text = f"{bytes_text(result.size_bytes)}, {chunks_text}, {result.check_text}, in {target}"
    click.echo(clean_line(f"{result.stored_object.name}: {text}"))


def _target_path(name: str, output: str | None) -> Path | None:
    """Return the file to write, None for stdout; raises UsageError if `name` is no valid file
    name.
    """
    if output == "-":
        return None
    if output is not None:
        return expand_user_path(output)
    local_name = Path(name).name
    if not local_name or file_name(local_name) != local_name:
        raise UsageError(f"{name!r} is not a usable file name here: use --output FILE")
    return Path(local_name)


async def _write_object(
    client: Client, bucket: str, name: str, file: BinaryIO, line: BytesLine, verify: bool
) -> WrittenObject:
    stored_object = await read_object(client, bucket, name)
    return await copy_object(
        client, stored_object, file, _progress_callback(line, stored_object), verify=verify
    )


async def _save_object(
    client: Client,
    bucket: str,
    name: str,
    target: Path,
    line: BytesLine,
    overwrites: bool,
    verify: bool,
) -> WrittenObject:
    stored_object = await read_object(client, bucket, name)
    return await save_object(
        client,
        stored_object,
        target,
        _progress_callback(line, stored_object),
        overwrites=overwrites,
        verify=verify,
    )


def _progress_callback(line: BytesLine, stored_object: StoredObject) -> Callable[[int], None]:
    return functools.partial(
        line.show_bytes, stored_object.name, total_bytes=stored_object.size_bytes
    )


@command()
@_bucket_argument
@click.argument("name", required=False)
@change_flags
@connection_options
def rm(connection: Connection, bucket: str, name: str | None, **flags: Any) -> None:
    """Delete the file NAME of BUCKET. Without NAME: BUCKET and all its files."""
    bucket = parse_bucket(bucket)
    if name is None:
        delete_bucket(connection, OBJECTS, bucket, flags)
        return

    async def work(writer: Writer, confirmed_name: str | None) -> ChangeResult:
        deletion = ObjectChange(bucket, name, confirmed=confirmed_name)
        return await delete_object(writer, deletion, find_names_with_chunks)

    print_change_result(write_confirmed(connection, flags, work), flags["as_json"])


@command()
@_bucket_argument
@click.argument("name")
@click.argument("target", metavar="[STORE/]FILE")
@change_flags
@connection_options
def link(connection: Connection, bucket: str, name: str, target: str, **flags: Any) -> None:
    """Link NAME to a file of this or another store.

    NAME is the new link in BUCKET. Write STORE/FILE to link to a file of another store. If FILE
    has slashes, always name its STORE.
    """
    store, slash, file = target.partition("/")
    link_target = ObjectLink(parse_bucket(store), file) if slash else ObjectLink(bucket, target)
    object_change = ObjectChange(parse_bucket(bucket), name)

    async def work(writer: Writer, confirmed_name: str | None) -> ChangeResult:
        return await link_object(
            writer, replace(object_change, confirmed=confirmed_name), link_target
        )

    print_change_result(write_confirmed(connection, flags, work), flags["as_json"])


@command()
@_bucket_argument
@change_flags
@connection_options
def seal(connection: Connection, bucket: str, **flags: Any) -> None:
    """Make BUCKET read-only for ever. Files can no longer be stored or deleted."""
    bucket = parse_bucket(bucket)
    change_bucket(
        connection, OBJECTS, bucket, flags, functools.partial(seal_change, f"{OBJECTS}{bucket}")
    )


@click.group("object", cls=StoreGroup)
def object_store() -> None:
    """Store and fetch files in object stores."""


for _subcommand in (add, get, info, link, ls, put, rm, seal):
    object_store.add_command(_subcommand)
