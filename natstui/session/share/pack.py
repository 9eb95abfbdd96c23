"""Packs a session into one file for a colleague, and unpacks it into a folder after a strict
check.

The file is a tar of regular files with plain names; any other member is an error.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Protocol

from msgspec import Struct

from natstui.errors import SessionError
from natstui.files import (
    check_replaceable,
    clear_folder,
    file_name,
    open_atomic_file,
    open_regular_file,
    partial_folder,
    read_regular_file,
    write_atomic_file,
)
from natstui.paths import create_private_folder
from natstui.session.files.folder import (
    INFO,
    SegmentFile,
    folder_name,
    is_segment_name,
    list_segments,
    segment_path,
    translate_read_errors,
)
from natstui.session.files.info import (
    SessionInfo,
    info_json,
    parse_info,
    read_info_to_change,
    write_info,
)
from natstui.session.files.segment import (
    MAX_SEGMENT_BYTES,
    list_polls,
    parse_segment,
    read_segment,
)
from natstui.session.share.redact import Pseudonyms
from natstui.session.share.verify import verify
from natstui.session.write.seal import compress_members
from natstui.values import replace

_MAX_SEGMENTS = 1_000_000
_MAX_INFO_BYTES = 1 << 20


class ProgressCallback(Protocol):
    """A callback that shows progress."""

    def __call__(self, finished_count: int, all_count: int, /) -> None:
        """Show how many of all segments are finished."""


def pack(folder: Path, target: Path, *, redact: bool, progress: ProgressCallback) -> Path:
    """Write a session into a new file, sealed in its current state, and return the file.

    `redact`: names are replaced by pseudonyms. A session that was cut off, or is still being
    recorded, is marked as cut off in the pack. Raises SessionError if the session is damaged, or
    the file exists or cannot be written.
    """
    if not target.name:
        raise SessionError(f"{target} is not a file name")
    with _translate_write_errors(target):
        check_replaceable(target, replaces=False)
    verdict = verify(folder)
    for finding in verdict.findings:
        # A damaged session could not be unpacked again.
        if finding.damage:
            raise SessionError(
                f"{folder} is damaged and is not packed: {finding.text};"
                " natstui export writes what can be read of it"
            )
    info, files = read_info_to_change(folder), list_segments(folder)
    if verdict.cut_off or info.ended_at_us is None:
        info = replace(info, cut_off=True)
    pseudonyms = Pseudonyms() if redact else None
    info = info if pseudonyms is None else pseudonyms.redact_info(info)
    with _translate_write_errors(target), open_atomic_file(target, replaces=False) as file:
        _write_member(file, INFO, info_json(info))
        for done_count, segment in enumerate(files):
            progress(done_count, len(files))
            name = segment_path(folder, segment.number, sealed=True).name
            content = _segment_bytes(segment, pseudonyms)
            if content:
                _write_member(file, name, content)
        file.write(pack_end())
    progress(len(files), len(files))
    return target


@contextmanager
def _translate_write_errors(target: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise SessionError(f"cannot write {target}: {error.strerror or error}") from error


def _segment_bytes(segment: SegmentFile, pseudonyms: Pseudonyms | None) -> bytes:
    """Return the bytes of a segment in sealed form, with names replaced if there are `pseudonyms`.

    Empty if the recorder was killed before the first line of the segment was complete.
    """
    if segment.sealed and pseudonyms is None:
        with translate_read_errors(str(segment.path)):
            return read_regular_file(segment.path, MAX_SEGMENT_BYTES)
    content = read_segment(segment)
    if not segment.sealed and not content.keyframe_line and not content.entries:
        return b""
    if pseudonyms is not None:
        content = parse_segment(pseudonyms.redact_content(content))
    return b"".join(compress_members(content, list_polls(content)))


def _write_member(file: BinaryIO, name: str, content: bytes) -> None:
    file.write(member_header(name, len(content)) + content + member_padding(len(content)))


def unpack(source: Path, sessions: Path) -> Path:
    """Create a session from a pack and return its folder; raises SessionError and leaves no files.

    Files are written into a new folder under names that natstui chooses, not the pack.
    """
    with _translate_write_errors(sessions):
        create_private_folder(sessions)
        # By the name of the pack: unpacking it again removes the files of a killed process.
        with partial_folder(sessions / file_name(os.path.abspath(source))) as temporary_folder:
            try:
                clear_folder(temporary_folder)
                return _create_from_pack(source, sessions, temporary_folder)
            finally:
                shutil.rmtree(temporary_folder, ignore_errors=True)


def _create_from_pack(source: Path, sessions: Path, temporary_folder: Path) -> Path:
    with translate_read_errors(str(source)):
        pack_file = open_regular_file(source)
    with pack_file:
        info = _unpack_members(pack_file, temporary_folder)
    verdict = verify(temporary_folder)
    for finding in verdict.findings:
        if finding.damage:
            raise SessionError(f"{source} is damaged: {finding.text}")
    if info.ended_at_us is None:
        # A pack of an older natstui without an end is not marked as cut off.
        info = replace(info, ended_at_us=verdict.last_at_us, cut_off=True)
    return _move_into_library(temporary_folder, sessions, info)


def _unpack_members(file: BinaryIO, folder: Path) -> SessionInfo:
    """Write the members of a pack into a folder, and return its session info.

    Raises SessionError if a member is missing, repeated, too large, or no part of a session.
    """
    info: SessionInfo | None = None
    for count, member in enumerate(read_headers(file)):
        if count > _MAX_SEGMENTS:
            raise SessionError("the pack has more segments than a session can have")
        if count == 0:
            if member.name != INFO or member.size_bytes > _MAX_INFO_BYTES:
                raise SessionError(f"the pack does not begin with {INFO}")
            text = b"".join(read_member(file, member))
            info = parse_info(text, INFO)
            # Unchanged: a wrong checksum must stay wrong until it was verified.
            write_atomic_file(folder / INFO, text)
            continue
        if not is_segment_name(member.name) or not member.name.endswith(".gz"):
            raise SessionError(
                f"the pack contains {member.name[:60]!r}, which is not part of a session"
            )
        if member.size_bytes > MAX_SEGMENT_BYTES:
            raise SessionError(f"{member.name} is too large for a segment")
        if (folder / member.name).exists():
            raise SessionError(f"the pack contains {member.name} twice")
        descriptor = os.open(folder / member.name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with open(descriptor, "wb") as target:
            target.writelines(read_member(file, member))
    if info is None:
        raise SessionError("the pack is empty")
    return info


def _move_into_library(temporary_folder: Path, sessions: Path, info: SessionInfo) -> Path:
    """Move an unpacked session into a new folder of the library, and return the folder."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", info.name)[:60]
    write_info(temporary_folder, info)
    for number in range(1, 10_000):
        folder = sessions / folder_name(
            info.started_at_us, name if number == 1 else f"{name}-{number}"
        )
        if not folder.exists():
            return temporary_folder.rename(folder)
    raise SessionError(f"there are too many sessions {name!r} in {sessions}")


_TAR_BLOCK_BYTES = 512
_COPY_CHUNK_BYTES = 1 << 20
_TAR_MAGIC = b"ustar\x0000"


class PackMember(Struct, frozen=True):
    """The name and size of a file in a pack."""

    name: str
    size_bytes: int


def member_header(name: str, size_bytes: int) -> bytes:
    """Return the tar header of a file."""
    header_fields = b"".join(
        (
            name.encode("ascii").ljust(100, b"\0"),
            b"0000600\0" + b"0000000\0" * 2,
            b"%011o\0" % size_bytes,
            b"00000000000\0",
            b" " * 8,
            b"0" + b"\0" * 100,
            _TAR_MAGIC,
        )
    ).ljust(_TAR_BLOCK_BYTES, b"\0")
    return header_fields[:148] + b"%06o\0 " % sum(header_fields) + header_fields[156:]


def member_padding(size_bytes: int) -> bytes:
    """Return the zero bytes that follow a file of this size."""
    return b"\0" * (-size_bytes % _TAR_BLOCK_BYTES)


def pack_end() -> bytes:
    """Return the zero blocks at the end of a pack."""
    return b"\0" * (2 * _TAR_BLOCK_BYTES)


def _parse_header(header_block: bytes) -> PackMember:
    if len(header_block) < _TAR_BLOCK_BYTES:
        raise SessionError("the pack ends in the middle")
    try:
        name = header_block[:100].rstrip(b"\0").decode("ascii")
        size_bytes = int(header_block[124:135], 8)
    except ValueError as error:
        raise SessionError("the pack is damaged: a header makes no sense") from error
    if size_bytes < 0 or header_block != member_header(name, size_bytes):
        raise SessionError("the pack contains something other than the plain files of a session")
    return PackMember(name, size_bytes)


def _read_bytes(file: BinaryIO, size_bytes: int) -> bytes:
    """Return the next bytes of a pack; raises SessionError if it cannot be read."""
    with translate_read_errors("the pack"):
        return file.read(size_bytes)


def read_headers(file: BinaryIO) -> Iterator[PackMember]:
    """Yield the header of each member; its content must be read with `read_member` before the next
    one.
    """
    while True:
        header_block = _read_bytes(file, _TAR_BLOCK_BYTES)
        if header_block == b"\0" * _TAR_BLOCK_BYTES:
            return
        yield _parse_header(header_block)


def read_member(file: BinaryIO, member: PackMember) -> Iterator[bytes]:
    """Yield the bytes of a member; raises SessionError if the pack ends before the member does."""
    remaining_bytes = member.size_bytes
    while remaining_bytes:
        content = _read_bytes(file, min(remaining_bytes, _COPY_CHUNK_BYTES))
        if not content:
            raise SessionError("the pack ends in the middle")
        remaining_bytes -= len(content)
        yield content
    if _read_bytes(file, -member.size_bytes % _TAR_BLOCK_BYTES).strip(b"\0"):
        raise SessionError("the pack is damaged: a file does not end where it should")
