"""Messages in a file, one line of JSON each, in the format of `stream view --json`."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import errno
import hashlib
import json
import os
import stat
from collections import deque
from collections.abc import AsyncGenerator, Callable
from contextlib import ExitStack, aclosing, suppress
from functools import partial
from pathlib import Path
from typing import BinaryIO, NamedTuple, Self

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
from natstui.units import counted, is_possible_time


@dataclasses.dataclass(frozen=True, slots=True)
class MessageLine(StoredMessage):
    """A message in a file."""

    headers_base64: str = ""
    """The encoded headers, if they are not UTF-8, which JSON cannot represent."""


_MESSAGE = decoder_of(MessageLine)
_PART_NAME = "messages.jsonl"
_LINE_END = b"\r\n"
_BLOCK_BYTES = 1024 * 1024
_MOST_LINE_BYTES = 2 * MOST_PAYLOAD_BYTES
"""Limit of a line: in base64 a payload is a third longer."""


_MOST_PARTS = 100_000
"""Limit of remembered parts of a file: far more than messages are in flight."""


class MessageFile:
    """A file that is renamed to its target when all of it is on the disk; use it with `with`.

    The part of a stopped copy is in a private folder beside it; a resumed one continues it.
    """

    def __init__(self, path: Path, account: Account) -> None:
        self.path = path
        self._account = account
        self._held = ExitStack()
        self._part: Path | None = None
        self._file: BinaryIO | None = None
        self._digest = hashlib.sha256()
        self.written_bytes = 0

    def begin(self, written_bytes: int, sha256: str) -> None:
        """Open it with what was written before; raises UsageError when that is not there."""
        if written_bytes and not has_unfinished(self.path):
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
            self._read(written_bytes)
            if written_bytes and self.sha256 != sha256:
                raise UsageError(
                    f"of the messages copied to {self.path} before, some were changed or are "
                    "missing: copy again without --resume"
                )
            self._file.truncate(written_bytes)
            self._file.seek(written_bytes)

    def _read(self, size_bytes: int) -> None:
        """Count what is in the part already, up to a length."""
        assert self._file is not None
        while size_bytes > self.written_bytes and (
            block := self._file.read(min(size_bytes - self.written_bytes, _BLOCK_BYTES))
        ):
            self._count(block)

    def _count(self, block: bytes) -> None:
        self._digest.update(block)
        self.written_bytes += len(block)

    @property
    def sha256(self) -> str:
        """Return the checksum of what was written, in hexadecimal digits."""
        return self._digest.hexdigest()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # What is not written yet may still find the disk full.
        with writing(self.path):
            self._held.close()

    def write(self, source_message: Read, subject: str) -> None:
        """Write a message; raises BackupError when the disk is full."""
        assert self._file is not None
        line = _line_of(dataclasses.replace(source_message.as_stored(), subject=subject))
        with writing(self.path, BackupError):
            self._file.write(line)
        self._count(line)
        self._account.read(source_message.stream_seq, len(source_message.payload))
        self._account.acknowledged_msgs += 1

    def sync(self) -> None:
        """Wait until all of it is on the disk; raises BackupError."""
        assert self._file is not None
        with writing(self.path, BackupError):
            self._file.flush()
            os.fsync(self._file.fileno())
        self._account.done_seq = self._account.last_seq

    def stop_writing(self) -> None:
        """Close the part after an error: what is not on the disk yet would fail once more."""
        assert self._file is not None
        with suppress(OSError):
            self._file.close()

    def end(self) -> None:
        """Rename it to its target; raises UsageError when the target exists by now."""
        assert self._part is not None
        with writing(self.path):
            publish_file(self._part, self.path, replaces=False)
        # What somebody else put into the folder is not ours to remove, and no failure of the copy.
        with suppress(OSError):
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
    if not is_possible_time(message.stored_at_us):
        raise ValueError("its time is not possible")
    if message.headers_base64:
        block = base64.b64decode(message.headers_base64, validate=True)
        headers = headers_of(_LINE_END + block, exact=True)
        message = dataclasses.replace(message, headers=headers)
    return read_of(message)


class FilePart(NamedTuple):
    """The first lines of a file, and their checksum."""

    lines_count: int
    sha256: str


class SourceFile:
    """A file that messages are read from; knows what part of it a stopped copy has read."""

    def __init__(self, path: Path, part: FilePart) -> None:
        """Create for a file of which the stopped copy has read `part`, or nothing."""
        self._path = path
        self._part = part
        self._digests: deque[FilePart] = deque(maxlen=_MOST_PARTS)
        """The part up to each of the newest messages after that."""

    def part_until(self, seq: int) -> FilePart:
        """Return the part up to the last message that was read, but not after `seq`."""
        while self._digests and self._digests[0].lines_count <= seq:
            self._part = self._digests.popleft()
        return self._part

    async def messages(
        self, is_wanted: Callable[[int], bool]
    ) -> AsyncGenerator[tuple[Read, str], None]:
        """Yield the messages in wanted lines, with the line as sequence, and a text that
        identifies each.

        Raises UsageError where the part that was read before was changed, and RequestFailed.
        """
        try:
            # A plain file is checked before any of it is sent again; a pipe is read only once.
            if self._part.lines_count and self._path.is_file():
                await self._check()
            async with aclosing(self._lines()) as lines:
                async for number, line in lines:
                    if is_wanted(number) and line.strip():
                        yield self._message(number, line)
        except OSError as error:
            raise UsageError(f"{self._path} cannot be read: {error.strerror or error}") from error

    async def _check(self) -> None:
        async with aclosing(self._lines()) as lines:
            async for number, _ in lines:
                if number >= self._part.lines_count:
                    return

    async def _lines(self) -> AsyncGenerator[tuple[int, bytes], None]:
        """Yield each line with its number; raises UsageError where the part was changed."""
        before, part, digest = self._part, FilePart(0, ""), hashlib.sha256()
        async with aclosing(_raw_lines(self._path)) as lines:
            async for line in lines:
                digest.update(line)
                part = FilePart(part.lines_count + 1, digest.hexdigest())
                if part.lines_count == before.lines_count and part != before:
                    break
                if len(line) > _MOST_LINE_BYTES:
                    raise RequestFailed(
                        f"{self._path}:{part.lines_count} is no message: the line has more than "
                        f"{_MOST_LINE_BYTES:,} bytes"
                    )
                if part.lines_count > before.lines_count and line.strip():
                    self._digests.append(part)
                yield part.lines_count, line
        if part.lines_count <= before.lines_count and part != before:
            lines_text = counted(f"{before.lines_count:,}", "line")
            raise UsageError(
                f"of the first {lines_text} of {self._path}, which were read before, some were "
                "changed or removed in the meantime: copy again without --resume"
            )

    def _message(self, number: int, line: bytes) -> tuple[Read, str]:
        """Return the message in a line and its identity; raises RequestFailed."""
        try:
            line_message = _message_of(line)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            message = f"{self._path}:{number} is no message: {reason(error)}"
            raise RequestFailed(message) from error
        except RequestFailed as error:
            raise RequestFailed(f"{self._path}:{number}: {error}") from error
        identity = hashlib.sha256(b"%d " % number + line).hexdigest()
        return msgspec.structs.replace(line_message, stream_seq=number), identity


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
    """Return the next line, the beginning of one that is too long, or nothing at the end."""
    try:
        return await reader.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        return error.partial
    except asyncio.LimitOverrunError:
        return await reader.readexactly(_MOST_LINE_BYTES + 1)
