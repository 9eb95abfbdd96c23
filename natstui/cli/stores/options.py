"""Names of buckets and keys on the command line, and the options of a new bucket."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import click

from natstui.clean import clean_line
from natstui.cli.complete import complete_buckets, complete_keys
from natstui.cli.manage.writing import (
    WriterSession,
    apply_previewed_change,
    confirm_preview,
    print_change_result,
    refuse_read_only,
)
from natstui.cli.sections import Group
from natstui.cli.text_table import entity_table, stdout_width
from natstui.config import Connection
from natstui.errors import ActionRefusal, NatstuiError, NotFound, UsageError
from natstui.jetstream.connection.decode.streams import StreamRow
from natstui.jetstream.managing.apply import preview
from natstui.jetstream.managing.configure import read_config
from natstui.model.assets.buckets import (
    KV,
    MAX_HISTORY_COUNT,
    OBJECTS,
    BucketOptions,
    is_bucket_name,
    is_bucket_stream,
    is_key_filter,
    is_stored_key,
)
from natstui.model.assets.fields import Config, strings_at
from natstui.model.columns.buckets import BUCKET_COLUMNS, BucketRow
from natstui.model.records.managing import Change
from natstui.units import parse_bytes, parse_duration_ns
from natstui.values import replace

bucket_argument = click.argument("bucket", shell_complete=complete_buckets)
"""The argument BUCKET of a command about keys."""
key_argument = click.argument("key", shell_complete=complete_keys)
"""The argument KEY of a command about a key of BUCKET."""


def parse_bucket(name: str) -> str:
    """Return the name of a bucket or store unchanged; raises UsageError for an invalid name."""
    if not is_bucket_name(name):
        raise UsageError(f"{name!r} is not a valid bucket name: use letters, digits, - and _")
    return name


def parse_key(key: str) -> str:
    """Return a key unchanged; raises UsageError for an invalid key, and for a wildcard."""
    if not is_stored_key(key):
        raise UsageError(
            f"{key!r} is not a valid key: it has a space, a wildcard or an empty token"
        )
    return key


def parse_key_filter(text: str) -> str:
    """Return a key or a pattern with * and > unchanged; raises UsageError for an invalid text."""
    if not is_key_filter(text):
        raise UsageError(f"{text!r} is neither a key nor a pattern with * and >")
    return text


def _parse_size_bytes(text: str | None, option: str) -> int:
    try:
        return -1 if text is None else parse_bytes(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


def _parse_duration_ns(text: str | None, option: str) -> int:
    try:
        return 0 if text is None else parse_duration_ns(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


def bucket_options(command: Callable[..., Any], *, is_key_value: bool) -> Callable[..., Any]:
    """Add the options of a new bucket or store to a command.

    The command gets them as `options: BucketOptions`; an invalid option raises UsageError.
    `is_key_value`: the options of a key-value bucket, which has more than an object store.
    """

    @functools.wraps(command)
    def call_command_with_options(**flags: Any) -> Any:
        options = BucketOptions(
            flags.pop("description"),
            flags.pop("history", 1),
            _parse_duration_ns(flags.pop("ttl"), "--ttl"),
            _parse_duration_ns(flags.pop("marker_ttl", None), "--marker-ttl"),
            flags.pop("replicas"),
            {"f": "file", "m": "memory"}.get(storage := flags.pop("storage"), storage),
            _parse_size_bytes(flags.pop("max_value_size", None), "--max-value-size"),
            _parse_size_bytes(flags.pop("max_bucket_size"), "--max-bucket-size"),
            flags.pop("compress"),
        )
        return command(options=options, **flags)

    decorated_command: Callable[..., Any] = call_command_with_options
    for option in reversed(
        [*(_KEY_VALUE_OPTIONS if is_key_value else ()), *_BUCKET_AND_STORE_OPTIONS]
    ):
        decorated_command = option(decorated_command)
    return decorated_command


_KEY_VALUE_OPTIONS = (
    click.option(
        "--history", type=click.IntRange(1, MAX_HISTORY_COUNT), default=1,
        help="Number of values kept per key; with 1, an overwritten value cannot be restored.",
    ),
    click.option("--max-value-size", metavar="SIZE", help="Of one value."),
    click.option("--marker-ttl", metavar="TIME",
        help="How long markers of expired keys are kept."),
)  # fmt: skip
_BUCKET_AND_STORE_OPTIONS = (
    click.option("--ttl", metavar="TIME", help="How long values are kept: 1d, 2M."),
    click.option("--replicas", type=click.IntRange(1, 5), default=1, help="Number of replicas."),
    click.option("--storage", type=click.Choice(("file", "memory", "f", "m")), default="file"),
    click.option("--max-bucket-size", metavar="SIZE", help="Of all together."),
    click.option("--compress/--no-compress", default=False, help="Whether the server compresses."),
    click.option("--description", metavar="TEXT", help="For people."),
)


def print_buckets(rows: Iterable[StreamRow], column_keys: Sequence[str]) -> None:
    """Print a table of buckets or object stores.

    `rows` are their streams, `column_keys` are keys of columns in `BUCKET_COLUMNS`.
    """
    column_by_key = {column.key: column for column in BUCKET_COLUMNS}
    columns = [column_by_key[key] for key in column_keys]
    buckets = [
        BucketRow(
            row.read_config(),
            row.state.messages,
            row.state.bytes,
            row.state.num_subjects,
            changed_ago_s=None,
        )
        for row in rows
    ]
    for line in entity_table(columns, buckets, stdout_width()):
        click.echo(line)


def create_bucket(connection: Connection, config: Config, flags: dict[str, Any]) -> None:
    """Create the stream of a bucket or store after confirmation, and print the result.

    `flags` are those of `change_flags`. Raises ActionRefusal if the change is not confirmed or the
    connection is read-only, ConnectionFailed without a connection, RequestFailed if the server
    refuses the change or does not reply.
    """
    change = Change(0, "create_stream", str(config["name"]), None, json.dumps(config))
    refuse_read_only(connection, flags["read_only"])
    with WriterSession(connection) as session:
        _confirm_and_change(session, change, flags)


def delete_bucket(connection: Connection, prefix: str, bucket: str, flags: dict[str, Any]) -> None:
    """Delete a bucket or store after confirmation, and print the result.

    `prefix` is that of its stream, `flags` are those of `change_flags`. Raises NotFound if it does
    not exist, ActionRefusal if the change is not confirmed, the connection is read-only or the
    stream is no bucket, ConnectionFailed without a connection, RequestFailed if the server refuses
    the change or does not reply.
    """
    change = Change(0, "delete_stream", f"{prefix}{bucket}")
    change_bucket(connection, prefix, bucket, flags, lambda _config: change)


def change_bucket(
    connection: Connection,
    prefix: str,
    bucket: str,
    flags: dict[str, Any],
    create_change: Callable[[Config], Change],
) -> None:
    """Change a bucket or store after confirmation, and print the result.

    `prefix` is that of its stream, `flags` are those of `change_flags`. `create_change` returns
    the change for the current configuration of the stream. Raises NotFound if it does not exist,
    ActionRefusal if the change is not confirmed, the connection is read-only or the stream is no
    bucket, ConnectionFailed without a connection, RequestFailed if the server refuses the change
    or does not reply.
    """
    bucket_text, stream = f"{_STORE_KIND_BY_PREFIX[prefix]} {bucket}", f"{prefix}{bucket}"
    refuse_read_only(connection, flags["read_only"])
    with WriterSession(connection) as session:
        try:
            config = session.run(lambda writer: read_config(writer, "stream", stream))
        except NotFound as error:
            raise NotFound(f"there is no {bucket_text}", err_code=error.err_code) from error
        _check_bucket_stream(config)
        _confirm_and_change(session, create_change(config), flags)


def _confirm_and_change(session: WriterSession, change: Change, flags: dict[str, Any]) -> None:
    """Change the stream of a bucket or store after confirmation, and print the result."""
    bucket = change.stream.partition("_")[2]
    shown_preview = session.run(lambda writer: preview(writer, change))
    confirmation = replace(
        shown_preview, name=bucket, question=_replace_stream_names(shown_preview.question)
    )
    # Scripts may name the stream: it is what the NATS CLI lists.
    confirm = bucket if flags["confirm"] == change.stream else flags["confirm"]
    confirm_preview(session.connection, confirmation, {**flags, "confirm": confirm})
    change_result = apply_previewed_change(session, change, shown_preview, change.stream)
    print_change_result(
        replace(change_result, text=_replace_stream_names(change_result.text)), flags["as_json"]
    )


_STORE_KIND_BY_PREFIX = {KV: "bucket", OBJECTS: "object store"}
"""Prefix of a stream name → what the stream is."""
_BUCKET_STREAM_PATTERN = re.compile(rf"\bstream ({KV}|{OBJECTS})(?=[\w-])")
_STREAM_NOT_FOUND_PATTERN = re.compile(
    rf"STREAM\.\w+\.({KV}|{OBJECTS})([\w-]+): stream not found.*"
)


def _replace_stream_names(text: str) -> str:
    """Return a sentence that names the bucket or store instead of its stream."""
    text = _STREAM_NOT_FOUND_PATTERN.sub(
        lambda match: f"there is no {_STORE_KIND_BY_PREFIX[match[1]]} {match[2]}", text
    )
    return _BUCKET_STREAM_PATTERN.sub(lambda match: f"{_STORE_KIND_BY_PREFIX[match[1]]} ", text)


class StoreGroup(Group):
    """A group of commands about buckets or stores, whose errors do not mention streams."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command and return its result; its errors name the bucket or store, not its
        stream.
        """
        try:
            return super().invoke(ctx)
        except NatstuiError as error:
            error.args = (_replace_stream_names(str(error)),)
            raise


def _check_bucket_stream(config: Config) -> None:
    """Raise ActionRefusal for a stream that has the name of a bucket, but is none."""
    if not is_bucket_stream(config):
        subjects = ", ".join(strings_at(config, "subjects")) or "no subjects"
        raise ActionRefusal(
            f"{config['name']} is a stream and no bucket: its subjects are "
            f"{clean_line(subjects)}; `natstui stream` changes it"
        )
