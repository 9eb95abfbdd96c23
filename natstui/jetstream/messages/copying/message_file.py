"""Messages in a file, one line of JSON each: as `stream view --json` writes them too."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import BinaryIO, Self

import msgspec

from natstui.decoding import decoder_of
from natstui.errors import RequestFailed, UsageError
from natstui.jetstream.messages.copying.account import Account
from natstui.jetstream.messages.copying.selection import read_of
from natstui.jetstream.messages.reading import Read
from natstui.model.records.messages import StoredMessage

_MESSAGE = decoder_of(StoredMessage)


class MessageFile:
    """A file that gets its name when all of it is on the disk; use it with `with`.

    One that was stopped is kept as `.NAME.part`, and goes on where it ended.
    """

    def __init__(self, path: Path, account: Account) -> None:
        self.path = path
        self._account = account
        self._part = path.absolute().parent / f".{path.name}.part"
        self._file: BinaryIO | None = None

    def begin(self, after_seq: int) -> None:
        """Open it; what it holds behind a sequence is cut off. Raises UsageError."""
        if self.path.exists():
            raise UsageError(f"{self.path} exists already")
        try:
            length = _length_up_to(self._part, after_seq) if after_seq else 0
            self._file = self._part.open("r+b" if length else "wb")
            self._file.truncate(length)
            self._file.seek(length)
        except OSError as error:
            raise UsageError(f"{self._part} cannot be written: {error.strerror}") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._file is not None:
            self._file.close()

    def write(self, one: Read, subject: str) -> None:
        """Write a message; raises UsageError when the disk is full."""
        message = dataclasses.replace(one.as_stored(), subject=subject)
        assert self._file is not None
        try:
            self._file.write(json.dumps(dataclasses.asdict(message)).encode() + b"\n")
        except OSError as error:
            raise UsageError(f"{self._part} cannot be written: {error.strerror}") from error
        account = self._account
        account.read_msgs += 1
        account.acknowledged_msgs += 1
        account.payload_bytes += len(one.payload)
        account.first_seq = account.first_seq or one.stream_seq
        account.last_seq = one.stream_seq

    def sync(self) -> None:
        """Wait until all of it is on the disk; raises UsageError."""
        assert self._file is not None
        try:
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise UsageError(f"{self._part} cannot be written: {error.strerror}") from error
        self._account.done_seq = self._account.last_seq

    def end(self) -> None:
        """Give it its name."""
        self._part.replace(self.path)


def _length_up_to(part: Path, seq: int) -> int:
    """Return how long the whole lines are that hold nothing behind a sequence."""
    length = 0
    with part.open("rb") as file:
        for line in file:
            if not line.endswith(b"\n") or (_MESSAGE.decode(line).stream_seq or 0) > seq:
                break
            length += len(line)
    return length


async def lines_of(path: Path, after_line: int) -> AsyncGenerator[tuple[Read, str], None]:
    """Yield the messages of a file, their line as sequence, and what tells each from others.

    Raises UsageError and RequestFailed.
    """
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if number <= after_line or not line.strip():
                    continue
                try:
                    one = read_of(_MESSAGE.decode(line))
                except (msgspec.DecodeError, ValueError) as error:
                    raise RequestFailed(f"{path}:{number} is no message: {error}") from error
                except RequestFailed as error:
                    raise RequestFailed(f"{path}:{number}: {error}") from error
                seen = hashlib.sha256(b"%d " % number + line).hexdigest()
                yield msgspec.structs.replace(one, stream_seq=number), seen
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror}") from error
