"""Buckets and object stores as a viewer asks for them: keys, revisions, files, and changes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

KeyAction = Literal["put_key", "delete_key", "purge_key"]
"""What is done to a key of a bucket."""
ObjectAction = Literal["put_object", "link_object", "delete_object"]


@dataclass(frozen=True, slots=True)
class ReadKeys:
    """Answer with the newest revision of each key, as `KeysPage`."""

    command_id: int
    bucket: str
    wanted: str = ">"
    """A key, or one with wildcards."""
    after_revision_seq: int = 0
    """Only what was changed after it; 0: every key, deleted ones too."""
    most_keys_count: int = 5_000
    """At most so many."""
    preview_bytes: int = 256
    """Of each value."""


@dataclass(frozen=True, slots=True)
class ReadKeyNames:
    """Answer with the names of the keys that match, deleted ones too, as `KeyNames`."""

    command_id: int
    bucket: str
    wanted: str
    most_keys_count: int


@dataclass(frozen=True, slots=True)
class ReadTheseKeys:
    """Answer with the newest revision of each of these keys, as `KeysPage`."""

    command_id: int
    bucket: str
    keys: tuple[str, ...]
    preview_bytes: int = 256
    """Of each value."""


@dataclass(frozen=True, slots=True)
class ReadRevisions:
    """Answer with the revisions of a key that are kept, the oldest first, as `KeysPage`."""

    command_id: int
    bucket: str
    key: str
    preview_bytes: int = 64 * 1024


@dataclass(frozen=True, slots=True)
class ReadObjects:
    """Answer with the files of an object store, as `ObjectsPage`."""

    command_id: int
    bucket: str
    with_unfinished: bool = False
    """Whether uploads that were left unfinished are looked for: many requests."""


@dataclass(frozen=True, slots=True)
class ChangeKey:
    """Put, delete or purge a key of a bucket, or delete a file of an object store."""

    command_id: int
    action: KeyAction | Literal["delete_object"]
    bucket: str
    key: str
    """Of a file, its name."""
    value_base64: str = ""
    of_revision_seq: int | None = None
    """Put the value of this revision again; where it was deleted then, delete it."""
    if_revision_seq: int | None = None
    """Only while this is the newest one; 0: only while there is no value."""
    confirmed: str | None = None
    """The key as the user typed it, where that is asked for."""


@dataclass(frozen=True, slots=True)
class KeyRow:
    """One revision of a key."""

    key: str
    revision_seq: int
    created_at_us: int
    operation: str
    """PUT, DEL or PURGE."""
    value_base64: str
    """The value, or its beginning when `value_bytes` is more."""
    value_bytes: int


@dataclass(frozen=True, slots=True)
class KeysPage:
    """Revisions as they are in a bucket at one moment."""

    rows: tuple[KeyRow, ...]
    keys_count: int | None
    """How many keys match, deleted ones too; None where only changes were asked for."""
    last_revision_seq: int
    """Of the bucket."""
    stored_keys_count: int
    """In the whole bucket, deleted ones too."""
    created_at_us: int
    """When the bucket was made."""


@dataclass(frozen=True, slots=True)
class KeyNames:
    """The names of the keys of a bucket at one moment, in no order."""

    names: tuple[str, ...]
    created_at_us: int
    """When the bucket was made."""


@dataclass(frozen=True, slots=True)
class ObjectRow:
    """What a store knows of a file."""

    name: str
    size_bytes: int
    chunks_count: int
    digest: str
    stored_at_us: int
    description: str
    link: str
    """What it points to, as `store/name`; empty for what is no link."""


@dataclass(frozen=True, slots=True)
class ObjectsPage:
    """The files of an object store at one moment."""

    rows: tuple[ObjectRow, ...]
    unfinished_text: str | None = None
    """What uploads left that were never finished, empty when nothing; None: not looked for."""
    damaged_names: tuple[str, ...] = ()
    """Files whose info cannot be read."""


@dataclass(frozen=True, slots=True)
class LookAtFile:
    """Answer with what there is under a name where the engine runs, as `LocalFile`."""

    command_id: int
    file: str
    name: str = ""
    """Of a file for the folder, where `file` is one."""


@dataclass(frozen=True, slots=True)
class LocalFile:
    """A file where the engine runs, or that there is none."""

    path: str
    """The whole path."""
    is_there: bool
    size_bytes: int
    changed_at_us: int


@dataclass(frozen=True, slots=True)
class PutFile:
    """Store a file, which lies where the engine runs, in an object store."""

    command_id: int
    bucket: str
    name: str
    file: str
    confirmed: str | None = None
    """The name as typed, where a file is overwritten by it, or in production."""


@dataclass(frozen=True, slots=True)
class GetFile:
    """Write a file of an object store to where the engine runs, its digest checked."""

    command_id: int
    bucket: str
    name: str
    file: str
    overwrites: bool = False
    """Whether a file that is there may be replaced."""


@dataclass(frozen=True, slots=True)
class LinkObject:
    """Let a name of an object store stand for a file of this or another store."""

    command_id: int
    bucket: str
    name: str
    to_bucket: str
    to_name: str
    confirmed: str | None = None


@dataclass(frozen=True, slots=True)
class BackUp:
    """Write a stream into a folder where the engine runs, which must not exist."""

    command_id: int
    stream: str
    """Empty: every stream of the account."""
    folder: str


@dataclass(frozen=True, slots=True)
class LookAtBackup:
    """Answer with what a folder where the engine runs would restore, as `BackupSeen`."""

    command_id: int
    folder: str


@dataclass(frozen=True, slots=True)
class BackupRow:
    """The backup of one stream."""

    stream: str
    text: str
    """Its messages, size, sequences, consumers and checksum."""


@dataclass(frozen=True, slots=True)
class BackupSeen:
    """A folder with backups, found to be whole."""

    path: str
    """The whole path."""
    name: str
    """The word that confirms a restore."""
    rows: tuple[BackupRow, ...]
    present: tuple[str, ...]
    """Streams of these names are on the server already."""
    left_out: tuple[str, ...] = ()
    """Why which streams of the account are not in it, a clause each."""


@dataclass(frozen=True, slots=True)
class RestoreBackup:
    """Make streams of the backups in a folder; never over one that exists."""

    command_id: int
    folder: str
    to_stream: str = ""
    """Another name, for the backup of one stream."""
    confirmed: str | None = None
    """The name as typed, in production."""


@dataclass(frozen=True, slots=True)
class StopMoving:
    """Stop what is put, got, backed up or restored; nothing of it stays."""

    command_id: int
    moving_id: int


@dataclass(frozen=True, slots=True)
class FileMoved:
    """How far a file or a stream is; never recorded."""

    at_us: int
    command_id: int
    """Of what puts or gets it."""
    moved_bytes: int
    whole_bytes: int
    what: str = ""
    """The stream, where there are several."""


BackupCommand = BackUp | LookAtBackup | RestoreBackup
FileCommand = LookAtFile | PutFile | GetFile | LinkObject | StopMoving | BackupCommand
StoreReading = ReadKeys | ReadKeyNames | ReadTheseKeys | ReadRevisions | ReadObjects
StoreCommand = StoreReading | ChangeKey | FileCommand
