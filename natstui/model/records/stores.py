"""Buckets and object stores: commands and replies for keys, revisions, objects and changes."""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from natstui.model.records.confirmation import Confirmation

KeyAction = Literal["put_key", "delete_key", "purge_key"]
"""Changes of a key in a bucket."""
ObjectAction = Literal["put_object", "link_object", "delete_object"]


class ReadKeys(Struct, frozen=True):
    """Reply with the newest revision of each key, as `KeysPage`."""

    command_id: int
    bucket: str
    wanted: str = ">"
    """A key, or one with wildcards."""
    after_revision_seq: int = 0
    """Only later changes; 0: every key, including deleted ones."""
    most_keys_count: int = 5_000
    """Limit of keys."""
    preview_bytes: int = 256
    """Size of each value's preview."""


class ReadKeyNames(Struct, frozen=True):
    """Reply with the names of the matching keys, including deleted ones, as `KeyNames`."""

    command_id: int
    bucket: str
    wanted: str
    most_keys_count: int


class ReadTheseKeys(Struct, frozen=True):
    """Reply with the newest revision of each of these keys, as `KeysPage`."""

    command_id: int
    bucket: str
    keys: tuple[str, ...]
    preview_bytes: int = 256
    """Size of each value's preview."""


class ReadRevisions(Struct, frozen=True):
    """Reply with the stored revisions of a key, the oldest first, as `KeysPage`."""

    command_id: int
    bucket: str
    key: str
    preview_bytes: int = 64 * 1024


class ReadObjects(Struct, frozen=True):
    """Reply with the objects of an object store, as `ObjectsPage`."""

    command_id: int
    bucket: str
    with_unfinished: bool = False
    """Whether to search unfinished uploads, which takes many requests."""


class ChangeKey(Struct, frozen=True):
    """Put, delete or purge a key of a bucket, or delete an object."""

    command_id: int
    action: KeyAction | Literal["delete_object"]
    bucket: str
    key: str
    """The key, or the name of an object."""
    value_base64: str = ""
    of_revision_seq: int | None = None
    """Put the value of this revision again; if it was a deletion, delete the key."""
    if_revision_seq: int | None = None
    """Required newest revision; 0: the key must have no value."""
    if_stored_at_us: int | None = None
    """When that revision was stored."""
    created_at_us: int | None = None
    """Creation time of the bucket that was shown: no other bucket is changed."""
    confirmed: str | None = None
    """The key as typed by the user, if required."""
    decided_on: Confirmation | None = None
    """The confirmation that was shown: another asset than this is not changed."""


class KeyRow(Struct, frozen=True):
    """One revision of a key."""

    key: str
    revision_seq: int
    created_at_us: int
    operation: str
    """PUT, DEL or PURGE."""
    value_base64: str
    """The value, or its beginning when `value_bytes` is more."""
    value_bytes: int


class KeysPage(Struct, frozen=True):
    """Revisions in a bucket at one time."""

    rows: tuple[KeyRow, ...]
    keys_count: int | None
    """Number of matching keys, including deleted ones; None if only changes were requested."""
    last_revision_seq: int
    """Last revision of the bucket."""
    stored_keys_count: int
    """In the entire bucket, including deleted ones."""
    created_at_us: int
    """Creation time of the bucket."""


class KeyNames(Struct, frozen=True):
    """The names of the keys of a bucket at one time, unordered."""

    names: tuple[str, ...]
    created_at_us: int
    """Creation time of the bucket."""


class ObjectRow(Struct, frozen=True):
    """The info of an object in a store."""

    name: str
    size_bytes: int
    chunks_count: int
    digest: str
    stored_at_us: int
    description: str
    link: str
    """The target of a link, as `store/name`; empty for other objects."""


class ObjectsPage(Struct, frozen=True):
    """The objects of an object store at one time."""

    rows: tuple[ObjectRow, ...]
    unfinished_text: str | None = None
    """Remains of unfinished uploads, empty without any; None: not searched."""
    damaged_names: tuple[str, ...] = ()
    """Objects whose info cannot be read."""


class InspectFile(Struct, frozen=True):
    """Reply with the file at a path on the engine's machine, as `LocalFile`."""

    command_id: int
    file: str
    name: str = ""
    """Of a file for the folder, where `file` is one."""


class LocalFile(Struct, frozen=True):
    """A path on the engine's machine, with or without a file."""

    path: str
    """The absolute path."""
    is_there: bool
    size_bytes: int
    changed_at_us: int


class PutFile(Struct, frozen=True):
    """Store a file of the engine's machine in an object store."""

    command_id: int
    bucket: str
    name: str
    file: str
    confirmed: str | None = None
    """The typed name, if an object is overwritten by it, or in production."""
    decided_on: Confirmation | None = None
    """The confirmation that was shown: another asset than this is not changed."""


class GetFile(Struct, frozen=True):
    """Write an object to a file on the engine's machine, with its digest checked."""

    command_id: int
    bucket: str
    name: str
    file: str
    overwrites: bool = False
    """Whether an existing file may be replaced."""


class LinkObject(Struct, frozen=True):
    """Create a link to an object of this or another store."""

    command_id: int
    bucket: str
    name: str
    to_bucket: str
    to_name: str
    confirmed: str | None = None
    decided_on: Confirmation | None = None
    """The confirmation that was shown: another asset than this is not changed."""


class BackUp(Struct, frozen=True):
    """Write a stream into a new folder on the engine's machine."""

    command_id: int
    stream: str
    """Empty: every stream of the account."""
    folder: str


class InspectBackup(Struct, frozen=True):
    """Reply with the content of a backup folder on the engine's machine, as `BackupContent`."""

    command_id: int
    folder: str


class BackupRow(Struct, frozen=True):
    """The backup of one stream."""

    stream: str
    text: str
    """Its messages, size, sequences, consumers and checksum."""


class BackupContent(Struct, frozen=True):
    """A folder with complete backups."""

    path: str
    """The absolute path."""
    confirmation: Confirmation
    """The confirmation of a restore: its name, and data that the server removes after it."""
    rows: tuple[BackupRow, ...]
    present: tuple[str, ...]
    """Names of these streams that exist on the server already."""
    left_out: tuple[str, ...] = ()
    """Streams of the account that are not in it, with the reason, a clause each."""


class RestoreBackup(Struct, frozen=True):
    """Restore the streams of a backup folder; never over an existing one."""

    command_id: int
    folder: str
    to_stream: str = ""
    """Another name, for the backup of one stream."""
    confirmed: str | None = None
    """The name as typed, in production."""


class StopTransfer(Struct, frozen=True):
    """Stop a put, get, backup or restore; incomplete data are removed."""

    command_id: int
    moving_id: int


class FileMoved(Struct, frozen=True):
    """The progress of a put, get, backup or restore; never recorded."""

    at_us: int
    command_id: int
    """The command of the transfer."""
    moved_bytes: int
    whole_bytes: int
    what: str = ""
    """The stream, where there are several."""


BackupCommand = BackUp | InspectBackup | RestoreBackup
FileCommand = InspectFile | PutFile | GetFile | LinkObject | StopTransfer | BackupCommand
StoreReading = ReadKeys | ReadKeyNames | ReadTheseKeys | ReadRevisions | ReadObjects
StoreCommand = StoreReading | ChangeKey | FileCommand
