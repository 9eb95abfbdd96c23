"""The columns of buckets and object stores."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from msgspec import Struct

from natstui.model.assets.buckets import KV, OBJECTS
from natstui.model.assets.fields import number_at, text_at
from natstui.model.columns.column import Column, column, dim_level, text_or_dash
from natstui.units import bytes_text, count_text, duration_text

_UNLIMITED = "∞"
ValueT = TypeVar("ValueT")


def bucket_of(stream: str) -> str:
    """Return the name of the bucket or object store of a stream."""
    return stream.removeprefix(KV).removeprefix(OBJECTS)


class BucketRow(Struct, frozen=True):
    """A bucket or object store: the configuration and the counts of its stream."""

    config: Mapping[str, object]
    """Configuration of the stream, as the server sent it."""
    stored_msgs: int
    stored_bytes: int
    subjects_count: int
    changed_ago_s: float | None
    """Time since the last stored message; None for never, or if unknown."""

    @property
    def has_keys(self) -> bool:
        """Return whether the row is a key-value bucket, not an object store."""
        return not str(self.config["name"]).startswith(OBJECTS)

    @property
    def keys_count(self) -> int | None:
        """Return the number of keys; None for an object store."""
        return self.subjects_count if self.has_keys else None

    @property
    def history_count(self) -> int | None:
        """Return the number of revisions kept per key; 0: all, None for an object store."""
        return max(0, self._read_number("max_msgs_per_subject")) if self.has_keys else None

    @property
    def max_age_s(self) -> float | None:
        """Return the maximum age of values in seconds; None without a limit."""
        return self._read_number("max_age") / 1e9 or None

    @property
    def max_bytes(self) -> int | None:
        """Return the maximum size in bytes; None without a limit."""
        return max(0, self._read_number("max_bytes")) or None

    def _read_number(self, option: str) -> int:
        return number_at(self.config, option)

    @property
    def description(self) -> str:
        """Return the description, preceded by the mirrored bucket and `sealed`."""
        mirror = text_at(self.config, "mirror.name")
        mirror_text = f"mirror of {bucket_of(mirror)} " if mirror else ""
        sealed_text = "sealed " if self.config.get("sealed") else ""
        return f"{mirror_text}{sealed_text}{self.config.get('description') or ''}".strip()

    @property
    def storage(self) -> str:
        """Return the storage, `file` or `memory`, with the compression."""
        compression = str(self.config.get("compression") or "none")
        storage = str(self.config.get("storage") or "")
        return storage if compression == "none" else f"{storage} {compression}"


def _or_unlimited(format: Callable[[ValueT], str]) -> Callable[[ValueT | None], str]:
    """Return a function that formats a value by `format`, and None as unlimited."""
    return lambda value: _UNLIMITED if value is None else format(value)


_text: Callable[..., Column[BucketRow]] = partial(column, format=text_or_dash, numeric=False)
_number: Callable[..., Column[BucketRow]] = partial(column, format=count_text)

BUCKET_COLUMNS: tuple[Column[BucketRow], ...] = (
    _text("bucket", "BUCKET", "Name of the bucket: that of its stream without KV_ or OBJ_.",
          lambda row: bucket_of(text_at(row.config, "name")), level=lambda row: "strong",
          priority=0),
    _text("kind", "KIND", "Whether it has keys or files.",
          lambda row: "keys" if row.has_keys else "files", level=lambda row: "accent",
          priority=2),
    _number("keys", "KEYS",
            "Keys of a bucket, deleted ones too while their marker is kept "
            "(`state.num_subjects`).",
            lambda row: row.keys_count, priority=1),
    _number("values", "VALUES",
            "Messages stored: every revision that is kept, or the parts of files "
            "(`state.messages`).",
            lambda row: row.stored_msgs, priority=3),
    _number("bytes", "BYTES", "Bytes stored now (`state.bytes`).", lambda row: row.stored_bytes,
            format=bytes_text, priority=4),
    _number("history", "HISTORY", "How many revisions of a key are kept.",
            lambda row: row.history_count,
            format=lambda count: _UNLIMITED if count == 0 else count_text(count), priority=5),
    _number("ttl", "TTL", "How long anything is kept; ∞ without a limit.",
            lambda row: row.max_age_s, format=_or_unlimited(duration_text), level=dim_level,
            priority=6),
    _number("most", "MOST", "The most it may store; ∞ without a limit.",
            lambda row: row.max_bytes, format=_or_unlimited(bytes_text), level=dim_level,
            priority=9),
    _number("replicas", "REPLICAS", "On how many servers it is.",
            lambda row: row.config.get("num_replicas", 1), priority=8),
    _text("storage", "STORE", "File or memory, and whether the server compresses it.",
          lambda row: row.storage, level=dim_level, priority=10),
    _text("sealed", "SEALED", "Whether nothing can be stored or deleted any more.",
          lambda row: "yes" if row.config.get("sealed") else "no"),
    _number("changed", "CHANGED", "How long ago something was stored last (`state.last_ts`).",
            lambda row: row.changed_ago_s, format=duration_text, level=dim_level, priority=7),
    _text("description", "DESCRIPTION", "What its description says; of a mirror, of what.",
          lambda row: row.description, format=lambda text: text or "", level=dim_level,
          priority=11),
)  # fmt: skip
