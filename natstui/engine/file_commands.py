"""Moves files to and from object stores, backs up and restores; reports the progress of each."""

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
    incomplete_texts,
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
    restore_losses,
    restored_text,
    state_text,
)
from natstui.jetstream.managing.snapshot import Pace
from natstui.jetstream.messages.objects import names_with_chunks, read_object, save_object
from natstui.model.records.stores import (
    BackUp,
    BackupContent,
    BackupRow,
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

    def __init__(self, viewer: Sink) -> None:
        """Create without a transfer; `viewer` receives the progress of each."""
        self._answers = viewer
        self._moving: dict[int, asyncio.Task[object]] = {}

    async def answer(self, writer: Writer, command: FileCommand) -> tuple[str, object]:
        """Return a sentence and the reply data; raises Refused, UsageError and the request
        errors.
        """
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
                report = self._telling(command.command_id)
                return await self._stoppable(
                    command.command_id, back_up(writer.client, command, report)
                )
            case RestoreBackup():
                report = self._telling(command.command_id)
                return await self._stoppable(command.command_id, restore(writer, command, report))
            case LinkObject():
                change = ObjectChange(command.bucket, command.name, confirmed=command.confirmed)
                target = ObjectLink(command.to_bucket, command.to_name)
                return (await link_object(writer, change, target)).text, None
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
                change = ObjectChange(command.bucket, command.name, confirmed=command.confirmed)
                report = self._telling_of(command.command_id, whole_bytes)
                changed = await put_object(writer, change, file, report, names_with_chunks)
        except OSError as error:
            raise UsageError(f"{command.file} cannot be read: {error.strerror}") from error
        return changed.sentence, None

    async def _get(self, client: Client, command: GetFile) -> tuple[str, object]:
        stored_object = await read_object(client, command.bucket, command.name)
        target = _target(command.file, command.name)
        report = self._telling_of(command.command_id, stored_object.size_bytes)
        found = await save_object(
            client, stored_object, target, report, overwrites=command.overwrites
        )
        size = bytes_text(found.size_bytes)
        return f"{command.name}, {size}, {found.check_text}, in {target.absolute()}", None

    def _telling_of(self, number: int, whole_bytes: int) -> Callable[[int], None]:
        report = self._telling(number)
        return lambda moved_bytes: report("", moved_bytes, whole_bytes)

    def _telling(self, number: int) -> Callable[[str, int, int], None]:
        told_s, reported_name = 0.0, ""

        def tell(name: str, moved_bytes: int, whole_bytes: int) -> None:
            nonlocal told_s, reported_name
            now_s = time.monotonic()
            if now_s - told_s >= _TOLD_S or name != reported_name:
                told_s, reported_name = now_s, name
                now_us = time.time_ns() // 1000
                self._answers.add(FileMoved(now_us, number, moved_bytes, whole_bytes, name))

        return tell


async def back_up(
    client: Client, command: BackUp, report: Callable[[str, int, int], None]
) -> tuple[str, object]:
    """Write a stream, or all of them, into a new folder; raises BackupError, and RequestFailed
    when something is missing in what was written.
    """
    target, pace, left_out = user_path(command.folder), Pace(), list[str]()
    if command.stream:
        backups: Sequence[Written] = [
            await back_up_stream(client, command.stream, target, pace, report, consumers=True)
        ]
    else:
        backups = await back_up_account(client, target, pace, report, left_out, consumers=True)
    size = bytes_text(sum(backup.data_bytes for backup in backups))
    summary = f"{counted(len(backups), 'stream')}: {size} in {target.absolute()}"
    if command.stream:
        consumers = consumers_text(backups[0])
        summary = f"{command.stream}: {state_text(backups[0].state)}, {consumers}; {size} in "
        summary += str(target.absolute())
    remarks = [backup.remark for backup in backups if backup.remark and backup.is_whole]
    summary = "; ".join([summary, *remarks])
    if problems := incomplete_texts(backups, left_out):
        raise RequestFailed(f"{summary}; not complete: {'; '.join(problems)}")
    return summary, None


async def look_at_backup(client: Client, command: LookAtBackup) -> tuple[str, object]:
    """Read a backup folder and its checksums; return what it would restore. Raises BackupError."""
    folder = user_path(command.folder).absolute()
    backups = await asyncio.to_thread(read_backups, folder)
    rows = []
    for backup in backups:
        checksum_text = "checksums read" if backup.has_checksum else "without checksum"
        known = backup.consumers is not None
        consumers = (
            counted(len(backup.consumers or ()), "consumer") if known else "consumers unknown"
        )
        rows.append(
            BackupRow(backup.stream, f"{state_text(backup.state)}, {consumers}, {checksum_text}")
        )
    existing_streams = await present(client, [backup.stream for backup in backups])
    name = name_to_type(backups, backups[0].stream)
    left_out = await asyncio.to_thread(left_out_of, folder)
    restore_requests = [RestoreRequest(backup, backup.stream) for backup in backups]
    loses = tuple(await restore_losses(client, restore_requests))
    return str(folder), BackupContent(
        str(folder), name, tuple(rows), tuple(existing_streams), left_out, loses
    )


async def restore(
    writer: Writer, command: RestoreBackup, report: Callable[[str, int, int], None]
) -> tuple[str, object]:
    """Create streams from a backup; raises Conflict, BackupError, Refused and the request
    errors.
    """
    backups = await asyncio.to_thread(read_backups, user_path(command.folder).absolute())
    if command.to_stream and len(backups) > 1:
        raise UsageError("only the backup of a single stream can be restored under another name")
    restore_requests = [
        RestoreRequest(backup, command.to_stream or backup.stream) for backup in backups
    ]
    is_sure = command.confirmed == name_to_type(backups, restore_requests[0].name)
    restored_streams = list[RestoredStream]()
    try:
        await restore_all(
            writer, restore_requests, Pace(), report, restored_streams, is_confirmed=is_sure
        )
    except asyncio.CancelledError as error:
        if restored_streams:
            raise Refused(
                f"the restore was stopped; restored before this: {_names(restored_streams)}"
            ) from error
        raise
    except NatstuiError as error:
        if restored_streams:
            raise RequestFailed(
                f"{error}; restored before this: {_names(restored_streams)}"
            ) from error
        raise
    parts = [restored_text(stream) for stream in restored_streams]
    text = (
        parts[0]
        if len(restored_streams) == 1
        else f"{counted(len(restored_streams), 'stream')} restored"
    )
    return "; ".join(
        [text, *(remark for stream in restored_streams for remark in stream.remarks)]
    ), None


def _names(streams: Sequence[RestoredStream]) -> str:
    return ", ".join(stream.name for stream in streams)


def _target(file: str, name: str) -> Path:
    """Return the file to write; in a folder it has the object's name in the store."""
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
        status = path.stat()
    except OSError as error:
        raise UsageError(f"{command.file} cannot be read: {error.strerror}") from error
    return LocalFile(str(path.absolute()), True, status.st_size, status.st_mtime_ns // 1000)
