"""The tables of buckets, keys, revisions and files."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Collection, Sequence
from functools import partial
from operator import attrgetter

from natstui.clean import clean_line
from natstui.model.assets.buckets import KV, OBJECTS
from natstui.model.assets.fields import text_at
from natstui.model.columns.view import StreamView
from natstui.model.live.state import State
from natstui.model.records.stores import KeyRow, ObjectRow
from natstui.tui.frame.columns import ColumnSpec, Listed
from natstui.tui.kit.raw.payload import one_line
from natstui.tui.kit.table.rows import Cell
from natstui.units import UNKNOWN, bytes_text, count_text, duration_text, local_text

_KINDS = {"kv": "keys", "object": "files"}


class BucketView(StreamView):
    """The streams that are buckets or object stores."""

    def __init__(self, state: State, late_us: int = 0) -> None:
        super().__init__(state, late_us)
        self._rows = [row for row in range(len(self)) if self._is_bucket(row)]

    def _is_bucket(self, row: int) -> bool:
        config = self.config(row)
        return config is not None and config.kind != "stream"

    def rows(self) -> Sequence[int]:
        """Return the rows that are buckets."""
        return self._rows


def bucket_of(stream: str) -> str:
    """Return the name of the bucket or store that a stream is."""
    return stream.removeprefix(KV).removeprefix(OBJECTS)


def _bucket(view: BucketView, row: int) -> Cell:
    """Name of the bucket: that of its stream without KV_ or OBJ_."""
    return Cell(clean_line(bucket_of(view.columns.name[row])), "strong")


def _kind(view: BucketView, row: int) -> Cell:
    """Whether it holds keys or files."""
    config = view.config(row)
    return Cell(_KINDS.get(config.kind, "") if config else UNKNOWN, "accent")


def _subjects(view: BucketView, row: int) -> Cell:
    """Keys of a bucket, deleted ones too while their marker is kept (`state.num_subjects`)."""
    config = view.config(row)
    of_keys = config is not None and config.kind == "kv"
    return Cell(count_text(view.columns.subjects_count[row]) if of_keys else UNKNOWN)


def _values(view: BucketView, row: int) -> Cell:
    """Messages stored: every revision that is kept, or the parts of files (`state.messages`)."""
    return Cell(count_text(view.columns.stored_msgs[row]))


def _bytes(view: BucketView, row: int) -> Cell:
    """Bytes stored now (`state.bytes`)."""
    return Cell(bytes_text(view.columns.stored_bytes[row]))


def _history(view: BucketView, row: int) -> Cell:
    """How many revisions of a key are kept."""
    config = view.config(row)
    if config is None or config.kind != "kv":
        return Cell(UNKNOWN, "dim")
    return Cell(count_text(config.max_msgs_per_subject) if config.max_msgs_per_subject else "∞")


def _ttl(view: BucketView, row: int) -> Cell:
    """How long anything is kept; ∞ without a limit."""
    config = view.config(row)
    if config is None:
        return Cell(UNKNOWN, "dim")
    return Cell(duration_text(config.max_age_ns / 1e9) if config.max_age_ns else "∞", "dim")


def _most(view: BucketView, row: int) -> Cell:
    """The most it may hold; ∞ without a limit."""
    config = view.config(row)
    if config is None:
        return Cell(UNKNOWN, "dim")
    return Cell(bytes_text(config.max_bytes) if config.max_bytes else "∞", "dim")


def _replicas(view: BucketView, row: int) -> Cell:
    """On how many servers it is."""
    config = view.config(row)
    return Cell(str(config.replicas_count) if config else UNKNOWN)


def _storage(view: BucketView, row: int) -> Cell:
    """File or memory, and whether the server compresses it."""
    config = view.config(row)
    if config is None:
        return Cell(UNKNOWN, "dim")
    packed = text_at(_whole(config.config_json), "compression")
    text = f"{config.storage} {packed}" if packed not in ("", "none") else config.storage
    return Cell(clean_line(text), "dim")


def _whole(config_json: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(config_json)
    return found


def _changed(view: BucketView, row: int) -> Cell:
    """How long ago something was stored last (`state.last_ts`)."""
    return Cell(view.age_text(view.columns.last_at_us[row]), "dim")


def _description(view: BucketView, row: int) -> Cell:
    """What its description says; of a mirror, of what."""
    config = view.config(row)
    if config is None:
        return Cell(UNKNOWN, "dim")
    mirrored = f"mirror of {bucket_of(config.mirror)} " if config.mirror else ""
    sealed = "sealed " if config.sealed else ""
    return Cell(clean_line(f"{mirrored}{sealed}{config.description}".strip()), "dim")


_BucketSort = Callable[[BucketView], Sequence[object]]


def _column(name: str) -> _BucketSort:
    return attrgetter(f"columns.{name}")


def _setting(name: str) -> _BucketSort:
    return lambda view: view.configured(attrgetter(name))


_words: Callable[..., ColumnSpec[BucketView]] = partial(ColumnSpec, align="left", descends=False)

BUCKET_COLUMNS: tuple[ColumnSpec[BucketView], ...] = (
    _words("bucket", "BUCKET", 18, 0, _bucket, _column("name"), flex=2),
    _words("kind", "KIND", 5, 2, _kind, _setting("kind")),
    ColumnSpec("keys", "KEYS", 6, 1, _subjects, _column("subjects_count")),
    ColumnSpec("values", "VALUES", 6, 3, _values, _column("stored_msgs")),
    ColumnSpec("bytes", "BYTES", 8, 4, _bytes, _column("stored_bytes")),
    ColumnSpec("history", "HISTORY", 7, 5, _history, _setting("max_msgs_per_subject")),
    ColumnSpec("ttl", "TTL", 7, 6, _ttl, _setting("max_age_ns")),
    ColumnSpec("most", "MOST", 8, 9, _most, _setting("max_bytes")),
    ColumnSpec("replicas", "REPLICAS", 8, 8, _replicas, _setting("replicas_count")),
    _words("storage", "STORE", 8, 10, _storage, _setting("storage")),
    ColumnSpec("changed", "CHANGED", 7, 7, _changed, _column("last_at_us")),
    _words("description", "DESCRIPTION", 12, 11, _description, _setting("description"), flex=3),
)


class KeyView(Listed[KeyRow]):
    """Keys of a bucket, each with its newest revision; or the revisions of one key."""

    def __init__(
        self, rows: Sequence[KeyRow], now_us: int, fresh: Collection[str], *, by_revision: bool
    ) -> None:
        keys = [(row.revision_seq, row.key) if by_revision else (row.key,) for row in rows]
        super().__init__(rows, keys, [row.key for row in rows])
        self.now_us, self.fresh = now_us, fresh

    def search_text(self, row: int) -> str:
        """Return what a filter looks at: the key and the value."""
        return clean_line(f"{self.things[row].key} {_preview(self.things[row])}")


def value_of(row: KeyRow) -> bytes:
    """Return the value of a revision, or its beginning."""
    return base64.b64decode(row.value_base64)


def _preview(row: KeyRow) -> str:
    return one_line(value_of(row))


def _key(view: KeyView, row: int) -> Cell:
    """Name of the key; ● in front when it changed a moment ago."""
    one = view.things[row]
    mark = "● " if one.key in view.fresh else ""
    return Cell(clean_line(mark + one.key), "warn" if mark else "strong")


def _value(view: KeyView, row: int) -> Cell:
    """How the value begins; … where it is not read yet."""
    one = view.things[row]
    if not one.operation:
        return Cell("…", "dim")
    if one.operation != "PUT":
        return Cell("", "dim")
    return Cell(clean_line(_preview(one)))


def _operation(view: KeyView, row: int) -> Cell:
    """What the revision did: PUT, DEL (deleted), PURGE (deleted with its history)."""
    operation = view.things[row].operation
    return Cell(clean_line(operation), "dim" if operation == "PUT" else "bad")


def _revision(view: KeyView, row: int) -> Cell:
    """Number of the revision: the sequence in the bucket's stream."""
    return Cell(str(view.things[row].revision_seq or "…"), "accent")


def _size(view: KeyView, row: int) -> Cell:
    """Bytes of the value."""
    one = view.things[row]
    return Cell(bytes_text(one.value_bytes) if one.operation == "PUT" else UNKNOWN, "dim")


def _age(view: KeyView, row: int) -> Cell:
    """How long ago it was written."""
    if not view.things[row].operation:
        return Cell("…", "dim")
    return Cell(duration_text(max(0, view.now_us - view.things[row].created_at_us) / 1e6), "dim")


def _at(view: KeyView, row: int) -> Cell:
    """When it was written, in local time."""
    return Cell(local_text(view.things[row].created_at_us, "%Y-%m-%d %H:%M:%S"), "dim")


def _by(get: Callable[[KeyRow], object]) -> Callable[[KeyView], Sequence[object]]:
    """Sort by what was read; of a key whose name alone is known it is unknown."""
    return lambda view: [get(thing) if thing.operation else None for thing in view.things]


def _name_of(view: KeyView) -> Sequence[object]:
    return [thing.key for thing in view.things]


_key_words: Callable[..., ColumnSpec[KeyView]] = partial(ColumnSpec, align="left", descends=False)
_VALUE = _key_words("value", "VALUE", 20, 1, _value, _by(_preview), flex=3, max_width=400)
_OPERATION = _key_words("operation", "DID", 5, 4, _operation, _by(lambda one: one.operation))
_REVISION = ColumnSpec("revision", "REVISION", 9, 2, _revision, _by(lambda one: one.revision_seq))
_SIZE = ColumnSpec("size", "SIZE", 8, 5, _size, _by(lambda one: one.value_bytes))

KEY_COLUMNS: tuple[ColumnSpec[KeyView], ...] = (
    _key_words("key", "KEY", 20, 0, _key, _name_of, flex=2, max_width=100),
    _VALUE,
    _OPERATION,
    _REVISION,
    ColumnSpec("age", "AGE", 7, 3, _age, _by(lambda one: -one.created_at_us)),
    _SIZE,
)
REVISION_COLUMNS: tuple[ColumnSpec[KeyView], ...] = (
    _REVISION,
    _OPERATION,
    _key_words("at", "WRITTEN", 19, 3, _at, _by(lambda one: one.created_at_us)),
    _SIZE,
    _VALUE,
)


class ObjectView(Listed[ObjectRow]):
    """Files of an object store."""

    def __init__(self, rows: Sequence[ObjectRow]) -> None:
        texts = [f"{row.name} {row.description} {row.link}" for row in rows]
        super().__init__(rows, [(row.name,) for row in rows], texts)


def _name(view: ObjectView, row: int) -> Cell:
    """Name of the file."""
    return Cell(clean_line(view.things[row].name), "strong")


def _object_size(view: ObjectView, row: int) -> Cell:
    """Bytes of the file; a link has none of its own."""
    one = view.things[row]
    return Cell(UNKNOWN if one.link else bytes_text(one.size_bytes))


def _chunks(view: ObjectView, row: int) -> Cell:
    """In how many parts it is stored."""
    return Cell(count_text(view.things[row].chunks_count), "dim")


def _stored(view: ObjectView, row: int) -> Cell:
    """When it was stored, in local time."""
    return Cell(local_text(view.things[row].stored_at_us, "%Y-%m-%d %H:%M:%S"), "dim")


def _digest(view: ObjectView, row: int) -> Cell:
    """The checksum that was stored with it; `natstui object get` checks it."""
    return Cell(clean_line(view.things[row].digest or UNKNOWN), "dim")


def _about(view: ObjectView, row: int) -> Cell:
    """What it points to, when it is a link; its description."""
    one = view.things[row]
    link = f"→ {one.link}  " if one.link else ""
    return Cell(clean_line(f"{link}{one.description}".strip()), "dim")


def _of(get: Callable[[ObjectRow], object]) -> Callable[[ObjectView], Sequence[object]]:
    return lambda view: [get(thing) for thing in view.things]


_object_words: Callable[..., ColumnSpec[ObjectView]] = partial(
    ColumnSpec, align="left", descends=False
)

OBJECT_COLUMNS: tuple[ColumnSpec[ObjectView], ...] = (
    _object_words("name", "NAME", 20, 0, _name, _of(lambda one: one.name), flex=2, max_width=100),
    ColumnSpec("size", "SIZE", 9, 1, _object_size, _of(lambda one: one.size_bytes)),
    ColumnSpec("chunks", "CHUNKS", 6, 3, _chunks, _of(lambda one: one.chunks_count)),
    _object_words("stored", "STORED", 19, 2, _stored, _of(lambda one: one.stored_at_us)),
    _object_words("about", "ABOUT", 12, 4, _about, _of(lambda one: one.description), flex=2),
    _object_words("digest", "DIGEST", 20, 5, _digest, _of(lambda one: one.digest), flex=1),
)
