"""Names of buckets and keys on the command line, and the options of a new one."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import click

from natstui.clean import clean_line
from natstui.cli.complete import buckets, keys
from natstui.cli.manage.writing import (
    WriterSession,
    apply_shown,
    change_confirmed,
    confirmed_name,
    print_changed,
    refuse_read_only,
)
from natstui.cli.text_table import stdout_width, table, text_column
from natstui.config import Connection
from natstui.errors import NotFound, Refused, UsageError
from natstui.jetstream.managing.apply import preview
from natstui.jetstream.managing.configure import read_config
from natstui.model.assets.buckets import (
    KV,
    MOST_HISTORY,
    OBJECTS,
    BucketOptions,
    is_bucket,
    is_bucket_stream,
    is_key_filter,
    is_stored_key,
)
from natstui.model.assets.fields import Config, strings_at
from natstui.model.columns.buckets import BUCKET_COLUMNS, BucketRow
from natstui.model.records.managing import Change
from natstui.units import parse_bytes, parse_duration_ns

in_bucket = click.argument("bucket", shell_complete=buckets)
"""The argument BUCKET of a command about keys."""
key_name = click.argument("key", shell_complete=keys)
"""The argument KEY of a command about a key of BUCKET."""


def given_bucket(name: str) -> str:
    """Return a name that a bucket may have; raises UsageError."""
    if not is_bucket(name):
        raise UsageError(f"{name!r} is not a valid bucket name: use letters, digits, - and _")
    return name


def given_key(key: str) -> str:
    """Return a key that a bucket may have; raises UsageError."""
    if not is_stored_key(key):
        raise UsageError(
            f"{key!r} is not a valid key: it has a space, a wildcard or an empty token"
        )
    return key


def given_filter(text: str) -> str:
    """Return a key, or one with wildcards; raises UsageError."""
    if not is_key_filter(text):
        raise UsageError(f"{text!r} is neither a key nor a pattern with * and >")
    return text


def _size(text: str | None, option: str) -> int:
    try:
        return -1 if text is None else parse_bytes(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


def _duration(text: str | None, option: str) -> int:
    try:
        return 0 if text is None else parse_duration_ns(text)
    except ValueError as error:
        raise UsageError(f"{option}: {error}") from error


def bucket_options(command: Callable[..., Any], *, of_keys: bool) -> Callable[..., Any]:
    """Give a command that makes a bucket or store its options as `options: BucketOptions`."""

    @functools.wraps(command)
    def with_options(**words: Any) -> Any:
        options = BucketOptions(
            words.pop("description"),
            words.pop("history", 1),
            _duration(words.pop("ttl"), "--ttl"),
            _duration(words.pop("marker_ttl", None), "--marker-ttl"),
            words.pop("replicas"),
            {"f": "file", "m": "memory"}.get(given := words.pop("storage"), given),
            _size(words.pop("max_value_size", None), "--max-value-size"),
            _size(words.pop("max_bucket_size"), "--max-bucket-size"),
            words.pop("compress"),
        )
        return command(options=options, **words)

    decorated: Callable[..., Any] = with_options
    for option in reversed([*(_OF_KEYS if of_keys else ()), *_OF_BOTH]):
        decorated = option(decorated)
    return decorated


_OF_KEYS = (
    click.option(
        "--history", type=click.IntRange(1, MOST_HISTORY), default=1,
        help="Number of values kept per key; with 1, an overwritten value cannot be restored.",
    ),
    click.option("--max-value-size", metavar="SIZE", help="Of one value."),
    click.option("--marker-ttl", metavar="TIME",
        help="How long markers of expired keys are kept."),
)  # fmt: skip
_OF_BOTH = (
    click.option("--ttl", metavar="TIME", help="How long values are kept: 1d, 2M."),
    click.option("--replicas", type=click.IntRange(1, 5), default=1, help="Number of replicas."),
    click.option("--storage", type=click.Choice(("file", "memory", "f", "m")), default="file"),
    click.option("--max-bucket-size", metavar="SIZE", help="Of all together."),
    click.option("--compress/--no-compress", default=False, help="Whether the server compresses."),
    click.option("--description", metavar="TEXT", help="For people."),
)


def print_buckets(rows: Iterable[Mapping[str, Any]], shown: Sequence[str]) -> None:
    """Print buckets or object stores, of each the columns that are shown."""
    by_key = {column.key: column for column in BUCKET_COLUMNS}
    columns = [by_key[key] for key in shown]
    buckets = [
        BucketRow(
            row["config"],
            row["state"]["messages"],
            row["state"]["bytes"],
            row["state"].get("num_subjects", 0),
            changed_ago_s=None,
        )
        for row in rows
    ]
    heads = [text_column(column, shrinks=column.key == "description") for column in columns]
    texts = [[column.text(bucket) for column in columns] for bucket in buckets]
    for line in table(heads, texts, stdout_width()):
        click.echo(line)


def make_bucket(connection: Connection, config: Config, words: dict[str, Any]) -> None:
    """Make the stream of a bucket or a store, and print it."""
    change = Change(0, "create_stream", str(config["name"]), None, json.dumps(config))
    print_changed(change_confirmed(connection, change, words), words["as_json"])


def delete_bucket(connection: Connection, prefix: str, bucket: str, words: dict[str, Any]) -> None:
    """Delete a bucket or a store when that is confirmed, and print it."""
    what, stream = f"{_KINDS[prefix]} {bucket}", f"{prefix}{bucket}"
    refuse_read_only(connection, words["read_only"])
    with WriterSession(connection) as session:
        try:
            config = session.run(lambda writer: read_config(writer, "stream", stream))
        except NotFound as error:
            raise NotFound(f"there is no {what}", err_code=error.err_code) from error
        check_bucket_stream(config)
        change = Change(0, "delete_stream", stream)
        shown = session.run(lambda writer: preview(writer, change))
        question = f"this will delete {what}: {'; '.join(shown.lines)}"
        if connection.production:
            question += "; this is production"
        asked = replace(shown, name=bucket, question=question)
        typed = confirmed_name(connection, asked, words)
        # Scripts may name the stream: it is what the NATS CLI lists.
        if typed not in (bucket, stream):
            raise Refused(f"not confirmed: {typed!r} is not {bucket!r}: nothing was changed")
        deleted = apply_shown(session, change, shown, stream)
    print_changed(replace(deleted, text=f"{what} deleted"), words["as_json"])


_KINDS = {KV: "bucket", OBJECTS: "object store"}
"""Beginning of the name of a stream → what the stream is."""


def check_bucket_stream(config: Config) -> None:
    """Raise Refused for a stream that has the name of a bucket and is none."""
    if not is_bucket_stream(config):
        subjects = ", ".join(strings_at(config, "subjects")) or "no subjects"
        raise Refused(
            f"stream {config['name']} is no bucket: its subjects are {clean_line(subjects)}; "
            f"`natstui stream` changes it"
        )
