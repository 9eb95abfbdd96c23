"""`natstui object …`: files in object stores."""

from __future__ import annotations

import dataclasses
import functools
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import click

from natstui.clean import clean_json, clean_line
from natstui.cli.backups import BytesLine, stoppable
from natstui.cli.complete import stores as store_names
from natstui.cli.connected import run_connected
from natstui.cli.listing import list_streams
from natstui.cli.manage.stream_changes import seal_stream
from natstui.cli.manage.writing import (
    change_flags,
    print_changed,
    run_with_writer,
    write_confirmed,
)
from natstui.cli.options import as_json as json_flag
from natstui.cli.options import connection_options
from natstui.cli.sections import Group, command
from natstui.cli.stores.options import (
    bucket_options,
    check_bucket_stream,
    delete_bucket,
    given_bucket,
    make_bucket,
    print_buckets,
)
from natstui.cli.text_table import print_fields, print_rows
from natstui.config import Connection
from natstui.engine.stopping import cancelled_by_signal
from natstui.errors import RequestFailed, UsageError
from natstui.files import file_name
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.managing.configure import ChangeResult, read_config
from natstui.jetstream.managing.objects import (
    ObjectChange,
    ObjectLink,
    delete_object,
    link_object,
    put_object,
)
from natstui.jetstream.messages.objects import (
    CopiedObject,
    StoreContent,
    StoredObject,
    copy_object,
    read_object,
    read_store,
    save_object,
)
from natstui.jetstream.messages.unfinished_objects import (
    UnfinishedObject,
    removal_command,
    unfinished_text,
)
from natstui.model.assets.buckets import OBJECTS, BucketOptions, store_config
from natstui.paths import user_path
from natstui.units import bytes_text, count_text, counted, local_text

_COMMANDS_COUNT = 5
_in_store = click.argument("bucket", shell_complete=store_names)


@command()
@click.argument("bucket")
@functools.partial(bucket_options, of_keys=False)
@change_flags
@connection_options
def add(connection: Connection, bucket: str, options: BucketOptions, **words: Any) -> None:
    """Create the object store BUCKET."""
    make_bucket(connection, store_config(given_bucket(bucket), options), words)


@command()
@click.argument("bucket", required=False, shell_complete=store_names)
@json_flag
@connection_options
def ls(connection: Connection, bucket: str | None, as_json: bool, **_words: Any) -> None:
    """List the object stores, or files in BUCKET."""
    if bucket is not None:
        _print_objects(connection, given_bucket(bucket), as_json=as_json)
        return
    streams = run_connected(connection, lambda client: list_streams(client, "$O.>"))
    rows = [row for row in streams if row["config"]["name"].startswith(OBJECTS)]
    if as_json:
        click.echo(clean_json(json.dumps(rows)))
        return
    print_buckets(rows, ("bucket", "description", "bytes", "replicas", "sealed"))


def _print_objects(connection: Connection, bucket: str, *, as_json: bool) -> None:
    content = run_connected(connection, lambda client: read_store(client, bucket))
    found = content.objects
    _print_damaged(content.damaged)
    _print_unfinished(bucket, content.unfinished)
    if as_json:
        rows = [dataclasses.asdict(one) for one in found]
        click.echo(clean_json(json.dumps(rows)))
    else:
        _print_table(found)
    if content.damaged:
        # What could be read is printed; scripts see that it is not all.
        sys.exit(RequestFailed.exit_code)


def _print_damaged(damaged: Mapping[str, str]) -> None:
    """Print to stderr why some files cannot be listed."""
    for reason in damaged.values():
        click.echo(clean_line(f"natstui: {reason}"), err=True)


def _print_table(found: Sequence[StoredObject]) -> None:
    print_rows(
        ("NAME", "STORED", "SIZE", "CHUNKS"),
        [
            (
                one.name + (f" → {one.link_bucket}/{one.link_name}" if one.link_bucket else ""),
                local_text(one.stored_at_us, "%Y-%m-%d %H:%M:%S"),
                bytes_text(one.size_bytes),
                count_text(one.chunks_count),
            )
            for one in found
        ],
        words_count=2,
    )


def _print_unfinished(bucket: str, unfinished: list[UnfinishedObject]) -> None:
    """Print to stderr what uploads left that were killed, and how to remove it."""
    if not unfinished:
        return
    now_us = time.time_ns() // 1000
    click.echo(clean_line(f"natstui: {unfinished_text(unfinished, now_us)}"), err=True)
    ended = [upload for upload in unfinished if upload.may_run(now_us) is False]
    for upload in ended[:_COMMANDS_COUNT]:
        click.echo(clean_line(f"  {removal_command(bucket, upload)}"), err=True)
    if len(ended) > _COMMANDS_COUNT:
        click.echo(f"  and {len(ended) - _COMMANDS_COUNT:,} more", err=True)


@command()
@_in_store
@click.argument("name", required=False)
@json_flag
@connection_options
def info(
    connection: Connection, bucket: str, name: str | None, as_json: bool, **_words: Any
) -> None:
    """Show a file, or the object store BUCKET. NAME is the file; without NAME, shows BUCKET."""
    bucket = given_bucket(bucket)
    if name is None:
        reply, content = run_connected(connection, lambda client: _described(client, bucket))
        if content is not None:
            _print_damaged(content.damaged)
            _print_unfinished(bucket, content.unfinished)
        if as_json:
            click.echo(clean_json(reply.decode()))
            return
        found = json.loads(reply)
        state, config = found["state"], found["config"]
        sealed = "yes" if config.get("sealed") else "no"
        print_fields({"Bucket": bucket, "Size": bytes_text(state["bytes"]), "Sealed": sealed})
        return
    one = run_connected(connection, lambda client: read_object(client, bucket, name))
    if as_json:
        click.echo(clean_json(json.dumps(dataclasses.asdict(one))))
        return
    fields = {"Name": one.name, "Bucket": one.bucket, "Description": one.description,
              "Size": bytes_text(one.size_bytes), "Chunks": str(one.chunks_count),
              "Digest": one.digest, "Stored": local_text(one.stored_at_us, "%Y-%m-%d %H:%M:%S"),
              "Link to": f"{one.link_bucket}/{one.link_name}".strip("/")}  # fmt: skip
    print_fields({label: text for label, text in fields.items() if text})


async def _described(client: Client, bucket: str) -> tuple[bytes, StoreContent | None]:
    reply = await client.request(f"STREAM.INFO.{OBJECTS}{bucket}")
    try:
        return reply, await read_store(client, bucket)
    except RequestFailed as error:
        # What the store is does not depend on its files.
        text = f"natstui: whether uploads were left unfinished is unknown: {error}"
        click.echo(clean_line(text), err=True)
        return reply, None


@command()
@_in_store
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
    **words: Any,
) -> None:
    """Store FILE in BUCKET.

    Without FILE, or with -, reads stdin. The file appears when it is stored completely, and
    replaces a file of the same name.
    """
    if file == "-" and name is None:
        raise UsageError("a file from stdin needs --name")
    asked = ObjectChange(given_bucket(bucket), name or Path(file).name, description)
    shown = BytesLine()
    source = _source(file)

    async def work(writer: Writer, confirmed: str | None) -> ChangeResult:
        sure = dataclasses.replace(asked, confirmed=confirmed)
        with cancelled_by_signal("putting"):
            return await put_object(
                writer, sure, source, functools.partial(shown.show_bytes, asked.name)
            )

    try:
        changed = write_confirmed(connection, words, work)
    finally:
        shown.clear()
        source.close()
    print_changed(changed, words["as_json"])


def _source(file: str) -> BinaryIO:
    # Without a buffer: at its end, Python waits for a thread that fills one.
    if file == "-":
        return getattr(sys.stdin.buffer, "raw", sys.stdin.buffer)
    try:
        return user_path(file).open("rb", buffering=0)
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error


@command()
@_in_store
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
    **_words: Any,
) -> None:
    """Download the file NAME of BUCKET.

    Writes the file under its own name or to --output. The file appears when it is complete and its
    digest is correct; --no-verify writes it anyway and reports what is wrong.
    """
    bucket, target = given_bucket(bucket), _target(name, output)
    if target is not None and target.exists() and not force:
        raise UsageError(f"{target} exists already: use --force, or --output FILE")
    shown = BytesLine()
    try:
        if target is None:
            copied = stoppable(
                connection, True, "getting",
                lambda w: _copied(w.client, bucket, name, sys.stdout.buffer, shown, verify),
            )  # fmt: skip
            if copied.wrong:
                click.echo(clean_line(f"natstui: {copied.stored.name} {copied.wrong}"), err=True)
            return
        copied = stoppable(
            connection, True, "getting",
            lambda w: _saved(w.client, bucket, name, target, shown, force, verify),
        )  # fmt: skip
    finally:
        shown.clear()
    if as_json:
        fields = {**dataclasses.asdict(copied.stored), "file": str(target),
                  "written_bytes": copied.size_bytes, "wrong": copied.wrong or None}  # fmt: skip
        click.echo(clean_json(json.dumps(fields)))
        return
    size = f"{bytes_text(copied.size_bytes)}, {counted(copied.stored.chunks_count, 'chunk')}"
    click.echo(clean_line(f"{copied.stored.name}: {size}, {copied.check_text}, in {target}"))


def _target(name: str, output: str | None) -> Path | None:
    """Return the file to write, None for stdout; raises UsageError without a usable name."""
    if output == "-":
        return None
    if output is not None:
        return user_path(output)
    own = Path(name).name
    if not own or file_name(own) != own:
        raise UsageError(f"{name!r} is not a usable file name here: use --output FILE")
    return Path(own)


async def _copied(
    client: Client, bucket: str, name: str, file: BinaryIO, shown: BytesLine, verify: bool
) -> CopiedObject:
    wanted = await read_object(client, bucket, name)
    return await copy_object(client, wanted, file, _telling(shown, wanted), verify=verify)


async def _saved(
    client: Client,
    bucket: str,
    name: str,
    target: Path,
    shown: BytesLine,
    overwrites: bool,
    verify: bool,
) -> CopiedObject:
    wanted = await read_object(client, bucket, name)
    return await save_object(
        client, wanted, target, _telling(shown, wanted), overwrites=overwrites, verify=verify
    )


def _telling(shown: BytesLine, wanted: StoredObject) -> Callable[[int], None]:
    return functools.partial(shown.show_bytes, wanted.name, whole_bytes=wanted.size_bytes)


@command()
@_in_store
@click.argument("name", required=False)
@change_flags
@connection_options
def rm(connection: Connection, bucket: str, name: str | None, **words: Any) -> None:
    """Delete the file NAME of BUCKET. Without NAME: BUCKET and all its files."""
    bucket = given_bucket(bucket)
    if name is None:
        delete_bucket(connection, OBJECTS, bucket, words)
        return

    async def work(writer: Writer, confirmed: str | None) -> ChangeResult:
        return await delete_object(writer, ObjectChange(bucket, name, confirmed=confirmed))

    print_changed(write_confirmed(connection, words, work), words["as_json"])


@command()
@_in_store
@click.argument("name")
@click.argument("target", metavar="[STORE/]FILE")
@change_flags
@connection_options
def link(connection: Connection, bucket: str, name: str, target: str, **words: Any) -> None:
    """Link NAME to a file of this or another store.

    NAME is the new link in BUCKET. Write STORE/FILE to link to a file of another store. If FILE
    has slashes, always name its STORE.
    """
    store, slash, file = target.partition("/")
    where = ObjectLink(given_bucket(store), file) if slash else ObjectLink(bucket, target)
    asked = ObjectChange(given_bucket(bucket), name)

    async def work(writer: Writer, confirmed: str | None) -> ChangeResult:
        return await link_object(writer, dataclasses.replace(asked, confirmed=confirmed), where)

    print_changed(write_confirmed(connection, words, work), words["as_json"])


@command()
@_in_store
@change_flags
@connection_options
def seal(connection: Connection, bucket: str, **words: Any) -> None:
    """Make BUCKET read-only for ever. Files can no longer be stored or deleted."""
    stream = f"{OBJECTS}{given_bucket(bucket)}"
    check_bucket_stream(
        run_with_writer(connection, True, lambda w: read_config(w, "stream", stream))
    )
    seal_stream(connection, stream, words)


@click.group("object", cls=Group)
def object_store() -> None:
    """Store and fetch files in object stores."""


for _command in (add, get, info, link, ls, put, rm, seal):
    object_store.add_command(_command)
