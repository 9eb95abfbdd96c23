"""A session as one file to send to a colleague, and back into a folder after a strict check.

The file is a tar of plain files with plain names; any other member is refused."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import BinaryIO

from natstui.errors import SessionError
from natstui.files import (
    check_replaceable,
    complete_file,
    empty_folder,
    file_name,
    open_plain,
    read_plain,
    unfinished,
    write_complete,
)
from natstui.paths import private_folder
from natstui.session.files.folder import (
    INFO,
    SegmentFile,
    folder_name,
    is_segment_name,
    reading,
    segment_path,
    segments,
)
from natstui.session.files.info import (
    SessionInfo,
    info_json,
    parse_info,
    read_info_to_change,
    write_info,
)
from natstui.session.files.segment import MOST_BYTES, parse, polls_of, read_segment
from natstui.session.share.redact import Pseudonyms
from natstui.session.share.verify import verify
from natstui.session.write.seal import gzip_members

_MOST_SEGMENTS = 1_000_000
_MOST_INFO_BYTES = 1 << 20

Progress = Callable[[int, int], None]
"""Called with segments done and segments in all."""


def pack(folder: Path, target: Path, *, redact: bool, progress: Progress) -> Path:
    """Write a session into one new file, sealed in its current state; raises SessionError.

    In it, one that was cut off, or is still being recorded, is cut off.
    """
    if not target.name:
        raise SessionError(f"{target} is not a file name")
    with _writing(target):
        check_replaceable(target, replaces=False)
    verdict = verify(folder)
    for finding in verdict.findings:
        # A damaged session could not be unpacked again.
        if finding.damage:
            raise SessionError(
                f"{folder} is damaged and is not packed: {finding.text};"
                " natstui export writes what can be read of it"
            )
    info, files = read_info_to_change(folder), segments(folder)
    if verdict.cut_off or info.ended_at_us is None:
        info = replace(info, cut_off=True)
    pseudonyms = Pseudonyms() if redact else None
    info = info if pseudonyms is None else pseudonyms.info(info)
    with _writing(target), complete_file(target, replaces=False) as file:
        _write_member(file, INFO, info_json(info))
        for done_count, segment in enumerate(files):
            progress(done_count, len(files))
            name = segment_path(folder, segment.number, sealed=True).name
            _write_member(file, name, _segment_bytes(segment, pseudonyms))
        file.write(end())
    progress(len(files), len(files))
    return target


@contextmanager
def _writing(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SessionError(f"cannot write {target}: {error.strerror or error}") from error


def _segment_bytes(segment: SegmentFile, pseudonyms: Pseudonyms | None) -> bytes:
    if segment.sealed and pseudonyms is None:
        with reading(str(segment.path)):
            return read_plain(segment.path, MOST_BYTES)
    content = read_segment(segment)
    if pseudonyms is not None:
        content = parse(pseudonyms.text(content))
    return b"".join(gzip_members(content, polls_of(content)))


def _write_member(file: BinaryIO, name: str, data: bytes) -> None:
    file.write(header(name, len(data)) + data + padding(len(data)))


def unpack(source: Path, sessions: Path) -> Path:
    """Check a pack and create a session from it; raises SessionError and leaves nothing behind.

    Files are written into a new folder under names that natstui gives, whatever the pack says.
    """
    with _writing(sessions):
        private_folder(sessions)
        # By the name of the pack: one that is unpacked again removes what a killed process left.
        with unfinished(sessions / file_name(os.path.abspath(source))) as temporary:
            try:
                empty_folder(temporary)
                return _checked(source, sessions, temporary)
            finally:
                shutil.rmtree(temporary, ignore_errors=True)


def _checked(source: Path, sessions: Path, temporary: Path) -> Path:
    with reading(str(source)):
        opened = open_plain(source)
    with opened:
        info = _unpacked(opened, temporary)
    verdict = verify(temporary)
    for finding in verdict.findings:
        if finding.damage:
            raise SessionError(f"{source} is damaged: {finding.text}")
    if info.ended_at_us is None:
        # Of an older natstui, a pack without an end does not say that it was cut off.
        info = replace(info, ended_at_us=verdict.last_at_us, cut_off=True)
    return _moved(temporary, sessions, info)


def _unpacked(file: BinaryIO, folder: Path) -> SessionInfo:
    """Write the members of a pack into a folder, and return its session info."""
    info: SessionInfo | None = None
    for count, member in enumerate(members(file)):
        if count > _MOST_SEGMENTS:
            raise SessionError("the pack has more segments than a session can have")
        if count == 0:
            if member.name != INFO or member.size_bytes > _MOST_INFO_BYTES:
                raise SessionError(f"the pack does not begin with {INFO}")
            text = b"".join(content(file, member))
            info = parse_info(text, INFO)
            # As it is: a checksum that is wrong must stay wrong until it was verified.
            write_complete(folder / INFO, text)
            continue
        if not is_segment_name(member.name) or not member.name.endswith(".gz"):
            raise SessionError(
                f"the pack contains {member.name[:60]!r}, which is not part of a session"
            )
        if member.size_bytes > MOST_BYTES:
            raise SessionError(f"{member.name} is too large for a segment")
        if (folder / member.name).exists():
            raise SessionError(f"the pack contains {member.name} twice")
        descriptor = os.open(folder / member.name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with open(descriptor, "wb") as target:
            target.writelines(content(file, member))
    if info is None:
        raise SessionError("the pack is empty")
    return info


def _moved(temporary: Path, sessions: Path, info: SessionInfo) -> Path:
    """Move an unpacked session into a folder of its own in the library."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", info.name)[:60]
    write_info(temporary, info)
    for number in range(1, 10_000):
        folder = sessions / folder_name(
            info.started_at_us, name if number == 1 else f"{name}-{number}"
        )
        if not folder.exists():
            return temporary.rename(folder)
    raise SessionError(f"there are too many sessions {name!r} in {sessions}")


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
        raise SessionError("the pack contains something other than the plain files of a session")
    return Member(name, size_bytes)


def _read(file: BinaryIO, size_bytes: int) -> bytes:
    """Return the next bytes; its errors are told apart from those of writing what was read."""
    with reading("the pack"):
        return file.read(size_bytes)


def members(file: BinaryIO) -> Iterator[Member]:
    """Yield each member; its content must be read with `content` before the next one."""
    while True:
        block = _read(file, _BLOCK_BYTES)
        if block == b"\0" * _BLOCK_BYTES:
            return
        yield _parse(block)


def content(file: BinaryIO, member: Member) -> Iterator[bytes]:
    """Yield the bytes of a member; raises SessionError when the pack ends before it does."""
    left_bytes = member.size_bytes
    while left_bytes:
        data = _read(file, min(left_bytes, _COPY_BYTES))
        if not data:
            raise SessionError("the pack ends in the middle")
        left_bytes -= len(data)
        yield data
    if _read(file, -member.size_bytes % _BLOCK_BYTES).strip(b"\0"):
        raise SessionError("the pack is damaged: a file does not end where it should")
