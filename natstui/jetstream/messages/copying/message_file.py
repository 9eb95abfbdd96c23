"""Messages in a file, one line of JSON each: as `stream view --json` writes them too."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import errno
import hashlib
import json
import os
import shutil
import stat
from collections.abc import AsyncGenerator
from contextlib import ExitStack, aclosing, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, Self

import msgspec

from natstui.decoding import decoder_of
from natstui.errors import BackupError, RequestFailed, UsageError
from natstui.files import (
    MOST_PAYLOAD_BYTES,
    check_replaceable,
    has_unfinished,
    publish_file,
    unfinished,
    writing,
)
from natstui.jetstream.messages.copying.account import Account
from natstui.jetstream.messages.copying.selection import read_of
from natstui.jetstream.messages.decode import headers_of
from natstui.jetstream.messages.reading import Read
from natstui.model.records.messages import StoredMessage
from natstui.parsing import reason


@dataclasses.dataclass(frozen=True, slots=True)
class MessageLine(StoredMessage):
    """A message in a file."""

    headers_base64: str = ""
    """The headers as they are sent, where JSON cannot hold them: they are not UTF-8."""


_MESSAGE = decoder_of(MessageLine)
_PART_NAME = "messages.jsonl"
_LINE_END = b"\r\n"
_MOST_LINE_BYTES = 2 * MOST_PAYLOAD_BYTES
"""In base64 a payload is a third longer."""


class MessageFile:
    """A file that gets its name when all of it is on the disk; use it with `with`.

    What a stopped copy has written lies in a private folder beside it; a resumed one continues.
    """

    def __init__(self, path: Path, account: Account) -> None:
        self.path = path
        self._account = account
        self._held = ExitStack()
        self._part: Path | None = None
        self._file: BinaryIO | None = None

    def begin(self, after_seq: int) -> None:
        """Open it, without what it has of messages after a sequence; raises UsageError."""
        if after_seq and not has_unfinished(self.path):
            raise UsageError(
                f"the messages copied to {self.path} before are missing: copy again without "
                "--resume"
            )
        with writing(self.path):
            check_replaceable(self.path, replaces=False)
            folder = self._held.enter_context(unfinished(self.path))
            self._part = folder / _PART_NAME
            flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = self._held.enter_context(
                os.fdopen(os.open(self._part, flags, 0o666), "r+b")
            )
            length, last_seq = _length_up_to(self._part, after_seq) if after_seq else (0, 0)
            if last_seq < after_seq:
                raise UsageError(
                    f"of the messages copied to {self.path} before, those after sequence "
                    f"{last_seq} are missing: copy again without --resume"
                )
            self._file.truncate(length)
            self._file.seek(length)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # What is not written yet may still find the disk full.
        with writing(self.path):
            self._held.close()

    def write(self, one: Read, subject: str) -> None:
        """Write a message; raises BackupError when the disk is full."""
        assert self._file is not None
        with writing(self.path, BackupError):
            self._file.write(_line_of(dataclasses.replace(one.as_stored(), subject=subject)))
        account = self._account
        account.read_msgs += 1
        account.acknowledged_msgs += 1
        account.payload_bytes += len(one.payload)
        account.first_seq = account.first_seq or one.stream_seq
        account.last_seq = one.stream_seq

    def sync(self) -> None:
        """Wait until all of it is on the disk; raises BackupError."""
        assert self._file is not None
        with writing(self.path, BackupError):
            self._file.flush()
            os.fsync(self._file.fileno())
        self._account.done_seq = self._account.last_seq

    def discard(self) -> None:
        """Remove what was written, which no later copy can complete."""
        assert self._part is not None
        assert self._file is not None
        with suppress(OSError):
            self._file.close()
        shutil.rmtree(self._part.parent, ignore_errors=True)

    def end(self) -> None:
        """Give it its name; raises UsageError when something has that name by now."""
        assert self._part is not None
        with writing(self.path):
            publish_file(self._part, self.path, replaces=False)
            self._part.parent.rmdir()


def _line_of(message: StoredMessage) -> bytes:
    fields = dataclasses.asdict(message)
    block = _LINE_END.join(
        f"{name}: {text}".encode("utf-8", "surrogateescape") for name, text in message.headers
    )
    readable = block.decode(errors="replace")
    if readable.encode() != block:
        pairs = [line.partition(": ") for line in readable.split("\r\n")]
        fields["headers"] = [(name, text) for name, _, text in pairs]
        fields["headers_base64"] = base64.b64encode(block).decode()
    return json.dumps(fields).encode() + b"\n"


def _message_of(line: bytes) -> Read:
    """Return the message in a line; raises RequestFailed, and ValueError for anything else."""
    message = _MESSAGE.decode(line)
    if message.headers_base64:
        block = base64.b64decode(message.headers_base64, validate=True)
        headers = headers_of(_LINE_END + block, exact=True)
        message = dataclasses.replace(message, headers=headers)
    return read_of(message)


def _length_up_to(part: Path, seq: int) -> tuple[int, int]:
    """Return how long the whole lines are that hold nothing behind a sequence, and their last."""
    length = last_seq = 0
    with part.open("rb") as file:
        for line in file:
            try:
                line_seq = _MESSAGE.decode(line).stream_seq or 0
            except (msgspec.DecodeError, ValueError, RecursionError):
                break  # what a crash or a full disk left
            if not line.endswith(b"\n") or line_seq > seq:
                break
            length, last_seq = length + len(line), line_seq
    return length, last_seq


async def lines_of(path: Path, after_line: int) -> AsyncGenerator[tuple[Read, str], None]:
    """Yield the messages of a file, their line as sequence, and what tells each from others.

    Raises UsageError and RequestFailed.
    """
    number = 0
    try:
        async with aclosing(_raw_lines(path)) as lines:
            async for line in lines:
                number += 1
                if len(line) > _MOST_LINE_BYTES:
                    raise RequestFailed(
                        f"{path}:{number} is no message: the line has more than "
                        f"{_MOST_LINE_BYTES:,} bytes"
                    )
                if number <= after_line or not line.strip():
                    continue
                try:
                    one = _message_of(line)
                except (msgspec.DecodeError, ValueError, RecursionError) as error:
                    said = f"{path}:{number} is no message: {reason(error)}"
                    raise RequestFailed(said) from error
                except RequestFailed as error:
                    raise RequestFailed(f"{path}:{number}: {error}") from error
                seen = hashlib.sha256(b"%d " % number + line).hexdigest()
                yield msgspec.structs.replace(one, stream_seq=number), seen
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error


async def _raw_lines(path: Path) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a plain file, FIFO, pipe or terminal; of one that is too long, a part.

    Waiting for a writer can be cancelled. Raises OSError, also for a folder or another device.
    """
    # A FIFO without a writer is waited for in the loop, where a signal ends it.
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    with file:
        mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISREG(mode):
            for line in iter(partial(file.readline, _MOST_LINE_BYTES + 1), b""):
                yield line
            return
        if not (stat.S_ISFIFO(mode) or file.isatty()):
            raise OSError(errno.EINVAL, "it is neither a plain file nor a FIFO, pipe or terminal")
        reader = asyncio.StreamReader(limit=_MOST_LINE_BYTES)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), file
        )
        try:
            while line := await _next_line(reader):
                yield line
        finally:
            transport.close()


async def _next_line(reader: asyncio.StreamReader) -> bytes:
    """Return the next line, a part that is too long, or nothing at the end."""
    try:
        return await reader.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        return error.partial
    except asyncio.LimitOverrunError:
        return await reader.readexactly(_MOST_LINE_BYTES + 1)
