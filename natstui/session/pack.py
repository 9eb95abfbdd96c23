"""A session as one file to send to a colleague, and back into a folder after a strict check."""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import msgspec

from natstui.errors import SessionError
from natstui.session import ustar
from natstui.session.folder import (
    INFO,
    SegmentFile,
    folder_name,
    is_segment_name,
    reading,
    segment_path,
    segments,
)
from natstui.session.info import SessionInfo, parse_info, read_info, write_info
from natstui.session.redact import Pseudonyms
from natstui.session.seal import pack as packed_members
from natstui.session.segment import MOST_BYTES, parse, polls_of, read_content
from natstui.session.verify import verify

_MOST_SEGMENTS = 1_000_000
_MOST_INFO_BYTES = 1 << 20

Progress = Callable[[int, int], None]
"""Called with segments done and segments in all."""


def pack(folder: Path, target: Path, *, redact: bool, progress: Progress) -> Path:
    """Write a session, sealed as it is now, into one new file; raises SessionError."""
    if not target.name:
        raise SessionError(f"{target} is no name of a file")
    if target.exists():
        raise SessionError(f"{target} exists already")
    info = read_info(folder)
    files = segments(folder)
    pseudonyms = Pseudonyms() if redact else None
    info = info if pseudonyms is None else pseudonyms.info(info)
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        with temporary.open("wb") as file:
            _write_member(file, INFO, msgspec.json.encode(info))
            for done_count, segment in enumerate(files):
                progress(done_count, len(files))
                name = segment_path(folder, segment.number, sealed=True).name
                _write_member(file, name, _segment_bytes(segment, pseudonyms))
            file.write(ustar.end())
        temporary.replace(target)
    except OSError as error:
        raise SessionError(f"cannot write {target}: {error.strerror}") from error
    finally:
        temporary.unlink(missing_ok=True)
    progress(len(files), len(files))
    return target


def _segment_bytes(segment: SegmentFile, pseudonyms: Pseudonyms | None) -> bytes:
    if segment.sealed and pseudonyms is None:
        with reading(str(segment.path)):
            return segment.path.read_bytes()
    content = read_content(segment.path, sealed=segment.sealed)
    if pseudonyms is not None:
        content = parse(pseudonyms.text(content))
    return b"".join(packed_members(content, polls_of(content)))


def _write_member(file: BinaryIO, name: str, data: bytes) -> None:
    file.write(ustar.header(name, len(data)) + data + ustar.padding(len(data)))


def unpack(source: Path, sessions: Path) -> Path:
    """Check a pack and make a session of it; raises SessionError and leaves nothing behind.

    Files are written into a new folder under names that natstui gives, whatever the pack says.
    """
    with reading(str(source)):
        sessions.mkdir(parents=True, exist_ok=True, mode=0o700)
        temporary = Path(tempfile.mkdtemp(prefix=".unpacking-", dir=sessions))
    try:
        with reading(str(source)), source.open("rb") as file:
            info = _unpacked(file, temporary)
        verdict = verify(temporary)
        for finding in verdict.findings:
            if finding.damage:
                raise SessionError(f"{source} is damaged: {finding.text}")
        with reading(str(sessions)):
            ended_us = info.ended_at_us or verdict.last_at_us
            return _moved(temporary, sessions, replace(info, ended_at_us=ended_us))
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _unpacked(file: BinaryIO, folder: Path) -> SessionInfo:
    """Write the members of a pack into a folder, and return what session.json says."""
    info: SessionInfo | None = None
    for count, member in enumerate(ustar.members(file)):
        if count > _MOST_SEGMENTS:
            raise SessionError("the pack holds more segments than any session")
        if count == 0:
            if member.name != INFO or member.size_bytes > _MOST_INFO_BYTES:
                raise SessionError(f"the pack does not begin with {INFO}")
            info = parse_info(b"".join(ustar.content(file, member)), INFO)
            continue
        if not is_segment_name(member.name) or not member.name.endswith(".gz"):
            raise SessionError(f"the pack holds {member.name[:60]!r}, which no session has")
        if member.size_bytes > MOST_BYTES:
            raise SessionError(f"{member.name} is larger than any segment")
        if (folder / member.name).exists():
            raise SessionError(f"the pack holds {member.name} twice")
        descriptor = os.open(folder / member.name, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        with open(descriptor, "wb") as target:
            target.writelines(ustar.content(file, member))
    if info is None:
        raise SessionError("the pack is empty")
    write_info(folder, info)
    return info


def _moved(temporary: Path, sessions: Path, info: SessionInfo) -> Path:
    """Give an unpacked session a place of its own in the library."""
    name = re.sub(r"[^A-Za-z0-9._-]+", "-", info.name)[:60]
    write_info(temporary, info)
    for number in range(1, 10_000):
        folder = sessions / folder_name(
            info.started_at_us, name if number == 1 else f"{name}-{number}"
        )
        if not folder.exists():
            return temporary.rename(folder)
    raise SessionError(f"there are too many sessions {name!r} in {sessions}")
