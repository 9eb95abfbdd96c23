"""Writes and checks the folder of a backup, which is written completely or not at all.

`backup.json` and `stream.tar.s2` have the format of the NATS CLI; `natstui.json` has their
checksums. A backup of an account has one such folder for each stream.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO, NamedTuple

import msgspec
from msgspec import Struct

from natstui.clean import clean_line
from natstui.errors import BackupError
from natstui.files import create_atomic_folder, file_name, open_regular_file, read_regular_file
from natstui.jetstream.connection.decode.streams import StreamState, read_state
from natstui.jetstream.connection.writer import Config
from natstui.model.assets.subjects import is_stream_name
from natstui.parsing import parse_json
from natstui.units import counted

CONFIG_FILE, DATA_FILE, ABOUT_FILE = "backup.json", "stream.tar.s2", "natstui.json"
ABOUT_FILE_FORMAT = 1
_MAX_JSON_BYTES = 256 * 1024 * 1024
"""Limit of a description, which lists every consumer of a stream."""
_READ_BLOCK_BYTES = 1024 * 1024
_DATA_BLOCK_TYPES = (b"\x00", b"\x01")
"""Types of blocks with compressed and uncompressed data in the S2 format."""
_S2_STREAM_IDENTIFIERS = (b"\xff\x06\x00\x00S2sTwO", b"\xff\x06\x00\x00sNaPpY")


class PushConsumer(NamedTuple):
    """A push consumer of a stream that is in a backup."""

    name: str
    deliver_subject: str
    waiting_msgs: int
    """Maximum number of messages that it delivers after a restore."""


class Backup(Struct, frozen=True):
    """The backup of one stream, as it was read from its folder."""

    folder: Path
    config: Config
    raw_state: Config
    """The state as the server wrote it, and gets it back."""
    consumers: tuple[str, ...] | None
    """Names of the consumers; None if unknown."""
    data_bytes: int
    has_checksum: bool
    """Whether the data was checked by a checksum, which a backup of the NATS CLI does not have."""
    removed_msgs: int = 0
    """Maximum number of messages of `state` that are missing: removed during the backup."""
    is_complete: bool = True
    """Whether the data has all messages that the stream had to keep until the end of the backup.
    """
    left_out_consumers: tuple[str, ...] = ()
    """Names of consumers that are not in the data."""
    push_consumers: tuple[PushConsumer, ...] = ()
    """The push consumers that may have waiting messages."""

    @property
    def stream(self) -> str:
        """Return the name of the stream."""
        return str(self.config["name"])

    @property
    def state(self) -> StreamState:
        """Return the decoded state of the stream."""
        return read_state(self.raw_state)


def removed_text(removed_msgs: int) -> str:
    """Return the clause about messages that were removed during a backup."""
    return (
        f"up to {counted(f'{removed_msgs:,}', 'message')} of it may be missing: removed from the "
        "stream during the backup"
    )


def left_out_text(names: Sequence[str]) -> str:
    """Return the clause about consumers that are not in the data of a backup."""
    return f"without {counted(len(names), 'consumer')}, which the server left out: " + ", ".join(
        names
    )


RESTORE_MARK = "io.natstui.restoring"
"""Metadata key of a stream whose restore has not ended; the value is when it began."""


def unfinished_restore_text(config: Config) -> str:
    """Return a clause if the metadata has `RESTORE_MARK`, of an unfinished restore; else empty."""
    began_at = (config.get("metadata") or {}).get(RESTORE_MARK)
    if began_at is None:
        return ""
    return f"left by a restore that began at {began_at} and did not end: it may be incomplete"


@contextmanager
def create_backup_folder(target: Path) -> Iterator[Path]:
    """Yield a temporary folder, which is renamed to `target` at the end, once it is on the disk.

    Remains of a killed backup are removed first. Raises BackupError if it cannot be written.
    """
    with _raise_backup_error(target, "written"), create_atomic_folder(target) as folder:
        yield folder


@contextmanager
def _raise_backup_error(path: Path, action: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BackupError(f"{path} cannot be {action}: {error.strerror or error}") from error


def write_json(file: Path, content: object) -> str:
    """Write indented JSON to a file, and return its SHA-256 checksum."""
    text = json.dumps(content, indent=2).encode() + b"\n"
    file.write_bytes(text)
    return hashlib.sha256(text).hexdigest()


def read_json(file: Path) -> dict[str, Any]:
    """Return the JSON object in a file; raises BackupError if it cannot be read or is none."""
    try:
        content = parse_json(read_regular_file(file, _MAX_JSON_BYTES))
    except OSError as error:
        raise BackupError(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise BackupError(f"{file} is damaged: it is not JSON ({error})") from error
    if not isinstance(content, dict):
        raise BackupError(f"{file} is damaged: it is not the description of a backup")
    return content


def is_account_backup(folder: Path) -> bool:
    """Return whether a folder is the backup of an account: it contains backups of streams."""
    return not (folder / CONFIG_FILE).exists() and (
        (folder / ABOUT_FILE).exists() or any(folder.glob(f"*/{CONFIG_FILE}"))
    )


def find_stream_folders(folder: Path) -> list[Path]:
    """Return the folders of the streams in the backup of an account.

    Raises BackupError if one is missing or invalid, or if there are two of one stream.
    """
    stream_folders = sorted(file.parent for file in folder.glob(f"*/{CONFIG_FILE}"))
    if (folder / ABOUT_FILE).exists():
        about_file = _read_about_file(folder)
        if about_file.files:
            # Only the backup of a stream lists its files.
            raise BackupError(f"{folder} is not complete: {CONFIG_FILE} is missing")
        expected_names = sorted(set(map(file_name, about_file.streams)))
        missing_names = sorted(set(expected_names) - {path.name for path in stream_folders})
        if missing_names:
            raise BackupError(f"{folder} is not complete: {', '.join(missing_names)} is missing")
        for name in about_file.streams:
            _check_stream_name(folder / file_name(name), name)
        stream_folders = [folder / name for name in expected_names]
    folders_by_stream = dict[str, Path]()
    for stream_folder in stream_folders:
        name = str(_read_stream_name(stream_folder))
        first_folder = folders_by_stream.setdefault(name, stream_folder)
        if first_folder is not stream_folder:
            raise BackupError(
                f"{folder} has two backups of {clean_line(name)}: {first_folder.name} and "
                f"{stream_folder.name}; move one of them away"
            )
    return stream_folders


def _read_stream_name(folder: Path) -> object:
    """Return the name of the stream whose backup is in a folder, None if it has no name.

    Raises BackupError if `backup.json` cannot be read.
    """
    config = read_json(folder / CONFIG_FILE).get("config")
    return config.get("name") if isinstance(config, dict) else None


def _check_stream_name(folder: Path, name: str) -> None:
    """Raise BackupError if a folder contains another stream than `natstui.json` names."""
    stored_name = _read_stream_name(folder)
    if stored_name != name:
        raise BackupError(
            f"{folder} is damaged: it contains {clean_line(str(stored_name))!r}, not {name!r}"
        )


def read_left_out(folder: Path) -> tuple[str, ...]:
    """Return a clause for each stream that is not in the backup of an account, with the reason.

    Raises BackupError if `natstui.json` cannot be read.
    """
    has_about_file = is_account_backup(folder) and (folder / ABOUT_FILE).exists()
    return tuple(_read_about_file(folder).left_out) if has_about_file else ()


def read_backup(folder: Path) -> Backup:
    """Read the backup of one stream and check that it is complete; raises BackupError."""
    if not (folder / CONFIG_FILE).exists():
        raise BackupError(f"{folder} is not a backup of a stream: it has no {CONFIG_FILE}")
    description = read_json(folder / CONFIG_FILE)
    check_description(description, str(folder / CONFIG_FILE))
    name = description["config"]["name"]
    if not is_stream_name(name):
        raise BackupError(
            f"{folder / CONFIG_FILE} is damaged: {clean_line(name)!r} is not a valid name"
        )
    data = folder / DATA_FILE
    about_file = _read_about_file(folder) if (folder / ABOUT_FILE).exists() else None
    with _raise_backup_error(data, "read"), open_regular_file(data) as file:
        size_bytes = os.fstat(file.fileno()).st_size
    if about_file is not None:
        _check_checksums(folder, about_file, size_bytes)
    # A checksum only proves that the data is what a server sent, complete or not.
    check_data(data, str(data))
    consumers, removed_msgs, is_complete = None, 0, True
    left_out_consumers: tuple[str, ...] = ()
    push_consumers: tuple[PushConsumer, ...] = ()
    if about_file is not None:
        removed_msgs, is_complete = about_file.removed_msgs, about_file.is_whole
        left_out_consumers = tuple(about_file.left_out_consumers)
    if about_file is not None and about_file.consumers is not None:
        consumers = tuple(consumer.name for consumer in about_file.consumers)
        push_consumers = tuple(
            PushConsumer(consumer.name, consumer.config.deliver_subject, consumer.waiting_msgs)
            for consumer in about_file.consumers
            if consumer.config is not None
            and consumer.config.deliver_subject
            and consumer.waiting_msgs
        )
    return Backup(
        folder, description["config"], description["state"], consumers, size_bytes,
        about_file is not None, removed_msgs, is_complete, left_out_consumers, push_consumers,
    )  # fmt: skip


class _ConfigName(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(min_length=1)]


class _BackedUpState(StreamState, kw_only=True):
    messages: int
    bytes: int
    first_seq: int
    last_seq: int


class _BackupDescription(msgspec.Struct):
    """The fields of `backup.json` that natstui reads; the server reads all fields."""

    config: _ConfigName
    state: _BackedUpState


def check_description(description: object, name: str) -> None:
    """Raise BackupError if the content of `backup.json` is invalid; the error names it `name`."""
    try:
        state = msgspec.convert(description, _BackupDescription).state
    except msgspec.ValidationError as error:
        raise BackupError(f"{name} is damaged: {error}") from error
    if state.messages > max(0, state.last_seq - state.first_seq + 1):
        raise BackupError(
            f"{name} is damaged: it has {state.messages:,} messages from sequence "
            f"{state.first_seq} to {state.last_seq}"
        )


class _FileChecksum(msgspec.Struct):
    sha256: str
    bytes: int | None = None


class _ConsumerConfig(msgspec.Struct):
    deliver_subject: str | None = None


class _StreamPosition(msgspec.Struct):
    stream_seq: int = 0


class _BackupConsumer(msgspec.Struct):
    name: str
    config: _ConsumerConfig | None = None
    num_pending: int | None = None
    delivered: _StreamPosition | None = None
    ack_floor: _StreamPosition | None = None

    @property
    def waiting_msgs(self) -> int:
        """Return the maximum number of messages that the consumer delivers after a restore."""
        delivered, ack_floor = (
            self.delivered or _StreamPosition(),
            self.ack_floor or _StreamPosition(),
        )
        return (self.num_pending or 0) + max(0, delivered.stream_seq - ack_floor.stream_seq)


class _AboutFile(msgspec.Struct):
    """The content of `natstui.json`, in the backup of a stream or of an account."""

    streams: list[str] = []
    left_out: list[str] = []
    files: dict[str, _FileChecksum] = {}
    consumers: list[_BackupConsumer] | None = None
    removed_msgs: int = 0
    is_whole: bool = True
    left_out_consumers: list[str] = []


def _read_about_file(folder: Path) -> _AboutFile:
    content = read_json(folder / ABOUT_FILE)
    if content.get("format") != ABOUT_FILE_FORMAT:
        raise BackupError(f"{folder} was written by a newer natstui: this one cannot read it")
    try:
        return msgspec.convert(content, _AboutFile)
    except msgspec.ValidationError as error:
        raise BackupError(f"{folder / ABOUT_FILE} is damaged: {error}") from error


def _check_checksums(folder: Path, about_file: _AboutFile, size_bytes: int) -> None:
    expected_data_file = about_file.files.get(DATA_FILE)
    if expected_data_file is None or expected_data_file.bytes is None:
        raise BackupError(f"{folder / ABOUT_FILE} is damaged: it has no size of the data")
    if expected_data_file.bytes != size_bytes:
        raise BackupError(
            f"{folder / DATA_FILE} is not complete: "
            f"{size_bytes:,} of {expected_data_file.bytes:,} bytes are there"
        )
    if unexpected_names := sorted(about_file.files.keys() - {CONFIG_FILE, DATA_FILE}):
        raise BackupError(
            f"{folder / ABOUT_FILE} is damaged: no backup of a stream has {unexpected_names}"
        )
    for name in (CONFIG_FILE, DATA_FILE):
        expected_checksum = about_file.files.get(name)
        with _raise_backup_error(folder / name, "read"):
            if (
                expected_checksum is None
                or compute_checksum(folder / name) != expected_checksum.sha256
            ):
                raise BackupError(f"{folder / name} is damaged: its checksum is another one")


def compute_checksum(path: Path) -> str:
    """Return the SHA-256 checksum of a file; raises OSError."""
    digest = hashlib.sha256()
    with open_regular_file(path) as file:
        while block := file.read(_READ_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def check_data(path: Path, name: str) -> None:
    """Raise BackupError if a stream's data has no block, or ends within a block.

    `name` is used in the error. The content of blocks is only checked by the server.
    """
    with _raise_backup_error(path, "read"), open_regular_file(path) as file:
        _check_blocks(file, os.fstat(file.fileno()).st_size, name)


def _check_blocks(file: BinaryIO, size_bytes: int, name: str) -> None:
    if not size_bytes:
        raise BackupError(f"{name} is not complete: it is empty")
    if file.read(10) not in _S2_STREAM_IDENTIFIERS:
        raise BackupError(f"{name} is damaged: it does not begin as S2 data")
    offset, blocks_count = 10, 0
    while offset < size_bytes:
        file.seek(offset)
        block_header = file.read(4)
        block_length = int.from_bytes(block_header[1:4], "little")
        offset += 4 + block_length
        if len(block_header) < 4 or offset > size_bytes:
            raise BackupError(f"{name} is not complete: it ends within a block")
        if not block_length and block_header[:1] in _DATA_BLOCK_TYPES:
            raise BackupError(f"{name} is damaged: it has a block without data")
        blocks_count += block_header[:1] in _DATA_BLOCK_TYPES
    if not blocks_count:
        raise BackupError(f"{name} is not complete: it has no data")
