"""Puts files into object stores and gets them, and backs up and restores streams."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from typing import TypeVar, assert_never

from natstui.errors import ActionRefusal, NatstuiError, RequestFailed, UsageError
from natstui.feed import Sink
from natstui.files import file_name, open_regular_file
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.decode.streams import read_state
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.managing.backup import (
    WrittenBackup,
    back_up_account,
    back_up_stream,
    consumers_text,
    incomplete_texts,
)
from natstui.jetstream.managing.backup_folder import read_left_out
from natstui.jetstream.managing.objects import ObjectChange, ObjectLink, link_object, put_object
from natstui.jetstream.managing.restore import (
    RestoredStream,
    RestoreRequest,
    find_existing_names,
    name_to_confirm,
    read_backups,
    restore_all,
    restore_confirmation,
    restored_text,
    state_text,
)
from natstui.jetstream.managing.snapshot import RateLimit
from natstui.jetstream.messages.objects import find_names_with_chunks, read_object, save_object
from natstui.model.records.stores import (
    BackUp,
    BackupContent,
    BackupRow,
    FileCommand,
    FileMoved,
    GetFile,
    InspectBackup,
    InspectFile,
    LinkObject,
    LocalFile,
    PutFile,
    RestoreBackup,
    StopTransfer,
)
from natstui.paths import expand_user_path
from natstui.units import bytes_text, counted

_Result = TypeVar("_Result")
_REPORT_INTERVAL_S = 0.2


class FileCommands:
    """Executes commands on files and backups, several at a time; each transfer can be stopped."""

    def __init__(self, viewer: Sink) -> None:
        """Create without a transfer; `viewer` receives the progress of each transfer."""
        self._viewer = viewer
        self._transfer_tasks: dict[int, asyncio.Task[object]] = {}

    async def execute(self, writer: Writer, command: FileCommand) -> tuple[str, object]:
        """Execute a file command; return the sentence to show and the data of the reply.

        `writer` sends the changes to the server. Raises ActionRefusal, UsageError, BackupError and
        the request errors.
        """
        match command:
            case InspectFile():
                return command.file, _read_local_file(command)
            case PutFile():
                return await self._run_until_stopped(
                    command.command_id, self._put_file(writer, command)
                )
            case GetFile():
                return await self._run_until_stopped(
                    command.command_id, self._get_file(writer.client, command)
                )
            case InspectBackup():
                return await read_backup(writer, command)
            case BackUp():
                report = self._progress_reporter(command.command_id)
                return await self._run_until_stopped(
                    command.command_id, back_up(writer.client, command, report)
                )
            case RestoreBackup():
                report = self._progress_reporter(command.command_id)
                return await self._run_until_stopped(
                    command.command_id, restore(writer, command, report)
                )
            case LinkObject():
                change = ObjectChange(command.bucket, command.name, confirmed=command.confirmed)
                target = ObjectLink(command.to_bucket, command.to_name)
                return (await link_object(writer, change, target)).text, None
            case StopTransfer():
                if (task := self._transfer_tasks.get(command.moving_id)) is not None:
                    task.cancel()
                return "the transfer is stopped", None
            case _:
                assert_never(command)

    async def _run_until_stopped(
        self, command_id: int, coroutine: Coroutine[None, None, _Result]
    ) -> _Result:
        task = asyncio.create_task(coroutine)
        self._transfer_tasks[command_id] = task
        try:
            await asyncio.wait({task})
        finally:
            # The task deletes an incomplete file or stream before it ends.
            task.cancel()
            await asyncio.wait({task})
            del self._transfer_tasks[command_id]
        if task.cancelled():
            raise ActionRefusal("the transfer was stopped: nothing was kept")
        return task.result()

    async def _put_file(self, writer: Writer, command: PutFile) -> tuple[str, object]:
        path = expand_user_path(command.file)
        try:
            with open_regular_file(path) as file:
                total_bytes = path.stat().st_size
                change = ObjectChange(command.bucket, command.name, confirmed=command.confirmed)
                report = self._file_progress_reporter(command.command_id, total_bytes)
                change_result = await put_object(
                    writer, change, file, report, find_names_with_chunks
                )
        except OSError as error:
            raise UsageError(f"{command.file} cannot be read: {error.strerror}") from error
        return change_result.sentence, None

    async def _get_file(self, client: Client, command: GetFile) -> tuple[str, object]:
        stored_object = await read_object(client, command.bucket, command.name)
        target = _target_path(command.file, command.name)
        report = self._file_progress_reporter(command.command_id, stored_object.size_bytes)
        saved_object = await save_object(
            client, stored_object, target, report, overwrites=command.overwrites
        )
        size_text = bytes_text(saved_object.size_bytes)
        path_text = str(target.absolute())
        return f"{command.name}, {size_text}, {saved_object.check_text}, in {path_text}", None

    def _file_progress_reporter(self, command_id: int, total_bytes: int) -> Callable[[int], None]:
        report = self._progress_reporter(command_id)
        return lambda moved_bytes: report("", moved_bytes, total_bytes)

    def _progress_reporter(self, command_id: int) -> Callable[[str, int, int], None]:
        last_report_s, last_reported_name = 0.0, ""

        def report(name: str, moved_bytes: int, total_bytes: int) -> None:
            nonlocal last_report_s, last_reported_name
            now_s = time.monotonic()
            if now_s - last_report_s >= _REPORT_INTERVAL_S or name != last_reported_name:
                last_report_s, last_reported_name = now_s, name
                now_us = time.time_ns() // 1000
                self._viewer.add(FileMoved(now_us, command_id, moved_bytes, total_bytes, name))

        return report


async def back_up(
    client: Client, command: BackUp, report: Callable[[str, int, int], None]
) -> tuple[str, object]:
    """Back up one stream, or all streams, into a new folder.

    Returns a sentence about the backup, and None. `report` gets (stream, bytes so far, total
    bytes). Raises BackupError, and RequestFailed if the backup is incomplete.
    """
    target_folder, rate_limit = expand_user_path(command.folder), RateLimit()
    left_out_reasons = list[str]()
    if command.stream:
        backups: Sequence[WrittenBackup] = [
            await back_up_stream(
                client, command.stream, target_folder, rate_limit, report, consumers=True
            )
        ]
    else:
        backups = await back_up_account(
            client, target_folder, rate_limit, report, left_out_reasons, consumers=True
        )
    size_text = bytes_text(sum(backup.data_bytes for backup in backups))
    summary = f"{counted(len(backups), 'stream')}: {size_text} in {target_folder.absolute()}"
    if command.stream:
        consumers = consumers_text(backups[0])
        stored_text = state_text(read_state(backups[0].state))
        summary = f"{command.stream}: {stored_text}, {consumers}; {size_text} in "
        summary += str(target_folder.absolute())
    remarks = [backup.remark for backup in backups if backup.remark and backup.is_whole]
    summary = "; ".join([summary, *remarks])
    if problems := incomplete_texts(backups, left_out_reasons):
        raise RequestFailed(f"{summary}; not complete: {'; '.join(problems)}")
    return summary, None


async def read_backup(writer: Writer, command: InspectBackup) -> tuple[str, object]:
    """Read a backup folder and its checksums; return its path, and its content.

    Raises BackupError.
    """
    folder = expand_user_path(command.folder).absolute()
    backups = await asyncio.to_thread(read_backups, folder)
    backup_rows = []
    for backup in backups:
        checksum_text = "checksums read" if backup.has_checksum else "without checksum"
        has_consumers = backup.consumers is not None
        consumers = (
            counted(len(backup.consumers or ()), "consumer")
            if has_consumers
            else "consumers unknown"
        )
        backup_rows.append(
            BackupRow(backup.stream, f"{state_text(backup.state)}, {consumers}, {checksum_text}")
        )
    stream_names = [backup.stream for backup in backups]
    existing_streams = await find_existing_names(writer.client, stream_names)
    left_out_streams = await asyncio.to_thread(read_left_out, folder)
    restore_requests = [RestoreRequest(backup, backup.stream) for backup in backups]
    return str(folder), BackupContent(
        str(folder),
        await restore_confirmation(writer, restore_requests),
        tuple(backup_rows),
        tuple(existing_streams),
        left_out_streams,
    )


async def restore(
    writer: Writer, command: RestoreBackup, report: Callable[[str, int, int], None]
) -> tuple[str, object]:
    """Create streams from a backup; return a sentence about them, and None.

    `writer` sends the changes to the server; `report` gets (stream, bytes so far, total bytes).
    Raises UsageError, Conflict, BackupError, ActionRefusal and the request errors.
    """
    backups = await asyncio.to_thread(read_backups, expand_user_path(command.folder).absolute())
    if command.to_stream and len(backups) > 1:
        raise UsageError("only the backup of a single stream can be restored under another name")
    restore_requests = [
        RestoreRequest(backup, command.to_stream or backup.stream) for backup in backups
    ]
    is_confirmed = command.confirmed == name_to_confirm(restore_requests)
    restored_streams = list[RestoredStream]()
    try:
        await restore_all(
            writer,
            restore_requests,
            RateLimit(),
            report,
            restored_streams,
            is_confirmed=is_confirmed,
        )
    except asyncio.CancelledError as error:
        if restored_streams:
            raise ActionRefusal(
                f"the restore was stopped; restored before this: {_names_text(restored_streams)}"
            ) from error
        raise
    except NatstuiError as error:
        if restored_streams:
            raise RequestFailed(
                f"{error}; restored before this: {_names_text(restored_streams)}"
            ) from error
        raise
    stream_texts = [restored_text(stream) for stream in restored_streams]
    text = (
        stream_texts[0]
        if len(restored_streams) == 1
        else f"{counted(len(restored_streams), 'stream')} restored"
    )
    return "; ".join(
        [text, *(remark for stream in restored_streams for remark in stream.remarks)]
    ), None


def _names_text(streams: Sequence[RestoredStream]) -> str:
    return ", ".join(stream.name for stream in streams)


def _target_path(file: str, name: str) -> Path:
    """Return the path of the file to write; if `file` is a folder, a file `name` in it."""
    path = expand_user_path(file)
    return path / file_name(Path(name).name) if path.is_dir() else path


def _read_local_file(command: InspectFile) -> LocalFile:
    path = (
        _target_path(command.file, command.name)
        if command.name
        else expand_user_path(command.file)
    )
    try:
        if not path.is_file():
            file_type_text = "a folder" if path.is_dir() else "no file"
            if path.exists():
                raise UsageError(f"{command.file} is {file_type_text}")
            return LocalFile(str(path.absolute()), False, 0, 0)
        status = path.stat()
    except OSError as error:
        raise UsageError(f"{command.file} cannot be read: {error.strerror}") from error
    return LocalFile(str(path.absolute()), True, status.st_size, status.st_mtime_ns // 1000)
