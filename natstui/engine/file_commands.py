"""Puts files into object stores, gets them out, and tells how far it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import TypeVar, assert_never

from natstui.errors import Refused, UsageError
from natstui.feed import Sink
from natstui.jetstream.connection.client import Client
from natstui.jetstream.connection.writer import Writer
from natstui.jetstream.managing.objects import ObjectChange, ObjectLink, link_object, put_object
from natstui.jetstream.messages.objects import read_object, save_object
from natstui.model.records.stores import (
    FileCommand,
    FileMoved,
    GetFile,
    LinkObject,
    LocalFile,
    LookAtFile,
    PutFile,
    StopMoving,
)
from natstui.paths import user_path
from natstui.units import bytes_text

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
            raise Refused("it was stopped: nothing of it stays")
        return task.result()

    async def _put(self, writer: Writer, command: PutFile) -> tuple[str, object]:
        path = user_path(command.file)
        try:
            with path.open("rb") as file:
                whole_bytes = path.stat().st_size
                asked = ObjectChange(command.bucket, command.name, confirmed=command.confirmed)
                told = self._telling(command.command_id, whole_bytes)
                changed = await put_object(writer, asked, file, told)
        except OSError as error:
            raise UsageError(f"{command.file} cannot be read: {error.strerror}") from error
        return changed.text, None

    async def _get(self, client: Client, command: GetFile) -> tuple[str, object]:
        wanted = await read_object(client, command.bucket, command.name)
        target = _target(command.file, command.name)
        told = self._telling(command.command_id, wanted.size_bytes)
        found = await save_object(client, wanted, target, told, overwrites=command.overwrites)
        size = bytes_text(found.size_bytes)
        return f"{command.name}, {size}, digest checked, in {target.absolute()}", None

    def _telling(self, number: int, whole_bytes: int) -> Callable[[int], None]:
        told_s = 0.0

        def tell(moved_bytes: int) -> None:
            nonlocal told_s
            now_s = time.monotonic()
            if now_s - told_s >= _TOLD_S:
                told_s = now_s
                now_us = time.time_ns() // 1000
                self._answers.add(FileMoved(now_us, number, moved_bytes, whole_bytes))

        return tell


def _target(file: str, name: str) -> Path:
    """Return the file that is meant; in a folder it is called as in the store."""
    path = user_path(file)
    return path / Path(name).name if path.is_dir() else path


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
