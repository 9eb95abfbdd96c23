"""`natstui restore` and `natstui stream restore`: make streams of backups."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import click

from natstui.clean import clean_line
from natstui.cli.backups.options import (
    Progress,
    folder_of,
    pace_of,
    rate_option,
    stoppable,
)
from natstui.cli.manage.names import given_name
from natstui.cli.manage.writing import change_flags, confirmation, refuse_read_only
from natstui.cli.options import connection_options
from natstui.cli.sections import command
from natstui.config import Connection
from natstui.errors import BackupError, NatstuiError, Refused
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.managing.backup_folder import is_account, read_backup
from natstui.jetstream.managing.restore import RestoredStream, RestoreRequest
from natstui.jetstream.managing.restore_all import (
    name_to_type,
    read_backups,
    restore_all,
    state_text,
)
from natstui.jetstream.managing.snapshot import Pace
from natstui.units import counted

_REPLICAS = click.option(
    "--replicas",
    type=click.IntRange(min=1, max=5),
    help="This many replicas instead of as before.",
)


@command("restore")
@click.argument("folder", metavar="DIR")
@click.option("--as", "name", metavar="NAME", help="Under another name.")
@click.option(
    "--subjects", "--subject", "subjects", metavar="SUBJECT", multiple=True,
    help="Other subjects; stored messages keep theirs. Give it again for more.",
)  # fmt: skip
@_REPLICAS
@rate_option
@change_flags
@connection_options
def stream_restore(
    connection: Connection,
    folder: str,
    name: str | None,
    subjects: tuple[str, ...],
    replicas: int | None,
    rate: str | None,
    **words: Any,
) -> None:
    """Restore a stream from the backup in DIR.

    Compares both. A stream that exists is never replaced.
    """
    kept = read_backup(folder_of(folder))
    wanted = RestoreRequest(kept, given_name(name or kept.stream), replicas, subjects)
    _restore(connection, [wanted], pace_of(rate), words)


@command()
@click.argument("folder", metavar="DIR")
@_REPLICAS
@rate_option
@change_flags
@connection_options
def restore(
    connection: Connection, folder: str, replicas: int | None, rate: str | None, **words: Any
) -> None:
    """Restore every stream of an account's backup.

    The backup is in DIR; each stream is compared with it. Nothing is done when one of them
    exists already.
    """
    place = folder_of(folder)
    if not place.is_dir() or not is_account(place):
        raise BackupError(f"{place} is no backup of an account; of a stream: stream restore")
    every = [RestoreRequest(one, given_name(one.stream), replicas) for one in read_backups(place)]
    _restore(connection, every, pace_of(rate), words)


def _restore(
    connection: Connection, every: Sequence[RestoreRequest], pace: Pace, words: dict[str, Any]
) -> None:
    refuse_read_only(connection, words["read_only"])
    for one in every:
        _ = one.config  # what cannot work is said before there is a connection
    confirmed = _confirmed(connection, every, words)
    done, shown = list[RestoredStream](), Progress()

    async def work(writer: Writer) -> None:
        await restore_all(writer, every, pace, shown.tell, done, confirmed=confirmed)

    try:
        stoppable(connection, words["read_only"], "the restore", work)
    except NatstuiError:
        if done:
            names = ", ".join(one.name for one in done)
            click.echo(clean_line(f"natstui: restored before this: {names}"), err=True)
        raise
    finally:
        shown.end()
    _print(done, as_json=words["as_json"])


def _confirmed(
    connection: Connection, every: Sequence[RestoreRequest], words: dict[str, Any]
) -> bool:
    """Ask in production; the name to type is that of the stream, or of the account's folder."""
    name = name_to_type([one.backup for one in every], every[0].name)
    if not connection.production and words["confirm"] is None:
        return False
    what = every[0].name if len(every) == 1 else counted(len(every), "stream")
    question = f"This is production: {what} would be made" if connection.production else what
    typed = confirmation(connection, name, question, yes=words["yes"], confirm=words["confirm"])
    if typed != name:
        raise Refused(f"not confirmed: {typed!r} is not {name!r}")
    return True


def _print(done: Sequence[RestoredStream], *, as_json: bool) -> None:
    if as_json:
        click.echo(json.dumps({"streams": [dataclasses.asdict(one) for one in done]}))
        return
    for one in done:
        consumers = counted(one.consumers_count, "consumer")
        text = f"{one.name} restored, as in its backup: {state_text(one.state)}, {consumers}"
        click.echo(clean_line("; ".join((text, *one.remarks))))
