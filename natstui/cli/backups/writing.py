"""`natstui backup` and `natstui stream backup`: write streams into a folder, and check one."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from natstui.clean import clean_line
from natstui.cli.backups.options import (
    Progress,
    consumers_option,
    folder_of,
    pace_of,
    rate_option,
    stoppable,
)
from natstui.cli.complete import stream_name
from natstui.cli.manage.names import given_name
from natstui.cli.options import as_json as json_flag
from natstui.cli.options import connection_options
from natstui.cli.sections import command
from natstui.config import Connection
from natstui.errors import BackupError, UsageError
from natstui.jetstream.managing.backup import Written, back_up_account, back_up_stream
from natstui.jetstream.managing.backup_folder import is_account, read_backup, streams_of
from natstui.jetstream.managing.restore_all import state_text
from natstui.units import bytes_text, counted


@command("backup")
@stream_name
@click.argument("folder", metavar="DIR")
@consumers_option
@rate_option
@json_flag
@connection_options
def stream_backup(
    connection: Connection,
    name: str,
    folder: str,
    consumers: bool,
    rate: str | None,
    as_json: bool,
    **_words: Any,
) -> None:
    """Back up the stream NAME into DIR.

    Writes its configuration, consumers and messages. DIR must not exist; it gets its name when
    all of it is on the disk.
    """
    stream, target, pace, shown = given_name(name), folder_of(folder), pace_of(rate), Progress()
    try:
        written = stoppable(
            connection, True, f"the backup of {stream}",
            lambda writer: back_up_stream(
                writer.client, stream, target, pace, shown.tell, consumers=consumers
            ),
        )  # fmt: skip
    finally:
        shown.end()
    _print([written], target, as_json=as_json)


@command()
@click.argument("words", metavar="[verify] DIR", nargs=-1, required=True)
@consumers_option
@rate_option
@json_flag
@connection_options
def backup(
    connection: Connection,
    words: tuple[str, ...],
    consumers: bool,
    rate: str | None,
    as_json: bool,
    **_words: Any,
) -> None:
    """Back up every stream of the account into DIR.

    `natstui backup verify DIR` checks what is there. DIR must not exist; it gets its name when
    all of it is on the disk.
    """
    *verb, folder = words
    if verb == ["verify"]:
        _verify(folder_of(folder), as_json=as_json)
        return
    if verb or folder == "verify":
        raise UsageError("say backup DIR, or backup verify DIR; a folder verify is ./verify")
    target, pace, shown = folder_of(folder), pace_of(rate), Progress()
    try:
        written = stoppable(
            connection, True, "the backup",
            lambda writer: back_up_account(
                writer.client, target, pace, shown.tell, consumers=consumers
            ),
        )  # fmt: skip
    finally:
        shown.end()
    _print(written, target, as_json=as_json)


def _print(written: Sequence[Written], target: Path, *, as_json: bool) -> None:
    if as_json:
        rows = [dataclasses.asdict(one) for one in written]
        click.echo(json.dumps({"folder": str(target), "streams": rows}))
        return
    for one in written:
        consumers = counted(one.consumers_count, "consumer")
        size = f"{bytes_text(one.data_bytes)} in {target}"
        click.echo(clean_line(f"{one.stream}: {state_text(one.state)}, {consumers}; {size}"))


def _verify(folder: Path, *, as_json: bool) -> None:
    """Check every backup of a folder; raises BackupError for the first that is not complete."""
    if not folder.is_dir():
        raise BackupError(f"there is no folder {folder}")
    folders = streams_of(folder) if is_account(folder) else [folder]
    rows = []
    for one in map(read_backup, folders):
        rows.append({"stream": one.stream, "checksum": one.has_checksum, "state": one.state,
                     "consumers": one.consumers, "data_bytes": one.data_bytes})  # fmt: skip
        if not as_json:
            how = "whole" if one.has_checksum else "whole as far as can be seen, without checksum"
            click.echo(clean_line(f"{one.stream}: {state_text(one.state)}; {how}"))
    if as_json:
        click.echo(json.dumps({"folder": str(folder), "streams": rows}))
