"""The folder of a backup: what is in it, how it is written whole or not at all, and checked.

`backup.json` and `stream.tar.s2` are those of the NATS CLI; `natstui.json` beside them says what
both have to be. A backup of an account has one such folder for each stream.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from natstui.errors import BackupError
from natstui.jetstream.connection.writer import Config
from natstui.paths import private_folder

CONFIG_FILE, DATA_FILE, ABOUT_FILE = "backup.json", "stream.tar.s2", "natstui.json"
FORMAT = 1
_LOCK_FILE = "lock"
_BLOCK_BYTES = 1024 * 1024
_S2_BEGINS = (b"\xff\x06\x00\x00S2sTwO", b"\xff\x06\x00\x00sNaPpY")


@dataclass(frozen=True, slots=True)
class Backup:
    """The backup of one stream, found to be whole."""

    folder: Path
    config: Config
    state: Config
    consumers: tuple[str, ...] | None
    """The names of its consumers; None when it is not known which are in it."""
    data_bytes: int
    has_checksum: bool
    """Without one it was made by the NATS CLI, and only its shape was checked."""

    @property
    def stream(self) -> str:
        """Return the name of the stream it was made of."""
        return str(self.config["name"])


@contextmanager
def new_folder(target: Path) -> Iterator[Path]:
    """Give a folder to write into, which gets its name `target` when all of it is on the disk.

    What was left by one that was killed is begun anew. Raises BackupError.
    """
    if target.exists() and not (target.is_dir() and not any(target.iterdir())):
        raise BackupError(f"{target} exists already: a backup is never written over anything")
    part = target.absolute().parent / f".{target.name}.part"
    with _failing(target, "written"):
        private_folder(part)
    with _locked(part, target):
        try:
            with _failing(target, "written"):
                _emptied(part)
                yield part
                for file in (*part.rglob("*"), part):
                    _synced(file)
                (part / _LOCK_FILE).unlink()
                os.rename(part, target)
                _synced(target.absolute().parent)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise


@contextmanager
def _locked(part: Path, target: Path) -> Iterator[None]:
    with open(part / _LOCK_FILE, "wb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise BackupError(f"another backup is being written to {target}") from error
        yield


@contextmanager
def _failing(path: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise BackupError(f"{path} cannot be {what}: {error.strerror or error}") from error


def _emptied(part: Path) -> None:
    for one in part.iterdir():
        if one.is_dir():
            shutil.rmtree(one)
        elif one.name != _LOCK_FILE:
            one.unlink()


def _synced(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_json(file: Path, content: object) -> str:
    """Write readable JSON and return its checksum."""
    text = json.dumps(content, indent=2).encode() + b"\n"
    file.write_bytes(text)
    return hashlib.sha256(text).hexdigest()


def read_json(file: Path) -> dict[str, Any]:
    """Return the object in a file; raises BackupError."""
    try:
        found = json.loads(file.read_bytes())
    except OSError as error:
        raise BackupError(f"{file} cannot be read: {error.strerror}") from error
    except (ValueError, RecursionError) as error:
        raise BackupError(f"{file} is damaged: it is not JSON ({error})") from error
    if not isinstance(found, dict):
        raise BackupError(f"{file} is damaged: it is not the description of a backup")
    return found


def is_account(folder: Path) -> bool:
    """Tell whether a folder has backups of streams in it, and is none itself."""
    return not (folder / CONFIG_FILE).exists() and (
        (folder / ABOUT_FILE).exists() or any(folder.glob(f"*/{CONFIG_FILE}"))
    )


def streams_of(folder: Path) -> list[Path]:
    """Return the folders of the streams in a backup of an account; raises BackupError."""
    found = sorted(file.parent for file in folder.glob(f"*/{CONFIG_FILE}"))
    if (folder / ABOUT_FILE).exists():
        about = _about(folder)
        wanted = sorted(str(name) for name in about.get("streams") or ())
        missing = set(wanted) - {one.name for one in found}
        if missing:
            raise BackupError(f"{folder} is not whole: {', '.join(sorted(missing))} is missing")
        return [folder / name for name in wanted]
    return found


def read_backup(folder: Path) -> Backup:
    """Read the backup of one stream and check that it is whole; raises BackupError."""
    if not (folder / CONFIG_FILE).exists():
        raise BackupError(f"{folder} is no backup of a stream: it has no {CONFIG_FILE}")
    whole = read_json(folder / CONFIG_FILE)
    config, state = whole.get("config"), whole.get("state")
    if not isinstance(config, dict) or not config.get("name") or not isinstance(state, dict):
        raise BackupError(f"{folder / CONFIG_FILE} is damaged: no configuration and state in it")
    data = folder / DATA_FILE
    with _failing(data, "read"):
        size_bytes = data.stat().st_size
        about = _about(folder) if (folder / ABOUT_FILE).exists() else None
        if about is None:
            with open(data, "rb") as file:
                _check_shape(file, size_bytes, data)
        else:
            _check_sums(folder, about, size_bytes)
    names = about.get("consumers") if about is not None else None
    consumers = None if names is None else tuple(str(one["name"]) for one in names)
    return Backup(folder, config, state, consumers, size_bytes, about is not None)


def _about(folder: Path) -> dict[str, Any]:
    about = read_json(folder / ABOUT_FILE)
    if about.get("format") != FORMAT:
        raise BackupError(f"{folder} was made by a newer natstui: this one cannot read it")
    return about


def _check_sums(folder: Path, about: dict[str, Any], size_bytes: int) -> None:
    wanted = about.get("files") or {}
    said = (wanted.get(DATA_FILE) or {}).get("bytes")
    if said != size_bytes:
        raise BackupError(
            f"{folder / DATA_FILE} is not whole: {size_bytes:,} bytes, and it has to be {said:,}"
            if isinstance(said, int)
            else f"{folder / ABOUT_FILE} is damaged: it does not say how long the data is"
        )
    for name in (CONFIG_FILE, DATA_FILE):
        if sum_of(folder / name) != (wanted.get(name) or {}).get("sha256"):
            raise BackupError(f"{folder / name} is damaged: its checksum is another one")


def sum_of(path: Path) -> str:
    """Return the checksum of a file; raises OSError."""
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(_BLOCK_BYTES):
            digest.update(block)
    return digest.hexdigest()


def _check_shape(file: BinaryIO, size_bytes: int, path: Path) -> None:
    """Walk over the compressed blocks to the end; raises BackupError when the last is cut off.

    Data that does not begin as known is left to the server.
    """
    if file.read(10) not in _S2_BEGINS:
        return
    at = 10
    while at < size_bytes:
        file.seek(at)
        head = file.read(4)
        at += 4 + int.from_bytes(head[1:4], "little")
        if len(head) < 4 or at > size_bytes:
            raise BackupError(f"{path} is not whole: it ends within a block")
