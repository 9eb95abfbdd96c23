"""Puts files into object stores, gets them out, backs up and restores; tells how far it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TypeVar, assert_never

from natstui.errors import NatstuiError, Refused, RequestFailed, UsageError
from natstui.feed import Sink
from natstui.files import file_name, open_plain
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.managing.backup import (
    Written,
    back_up_account,
    back_up_stream,
    consumers_text,
)
from natstui.jetstream.managing.backup_folder import left_out_of
from natstui.jetstream.managing.objects import ObjectChange, ObjectLink, link_object, put_object
from natstui.jetstream.managing.restore import (
    RestoredStream,
    RestoreRequest,
    name_to_type,
    present,
    read_backups,
    restore_all,
    restored_text,
    state_text,
)
from natstui.jetstream.managing.snapshot import Pace
from natstui.jetstream.messages.objects import read_object, save_object
from natstui.model.records.stores import (
    BackUp,
    BackupRow,
    BackupSeen,
    FileCommand,
    FileMoved,
    GetFile,
    LinkObject,
    LocalFile,
    LookAtBackup,
    LookAtFile,
    PutFile,
    RestoreBackup,
    StopMoving,
)
from natstui.paths import user_path
from natstui.units import bytes_text, counted

T = TypeVar("T")
_TOLD_S = 0.2


class FileCommands:
    """Moves files, several at a time; each can be stopped."""

    def __init__(self, answers: Sink) -> None:
        """`answers` takes how far each is."""
        self._answers = answers
        self._moving: dict[int, asyncio.Task[object]] = {}

    async def answer(self, writer: Writer, command: FileCommand) -> tuple[str, object]:
        """Return a sentence and the answer; raises Refused, UsageError and the request errors."""
        match command:
            case LookAtFile():
                return command.file, _local(command)
            case PutFile():
                return await self._stoppable(command.command_id, self._put(writer, command))
            case GetFile():
                return await self._stoppable(command.command_id, self._get(writer.client, command))
            case LookAtBackup():
                return await look_at_backup(writer.client, command)
            case BackUp():
                tell = self._telling(command.command_id)
                return await self._stoppable(
                    command.command_id, back_up(writer.client, command, tell)
                )
            case RestoreBackup():
                tell = self._telling(command.command_id)
                return await self._stoppable(command.command_id, restore(writer, command, tell))
            case LinkObject():
                asked = ObjectChange(command.bucket, command.name, confirmed=command.confirmed)
                target = ObjectLink(command.to_bucket, command.to_name)
                return (await link_object(writer, asked, target)).text, None
            case StopMoving():
                if (task := self._moving.get(command.moving_id)) is not None:
                    task.cancel()
                return "it is stopped", None
            case _:
                assert_never(command)

    async def _stoppable(self, number: int, work: Coroutine[None, None, T]) -> T:
        task = asyncio.create_task(work)
        self._moving[number] = task
        try:
            await asyncio.wait({task})
        finally:
            # What is half-made is taken away before this ends.
            task.cancel()
            await asyncio.wait({task})
            del self._moving[number]
        if task.cancelled():
            raise Refused("the transfer was stopped: nothing was kept")
        return task.result()

    async def _put(self, writer: Writer, command: PutFile) -> tuple[str, object]:
        path = user_path(command.file)
        try:
            with open_plain(path) as file:
                whole_bytes = path.stat().st_size
                asked = ObjectChange(command.bucket, command.name, confirmed=command.confirmed)
                told = self._telling_of(command.command_id, whole_bytes)
                changed = await put_object(writer, asked, file, told)
        except OSError as error:
            raise UsageError(f"{command.file} cannot be read: {error.strerror}") from error
        return changed.sentence, None

    async def _get(self, client: Client, command: GetFile) -> tuple[str, object]:
        wanted = await read_object(client, command.bucket, command.name)
        target = _target(command.file, command.name)
        told = self._telling_of(command.command_id, wanted.size_bytes)
        found = await save_object(client, wanted, target, told, overwrites=command.overwrites)
        size = bytes_text(found.size_bytes)
        return f"{command.name}, {size}, {found.check_text}, in {target.absolute()}", None

    def _telling_of(self, number: int, whole_bytes: int) -> Callable[[int], None]:
        tell = self._telling(number)
        return lambda moved_bytes: tell("", moved_bytes, whole_bytes)

    def _telling(self, number: int) -> Callable[[str, int, int], None]:
        told_s, told_of = 0.0, ""

        def tell(what: str, moved_bytes: int, whole_bytes: int) -> None:
            nonlocal told_s, told_of
            now_s = time.monotonic()
            if now_s - told_s >= _TOLD_S or what != told_of:
                told_s, told_of = now_s, what
                now_us = time.time_ns() // 1000
                self._answers.add(FileMoved(now_us, number, moved_bytes, whole_bytes, what))

        return tell


async def back_up(
    client: Client, command: BackUp, tell: Callable[[str, int, int], None]
) -> tuple[str, object]:
    """Write a stream, or all of them, into a new folder; raises BackupError."""
    target, pace, left_out = user_path(command.folder), Pace(), list[str]()
    if command.stream:
        written: Sequence[Written] = [
            await back_up_stream(client, command.stream, target, pace, tell, consumers=True)
        ]
    else:
        written = await back_up_account(client, target, pace, tell, left_out, consumers=True)
    size = bytes_text(sum(one.data_bytes for one in written))
    what = f"{counted(len(written), 'stream')}: {size} in {target.absolute()}"
    if command.stream:
        consumers = consumers_text(written[0])
        what = f"{command.stream}: {state_text(written[0].state)}, {consumers}; {size} in "
        what += str(target.absolute())
    return "; not complete: ".join([what, *left_out]), None


async def look_at_backup(client: Client, command: LookAtBackup) -> tuple[str, object]:
    """Return what a folder would restore, its checksums read; raises BackupError."""
    folder = user_path(command.folder).absolute()
    backups = await asyncio.to_thread(read_backups, folder)
    rows = []
    for backup in backups:
        checked = "checksums read" if backup.has_checksum else "without checksum"
        known = backup.consumers is not None
        consumers = (
            counted(len(backup.consumers or ()), "consumer") if known else "consumers unknown"
        )
        rows.append(
            BackupRow(backup.stream, f"{state_text(backup.state)}, {consumers}, {checked}")
        )
    there = await present(client, [backup.stream for backup in backups])
    name = name_to_type(backups, backups[0].stream)
    left_out = await asyncio.to_thread(left_out_of, folder)
    return str(folder), BackupSeen(str(folder), name, tuple(rows), tuple(there), left_out)


async def restore(
    writer: Writer, command: RestoreBackup, tell: Callable[[str, int, int], None]
) -> tuple[str, object]:
    """Make streams of a folder; raises Conflict, BackupError, Refused and the request errors."""
    backups = await asyncio.to_thread(read_backups, user_path(command.folder).absolute())
    if command.to_stream and len(backups) > 1:
        raise UsageError("only the backup of a single stream can be restored under another name")
    every = [RestoreRequest(backup, command.to_stream or backup.stream) for backup in backups]
    is_sure = command.confirmed == name_to_type(backups, every[0].name)
    done = list[RestoredStream]()
    try:
        await restore_all(writer, every, Pace(), tell, done, confirmed=is_sure)
    except asyncio.CancelledError as error:
        if done:
            raise Refused(
                f"the restore was stopped; restored before this: {_names(done)}"
            ) from error
        raise
    except NatstuiError as error:
        if done:
            raise RequestFailed(f"{error}; restored before this: {_names(done)}") from error
        raise
    parts = [restored_text(restored) for restored in done]
    text = parts[0] if len(done) == 1 else f"{counted(len(done), 'stream')} restored"
    return "; ".join([text, *(remark for one in done for remark in one.remarks)]), None


def _names(done: Sequence[RestoredStream]) -> str:
    return ", ".join(one.name for one in done)


def _target(file: str, name: str) -> Path:
    """Return the file that is meant; in a folder it is called as in the store."""
    path = user_path(file)
    return path / file_name(Path(name).name) if path.is_dir() else path


def _local(command: LookAtFile) -> LocalFile:
    path = _target(command.file, command.name) if command.name else user_path(command.file)
    try:
        if not path.is_file():
            kind = "a folder" if path.is_dir() else "no file"
            if path.exists():
                raise UsageError(f"{command.file} is {kind}")
            return LocalFile(str(path.absolute()), False, 0, 0)
        found = path.stat()
    except OSError as error:
        raise UsageError(f"{command.file} cannot be read: {error.strerror}") from error
    return LocalFile(str(path.absolute()), True, found.st_size, found.st_mtime_ns // 1000)
