"""session.json: the description of a recording, without any secret."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

import msgspec
from msgspec import Struct, field

from natstui import __version__
from natstui.decoding import decoder_of
from natstui.errors import SessionError
from natstui.files import open_regular_file, write_atomic_file
from natstui.lines import SCHEMA_VERSION
from natstui.model.records.link import LinkChanged
from natstui.model.records.record import EngineStarted, Record
from natstui.parsing import describe_parse_error
from natstui.session.files.folder import INFO, translate_read_errors
from natstui.units import bytes_text, is_possible_time
from natstui.values import replace

_MAX_INFO_BYTES = 1 << 20
_MAX_USER_EDITED_BYTES = _MAX_INFO_BYTES // 2
"""Limit of session.json with the name and notes of a user; natstui adds the rest later."""
CHANGED_INFO_TEXT = "is damaged, or was changed by something else than natstui"
_USERINFO_PATTERN = re.compile(r"//[^/@\s]*@")


class DroppedSegments(Struct, frozen=True):
    """The segments that were deleted to keep within a limit, the oldest first."""

    segments_count: int
    until_at_us: int
    """Everything before this moment was deleted."""
    reason: str


class SessionInfo(Struct, frozen=True):
    """The content of session.json."""

    schema_version: int
    natstui_version: str
    name: str
    """Name that the user chose; empty without one."""
    started_at_us: int
    ended_at_us: int | None = None
    """None during the recording, and after a killed recorder until the next start."""
    cut_off: bool = False
    """The recorder was killed or its disk was full, or this was packed before its end: the last
    records are missing.
    """
    target: str = ""
    """The connection, for people, without secrets."""
    server_name: str | None = None
    server_version: str | None = None
    server_url: str | None = None
    cluster: str | None = None
    account: str | None = None
    interval_s: float | None = None
    payloads: bool = False
    """Whether payloads of messages were recorded, which a user must request."""
    redacted: bool = False
    """Names were replaced by pseudonyms."""
    retain_s: float | None = None
    max_bytes: int | None = None
    dropped: DroppedSegments | None = None
    records_count: dict[str, int] = field(default_factory=dict)
    """How many records of each kind were written; filled in at the end."""
    notes: tuple[str, ...] = ()
    """Notes of people about the recording (`natstui sessions note`)."""
    checksum: str = ""
    """SHA-256 of the other fields, in JSON without spaces, sorted by name; empty in older
    recordings.
    """


def _checksum(content: bytes) -> str:
    """Return the checksum of session.json; fields of other versions of natstui are included."""
    value_by_field = decoder_of(dict[str, object]).decode(content)
    value_by_field.pop("checksum", None)
    return hashlib.sha256(msgspec.json.encode(value_by_field, order="sorted")).hexdigest()


def info_json(info: SessionInfo) -> bytes:
    """Return the content of session.json, indented, with its checksum."""
    info_with_checksum = replace(info, checksum=_checksum(msgspec.json.encode(info)))
    return msgspec.json.format(msgspec.json.encode(info_with_checksum), indent=2) + b"\n"


def _has_valid_checksum(content: bytes, info: SessionInfo) -> bool:
    """Return whether the content of session.json has the right checksum, or none."""
    return not info.checksum or _checksum(content) == info.checksum


def create_info(name: str, at_us: int) -> SessionInfo:
    """Return the info of a recording that starts at `at_us` (UTC µs)."""
    return SessionInfo(SCHEMA_VERSION, __version__, name, at_us)


def without_userinfo(url: str) -> str:
    """Return an address without user, password or token."""
    return _USERINFO_PATTERN.sub("//", url)


def updated_info(info: SessionInfo, record: Record) -> SessionInfo:
    """Return the info updated by a record about the server; unchanged by any other record."""
    if isinstance(record, EngineStarted):
        target = without_userinfo(record.target)
        return replace(info, target=target, interval_s=record.interval_s)
    if isinstance(record, LinkChanged) and record.state == "connected":
        return replace(
            info,
            server_name=record.server_name,
            server_version=record.server_version,
            server_url=record.server_url and without_userinfo(record.server_url),
            cluster=record.cluster,
            account=record.account,
        )
    return info


def write_info(folder: Path, info: SessionInfo) -> None:
    """Write session.json into the folder of a recording; raises OSError if that fails."""
    write_atomic_file(folder / INFO, info_json(info))


def write_user_edited_info(folder: Path, info: SessionInfo) -> None:
    """Write session.json with a name or note of the user; raises OSError, and SessionError if it
    would be too large.
    """
    size_bytes = len(info_json(info))
    if size_bytes > _MAX_USER_EDITED_BYTES:
        raise SessionError(
            f"the name and notes of {folder} would be too long: {bytes_text(size_bytes)} with "
            f"what is known of it, at most {bytes_text(_MAX_USER_EDITED_BYTES)}"
        )
    write_info(folder, info)


def parse_info(content: bytes, file_name: str) -> SessionInfo:
    """Return the info in the content of session.json; raises SessionError with `file_name` if it
    is not valid.
    """
    try:
        version = decoder_of(dict[str, object]).decode(content).get("schema_version")
        if not isinstance(version, int) or version < 1:
            raise SessionError(f"{file_name} does not name its schema version")
        if version > SCHEMA_VERSION:
            raise SessionError(
                f"{file_name} was written by a newer natstui (schema {version}); this one reads"
                f" up to schema {SCHEMA_VERSION}: update natstui"
            )
        info = decoder_of(SessionInfo).decode(content)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SessionError(f"{file_name} is damaged: {describe_parse_error(error)}") from error
    times_us = {
        "start": info.started_at_us,
        "end": info.ended_at_us,
        "last deletion": None if info.dropped is None else info.dropped.until_at_us,
    }
    for name, at_us in times_us.items():
        if at_us is not None and not is_possible_time(at_us):
            raise SessionError(f"{file_name} is damaged: its {name} time is not possible")
    return info


def read_info(folder: Path) -> SessionInfo:
    """Return the info of a recording; raises SessionError if the folder has none, or it is
    damaged.
    """
    return parse_info(_read_info_content(folder), str(folder / INFO))


def read_checked_info(folder: Path) -> tuple[SessionInfo, bool]:
    """Return the info of a recording, and whether its checksum is right.

    Raises SessionError if the folder has no info, or it is not valid.
    """
    content = _read_info_content(folder)
    info = parse_info(content, str(folder / INFO))
    return info, _has_valid_checksum(content, info)


def read_info_to_change(folder: Path) -> SessionInfo:
    """Return the info of a recording for an update; raises SessionError if its checksum is wrong.

    An update writes a right checksum, and the damage could not be detected any more.
    """
    info, is_checksum_right = read_checked_info(folder)
    if not is_checksum_right:
        raise SessionError(f"{folder / INFO} {CHANGED_INFO_TEXT}; it is not changed")
    return info


def _read_info_content(folder: Path) -> bytes:
    path = folder / INFO
    with translate_read_errors(str(path)):
        if not path.is_file():
            raise SessionError(f"{folder} is not a session: it has no {INFO}")
        with open_regular_file(path) as file:
            content = file.read(_MAX_INFO_BYTES + 1)
    if len(content) > _MAX_INFO_BYTES:
        raise SessionError(f"{path} is too large for a session")
    return content
