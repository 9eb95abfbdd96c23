"""The one kind of tar that a packed session may be: plain files with plain names, nothing else.

Read strictly, because a pack comes from somebody else: no links, no devices, no folders, no long
names, no sparse files. What is not exactly as natstui writes it is refused. `tar xf` opens it too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from natstui.errors import SessionError

_BLOCK_BYTES = 512
_COPY_BYTES = 1 << 20
_MAGIC = b"ustar\x0000"


@dataclass(frozen=True, slots=True)
class Member:
    """One file in a pack."""

    name: str
    size_bytes: int


def header(name: str, size_bytes: int) -> bytes:
    """Return the header of a file."""
    fields = b"".join(
        (
            name.encode("ascii").ljust(100, b"\0"),
            b"0000600\0" + b"0000000\0" * 2,
            b"%011o\0" % size_bytes,
            b"00000000000\0",
            b" " * 8,
            b"0" + b"\0" * 100,
            _MAGIC,
        )
    ).ljust(_BLOCK_BYTES, b"\0")
    return fields[:148] + b"%06o\0 " % sum(fields) + fields[156:]


def padding(size_bytes: int) -> bytes:
    """Return what follows a file of this size."""
    return b"\0" * (-size_bytes % _BLOCK_BYTES)


def end() -> bytes:
    """Return the end of a pack."""
    return b"\0" * (2 * _BLOCK_BYTES)


def _parse(block: bytes) -> Member:
    if len(block) < _BLOCK_BYTES:
        raise SessionError("the pack ends in the middle")
    try:
        name = block[:100].rstrip(b"\0").decode("ascii")
        size_bytes = int(block[124:135], 8)
    except ValueError as error:
        raise SessionError("the pack is damaged: a header makes no sense") from error
    if size_bytes < 0 or block != header(name, size_bytes):
        raise SessionError("the pack holds something other than the plain files of a session")
    return Member(name, size_bytes)


def members(file: BinaryIO) -> Iterator[Member]:
    """Yield each member; its content has to be read with `content` before the next one."""
    while True:
        block = file.read(_BLOCK_BYTES)
        if block == b"\0" * _BLOCK_BYTES:
            return
        yield _parse(block)


def content(file: BinaryIO, member: Member) -> Iterator[bytes]:
    """Yield the bytes of a member; SessionError when the pack ends before it does."""
    left_bytes = member.size_bytes
    while left_bytes:
        data = file.read(min(left_bytes, _COPY_BYTES))
        if not data:
            raise SessionError("the pack ends in the middle")
        left_bytes -= len(data)
        yield data
    if file.read(-member.size_bytes % _BLOCK_BYTES).strip(b"\0"):
        raise SessionError("the pack is damaged: a file does not end where it should")
