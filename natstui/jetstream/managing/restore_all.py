"""Restoring what a folder has: one stream, or every stream of an account, none over another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from natstui.errors import BackupError, Conflict
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.writer import Config, Writer
from natstui.jetstream.managing.backup_folder import Backup, is_account, read_backup, streams_of
from natstui.jetstream.managing.restore import (
    RestoredStream,
    RestoreRequest,
    refuse_present,
    restore_stream,
)
from natstui.jetstream.managing.snapshot import Pace
from natstui.units import bytes_text

OnRestored = Callable[[str, int, int], None]
"""Called with the stream, the bytes sent so far and those of its backup."""


def read_backups(folder: Path) -> list[Backup]:
    """Return the backups in a folder, in the order to restore them; raises BackupError."""
    folders = streams_of(folder) if folder.is_dir() and is_account(folder) else [folder]
    if not folders:
        raise BackupError(f"{folder} is the backup of an account without streams")
    backups = [read_backup(one) for one in folders]
    # A mirror or a stream with sources wants to see what it copies from.
    backups.sort(key=lambda one: bool(one.config.get("mirror") or one.config.get("sources")))
    return backups


def name_to_type(backups: Sequence[Backup], name: str) -> str:
    """Return the word that confirms a restore: the stream's name, or that of the folder."""
    return name if len(backups) == 1 else backups[0].folder.parent.name


async def present(client: Client, names: Sequence[str]) -> list[str]:
    """Return the names among these that streams have already."""
    found = []
    for name in names:
        try:
            await refuse_present(client, name)
        except Conflict:
            found.append(name)
    return found


async def restore_all(
    writer: Writer,
    every: Sequence[RestoreRequest],
    pace: Pace,
    progress: OnRestored,
    done: list[RestoredStream],
    *,
    confirmed: bool,
) -> None:
    """Make every stream, and add it to `done` as soon as it is there.

    Nothing is done when one of them exists already. Raises what `restore_stream` raises.
    """
    for one in every:
        await refuse_present(writer.client, one.name)
    for one in every:

        def tell(sent_bytes: int, one: RestoreRequest = one) -> None:
            progress(one.name, sent_bytes, one.backup.data_bytes)

        sure = replace(one, confirmed=one.name if confirmed else None)
        await restore_stream(writer, sure, pace, tell, done)


def state_text(state: Config) -> str:
    """Return messages, size and sequences of a stream in words."""
    size = bytes_text(state["bytes"])
    return f"{state['messages']:,} messages, {size}, {state['first_seq']}…{state['last_seq']}"
