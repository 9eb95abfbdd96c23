"""The folder of a backup: its files, how it is written completely or not at all, and its check.

`backup.json` and `stream.tar.s2` are those of the NATS CLI; `natstui.json` beside them has the
checksums of both. A backup of an account has one such folder for each stream.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import msgspec

from natstui.clean import clean_line
from natstui.errors import BackupError
from natstui.files import complete_folder, file_name, open_plain, read_plain
from natstui.jetstream.connection.writer import Config
from natstui.model.assets.subjects import is_stream_name
from natstui.parsing import parse_json
from natstui.units import counted

CONFIG_FILE, DATA_FILE, ABOUT_FILE = "backup.json", "stream.tar.s2", "natstui.json"
FORMAT = 1
_MOST_JSON_BYTES = 256 * 1024 * 1024
"""Limit of a description, which lists every consumer of a stream."""
_BLOCK_BYTES = 1024 * 1024
_DATA_BLOCKS = (b"\x00", b"\x01")
"""Compressed and uncompressed data of the S2 format: each has at least a checksum."""
_S2_BEGINS = (b"\xff\x06\x00\x00S2sTwO", b"\xff\x06\x00\x00sNaPpY")


@dataclass(frozen=True, slots=True)
class Backup:
    """A complete backup of one stream."""

    folder: Path
    config: Config
    state: Config
    consumers: tuple[str, ...] | None
    """The names of its consumers; None if unknown."""
    data_bytes: int
    has_checksum: bool
    """Without one it was made by the NATS CLI, and only its shape was checked."""
    removed_msgs: int = 0
    """At most as many messages of `state` are missing: they were removed during the backup."""
    is_whole: bool = True
    """Whether nothing is missing that the stream still had to keep at the end of the backup."""
    left_out_consumers: tuple[str, ...] = ()
    """The names of consumers that are not in the data."""
    push_consumers: tuple[tuple[str, str, int], ...] = ()
    """Push consumers with messages to deliver: name, deliver subject, and how many at most."""

    @property
    def stream(self) -> str:
        """Return the name of its stream."""
        return str(self.config["name"])


def removed_text(removed_msgs: int) -> str:
    """Return that messages were removed during a backup, as a clause."""
    return (
        f"up to {counted(f'{removed_msgs:,}', 'message')} of it may be missing: removed from the "
        "stream during the backup"
    )


def left_out_text(names: Sequence[str]) -> str:
    """Return that consumers are not in the data of a backup, as a clause."""
    return f"without {counted(len(names), 'consumer')}, which the server left out: " + ", ".join(
        names
    )


MARK = "io.natstui.restoring"
"""Metadata of a stream whose restore has not ended: when it began."""


def unfinished_restore(config: Config) -> str:
    """Return that a stream was left by a restore that did not end, as a clause; empty if not."""
    since = (config.get("metadata") or {}).get(MARK)
    if since is None:
        return ""
    return f"left by a restore that began at {since} and did not end: it may be incomplete"


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Yield a folder to write into, which is renamed to `target` when all of it is on the disk.

    Remains of a killed backup are removed first. Raises BackupError.
    """
    with _failing(target, "written"), complete_folder(target) as folder:
        yield folder


@contextmanager
def _failing(path: Path, action: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BackupError(f"{path} cannot be {action}: {error.strerror or error}") from error


def write_json(file: Path, content: object) -> str:
    """Write readable JSON and return its checksum."""
    text = json.dumps(content, indent=2).encode() + b"\n"
    file.write_bytes(text)
    return hashlib.sha256(text).hexdigest()


def read_json(file: Path) -> dict[str, Any]:
    """Return the object in a file; raises BackupError."""
    try:
        content = parse_json(read_plain(file, _MOST_JSON_BYTES))
    except OSError as error:
        raise BackupError(f"{file} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise BackupError(f"{file} is damaged: it is not JSON ({error})") from error
    if not isinstance(content, dict):
        raise BackupError(f"{file} is damaged: it is not the description of a backup")
    return content


def is_account(folder: Path) -> bool:
    """Return whether a folder contains backups of streams, and is none itself."""
    return not (folder / CONFIG_FILE).exists() and (
        (folder / ABOUT_FILE).exists() or any(folder.glob(f"*/{CONFIG_FILE}"))
    )


def streams_of(folder: Path) -> list[Path]:
    """Return the folders of the streams in a backup of an account.

    Raises BackupError, also for two of the same stream.
    """
    stream_folders = sorted(file.parent for file in folder.glob(f"*/{CONFIG_FILE}"))
    if (folder / ABOUT_FILE).exists():
        about_file = _read_about(folder)
        if about_file.files:
            # Only the backup of a stream lists its files.
            raise BackupError(f"{folder} is not complete: {CONFIG_FILE} is missing")
        expected_names = sorted(set(map(file_name, about_file.streams)))
        missing = sorted(set(expected_names) - {path.name for path in stream_folders})
        if missing:
            raise BackupError(f"{folder} is not complete: {', '.join(missing)} is missing")
        for name in about_file.streams:
            _check_stream(folder / file_name(name), name)
        stream_folders = [folder / name for name in expected_names]
    folder_of = dict[str, Path]()
    for stream_folder in stream_folders:
        name = str(_name_in(stream_folder))
        other_folder = folder_of.setdefault(name, stream_folder)
        if other_folder is not stream_folder:
            raise BackupError(
                f"{folder} has two backups of {clean_line(name)}: {other_folder.name} and "
                f"{stream_folder.name}; move one of them away"
            )
    return stream_folders


def _name_in(folder: Path) -> object:
    """Return the name of the stream in a folder; raises BackupError."""
    config = read_json(folder / CONFIG_FILE).get("config")
    return config.get("name") if isinstance(config, dict) else None


def _check_stream(folder: Path, name: str) -> None:
    """Raise BackupError when a folder contains another stream than the backup of the account
    says.
    """
    other_name = _name_in(folder)
    if other_name != name:
        raise BackupError(
            f"{folder} is damaged: it contains {clean_line(str(other_name))!r}, not {name!r}"
        )


def left_out_of(folder: Path) -> tuple[str, ...]:
    """Return which streams are not in the backup of an account, and why, a clause each.

    Raises BackupError.
    """
    is_described = is_account(folder) and (folder / ABOUT_FILE).exists()
    return tuple(_read_about(folder).left_out) if is_described else ()


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
    about_file = _read_about(folder) if (folder / ABOUT_FILE).exists() else None
    with _failing(data, "read"), open_plain(data) as file:
        size_bytes = os.fstat(file.fileno()).st_size
    if about_file is not None:
        _check_sums(folder, about_file, size_bytes)
    # A checksum only proves that the data are those that a server sent, complete or not.
    check_data(data, str(data))
    consumers, removed_msgs, is_whole = None, 0, True
    left_out: tuple[str, ...] = ()
    push_consumers: tuple[tuple[str, str, int], ...] = ()
    if about_file is not None:
        removed_msgs, is_whole = about_file.removed_msgs, about_file.is_whole
        left_out = tuple(about_file.left_out_consumers)
    if about_file is not None and about_file.consumers is not None:
        consumers = tuple(consumer.name for consumer in about_file.consumers)
        push_consumers = tuple(
            (consumer.name, consumer.config.deliver_subject, consumer.waiting_msgs)
            for consumer in about_file.consumers
            if consumer.config is not None
            and consumer.config.deliver_subject
            and consumer.waiting_msgs
        )
    return Backup(
        folder, description["config"], description["state"], consumers, size_bytes,
        about_file is not None, removed_msgs, is_whole, left_out, push_consumers,
    )  # fmt: skip


class _ConfigName(msgspec.Struct):
    name: Annotated[str, msgspec.Meta(min_length=1)]


class _Counts(msgspec.Struct):
    messages: int
    bytes: int
    first_seq: int
    last_seq: int


class _Description(msgspec.Struct):
    """The fields of `backup.json` that natstui reads; the server reads all of it."""

    config: _ConfigName
    state: _Counts


def check_description(description: object, name: str) -> None:
    """Raise BackupError for a description that no server writes; sentences use `name`."""
    try:
        state = msgspec.convert(description, _Description).state
    except msgspec.ValidationError as error:
        raise BackupError(f"{name} is damaged: {error}") from error
    if state.messages > max(0, state.last_seq - state.first_seq + 1):
        raise BackupError(
            f"{name} is damaged: it speaks of {state.messages:,} messages from sequence "
            f"{state.first_seq} to {state.last_seq}"
        )


class _FileSum(msgspec.Struct):
    sha256: str
    bytes: int | None = None


class _ConsumerConfig(msgspec.Struct):
    deliver_subject: str | None = None


class _Position(msgspec.Struct):
    stream_seq: int = 0


class _Consumer(msgspec.Struct):
    name: str
    config: _ConsumerConfig | None = None
    num_pending: int | None = None
    delivered: _Position | None = None
    ack_floor: _Position | None = None

    @property
    def waiting_msgs(self) -> int:
        """Return how many messages it delivers when it is restored."""
        delivered, acked = self.delivered or _Position(), self.ack_floor or _Position()
        return (self.num_pending or 0) + max(0, delivered.stream_seq - acked.stream_seq)


class _About(msgspec.Struct):
    """The content of `natstui.json`, of a stream or of an account."""

    streams: list[str] = []
    left_out: list[str] = []
    files: dict[str, _FileSum] = {}
    consumers: list[_Consumer] | None = None
    removed_msgs: int = 0
    is_whole: bool = True
    left_out_consumers: list[str] = []


def _read_about(folder: Path) -> _About:
    content = read_json(folder / ABOUT_FILE)
    if content.get("format") != FORMAT:
        raise BackupError(f"{folder} was written by a newer natstui: this one cannot read it")
    try:
        return msgspec.convert(content, _About)
    except msgspec.ValidationError as error:
        raise BackupError(f"{folder / ABOUT_FILE} is damaged: {error}") from error


def _check_sums(folder: Path, about_file: _About, size_bytes: int) -> None:
    expected_sum = about_file.files.get(DATA_FILE)
    if expected_sum is None or expected_sum.bytes is None:
        raise BackupError(f"{folder / ABOUT_FILE} is damaged: it has no size of the data")
    if expected_sum.bytes != size_bytes:
        raise BackupError(
            f"{folder / DATA_FILE} is not complete: "
            f"{size_bytes:,} of {expected_sum.bytes:,} bytes are there"
        )
    if other_names := sorted(about_file.files.keys() - {CONFIG_FILE, DATA_FILE}):
        raise BackupError(
            f"{folder / ABOUT_FILE} is damaged: no backup of a stream has {other_names}"
        )
    for name in (CONFIG_FILE, DATA_FILE):
        known_sum = about_file.files.get(name)
        with _failing(folder / name, "read"):
            if known_sum is None or sum_of(folder / name) != known_sum.sha256:
                raise BackupError(f"{folder / name} is damaged: its checksum is another one")


def sum_of(path: Path) -> str:
    """Return the checksum of a file; raises OSError."""
    digest = hashlib.sha256()
    with open_plain(path) as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def check_data(path: Path, name: str) -> None:
    """Check the blocks of a stream's data to their end; sentences use `name`.

    Raises BackupError when one is cut off or none is there. Their content is left to the server.
    """
    with _failing(path, "read"), open_plain(path) as file:
        _check_shape(file, os.fstat(file.fileno()).st_size, name)


def _check_shape(file: BinaryIO, size_bytes: int, name: str) -> None:
    if not size_bytes:
        raise BackupError(f"{name} is not complete: it is empty")
    if file.read(10) not in _S2_BEGINS:
        raise BackupError(f"{name} is damaged: it does not begin as S2 data")
    offset, blocks_count = 10, 0
    while offset < size_bytes:
        file.seek(offset)
        head = file.read(4)
        length = int.from_bytes(head[1:4], "little")
        offset += 4 + length
        if len(head) < 4 or offset > size_bytes:
            raise BackupError(f"{name} is not complete: it ends within a block")
        if not length and head[:1] in _DATA_BLOCKS:
            raise BackupError(f"{name} is damaged: it has a block without data")
        blocks_count += head[:1] in _DATA_BLOCKS
    if not blocks_count:
        raise BackupError(f"{name} is not complete: it has no data")
