"""Writes and reads files of messages: one JSON object per line, as of `stream view --json`."""

from __future__ import annotations

import asyncio
import base64
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
from msgspec import to_builtins

from natstui.decoding import decoder_of
from natstui.errors import BackupError, RequestFailed, UsageError
from natstui.files import (
    MAX_PAYLOAD_BYTES,
    check_replaceable,
    has_partial_folder,
    partial_folder,
    publish_file,
    translate_write_errors,
)
from natstui.jetstream.messages.copying.account import CopyAccount
from natstui.jetstream.messages.copying.selection import make_stream_message
from natstui.jetstream.messages.decode import parse_headers
from natstui.jetstream.messages.reading import StreamMessage
from natstui.model.records.messages import StoredMessage
from natstui.parsing import describe_parse_error
from natstui.units import counted, is_possible_time
from natstui.values import replace


class MessageLine(StoredMessage, frozen=True):
    """A message as one line of a file, in JSON."""

    headers_base64: str = ""
    """The encoded headers, if they are not UTF-8, which JSON cannot represent."""


_LINE_DECODER = decoder_of(MessageLine)
_PARTIAL_FILE_NAME = "messages.jsonl"
_LINE_END = b"\r\n"
_BLOCK_BYTES = 1024 * 1024
_MAX_LINE_BYTES = 2 * MAX_PAYLOAD_BYTES
"""Maximum length of a line; a payload is a third longer in base64."""


_MAX_STORED_FILE_PARTS = 100_000
"""How many checksums of the first lines of a file are remembered: far more than there are
messages in flight."""


class MessageFile:
    """A file of messages that appears only when it is complete; use it with `with`.

    Until then, a partial file is in a private folder beside it, where a resumed copy finds it.
    """

    def __init__(self, path: Path, account: CopyAccount) -> None:
        self.path = path
        self._copy_account = account
        self._exit_stack = ExitStack()
        self._partial_path: Path | None = None
        self._file: BinaryIO | None = None
        self._digest = hashlib.sha256()
        self.written_bytes = 0

    def open(self, written_bytes: int, sha256: str) -> None:
        """Open the partial file to write after its first `written_bytes` bytes.

        Raises UsageError if these are missing or have another checksum than `sha256`.
        """
        if written_bytes and not has_partial_folder(self.path):
            raise UsageError(
                f"the messages copied to {self.path} before are missing: copy again without "
                "--resume"
            )
        with translate_write_errors(self.path):
            check_replaceable(self.path, replaces=False)
            folder = self._exit_stack.enter_context(partial_folder(self.path))
            self._partial_path = folder / _PARTIAL_FILE_NAME
            open_flags = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = self._exit_stack.enter_context(
                os.fdopen(os.open(self._partial_path, open_flags, 0o666), "r+b")
            )
            self._read_existing(written_bytes)
            if written_bytes and self.sha256 != sha256:
                raise UsageError(
                    f"of the messages copied to {self.path} before, some were changed or are "
                    "missing: copy again without --resume"
                )
            self._file.truncate(written_bytes)
            self._file.seek(written_bytes)

    def _read_existing(self, size_bytes: int) -> None:
        """Read up to `size_bytes` of the partial file into `written_bytes` and the checksum."""
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
        """Return the checksum of all written bytes, in hexadecimal digits."""
        return self._digest.hexdigest()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        # Closing writes what is buffered: the disk may be full.
        with translate_write_errors(self.path):
            self._exit_stack.close()

    def write(self, source_message: StreamMessage, subject: str) -> None:
        """Write a message with this subject; raises BackupError if it cannot be written."""
        assert self._file is not None
        line = _encode_line(replace(source_message.as_stored(), subject=subject))
        with translate_write_errors(self.path, BackupError):
            self._file.write(line)
        self._count(line)
        self._copy_account.count_read(source_message.stream_seq, len(source_message.payload))
        self._copy_account.acknowledged_msgs += 1

    def sync(self) -> None:
        """Wait until all written messages are on the disk; raises BackupError if that fails."""
        assert self._file is not None
        with translate_write_errors(self.path, BackupError):
            self._file.flush()
            os.fsync(self._file.fileno())
        self._copy_account.done_seq = self._copy_account.last_seq

    def stop_writing(self) -> None:
        """Close the partial file after a write error; ignore errors of closing it."""
        assert self._file is not None
        with suppress(OSError):
            self._file.close()

    def move_to_path(self) -> None:
        """Move the complete file to its path; raises UsageError if another file is there now."""
        assert self._partial_path is not None
        with translate_write_errors(self.path):
            publish_file(self._partial_path, self.path, replaces=False)
        # The folder stays if somebody else put a file into it; the copy succeeded all the same.
        with suppress(OSError):
            self._partial_path.parent.rmdir()


def _encode_line(message: StoredMessage) -> bytes:
    fields = to_builtins(message)
    block = _LINE_END.join(
        f"{name}: {text}".encode("utf-8", "surrogateescape") for name, text in message.headers
    )
    block_text = block.decode(errors="replace")
    if block_text.encode() != block:
        pairs = [line.partition(": ") for line in block_text.split("\r\n")]
        fields["headers"] = [(name, text) for name, _, text in pairs]
        fields["headers_base64"] = base64.b64encode(block).decode()
    return json.dumps(fields).encode() + b"\n"


def _decode_line(line: bytes) -> StreamMessage:
    """Return the message in a line.

    Raises RequestFailed for a partial message, DecodeError and ValueError if it is no message.
    """
    message = _LINE_DECODER.decode(line)
    if not is_possible_time(message.stored_at_us):
        raise ValueError("its time is not possible")
    if message.headers_base64:
        block = base64.b64decode(message.headers_base64, validate=True)
        headers = parse_headers(_LINE_END + block, exact_headers=True)
        message = replace(message, headers=headers)
    return make_stream_message(message)


class FilePart(NamedTuple):
    """The number of the first lines of a file, and their checksum."""

    lines_count: int
    sha256: str


class SourceFile:
    """A file from which messages are read, and the part of it that a stopped copy has read."""

    def __init__(self, path: Path, part: FilePart) -> None:
        """Create the reader of `path`; a stopped copy has read `part` of it, perhaps no lines."""
        self._path = path
        self._previously_read_part = part
        self._newly_read_parts: deque[FilePart] = deque(maxlen=_MAX_STORED_FILE_PARTS)
        """The parts that end at the newest messages read after `_previously_read_part`."""

    def part_until(self, seq: int) -> FilePart:
        """Return the part of the file that ends with the last message up to line `seq`."""
        while self._newly_read_parts and self._newly_read_parts[0].lines_count <= seq:
            self._previously_read_part = self._newly_read_parts.popleft()
        return self._previously_read_part

    async def read_messages(
        self, is_wanted: Callable[[int], bool]
    ) -> AsyncGenerator[tuple[StreamMessage, str], None]:
        """Yield the messages in the wanted lines, each with a text that identifies it.

        Their sequence is the number of the line. Raises UsageError if the part that a stopped copy
        has read was changed, and RequestFailed for an unreadable line.
        """
        try:
            # A plain file is checked before a message is sent; a pipe can be read only once.
            if self._previously_read_part.lines_count and self._path.is_file():
                await self._check_part()
            async with aclosing(self._read_lines()) as lines:
                async for number, line in lines:
                    if is_wanted(number) and line.strip():
                        yield self._read_line(number, line)
        except OSError as error:
            raise UsageError(f"{self._path} cannot be read: {error.strerror or error}") from error

    async def _check_part(self) -> None:
        async with aclosing(self._read_lines()) as lines:
            async for number, _ in lines:
                if number >= self._previously_read_part.lines_count:
                    return

    async def _read_lines(self) -> AsyncGenerator[tuple[int, bytes], None]:
        """Yield each line with its number.

        Raises UsageError if the part that a stopped copy has read was changed.
        """
        previously_read_part, part, digest = (
            self._previously_read_part,
            FilePart(0, ""),
            hashlib.sha256(),
        )
        async with aclosing(_read_raw_lines(self._path)) as lines:
            async for line in lines:
                digest.update(line)
                part = FilePart(part.lines_count + 1, digest.hexdigest())
                if (
                    part.lines_count == previously_read_part.lines_count
                    and part != previously_read_part
                ):
                    break
                if len(line) > _MAX_LINE_BYTES:
                    raise RequestFailed(
                        f"{self._path}:{part.lines_count} is no message: the line has more than "
                        f"{_MAX_LINE_BYTES:,} bytes"
                    )
                if part.lines_count > previously_read_part.lines_count and line.strip():
                    self._newly_read_parts.append(part)
                yield part.lines_count, line
        if part.lines_count <= previously_read_part.lines_count and part != previously_read_part:
            lines_text = counted(f"{previously_read_part.lines_count:,}", "line")
            raise UsageError(
                f"of the first {lines_text} of {self._path}, which were read before, some were "
                "changed or removed in the meantime: copy again without --resume"
            )

    def _read_line(self, number: int, line: bytes) -> tuple[StreamMessage, str]:
        """Return the message in a line, and the text that identifies it; raises RequestFailed."""
        try:
            line_message = _decode_line(line)
        except (msgspec.DecodeError, ValueError, RecursionError) as error:
            message = f"{self._path}:{number} is no message: {describe_parse_error(error)}"
            raise RequestFailed(message) from error
        except RequestFailed as error:
            raise RequestFailed(f"{self._path}:{number}: {error}") from error
        identity = hashlib.sha256(b"%d " % number + line).hexdigest()
        return replace(line_message, stream_seq=number), identity


async def _read_raw_lines(path: Path) -> AsyncGenerator[bytes, None]:
    """Yield the lines of a plain file, FIFO, pipe or terminal; only a part of a too long line.

    Waiting for input can be cancelled. Raises OSError, also for a folder or another device.
    """
    # Opened without blocking: the event loop waits for the writer of a FIFO, and can be cancelled.
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    with file:
        file_mode = os.fstat(file.fileno()).st_mode
        if stat.S_ISREG(file_mode):
            for line in iter(partial(file.readline, _MAX_LINE_BYTES + 1), b""):
                yield line
            return
        if not (stat.S_ISFIFO(file_mode) or file.isatty()):
            raise OSError(errno.EINVAL, "it is neither a plain file nor a FIFO, pipe or terminal")
        reader = asyncio.StreamReader(limit=_MAX_LINE_BYTES)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), file
        )
        try:
            while line := await _read_next_line(reader):
                yield line
        finally:
            transport.close()


async def _read_next_line(reader: asyncio.StreamReader) -> bytes:
    """Return the next line, only the start of a too long line, or b"" at the end."""
    try:
        return await reader.readuntil(b"\n")
    except asyncio.IncompleteReadError as error:
        return error.partial
    except asyncio.LimitOverrunError:
        return await reader.readexactly(_MAX_LINE_BYTES + 1)
